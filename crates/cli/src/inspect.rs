//! `fiddlehead inspect`: what a model's files hold, whether they can be served, and in how much memory.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Error, Result};
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_engine::{
    AvailableMemory, ByteSize, Inspection, ModelOptions, Serving, TensorEntry, inspect as look,
};
use serde_json::{Map, Value, json};

use crate::arguments::InspectArguments;
use crate::failure::visible;
use crate::{device, failure, output};

/// Prints what the files hold. That a model cannot be served is an answer, no failure.
///
/// # Errors
/// Files that cannot be read, or that contradict themselves.
pub fn inspect(arguments: &InspectArguments) -> Result<ExitCode> {
    let path = arguments.model.as_deref();
    let options = ModelOptions {
        context: arguments.context.map(|context| context as usize),
        ..ModelOptions::default()
    };
    let available = device::available(arguments.memory);
    let inspection = look(device::source(path), &CpuDevice::new(1), &options)?;
    let name = device::name(path);
    if arguments.json {
        output::print_line(&as_json(&name, inspection, available.as_ref()).to_string())?;
    } else {
        output::print(&as_text(&name, inspection, available.as_ref(), arguments.tensors))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_text(
    name: &str,
    inspection: Inspection,
    available: Option<&AvailableMemory>,
    every_tensor: bool,
) -> String {
    let mut text = String::new();
    let (kind, size) = (inspection.kind, ByteSize(inspection.bytes));
    let values = values(&inspection.tensors);
    let _ = writeln!(text, "{name}: {kind} model, {size}, {values} values");
    let _ = writeln!(text, "\nmetadata ({})", inspection.metadata.len());
    for entry in &inspection.metadata {
        let _ = writeln!(text, "  {} = {}", visible(&entry.key), visible(&entry.shown));
    }
    describe_tensors(&mut text, &inspection.tensors, every_tensor);
    match inspection.serving {
        Ok(serving) => describe_serving(&mut text, &serving, available),
        Err(why) => {
            let _ = writeln!(text, "\nit cannot be served: {}", failure::message(&Error::from(why)));
        }
    }
    text
}

/// How many values all tensors have, for people.
fn values(tensors: &[TensorEntry]) -> String {
    let elements = |tensor: &TensorEntry| tensor.shape.iter().map(|&n| n as f64).product::<f64>();
    let count: f64 = tensors.iter().map(elements).sum();
    match count {
        count if count >= 1e9 => format!("{:.1} billion", count / 1e9),
        count if count >= 1e6 => format!("{:.1} million", count / 1e6),
        count => count.to_string(),
    }
}

/// Tensors that differ in numbers of their names alone.
struct Alike<'a> {
    name: String,
    first: &'a TensorEntry,
    count: usize,
    bytes: u64,
}

fn alike(tensors: &[TensorEntry], every_tensor: bool) -> Vec<Alike<'_>> {
    let mut rows: Vec<Alike<'_>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for tensor in tensors {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts =
            tensor.name.split('.').map(|part| if !every_tensor && is_number(part) { "*" } else { part });
        let name = parts.collect::<Vec<_>>().join(".");
        let place = *places.entry((name.clone(), &tensor.shape, &tensor.stored_as)).or_insert(rows.len());
        match rows.get_mut(place) {
            Some(row) => {
                row.count += 1;
                row.bytes += tensor.bytes as u64;
            }
            None => rows.push(Alike { name, first: tensor, count: 1, bytes: tensor.bytes as u64 }),
        }
    }
    rows
}

