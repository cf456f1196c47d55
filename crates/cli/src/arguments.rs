//! Every command and flag, defined once.

mod devices;
mod examples;

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use fiddlehead_engine::{ByteSize, Defaults, Sampling};
use fiddlehead_plan::Numerics;
use fiddlehead_quantize::{Override, Recipe};

pub use self::devices::{DeviceArguments, DeviceName, GateArguments, KernelsBuildArguments, KernelsCommand};
use self::examples::*;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "fiddlehead",
    version,
    about = "Runs language models and array programs that are written as natural loops",
    after_help = EXIT_CODES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a prompt, or chat
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArguments>),
    /// Run `fn main` of a program on arrays
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArguments),
    /// Show the graph of a program or a model, its sites, what was refused and why, and the plan
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
    /// Show what a model's files hold, whether they can be served, and how much memory that takes
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArguments),
    /// Write a model as a GGUF file with its weights in a smaller format
    #[command(after_help = QUANTIZE_EXAMPLES)]
    Quantize(QuantizeArguments),
    /// Measure how fast a model reads prompts and generates
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArguments),
    /// Measure how surprised a model is by a text
    #[command(after_help = PERPLEXITY_EXAMPLES)]
    Perplexity(PerplexityArguments),
    /// Score given tokens: how likely each one is, and where the model would choose another
    #[command(after_help = SCORE_EXAMPLES)]
    Score(ScoreArguments),
    /// List the devices that programs and models can run on
    Devices,
    /// Compile GPU kernels without a GPU
    #[command(subcommand)]
    Kernels(KernelsCommand),
    /// Check a device against the oracle: kernels, programs, forests, real checkpoints
    #[command(after_help = GATE_EXAMPLES)]
    Gate(GateArguments),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    Reference,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    /// What to answer
    pub prompt: Option<String>,
    #[command(flatten)]
    pub model: ModelArguments,
    #[command(flatten)]
    pub sampling: SamplingArguments,
    /// A system message for the model
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// No chat template: the model goes on from the prompt as it stands
    #[arg(long)]
    pub raw: bool,
    /// Print one JSON object at the end: prompt_tokens, tokens, text, finish_reason, seed, timings
    #[arg(long)]
    pub json: bool,
    /// Print how long things took, on standard error
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ModelArguments {
    /// A GGUF file, or a safetensors model: its folder, its file, or its index. Of a model in several
    /// files any one. The built-in model when absent
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The longest path of a session in tokens, prompt and answer together [default: what the model was
    /// made for, at most 8192]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB: one that is estimated to take more is refused; `any` does not ask
    /// [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
}

/// How much memory a model may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChoice {
    /// As much as it wants.
    Any,
    /// No more than this.
    AtMost(ByteSize),
}

