//! Values as Python's `json.dumps` writes them.

use super::meter::{Fault, Meter, Outcome};
use super::python::{self, charge};
use super::value::{Key, Value};

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

/// Python's `json.dumps`.
pub(super) fn dump(meter: &Meter, value: &Value, style: &JsonStyle) -> Outcome<String> {
    let mut writer = Writer { text: String::new(), meter, style };
    writer.value(value, 0)?;
    Ok(writer.text)
}

struct Writer<'a> {
    text: String,
    meter: &'a Meter,
    style: &'a JsonStyle,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Outcome<()> {
        charge(self.meter, value, depth)?;
        match value {
            Value::None => self.text.push_str("null"),
            Value::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => self.text.push_str(&value.to_string()),
            Value::Float(value) => self.text.push_str(&float(*value)),
            Value::Text(text) => self.string(text),
            Value::List(list) => {
                self.text.push('[');
                for (index, item) in list.items.iter().enumerate() {
                    self.begin_item(index, depth + 1)?;
                    self.value(item, depth + 1)?;
                }
                self.end_items(list.items.is_empty(), depth)?;
                self.text.push(']');
            }
            Value::Map(map) => {
                self.text.push('{');
                self.meter.entries(map.entries.len())?;
                let mut entries: Vec<(String, &Value)> = Vec::with_capacity(map.entries.len());
                for (key, value) in &map.entries {
                    charge(self.meter, &key.value(), depth)?;
                    entries.push((key_text(key), value));
                }
                if self.style.sort_keys {
                    let levels = entries.len().checked_ilog2().unwrap_or(0) as usize + 1;
                    self.meter.steps(entries.len().saturating_mul(levels))?;
                    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
                }
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.begin_item(index, depth + 1)?;
                    self.string(key);
                    self.text.push_str(&self.style.key_separator);
                    self.value(value, depth + 1)?;
                }
                self.end_items(entries.is_empty(), depth)?;
                self.text.push('}');
            }
            other => return Err(Fault::failed(format!("{} cannot be written as JSON", other.kind()))),
        }
        Ok(())
    }

    fn begin_item(&mut self, index: usize, depth: usize) -> Outcome<()> {
        self.meter.bytes(self.style.item_separator.len() + self.style.key_separator.len())?;
        if index > 0 {
            self.text.push_str(&self.style.item_separator);
        }
        self.line(depth)
    }

    fn end_items(&mut self, empty: bool, depth: usize) -> Outcome<()> {
        if empty { Ok(()) } else { self.line(depth) }
    }

    /// A new line and its indent, where there is an indent.
    fn line(&mut self, depth: usize) -> Outcome<()> {
        let Some(indent) = &self.style.indent else { return Ok(()) };
        self.meter.bytes(1 + depth * indent.len())?;
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

/// Python writes what JSON has no number for as words.
fn float(value: f64) -> String {
    match python::float(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        number => number.to_owned(),
    }
}

/// JSON's keys are strings: other keys as JSON writes them.
fn key_text(key: &Key) -> String {
    match key {
        Key::Text(text) => text.as_ref().to_owned(),
        Key::None => "null".to_owned(),
        Key::Bool(value) => value.to_string(),
        Key::Int(value) => value.to_string(),
        Key::Float(bits) => float(f64::from_bits(*bits)),
    }
}
