//! Values as Python writes them: what `{{ value }}` and `str` give.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, State, Value};

/// How deeply lists and objects may nest in what is written; a template may build deeper ones than any parser admits.
pub(super) const MAXIMUM_DEPTH: usize = 128;

/// Writes what `{{ value }}` writes.
pub(super) fn format(output: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => output.write_str(text),
        None => output.write_str(&text(state, value)?),
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the output is full"))
}

/// Python's `str`: strings as they are, `True`, `False`, `None`, lists and objects with quoted strings inside.
///
/// Writing costs fuel: a small template can build a value that is endless when written out.
pub(super) fn text(state: &State, value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => {
            let mut text = String::new();
            write_literal(&mut text, state, value, 0)?;
            Ok(text)
        }
    }
}

/// Refuses a value that nests too deeply, and pays for writing one more.
pub(super) fn charge(state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAXIMUM_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "a value nests too deeply to be written"));
    }
    state.consume_fuel(1 + value.as_str().map_or(0, |text| text.len() as u64 / 64))
}

/// Python's `repr` of the values that JSON has; anything else as the engine writes it.
fn write_literal(text: &mut String, state: &State, value: &Value, depth: usize) -> Result<(), Error> {
    charge(state, value, depth)?;
    match value.kind() {
        ValueKind::Undefined => {}
        ValueKind::None => text.push_str("None"),
        ValueKind::Bool => text.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => text.push_str(&number(value)),
        ValueKind::String => write_quoted(text, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            text.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, state, &item, depth + 1)?;
            }
            text.push(']');
        }
        ValueKind::Map => {
            text.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, state, &key, depth + 1)?;
                text.push_str(": ");
                write_literal(text, state, &value.get_item(&key)?, depth + 1)?;
            }
            text.push('}');
        }
        _ => text.push_str(&value.to_string()),
    }
    Ok(())
}

/// A string in Python's quotes: single ones, unless it holds those and no double ones.
fn write_quoted(text: &mut String, content: &str) {
    let quote = if content.contains('\'') && !content.contains('"') { '"' } else { '\'' };
    text.push(quote);
    for character in content.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if character == quote => text.extend(['\\', quote]),
            _ if (character as u32) < 0x20 || character as u32 == 0x7f => {
                text.push_str(&format!("\\x{:02x}", character as u32));
            }
            _ => text.push(character),
        }
    }
    text.push(quote);
}

/// Numbers: Python switches to exponents earlier than Rust does and writes at least two digits in them.
pub(super) fn number(value: &Value) -> String {
    let plain = value.to_string();
    if value.is_integer() {
        return plain;
    }
    let Ok(float) = f64::try_from(value.clone()) else { return plain };
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if float != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{float:?}"),
    }
}