/// How the next token is chosen. What is absent is the model's own.
#[derive(Clone, Debug, Default, Args)]
pub struct SamplingArguments {
    /// Logits are divided by it; 0 takes the most likely token always
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Only this many of the most likely tokens stay; 0 keeps all
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Only the most likely tokens stay whose probabilities first reach this sum; 1 keeps all
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Only tokens stay that are at least this fraction as likely as the most likely one; 0 keeps all
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Makes every token less likely that is in the prompt or the answer already; 1 changes nothing
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// Taken off the logit of every token that is in the answer already
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,
    /// Taken off the logit of a token for each time it is in the answer already
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,
    /// The same seed gives the same answer; drawn and told (--stats, --json) when absent
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// The most tokens to generate [default: until the context is full]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub max_tokens: Option<usize>,
    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub stop: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ConfigurationArguments {
    /// A TOML file of flags by their names: temperature = 0.5, stop = ["The end"]. Flags win over it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    /// The program
    #[arg(value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    /// The value of a size
    #[arg(long, value_name = "NAME=NUMBER", value_parser = dim)]
    pub dim: Vec<(String, i64)>,
    /// An input: NAME=file.npy, NAME=NUMBER, NAME=true, NAME=false or NAME=random:SEED
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub input: Vec<(String, String)>,
    /// Where the result goes, as .npy
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print the time of each GPU kernel and the GPU's copy bandwidth instead of the result
    #[arg(long)]
    pub profile: bool,
    /// Print one JSON object instead of tables
    #[arg(long, requires = "profile")]
    pub json: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The program: its `fn main` or `step fn main`, or what its model declares and, with all sizes given,
    /// the model's steps
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["model", "embedded"])]
    pub program: Option<PathBuf>,
    /// A GGUF file or a safetensors model
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with = "program")]
    pub model: Option<PathBuf>,
    /// The model that is built in
    #[arg(long, conflicts_with_all = ["program", "model"])]
    pub embedded: bool,
    /// Only this step of a model
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
    /// The value of a size
    #[arg(long, value_name = "NAME=NUMBER", value_parser = dim, conflicts_with_all = ["model", "embedded"])]
    pub dim: Vec<(String, i64)>,
    /// Draw the graph (of the first step) into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct InspectArguments {
    /// A GGUF file, a safetensors file, its index, or the folder of a model. The built-in model when absent
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The tokens of a session that the memory is told for [default: what the model was made for, at
    /// most 8192]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
    /// List every tensor, where one line stands for those of all layers otherwise
    #[arg(long)]
    pub tensors: bool,
    /// Print one JSON object: metadata, every tensor, and how it would be served or why not
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct QuantizeArguments {
    /// The model: a GGUF file, a safetensors file, its index, or its folder
    #[arg(value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    /// The GGUF file to write
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub target: PathBuf,
    /// The format of the weights, or a mixture of formats
    #[arg(long, value_name = "FORMAT", value_parser = recipe())]
    pub format: Recipe,
    /// Another format for the tensors whose names hold PATTERN, or fit it where it has a *; may be given
    /// several times, the first that fits counts
    #[arg(long, value_name = "PATTERN=FORMAT", value_parser = Override::parse)]
    pub tensor: Vec<Override>,
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Replace OUT when it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// Tokens of a prompt; 0 measures no prompts
    #[arg(long, value_name = "TOKENS", default_value_t = 512, allow_negative_numbers = true)]
    pub prompt: usize,
    /// Tokens to generate; 0 measures no generation
    #[arg(long, value_name = "TOKENS", default_value_t = 128, allow_negative_numbers = true)]
    pub generate: usize,
    /// How often each is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Print the time of each GPU kernel of one generated token, and the GPU's copy bandwidth, instead
    #[arg(long)]
    pub profile: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct PerplexityArguments {
    /// A text, UTF-8
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A GGUF file, or a safetensors model: its folder, its file, or its index. The built-in model when
    /// absent
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The tokens of a window [default: 512, or what the model was made for when that is less]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB: one that is estimated to take more is refused; `any` does not ask
    /// [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
    /// How far apart windows begin, less than --context [default: half of it]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub stride: Option<u32>,
    /// The file holds several documents with this text between them; a line end before it and one after it
    /// belong to it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "json_lines")]
    pub separator: Option<String>,
    /// Each line of the file is a JSON object, and a document is its text under this key
    #[arg(long, value_name = "KEY")]
    pub json_lines: Option<String>,
    /// Special tokens that the text spells are text like any other
    #[arg(long)]
    pub literal: bool,
    /// Print one JSON object instead of words
    #[arg(long)]
    pub json: bool,
    /// Print how long things took, on standard error
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ScoreArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// The tokens, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tokens: PathBuf,
    /// Measure the places where the model would choose another token with the reference interpreter
    #[arg(long)]
    pub reference: bool,
    /// Print one JSON object instead of words
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

impl SamplingArguments {
    /// The sampling asked for, on top of what the model says.
    pub fn over(&self, defaults: &Defaults) -> Sampling {
        let model = defaults.sampling();
        Sampling {
            temperature: self.temperature.unwrap_or(model.temperature),
            top_k: self.top_k.unwrap_or(model.top_k),
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(model.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(model.frequency_penalty),
        }
    }
}

fn numerics() -> impl TypedValueParser<Value = Numerics> {
    PossibleValuesParser::new(["f32", "auto", "strict"]).try_map(|text| text.parse::<Numerics>())
}

fn recipe() -> impl TypedValueParser<Value = Recipe> {
    let names = Recipe::names().collect::<Vec<_>>();
    PossibleValuesParser::new(names).try_map(|text| Recipe::from_name(&text))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE is wanted".into()),
    }
}

fn memory(text: &str) -> Result<MemoryChoice, String> {
    match text {
        "any" => Ok(MemoryChoice::Any),
        size => size.parse().map(MemoryChoice::AtMost),
    }
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let (name, value) = pair(text).map_err(|_| "NAME=NUMBER is wanted")?;
    match value.parse::<i64>() {
        Ok(number) if (1..=i64::from(i32::MAX)).contains(&number) => Ok((name, number)),
        _ => Err(format!("`{value}` is no size: a whole number from 1 to {} is wanted", i32::MAX)),
    }
}
