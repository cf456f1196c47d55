//! Flags of devices, and of the commands that look at them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use fiddlehead_plan::Numerics;

use super::examples::KERNELS_EXAMPLES;
use super::{numerics, pair};

#[derive(Debug, Args)]
pub struct DeviceArguments {
    /// Where to compute: cpu, cuda, cuda:N for the GPU of that number, or auto: a GPU when there is one
    /// that can be used
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device_name)]
    pub device: DeviceName,
    #[command(flatten)]
    pub compiler: CompilerArguments,
    /// Where compiled GPU kernels are kept [default: .cache/fiddlehead/kernels in the home folder]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub kernel_cache: Option<PathBuf>,
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Which roundings of operands are allowed: f32 and strict none, auto what the program permits and a
    /// checkpoint of its kind has passed a gate for; strict computes prompts and answers alike
    #[arg(long, value_name = "CONTRACT", default_value = "auto", value_parser = numerics())]
    pub numerics: Numerics,
    /// Choose the kernels of a family of sites: FAMILY=off, auto, or a candidate's name
    #[arg(long, value_name = "FAMILY=CHOICE", value_parser = pair)]
    pub dispatch: Vec<(String, String)>,
}

/// Where the compiler of GPU kernels is.
#[derive(Debug, Args)]
pub struct CompilerArguments {
    /// A folder with NVIDIA's runtime compiler, when it is not where the system looks
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub nvrtc: Option<PathBuf>,
}

/// What is done with kernels.
#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// Compile the kernels of the programs that come with this binary, and report what they take
    #[command(after_help = KERNELS_EXAMPLES)]
    Build(KernelsBuildArguments),
}

#[derive(Debug, Args)]
pub struct KernelsBuildArguments {
    /// What to compile for
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',', required = true)]
    pub arch: Vec<String>,
    /// Bytes a thread may spill before the kernel counts as failed
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub spill_limit: usize,
    #[command(flatten)]
    pub compiler: CompilerArguments,
}

#[derive(Debug, Args)]
pub struct GateArguments {
    #[command(flatten)]
    pub device: DeviceArguments,
    /// The folder of checkpoints with golden outputs: stories-11m, tiny
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub models: Option<PathBuf>,
    /// Random programs of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    pub programs: u64,
    /// Where the results go, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A GPU when there is one that can be used.
    Auto,
    /// The processor.
    Cpu,
    /// The GPU of that number.
    Cuda(usize),
}

fn device_name(text: &str) -> Result<DeviceName, String> {
    match text {
        "auto" => Ok(DeviceName::Auto),
        "cpu" => Ok(DeviceName::Cpu),
        "cuda" => Ok(DeviceName::Cuda(0)),
        text => text
            .strip_prefix("cuda:")
            .and_then(|number| number.parse().ok())
            .map(DeviceName::Cuda)
            .ok_or_else(|| "it is cpu, cuda, cuda:N or auto".to_string()),
    }
}

impl DeviceArguments {
    /// The dispatch policy by family; of a family given twice the last one counts.
    pub fn dispatch(&self) -> BTreeMap<String, String> {
        self.dispatch.iter().cloned().collect()
    }
}
