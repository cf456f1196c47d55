//! `fiddlehead kernels build`: every kernel of the programs at hand compiled, no GPU needed.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use fiddlehead_cuda::KernelTime;
use fiddlehead_cuda::build::{module_text, resources};
use fiddlehead_cuda::driver::Compiler;
use fiddlehead_engine::Prepared;
use fiddlehead_gate::case::options;
use fiddlehead_gate::programs::{Named, formats, page, random, rules};
use fiddlehead_plan::LoadOptions;

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
    let mut failures = Vec::new();
    for architecture in &arguments.arch {
        let started = Instant::now();
        let (mut kernels, mut registers, mut spills) = (0, 0, 0);
        for (named, options) in &modules {
            let what = format!("{} for {architecture}", named.name);
            let text = match module_text(&named.graph, &named.weights, options) {
                Ok(text) => text,
                Err(error) => {
                    failures.push(format!("{what}: {error}"));
                    continue;
                }
            };
            match compiler.compile(&text, architecture) {
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

/// A table of kernels and their times, and the sum of each family.
pub fn times(times: &[KernelTime]) -> String {
    let mut text = String::from("| kernel | family | blocks | µs |\n|---|---|--:|--:|\n");
    let mut families: Vec<(&str, usize, f64)> = Vec::new();
    for time in times {
        let KernelTime { kernel, family, blocks, microseconds } = time;
        let _ = writeln!(text, "| {kernel} | {family} | {blocks} | {microseconds:.1} |");
        match families.iter_mut().find(|(known, ..)| known == family) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + microseconds),
            None => families.push((family, 1, *microseconds)),
        }
    }
    text.push_str("\n| family | kernels | µs |\n|---|--:|--:|\n");
    for (family, count, sum) in families {
        let _ = writeln!(text, "| {family} | {count} | {sum:.1} |");
    }
    text
}