fn describe_tensors(out: &mut String, tensors: &[TensorEntry], every_tensor: bool) {
    let _ = writeln!(out, "\ntensors ({})", tensors.len());
    let rows = alike(tensors, every_tensor);
    let shape =
        |tensor: &TensorEntry| tensor.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(" x ");
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).min(60);
    for row in &rows {
        let count = if row.count == 1 { String::new() } else { format!("{} times", row.count) };
        let remark = if row.first.served { "" } else { "  (cannot be served)" };
        let line = format!(
            "  {:<width$}  {:<18} {:<8} {:>10} {:>11}{remark}",
            visible(&row.name),
            shape(row.first),
            row.first.stored_as,
            count,
            ByteSize(row.bytes)
        );
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn describe_serving(out: &mut String, serving: &Serving, available: Option<&AvailableMemory>) {
    let Serving { architecture, memory, trained_context, vocabulary, .. } = serving;
    let steps = serving.steps.join(", ");
    let _ = writeln!(out, "\nit can be served, as {architecture} (steps: {steps}; {vocabulary} tokens)");
    if !serving.has_chat_template {
        let _ = writeln!(out, "  it has no chat template, so it goes on from a text");
    }
    describe_unused(out, &serving.unused);
    let made_for = match trained_context {
        0 => String::new(),
        tokens => format!(", made for {tokens}"),
    };
    let _ = writeln!(out, "\nmemory for one session of {} tokens{made_for}", memory.context);
    for (what, size) in memory.parts().into_iter().filter(|(_, size)| *size > 0) {
        let _ = writeln!(out, "  {what:<44} {:>11}", ByteSize(size));
    }
    let _ = writeln!(out, "  {:<44} {:>11}", "all", ByteSize(memory.total()));
    let Some(available) = available else { return };
    let (left, bound) = (ByteSize(available.bytes), &available.bound);
    let _ = match memory.check(available) {
        Ok(()) => writeln!(out, "it fits: {left} are {bound}"),
        Err(why) => writeln!(out, "it does not fit: {}", failure::message(&Error::from(why))),
    };
}

/// Tensors without a use, the first of them by name.
fn describe_unused(out: &mut String, unused: &[String]) {
    const SHOWN: usize = 8;
    if unused.is_empty() {
        return;
    }
    let names = unused.iter().take(SHOWN).map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    let more = if unused.len() > SHOWN { ", ..." } else { "" };
    let _ = writeln!(out, "  tensors that its program has no use for ({}): {names}{more}", unused.len());
}

fn as_json(name: &str, inspection: Inspection, available: Option<&AvailableMemory>) -> Value {
    let metadata: Map<String, Value> =
        inspection.metadata.into_iter().map(|entry| (entry.key, entry.value)).collect();
    let tensor = |tensor: TensorEntry| {
        json!({
            "name": tensor.name,
            "shape": tensor.shape,
            "format": tensor.stored_as,
            "bytes": tensor.bytes,
            "served": tensor.served,
        })
    };
    let (serving, reason) = match inspection.serving {
        Ok(serving) => (serving_json(serving, available), Value::Null),
        Err(why) => (Value::Null, failure::message(&Error::from(why)).into()),
    };
    json!({
        "model": name,
        "kind": inspection.kind,
        "bytes": inspection.bytes,
        "metadata": metadata,
        "tensors": inspection.tensors.into_iter().map(tensor).collect::<Vec<_>>(),
        "serving": serving,
        "reason": reason,
    })
}

fn serving_json(serving: Serving, available: Option<&AvailableMemory>) -> Value {
    let memory = serving.memory;
    json!({
        "architecture": serving.architecture,
        "steps": serving.steps,
        "vocabulary": serving.vocabulary,
        "has_chat_template": serving.has_chat_template,
        "context": serving.context,
        "trained_context": serving.trained_context,
        "unused_tensors": serving.unused,
        "memory": {
            "context": memory.context,
            "files": memory.files,
            "copied_weights": memory.copied_weights,
            "mirrors": memory.mirrors,
            "session": memory.session,
            "session_per_token": memory.per_token,
            "buffers": memory.buffers,
            "text": memory.text,
            "program": memory.program,
            "total": memory.total(),
            "available": available.map(|available| available.bytes),
            "fits": available.map(|available| memory.check(available).is_ok()),
        },
    })
}
