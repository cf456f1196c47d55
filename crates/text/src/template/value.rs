//! The values of a rendering.

use std::borrow::Cow;
use std::rc::Rc;

use indexmap::IndexMap;
use minijinja::value::ValueKind;
use serde_json::Value as Json;

use super::meter::{Fault, Meter, Outcome};
use crate::request::is_keyword;

/// How deeply lists and maps may nest: far deeper than any parser admits, and shallow enough to be freed recursively.
const DEEPEST: u16 = 500;

/// A value. Lists and maps are shared and never change; what can change is kept by the renderer and named by number, so
/// that no value holds itself.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Rc<str>),
    List(Rc<List>),
    Map(Rc<Map>),
    /// What `namespace()` gives.
    Namespace(usize),
    Macro(usize),
    /// The `loop` of a loop that runs.
    Loop(usize),
    /// A function of the renderer's own.
    Function(&'static str),
}

#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Value>,
    /// Written with parentheses, and equal to no list.
    pub tuple: bool,
    depth: u16,
}

#[derive(Debug)]
pub(super) struct Map {
    pub entries: Entries,
    depth: u16,
}

pub(super) type Entries = IndexMap<Key, Value>;

/// A map's key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    None,
    Bool(bool),
    Int(i128),
    /// A float's bits.
    Float(u64),
    Text(Rc<str>),
}

impl Key {
    pub(super) fn value(&self) -> Value {
        match self {
            Key::None => Value::None,
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Key::Text(text) => Value::Text(text.clone()),
        }
    }
}

impl List {
    pub(super) fn new(items: Vec<Value>, tuple: bool) -> Outcome<List> {
        let depth = deeper(items.iter())?;
        Ok(List { items, tuple, depth })
    }
}

fn deeper<'a>(items: impl Iterator<Item = &'a Value>) -> Outcome<u16> {
    let depth = items.map(Value::depth).max().unwrap_or(0) + 1;
    if depth > DEEPEST {
        return Err(Fault::failed(format!("lists and maps nest more than {DEEPEST} deep")));
    }
    Ok(depth)
}

impl Value {
    /// A text that was paid for.
    pub(super) fn text(text: impl Into<Rc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// A list that is paid for here.
    pub(super) fn list(meter: &Meter, items: Vec<Value>) -> Outcome<Value> {
        meter.entries(items.len())?;
        Ok(Value::List(Rc::new(List::new(items, false)?)))
    }

    /// A tuple that is paid for here.
    pub(super) fn tuple(meter: &Meter, items: Vec<Value>) -> Outcome<Value> {
        meter.entries(items.len())?;
        Ok(Value::List(Rc::new(List::new(items, true)?)))
    }

    /// A map that is paid for here.
    pub(super) fn map(meter: &Meter, entries: Entries) -> Outcome<Value> {
        meter.entries(entries.len().saturating_mul(2))?;
        let depth = deeper(entries.values())?;
        Ok(Value::Map(Rc::new(Map { entries, depth })))
    }

    fn depth(&self) -> u16 {
        match self {
            Value::List(list) => list.depth,
            Value::Map(map) => map.depth,
            _ => 0,
        }
    }

    /// A constant of the template.
    pub(super) fn constant(meter: &Meter, value: &minijinja::Value) -> Outcome<Value> {
        Ok(match value.kind() {
            ValueKind::Undefined => Value::Undefined,
            ValueKind::None => Value::None,
            ValueKind::Bool => Value::Bool(value.is_true()),
            ValueKind::Number if value.is_integer() => {
                Value::Int(i128::try_from(value.clone()).map_err(|_| Fault::failed("a number is too large"))?)
            }
            ValueKind::Number => Value::Float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
            _ => {
                let text = value.as_str().ok_or_else(|| Fault::failed("a constant is of no known kind"))?;
                meter.bytes(text.len())?;
                Value::text(text)
            }
        })
    }

    /// JSON as the template sees it, with `marked` applied to every text and every field's name.
    pub(super) fn from_json(json: &Json, marked: &dyn Fn(&str) -> Cow<'_, str>) -> Outcome<Value> {
        fn unmarked(text: &str) -> Cow<'_, str> {
            Cow::Borrowed(text)
        }
        Ok(match json {
            Json::Null => Value::None,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(value), ..) => Value::Int(value.into()),
                (_, Some(value), _) => Value::Int(value.into()),
                (.., value) => Value::Float(value.unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::text(marked(text).as_ref()),
            Json::Array(list) => {
                let items =
                    list.iter().map(|value| Value::from_json(value, marked)).collect::<Outcome<_>>()?;
                Value::List(Rc::new(List::new(items, false)?))
            }
            Json::Object(object) => {
                let entries = object.iter().map(|(name, value)| {
                    let keyword = is_keyword(name, value);
                    let marking: &dyn Fn(&str) -> Cow<'_, str> = if keyword { &unmarked } else { marked };
                    Ok((Key::Text(marked(name).as_ref().into()), Value::from_json(value, marking)?))
                });
                let entries: Entries = entries.collect::<Outcome<_>>()?;
                let depth = deeper(entries.values())?;
                Value::Map(Rc::new(Map { entries, depth }))
            }
        })
    }

