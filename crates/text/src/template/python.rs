//! Values as Python writes them: in a template's output and in JSON.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Output, State, Value};

/// How deeply lists and objects may nest in JSON; a template may build deeper ones than any parser admits.
const MAXIMUM_DEPTH: usize = 128;

/// Writes what `{{ value }}` writes.
pub(super) fn format(output: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => output.write_str(text),
        None => output.write_str(&text(value)),
    };
    written.map_err(|_| Error::new(ErrorKind::WriteFailure, "the output is full"))
}

/// Python's `str`: strings as they are, `True`, `False`, `None`, lists and objects with quoted strings inside.
pub(super) fn text(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let mut text = String::new();
            write_literal(&mut text, value, 0);
            text
        }
    }
}

/// Python's `repr` of the values that JSON has; anything else as the engine writes it.
fn write_literal(text: &mut String, value: &Value, depth: usize) {
    match value.kind() {
        _ if depth > MAXIMUM_DEPTH => text.push_str("..."),
        ValueKind::Undefined => {}
        ValueKind::None => text.push_str("None"),
        ValueKind::Bool => text.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => text.push_str(&number(value)),
        ValueKind::String => write_quoted(text, value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            text.push('[');
            for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, &item, depth + 1);
            }
            text.push(']');
        }
        ValueKind::Map => {
            text.push('{');
            for (index, key) in value.try_iter().into_iter().flatten().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_literal(text, &key, depth + 1);
                text.push_str(": ");
                write_literal(text, &value.get_item(&key).unwrap_or_default(), depth + 1);
            }
            text.push('}');
        }
        _ => text.push_str(&value.to_string()),
    }
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
fn number(value: &Value) -> String {
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

/// The keywords of Python's `json.dumps`.
pub(super) struct JsonStyle {
    pub ensure_ascii: bool,
    pub sort_keys: bool,
    /// One level's indent; `None` writes one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    /// A character that is written as it is even under `ensure_ascii`.
    pub untouched: Option<char>,
}

impl Default for JsonStyle {
    fn default() -> JsonStyle {
        JsonStyle {
            ensure_ascii: false,
            sort_keys: false,
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
            untouched: None,
        }
    }
}

/// Python's `json.dumps`.
pub(super) fn json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut text = String::new();
    write_json(&mut text, value, style, 0)?;
    Ok(text)
}

fn write_json(text: &mut String, value: &Value, style: &JsonStyle, depth: usize) -> Result<(), Error> {
    let refuse = |what: &str| Err(Error::new(ErrorKind::InvalidOperation, format!("{what} has no JSON")));
    if depth > MAXIMUM_DEPTH {
        return refuse("so deep a value");
    }
    match value.kind() {
        ValueKind::None => text.push_str("null"),
        ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => match number(value).as_str() {
            "nan" => text.push_str("NaN"),
            "inf" => text.push_str("Infinity"),
            "-inf" => text.push_str("-Infinity"),
            number => text.push_str(number),
        },
        ValueKind::String => write_json_string(text, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter()?.collect::<Vec<_>>();
            write_items(text, ['[', ']'], &items, style, depth, |text, item| {
                write_json(text, item, style, depth + 1)
            })?;
        }
        ValueKind::Map => {
            let mut keys = value.try_iter()?.collect::<Vec<_>>();
            if style.sort_keys {
                keys.sort_by_key(text_of_key);
            }
            write_items(text, ['{', '}'], &keys, style, depth, |text, key| {
                write_json_string(text, &text_of_key(key), style);
                text.push_str(&style.key_separator);
                write_json(text, &value.get_item(key)?, style, depth + 1)
            })?;
        }
        kind => return refuse(&kind.to_string()),
    }
    Ok(())
}

fn write_items(
    text: &mut String,
    brackets: [char; 2],
    items: &[Value],
    style: &JsonStyle,
    depth: usize,
    mut write: impl FnMut(&mut String, &Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let line = |text: &mut String, depth: usize| {
        if let Some(indent) = style.indent.as_ref().filter(|_| !items.is_empty()) {
            text.push('\n');
            (0..depth).for_each(|_| text.push_str(indent));
        }
    };
    text.push(brackets[0]);
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index > 0 { &style.item_separator } else { "" });
        line(text, depth + 1);
        write(text, item)?;
    }
    line(text, depth);
    text.push(brackets[1]);
    Ok(())
}

/// JSON's keys are strings: other keys as JSON writes them.
fn text_of_key(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => key.to_string().to_lowercase(),
        _ => text(key),
    }
}

fn write_json_string(text: &mut String, content: &str, style: &JsonStyle) {
    text.push('"');
    for character in content.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            _ if Some(character) == style.untouched => text.push(character),
            _ if (character as u32) < 0x20 || (style.ensure_ascii && !(' '..='~').contains(&character)) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    text.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}
