//! `fiddlehead kernels build`: every kernel of the programs at hand compiled, no GPU needed.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use fiddlehead_cuda::build::{SAMPLING, module_text, resources};
use fiddlehead_cuda::driver::Compiler;
use fiddlehead_cuda::{CudaDevice, KernelTime};
use fiddlehead_engine::Prepared;
use fiddlehead_gate::case::options;
use fiddlehead_gate::programs::{Named, formats, fused, page, random, rules};
use fiddlehead_plan::{Device, LoadOptions};
use serde_json::{Value, json};

use crate::arguments::KernelsBuildArguments;
use crate::{embedded, output};

/// The page whose programs are compiled.
pub const LANGUAGE: &str = include_str!("../../../docs/language.md");

/// Compiles everything for every architecture.
///
/// # Errors
/// A missing compiler, a kernel that does not compile or spills over the limit.
pub fn build(arguments: &KernelsBuildArguments) -> Result<ExitCode> {
    let compiler = Compiler::open(arguments.compiler.nvrtc.as_deref(), None)?;
    let (major, minor) = compiler.version();
    output::print_line(&format!("NVRTC {major}.{minor}"))?;
    let mut graphs: Vec<Named> = page(LANGUAGE).map_err(anyhow::Error::msg)?;
    graphs.extend(random(1).map_err(anyhow::Error::msg)?);
    graphs.extend(formats().map_err(anyhow::Error::msg)?);
    graphs.extend(fused().map_err(anyhow::Error::msg)?);
    let prepared = Prepared::open(embedded::source())?;
    graphs.extend(prepared.graphs.steps.iter().map(|step| Named {
        name: format!("{}, step {}", embedded::NAME, step.name()),
        graph: step.clone(),
        weights: prepared.weights.clone(),
    }));
    let mut modules: Vec<(Named, LoadOptions)> =
        graphs.into_iter().map(|named| (named, LoadOptions::default())).collect();
    for form in ["serial", "block"] {
        let named = rules().map_err(anyhow::Error::msg)?.into_iter();
        modules.extend(named.map(|named| (named, options(&[("recurrence", form)]))));
    }
    let text = |(named, options): &(Named, LoadOptions)| {
        (named.name.clone(), module_text(&named.graph, &named.weights, options))
    };
    let mut modules: Vec<(String, Result<String, _>)> = modules.iter().map(text).collect();
    modules.push(("the choice of tokens".into(), Ok(SAMPLING.into())));
    let mut failures = Vec::new();
    for architecture in &arguments.arch {
        let started = Instant::now();
        let (mut kernels, mut registers, mut spills) = (0, 0, 0);
        for (name, text) in &modules {
            let what = format!("{name} for {architecture}");
            let text = match text {
                Ok(text) => text,
                Err(error) => {
                    failures.push(format!("{what}: {error}"));
                    continue;
                }
            };
            match compiler.compile(text, architecture) {
                Err(error) => failures.push(format!("{what}: {error}")),
                Ok(compiled) => {
                    for kernel in resources(&compiled) {
                        kernels += 1;
                        registers = registers.max(kernel.registers);
                        spills = spills.max(kernel.spills);
                        if kernel.spills > arguments.spill_limit {
                            let (name, bytes) = (&kernel.kernel, kernel.spills);
                            failures.push(format!("{what}: `{name}` spills {bytes} bytes a thread"));
                        }
                    }
                }
            }
        }
        output::print_line(&format!(
            "{architecture:<8} {} modules, {kernels} kernels, at most {registers} registers and {spills} bytes spilled, \
             {:.1} s",
            modules.len(),
            started.elapsed().as_secs_f64()
        ))?;
    }
    if !failures.is_empty() {
        bail!("{} failed:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Bytes of the copies by which a GPU's bandwidth is measured: several times any cache.
const COPIED: usize = 256 << 20;
/// How many copies there are.
const COPIES: u32 = 20;

/// Prints the times of kernels and the bandwidth that the GPU has beside them.
///
/// # Errors
/// Two blocks of memory that cannot be had, and standard output that cannot be written.
pub fn print_profile(device: &CudaDevice, times: &[KernelTime], json: bool) -> Result<()> {
    let bandwidth = device.copy_bandwidth(COPIED, COPIES)?;
    match json {
        true => output::print_line(&profile_json(&device.describe(), times, bandwidth).to_string()),
        false => output::print(&profile_table(times, bandwidth)),
    }
}

/// Kernels and µs of each family, in the order in which families come.
fn families(times: &[KernelTime]) -> Vec<(&str, usize, f64)> {
    let mut families: Vec<(&str, usize, f64)> = Vec::new();
    for KernelTime { family, microseconds, .. } in times {
        match families.iter_mut().find(|(known, ..)| known == family) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + microseconds),
            None => families.push((family, 1, *microseconds)),
        }
    }
    families
}

fn profile_table(times: &[KernelTime], bandwidth: f64) -> String {
    let mut text = String::from("| kernel | family | blocks | µs |\n|---|---|--:|--:|\n");
    for KernelTime { kernel, family, blocks, microseconds } in times {
        let _ = writeln!(text, "| {kernel} | {family} | {blocks} | {microseconds:.1} |");
    }
    text.push_str("\n| family | kernels | µs |\n|---|--:|--:|\n");
    for (family, count, sum) in families(times) {
        let _ = writeln!(text, "| {family} | {count} | {sum:.1} |");
    }
    let (rate, size) = (bandwidth / 1e12, COPIED >> 20);
    let _ = writeln!(text, "\ncopies of {size} MiB within the device: {rate:.2} TB/s, read and written");
    text
}

fn profile_json(device: &str, times: &[KernelTime], bandwidth: f64) -> Value {
    let kernel = |time: &KernelTime| {
        json!({
            "kernel": time.kernel,
            "family": time.family,
            "blocks": time.blocks,
            "microseconds": time.microseconds,
        })
    };
    let family = |(family, count, sum): (&str, usize, f64)| json!({ "family": family, "kernels": count, "microseconds": sum });
    json!({
        "device": device,
        "version": env!("CARGO_PKG_VERSION"),
        "copy_bytes_per_second": bandwidth,
        "families": families(times).into_iter().map(family).collect::<Vec<_>>(),
        "kernels": times.iter().map(kernel).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_the_same_as_a_table_and_as_json() {
        let time = |kernel: &str, family, microseconds| KernelTime {
            kernel: kernel.into(),
            family,
            blocks: 3,
            microseconds,
        };
        let times =
            [time("k0", "elements", 2.0), time("k1", "contraction", 5.0), time("k2", "elements", 1.5)];
        let table = profile_table(&times, 4.25e12);
        for line in [
            "| k1 | contraction | 3 | 5.0 |",
            "| elements | 2 | 3.5 |",
            "256 MiB within the device: 4.25 TB/s",
        ] {
            assert!(table.contains(line), "no `{line}` in {table}");
        }
        let found = profile_json("a GPU", &times, 4.25e12);
        assert_eq!(found["families"][0], json!({ "family": "elements", "kernels": 2, "microseconds": 3.5 }));
        assert_eq!(found["kernels"][1]["kernel"], "k1");
        assert_eq!(found["copy_bytes_per_second"], 4.25e12);
    }
}