    /// The value as a map's key.
    pub(super) fn key(&self) -> Outcome<Key> {
        Ok(match self {
            Value::None => Key::None,
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Float(value) => Key::Float(value.to_bits()),
            Value::Text(text) => Key::Text(text.clone()),
            other => return Err(Fault::failed(format!("{} cannot be a map's key", other.kind()))),
        })
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Map(map) => !map.entries.is_empty(),
            Value::Namespace(_) | Value::Macro(_) | Value::Loop(_) | Value::Function(_) => true,
        }
    }

    /// What the value is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "an undefined value",
            Value::None => "none",
            Value::Bool(_) => "a truth value",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(list) if list.tuple => "a tuple",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Namespace(_) => "a namespace",
            Value::Macro(_) | Value::Function(_) => "a function",
            Value::Loop(_) => "a loop",
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number as an integer: truth values count, floats only if whole.
    pub(super) fn as_int(&self) -> Option<i128> {
        match self {
            Value::Bool(value) => Some((*value).into()),
            Value::Int(value) => Some(*value),
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e18 => Some(*value as i128),
            _ => None,
        }
    }

    pub(super) fn as_float(&self) -> Option<f64> {
        match self {
            Value::Bool(value) => Some(f64::from(u8::from(*value))),
            Value::Int(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The items that a loop goes over: a list's, a map's keys, a text's characters, none of what is undefined.
    pub(super) fn items(&self, meter: &Meter) -> Outcome<Vec<Value>> {
        match self {
            Value::Undefined => Ok(Vec::new()),
            Value::List(list) => {
                meter.entries(list.items.len())?;
                Ok(list.items.clone())
            }
            Value::Map(map) => {
                meter.entries(map.entries.len())?;
                Ok(map.entries.keys().map(Key::value).collect())
            }
            Value::Text(text) => {
                meter.entries(text.len())?;
                Ok(text.chars().map(|character| Value::text(&*character.encode_utf8(&mut [0; 4]))).collect())
            }
            other => Err(Fault::failed(format!("{} cannot be gone over", other.kind()))),
        }
    }

    /// How many items there are.
    pub(super) fn length(&self, meter: &Meter) -> Outcome<usize> {
        match self {
            Value::Undefined => Ok(0),
            Value::List(list) => Ok(list.items.len()),
            Value::Map(map) => Ok(map.entries.len()),
            Value::Text(text) => {
                meter.read(text.len())?;
                Ok(text.chars().count())
            }
            other => Err(Fault::failed(format!("{} has no length", other.kind()))),
        }
    }
}
