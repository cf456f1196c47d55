//! `fiddlehead quantize`: a model written as a GGUF file in a smaller format.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::Result;
use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_engine::ByteSize;
use fiddlehead_quantize::{Plan, Planned, Progress, QuantizeError, Target};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::arguments::QuantizeArguments;
use crate::failure::{INTERRUPTED, visible};
use crate::{interrupt, output};

/// Writes the file and says what is in it.
///
/// # Errors
/// A model that cannot be read or described as a GGUF file, values that a format cannot hold, and what the system says.
pub fn quantize(arguments: &QuantizeArguments) -> Result<ExitCode> {
    let target = Target::new(&arguments.target, &arguments.source, arguments.force)?;
    let checkpoint = Checkpoint::open(&arguments.source)?;
    let plan = Plan::new(&checkpoint, arguments.format, &arguments.tensor)?;
    let threads =
        arguments.threads.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from);
    let cancelled = interrupt::catch()?;
    let bar = bar(plan.bytes());
    let began = Instant::now();
    let written = plan.write(&target, threads, &mut |progress: Progress<'_>| {
        bar.set_position(progress.written);
        bar.set_message(visible(progress.tensor));
        if cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.finish_and_clear();
    match written {
        Err(QuantizeError::Stopped) => return Ok(ExitCode::from(INTERRUPTED)),
        other => other?,
    }
    summary(arguments, &checkpoint, &plan, began.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

/// A bar on a terminal, nothing elsewhere.
fn bar(length: u64) -> ProgressBar {
    let shown = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style =
        ProgressStyle::with_template("{bar:30} {binary_bytes}/{binary_total_bytes} {eta} left  {wide_msg}");
    let bar = ProgressBar::with_draw_target(Some(length), shown);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn summary(
    arguments: &QuantizeArguments,
    checkpoint: &Checkpoint,
    plan: &Plan,
    took: Duration,
) -> Result<()> {
    output::print_line(&format!(
        "{}: {} of weights, from {}, in {:.1} s",
        arguments.target.display(),
        ByteSize(plan.bytes()),
        ByteSize(checkpoint.bytes()),
        took.as_secs_f64()
    ))?;
    let mut formats: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for tensor in plan.tensors() {
        let (count, size) = formats.entry(tensor.format().name()).or_default();
        *count += 1;
        *size += tensor.bytes() as u64;
    }
    for (format, (count, size)) in formats {
        output::print_line(&format!("  {format:<8} {count:>5} tensors  {}", ByteSize(size)))?;
    }
    let instead = plan.tensors().iter().filter_map(|tensor| Some((tensor, tensor.instead_of()?)));
    let mut groups: BTreeMap<String, Vec<&Planned>> = BTreeMap::new();
    for (tensor, wanted) in instead {
        let row = tensor.shape().last().copied().unwrap_or(1);
        let why = format!(
            "{} instead of {wanted}: rows of {row} are no whole number of its blocks",
            tensor.format()
        );
        groups.entry(why).or_default().push(tensor);
    }
    for (why, tensors) in groups {
        let first = tensors.first().map_or("", |tensor| tensor.name());
        let more = if tensors.len() > 1 { format!(" and {} more", tensors.len() - 1) } else { String::new() };
        output::print_line(&format!("note: {why} ({first}{more})"))?;
    }
    let again = plan.tensors().iter().filter(|tensor| tensor.was_quantised()).count();
    if again > 0 {
        output::print_line(&format!(
            "note: {again} tensors were quantised before, so errors add up; start from the original weights where you can"
        ))?;
    }
    Ok(())
}
