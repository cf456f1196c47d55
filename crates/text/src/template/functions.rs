//! The functions that templates call, and what their text and their messages need before they are read.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::arguments::Arguments;
use super::meter::{Fault, Outcome};
use super::render::Renderer;
use super::value::{Entries, Key, Value};
use super::{compare, date, python};

/// The functions there are.
pub(super) const NAMES: [&str; 5] = ["range", "dict", "namespace", "raise_exception", "strftime_now"];

/// Calls one of [`NAMES`].
pub(super) fn call(renderer: &mut Renderer<'_>, name: &str, mut arguments: Arguments) -> Outcome<Value> {
    match name {
        "range" => {
            let mut bounds = Vec::new();
            while let Some(bound) = arguments.optional_int("range")? {
                bounds.push(bound);
            }
            arguments.finish()?;
            range(renderer, &bounds)
        }
        "dict" => Value::map(&renderer.meter, entries(arguments)?),
        "namespace" => {
            let entries = entries(arguments)?;
            renderer.meter.entries(entries.len() + 1)?;
            renderer.namespaces.push(entries);
            Ok(Value::Namespace(renderer.namespaces.len() - 1))
        }
        "raise_exception" => {
            let message = arguments.required("message")?;
            arguments.finish()?;
            Err(Fault::Raised(python::text(&renderer.meter, &message)?))
        }
        "strftime_now" => {
            let pattern = arguments.text("format")?;
            arguments.finish()?;
            // No directive is longer than 32 times its own two characters.
            renderer.meter.bytes(pattern.len().saturating_mul(32))?;
            Ok(Value::text(date::format(&pattern, renderer.given.now)))
        }
        other => Err(Fault::failed(format!("there is no function `{other}`"))),
    }
}

/// A map's entries: those of a map, then the named ones.
fn entries(mut arguments: Arguments) -> Outcome<Entries> {
    let mut entries = match arguments.positional.is_empty() {
        true => Entries::new(),
        false => match arguments.required("entries")? {
            Value::Map(map) => map.entries.clone(),
            other => return Err(Fault::failed(format!("{} cannot be made into a map", other.kind()))),
        },
    };
    entries.extend(
        std::mem::take(&mut arguments.named).into_iter().map(|(name, value)| (Key::Text(name), value)),
    );
    arguments.finish()?;
    Ok(entries)
}

fn range(renderer: &Renderer<'_>, bounds: &[i128]) -> Outcome<Value> {
    let (start, stop, step) = match *bounds {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] => (start, stop, step),
        _ => return Err(Fault::failed("range takes one to three numbers")),
    };
    let span = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
    let count = match (step, span) {
        (0, _) => return Err(Fault::failed("range takes no step of 0")),
        (_, ..=0) => 0,
        (step, span) => (span - 1) / step.saturating_abs() + 1,
    };
    let count = usize::try_from(count).map_err(|_| Fault::Exhausted)?;
    renderer.meter.entries(count)?;
    Value::list(&renderer.meter, (0..count).map(|turn| Value::Int(start + turn as i128 * step)).collect())
}

/// An attribute of the `loop` of a loop that runs.
pub(super) fn loop_attribute(renderer: &Renderer<'_>, id: usize, name: &str) -> Outcome<Value> {
    let Some(turns) = renderer.loops.get(id) else { return Ok(Value::Undefined) };
    let number = |number: usize| Ok(Value::Int(number as i128));
    let left = turns.items.len().saturating_sub(turns.index);
    let item = |index: Option<usize>| {
        let item = index.and_then(|index| turns.items.get(index));
        Ok(item.cloned().unwrap_or(Value::Undefined))
    };
    match name {
        "index" => number(turns.index + 1),
        "index0" => number(turns.index),
        "revindex" => number(left),
        "revindex0" => number(left.saturating_sub(1)),
        "first" => Ok(Value::Bool(turns.index == 0)),
        "last" => Ok(Value::Bool(left == 1)),
        "length" => number(turns.items.len()),
        "depth" => number(turns.depth + 1),
        "depth0" => number(turns.depth),
        "previtem" => item(turns.index.checked_sub(1)),
        "nextitem" => item(turns.index.checked_add(1)),
        _ => Ok(Value::Undefined),
    }
}

/// `loop.cycle(…)` and `loop.changed(…)`.
pub(super) fn loop_method(
    renderer: &mut Renderer<'_>,
    id: usize,
    name: &str,
    arguments: Arguments,
) -> Outcome<Value> {
    if !arguments.named.is_empty() || arguments.positional.is_empty() {
        return Err(Fault::failed(format!("loop.{name} takes values")));
    }
    let values = arguments.positional;
    let Some(turns) = renderer.loops.get_mut(id) else { return Ok(Value::Undefined) };
    if name == "cycle" {
        let at = turns.index % values.len();
        return Ok(values.get(at).cloned().unwrap_or(Value::Undefined));
    }
    let before = turns.changed.replace(values.clone());
    let Some(before) = before.filter(|before| before.len() == values.len()) else {
        return Ok(Value::Bool(true));
    };
    for (before, now) in before.iter().zip(&values) {
        if !compare::equal(&renderer.meter, before, now)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// The source with `{% generation %}` and `{% endgeneration %}`, which mark the parts to train on, made into an `if` that
/// always holds: the engine knows no such tag, and the signs for white space around it keep their meaning.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut replaced = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        replaced.push_str(before);
        let end = tag.find("%}").unwrap_or(tag.len());
        let inner = &tag[2..end.max(2)];
        let word = inner.trim_matches(['-', '+']).trim();
        match word {
            "generation" => replaced += &format!("{{%{}", inner.replacen("generation", "if true", 1)),
            "endgeneration" => replaced += &format!("{{%{}", inner.replacen("endgeneration", "endif", 1)),
            _ => replaced.push_str(&tag[..end.max(2)]),
        }
        rest = &tag[end.max(2)..];
    }
    replaced + rest
}

/// A message whose tool calls carry their arguments as objects: the API has them as JSON in a string, templates were
/// written for objects. A string that is no object stays as it is.
pub(super) fn with_parsed_arguments(message: &Json) -> Cow<'_, Json> {
    let Some(calls) = message["tool_calls"].as_array() else { return Cow::Borrowed(message) };
    let parse = |call: &Json| {
        let arguments = call["function"]["arguments"].as_str()?;
        serde_json::from_str::<Json>(arguments).ok().filter(Json::is_object)
    };
    let mut message = message.clone();
    for (index, parsed) in calls.iter().map(parse).enumerate() {
        if let Some(parsed) = parsed {
            message["tool_calls"][index]["function"]["arguments"] = parsed;
        }
    }
    Cow::Owned(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_conditions() {
        for (source, expected) in [
            ("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c"),
            ("{%- generation -%}b{%+endgeneration+%}", "{%- if true -%}b{%+endif+%}"),
            (
                "{% if generation %}{{ generation }}{% endif %}",
                "{% if generation %}{{ generation }}{% endif %}",
            ),
            ("{% generation", "{% if true"),
            ("{%", "{%"),
            ("{%%}", "{%%}"),
        ] {
            assert_eq!(without_generation_tags(source), expected);
        }
    }
}
