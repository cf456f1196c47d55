//! The methods of strings, lists and maps that templates call, as Python has them.

use std::rc::Rc;

use super::arguments::Arguments;
use super::compare::equal;
use super::meter::{Fault, Meter, Outcome};
use super::render::Renderer;
use super::value::{Key, Value};
use super::{filters, format, functions, sequences};

const TEXT: [&str; 31] = [
    "capitalize",
    "count",
    "endswith",
    "find",
    "format",
    "isalnum",
    "isalpha",
    "isascii",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
    "index",
];
const LIST: [&str; 2] = ["count", "index"];
const MAP: [&str; 4] = ["get", "items", "keys", "values"];
const LOOP: [&str; 2] = ["cycle", "changed"];

/// Whether such values have the method.
pub(super) fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Text(_) => TEXT.contains(&name),
        Value::List(_) => LIST.contains(&name),
        Value::Map(_) => MAP.contains(&name),
        Value::Loop(_) => LOOP.contains(&name),
        _ => false,
    }
}

pub(super) fn call(
    renderer: &mut Renderer<'_>,
    value: &Value,
    name: &str,
    mut arguments: Arguments,
) -> Outcome<Value> {
    let meter = &renderer.meter;
    meter.steps(1)?;
    match value {
        Value::Text(text) if name == "format" => {
            let values = std::mem::take(&mut arguments.positional);
            let named = std::mem::take(&mut arguments.named);
            format::braces(meter, text, &values, &named)
        }
        Value::Text(text) => text_method(meter, text, name, arguments),
        Value::Loop(id) => functions::loop_method(renderer, *id, name, arguments),
        Value::Map(map) if name == "get" => {
            let key = arguments.required("key")?;
            let default = arguments.optional("default");
            arguments.finish()?;
            let found = key.key().ok().and_then(|key| map.entries.get(&key).cloned());
            Ok(found.or(default).unwrap_or(Value::None))
        }
        Value::Map(map) => {
            arguments.finish()?;
            if name == "items" {
                return sequences::items(meter, map);
            }
            meter.entries(map.entries.len())?;
            let chosen = match name {
                "keys" => map.entries.keys().map(Key::value).collect(),
                _ => map.entries.values().cloned().collect(),
            };
            Value::list(meter, chosen)
        }
        Value::List(list) => {
            let what = arguments.required("value")?;
            arguments.finish()?;
            let mut count = 0;
            for (index, item) in list.items.iter().enumerate() {
                if equal(meter, item, &what)? {
                    if name == "index" {
                        return Ok(Value::Int(index as i128));
                    }
                    count += 1;
                }
            }
            if name == "index" {
                Err(Fault::failed("the value is not in the list"))
            } else {
                Ok(Value::Int(count))
            }
        }
        other => Err(Fault::failed(format!("{} has no methods", other.kind()))),
    }
}

fn text_method(meter: &Meter, text: &Rc<str>, name: &str, mut arguments: Arguments) -> Outcome<Value> {
    meter.read(text.len())?;
    // Case may take three times the bytes, and a text is copied once when it becomes a value.
    let made = || meter.bytes(text.len().saturating_mul(4));
    let all = |holds: fn(char) -> bool| !text.is_empty() && text.chars().all(holds);
    let value = match name {
        "strip" | "lstrip" | "rstrip" => {
            let characters = arguments.optional_text("chars")?;
            trimmed(meter, text, characters.as_deref(), name != "rstrip", name != "lstrip")?
        }
        "lower" | "upper" | "title" | "capitalize" => {
            arguments.finish()?;
            return filters::cased(meter, text, name);
        }
        "islower" | "isupper" => {
            let (small, large) = (text.chars().any(char::is_lowercase), text.chars().any(char::is_uppercase));
            Value::Bool(if name == "islower" { small && !large } else { large && !small })
        }
        "isspace" => Value::Bool(all(char::is_whitespace)),
        "isdigit" | "isnumeric" => Value::Bool(all(char::is_numeric)),
        "isalnum" => Value::Bool(all(char::is_alphanumeric)),
        "isalpha" => Value::Bool(all(char::is_alphabetic)),
        "isascii" => Value::Bool(text.is_ascii()),
        "replace" => {
            let (old, new) = (arguments.text("old")?, arguments.text("new")?);
            let count = arguments.optional_int("count")?.and_then(|count| usize::try_from(count).ok());
            replaced(meter, text, &old, &new, count)?
        }
        "split" | "rsplit" => {
            let separator = arguments.optional_text("sep")?;
            let most = arguments.optional_int("maxsplit")?;
            split(meter, text, separator.as_deref(), most, name == "rsplit")?
        }
        "splitlines" => {
            let keep = arguments.flag("keepends");
            made()?;
            meter.entries(text.len())?;
            let lines = text.split_inclusive('\n').map(|line| {
                let bare =
                    line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
                Value::text(if keep { line } else { bare })
            });
            Value::list(meter, lines.collect())?
        }
        "partition" | "rpartition" => {
            let separator = arguments.text("sep")?;
            made()?;
            let parts = match name {
                "partition" => text.split_once(&*separator),
                _ => text.rsplit_once(&*separator),
            };
            let parts = match (parts, name) {
                (Some((before, after)), _) => [before, &separator, after],
                (None, "partition") => [&**text, "", ""],
                (None, _) => ["", "", &**text],
            };
            meter.bytes(separator.len())?;
            Value::tuple(meter, parts.into_iter().map(Value::text).collect())?
        }
        "removeprefix" | "removesuffix" => {
            let part = arguments.text("part")?;
            made()?;
            let rest =
                if name == "removeprefix" { text.strip_prefix(&*part) } else { text.strip_suffix(&*part) };
            Value::text(rest.unwrap_or(text))
        }
        "count" => {
            let what = arguments.text("sub")?;
            Value::Int(text.matches(&*what).count() as i128)
        }
        "find" | "rfind" | "index" => {
            let what = arguments.text("sub")?;
            let at = if name == "rfind" { text.rfind(&*what) } else { text.find(&*what) };
            match at {
                Some(at) => Value::Int(text[..at].chars().count() as i128),
                None if name == "index" => return Err(Fault::failed("the text is not found")),
                None => Value::Int(-1),
            }
        }
        "startswith" | "endswith" => {
            let parts = match arguments.required("part")? {
                Value::List(list) => list.items.clone(),
                one => vec![one],
            };
            let mut found = false;
            for part in &parts {
                meter.steps(1)?;
                let Some(part) = part.as_text() else {
                    return Err(Fault::failed(format!("{name} takes strings, not {}", part.kind())));
                };
                meter.read(part.len())?;
                found |= if name == "startswith" { text.starts_with(part) } else { text.ends_with(part) };
            }
            Value::Bool(found)
        }
        "join" => {
            let items = arguments.required("items")?.items(meter)?;
            sequences::joined(meter, &items, text)?
        }
        other => return Err(Fault::failed(format!("a string has no method `{other}`"))),
    };
    arguments.finish()?;
    Ok(value)
}

