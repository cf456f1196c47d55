//! Values as Python's `json.dumps` writes them.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::python::{self, charge};

/// The keywords of `json.dumps`.
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

/// Python's `json.dumps`. Writing costs fuel: a small template can build a value that is endless when written out.
pub(super) fn dump(state: &State, value: &Value, style: &JsonStyle) -> Result<String, Error> {
    let mut writer = Writer { text: String::new(), state, style };
    writer.value(value, 0)?;
    Ok(writer.text)
}

struct Writer<'a> {
    text: String,
    state: &'a State<'a, 'a>,
    style: &'a JsonStyle,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        charge(self.state, value, depth)?;
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => match python::number(value).as_str() {
                "nan" => self.text.push_str("NaN"),
                "inf" => self.text.push_str("Infinity"),
                "-inf" => self.text.push_str("-Infinity"),
                number => self.text.push_str(number),
            },
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                self.text.push('[');
                let mut any = false;
                for item in value.try_iter()? {
                    self.begin_item(&mut any, depth + 1)?;
                    self.value(&item, depth + 1)?;
                }
                self.end_items(any, depth)?;
                self.text.push(']');
            }
            ValueKind::Map => {
                self.text.push('{');
                let mut keys = value.try_iter()?.collect::<Vec<_>>();
                if self.style.sort_keys {
                    keys.sort_by_key(key_text);
                }
                let mut any = false;
                for key in keys {
                    self.begin_item(&mut any, depth + 1)?;
                    self.string(&key_text(&key));
                    self.text.push_str(&self.style.key_separator);
                    self.value(&value.get_item(&key)?, depth + 1)?;
                }
                self.end_items(any, depth)?;
                self.text.push('}');
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("{kind} cannot be written as JSON"),
                ));
            }
        }
        Ok(())
    }

    fn begin_item(&mut self, any: &mut bool, depth: usize) -> Result<(), Error> {
        if std::mem::replace(any, true) {
            self.text.push_str(&self.style.item_separator);
        }
        self.line(depth)
    }

    fn end_items(&mut self, any: bool, depth: usize) -> Result<(), Error> {
        if any { self.line(depth) } else { Ok(()) }
    }

    /// A new line and its indent, where there is an indent.
    fn line(&mut self, depth: usize) -> Result<(), Error> {
        let Some(indent) = &self.style.indent else { return Ok(()) };
        self.state.consume_fuel((depth * indent.len()) as u64 / 64)?;
        self.text.push('\n');
        (0..depth).for_each(|_| self.text.push_str(indent));
        Ok(())
    }

    fn string(&mut self, content: &str) {
        self.text.push('"');
        for character in content.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                _ if self.must_escape(character) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        self.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    fn must_escape(&self, character: char) -> bool {
        Some(character) != self.style.untouched
            && ((character as u32) < 0x20 || (self.style.ensure_ascii && !(' '..='~').contains(&character)))
    }
}

/// JSON's keys are strings: other keys as JSON writes them.
fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::None => "null".to_owned(),
        ValueKind::Number => python::number(key),
        _ => key.to_string(),
    }
}
