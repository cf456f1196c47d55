//! `fiddlehead inspect`: what a model's files hold, and whether they can be served.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Error, Result};
use fiddlehead_engine::{Inspection, Serving, TensorEntry, inspect as look};

use crate::arguments::InspectArguments;
use crate::{device, failure, output};

/// Prints what the files hold. That a model cannot be served is an answer, no failure.
///
/// # Errors
/// Files that cannot be read, or that contradict themselves.
pub fn inspect(arguments: &InspectArguments) -> Result<ExitCode> {
    let path = arguments.model.as_deref();
    let inspection = look(device::source(path))?;
    let mut text = String::new();
    let size = bytes(inspection.bytes);
    let _ = writeln!(text, "{}: {} model, {size} of weights", device::name(path), inspection.kind);
    describe_metadata(&mut text, &inspection);
    describe_tensors(&mut text, &inspection.tensors);
    let context = arguments.context.map(|context| context as usize);
    match inspection.serving {
        Ok(serving) => describe_serving(&mut text, &serving, context),
        Err(why) => {
            let _ = writeln!(text, "\nit cannot be served: {}", failure::message(&Error::from(why)));
        }
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe_metadata(out: &mut String, inspection: &Inspection) {
    let _ = writeln!(out, "\nmetadata ({})", inspection.metadata.len());
    for (key, value) in &inspection.metadata {
        let _ = writeln!(out, "  {key} = {value}");
    }
}

fn describe_tensors(out: &mut String, tensors: &[TensorEntry]) {
    let _ = writeln!(out, "\ntensors ({})", tensors.len());
    for tensor in tensors {
        let shape = tensor.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
        let remark = if tensor.served { "" } else { "  (cannot be served)" };
        let _ = writeln!(
            out,
            "  {:<48} {:<20} {:<8} {:>12} bytes{remark}",
            tensor.name, shape, tensor.stored_as, tensor.bytes
        );
    }
}

fn describe_serving(out: &mut String, serving: &Serving, context: Option<usize>) {
    let Serving { architecture, memory, trained_context, .. } = serving;
    let _ = writeln!(out, "\nit can be served, as {architecture} (steps: {})", serving.steps.join(", "));
    if !serving.has_chat_template {
        let _ = writeln!(out, "  it has no chat template, so it goes on from a text");
    }
    let context = context.unwrap_or(serving.context);
    let made_for = match trained_context {
        0 => String::new(),
        tokens => format!(", made for {tokens}"),
    };
    let _ = writeln!(out, "\nmemory for one session of {context} tokens{made_for}");
    for (what, size) in [
        ("weights in the file, read in place", memory.mapped_weights),
        ("weights changed or put together on loading", memory.copied_weights),
        ("history of the path", memory.per_token.saturating_mul(context as u64)),
        ("states and bounded history", memory.per_session),
        ("all, but for the device's own buffers", memory.total(context)),
    ] {
        let _ = writeln!(out, "  {what:<44} {:>12}", bytes(size));
    }
}

/// A size for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut size = count as f64;
    let mut unit = "";
    for next in UNITS {
        if size < 1024.0 {
            break;
        }
        size /= 1024.0;
        unit = next;
    }
    format!("{size:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_for_people() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536 << 20, "1.5 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }
}