/// The text without what stands at its ends: white space, or any of `characters`.
pub(super) fn trimmed(
    meter: &Meter,
    text: &str,
    characters: Option<&str>,
    start: bool,
    end: bool,
) -> Outcome<Value> {
    meter.bytes(text.len())?;
    let set: Vec<char> = match characters {
        Some(characters) => {
            // Every character of the text may be compared with every one of the set.
            meter.bytes(characters.len().saturating_mul(4))?;
            meter.steps(text.len().min(1 << 24).saturating_mul(characters.len().min(1 << 24)) / 16)?;
            characters.chars().collect()
        }
        None => Vec::new(),
    };
    let goes = |character: char| match characters {
        Some(_) => set.contains(&character),
        None => character.is_whitespace(),
    };
    let text = if start { text.trim_start_matches(goes) } else { text };
    Ok(Value::text(if end { text.trim_end_matches(goes) } else { text }))
}

/// The text with `new` in the place of `old`, at most `count` times.
pub(super) fn replaced(
    meter: &Meter,
    text: &str,
    old: &str,
    new: &str,
    count: Option<usize>,
) -> Outcome<Value> {
    meter.read(text.len())?;
    let found = if old.is_empty() { text.len() + 1 } else { text.matches(old).count() };
    let times = count.unwrap_or(usize::MAX).min(found);
    meter.bytes(text.len().saturating_add(times.saturating_mul(new.len())).saturating_mul(3))?;
    Ok(Value::text(text.replacen(old, new, times)))
}

/// The parts of a text: between separators, or between white space.
pub(super) fn split(
    meter: &Meter,
    text: &str,
    separator: Option<&str>,
    most: Option<i128>,
    from_end: bool,
) -> Outcome<Value> {
    let most = most.and_then(|most| usize::try_from(most).ok());
    meter.read(text.len())?;
    let count = match separator {
        Some("") => return Err(Fault::failed("a text is split at an empty separator")),
        Some(separator) => text.matches(separator).count() + 1,
        None => text.len() / 2 + 1,
    };
    meter.bytes(text.len())?;
    meter.entries(count)?;
    let limit = most.map_or(usize::MAX, |most| most.saturating_add(1));
    let mut parts: Vec<&str> = match (separator, from_end) {
        (Some(separator), false) => text.splitn(limit, separator).collect(),
        (Some(separator), true) => text.rsplitn(limit, separator).collect(),
        (None, false) => words(text, limit),
        (None, true) if most.is_none() => text.split_whitespace().rev().collect(),
        (None, true) => return Err(Fault::failed("rsplit takes a separator where it has a limit")),
    };
    if from_end {
        parts.reverse();
    }
    Value::list(meter, parts.into_iter().map(Value::text).collect())
}

/// Words, the last one the rest of the text once there are `limit`.
fn words(text: &str, limit: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if words.len() + 1 == limit {
            words.push(rest);
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after.trim_start();
    }
    words
}
