//! Values as Python writes them: what `{{ value }}` and `str` give.

use super::meter::{Fault, Meter, Outcome};
use super::value::Value;

/// How deeply lists and maps may nest in what is written; a template may build deeper ones than any parser admits.
pub(super) const MAXIMUM_DEPTH: usize = 128;

/// Python's `str`, appended: strings as they are, `True`, `False`, `None`, lists and maps with quoted strings inside.
pub(super) fn write(text: &mut String, meter: &Meter, value: &Value) -> Outcome<()> {
    match value {
        Value::Text(content) => {
            meter.bytes(content.len())?;
            text.push_str(content);
            Ok(())
        }
        _ => write_literal(text, meter, value, 0),
    }
}

/// Python's `str`.
pub(super) fn text(meter: &Meter, value: &Value) -> Outcome<String> {
    let mut text = String::new();
    write(&mut text, meter, value)?;
    Ok(text)
}

/// Refuses a value that nests too deeply, and pays for writing one more: its quotes, commas and escapes.
pub(super) fn charge(meter: &Meter, value: &Value, depth: usize) -> Outcome<()> {
    if depth > MAXIMUM_DEPTH {
        return Err(Fault::failed("a value nests too deeply to be written"));
    }
    meter.steps(1)?;
    meter.bytes(match value {
        Value::Text(text) => text.len().saturating_mul(6).saturating_add(8),
        _ => 32,
    })
}

/// Python's `repr`.
pub(super) fn write_literal(text: &mut String, meter: &Meter, value: &Value, depth: usize) -> Outcome<()> {
    charge(meter, value, depth)?;
    match value {
        Value::Undefined => {}
        Value::None => text.push_str("None"),
        Value::Bool(value) => text.push_str(if *value { "True" } else { "False" }),
        Value::Int(value) => text.push_str(&value.to_string()),
        Value::Float(value) => text.push_str(&float(*value)),
        Value::Text(content) => write_quoted(text, content),
        Value::List(list) => {
            let (open, close) = if list.tuple { ('(', ')') } else { ('[', ']') };
            text.push(open);
            for (index, item) in list.items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, meter, item, depth + 1)?;
            }
            text.push_str(if list.tuple && list.items.len() == 1 { "," } else { "" });
            text.push(close);
        }
        Value::Map(map) => {
            text.push('{');
            for (index, (key, value)) in map.entries.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, meter, &key.value(), depth + 1)?;
                text.push_str(": ");
                write_literal(text, meter, value, depth + 1)?;
            }
            text.push('}');
        }
        Value::Namespace(_) => text.push_str("<Namespace>"),
        Value::Macro(_) => text.push_str("<Macro>"),
        Value::Loop(_) => text.push_str("<LoopContext>"),
        Value::Function(name) => text.push_str(name),
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

/// Floats: Python switches to exponents earlier than Rust does and writes at least two digits in them.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}
