//! What may stand behind `|`: here what works on single values; `sequences` has what works on lists.

use super::arguments::Arguments;
use super::expression::shown;
use super::json::{JsonStyle, dump};
use super::meter::{Fault, Meter, Outcome};
use super::render::Renderer;
use super::value::Value;
use super::{format, methods, python, sequences};

const NAMES: [&str; 25] = [
    "abs",
    "attr",
    "bool",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "e",
    "escape",
    "float",
    "format",
    "indent",
    "int",
    "length",
    "lower",
    "replace",
    "round",
    "safe",
    "split",
    "string",
    "title",
    "tojson",
    "trim",
    "upper",
];

/// Whether there is such a filter.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || sequences::NAMES.contains(&name)
}

/// What the filter makes of a value.
pub(super) fn apply(
    renderer: &mut Renderer<'_>,
    name: &str,
    value: Value,
    mut arguments: Arguments,
) -> Outcome<Value> {
    if sequences::NAMES.contains(&name) {
        return sequences::apply(renderer, name, value, arguments);
    }
    let meter = &renderer.meter;
    meter.steps(1)?;
    let made = match name {
        "default" | "d" => {
            let other = arguments.optional("default_value").unwrap_or(Value::text(""));
            let also_false = arguments.flag("boolean");
            let missing = matches!(value, Value::Undefined) || (also_false && !value.is_true());
            if missing { other } else { value }
        }
        "length" | "count" => Value::Int(value.length(meter)? as i128),
        "attr" => {
            let name = arguments.text("name")?;
            renderer.attribute(&value, &name)?
        }
        "tojson" => {
            let style = style(renderer, &mut arguments)?;
            let text = dump(meter, &value, &style)?;
            meter.bytes(text.len())?;
            Value::text(text)
        }
        "string" | "safe" => match value {
            Value::Text(text) => Value::Text(text),
            other => Value::text(python::text(meter, &other)?),
        },
        "bool" => Value::Bool(value.is_true()),
        "abs" => match value {
            Value::Float(number) => Value::Float(number.abs()),
            other => {
                let number = other.as_int().and_then(i128::checked_abs);
                Value::Int(
                    number.ok_or_else(|| Fault::failed(format!("{} has no absolute value", other.kind())))?,
                )
            }
        },
        "int" => {
            let default = arguments.optional_int("default")?.unwrap_or(0);
            Value::Int(match &value {
                Value::Float(number) => *number as i128,
                Value::Text(text) => {
                    meter.read(text.len())?;
                    let text = text.trim();
                    let float = || {
                        text.parse::<f64>().ok().filter(|float| float.is_finite()).map(|float| float as i128)
                    };
                    text.parse().ok().or_else(float).unwrap_or(default)
                }
                other => other.as_int().unwrap_or(default),
            })
        }
        "float" => {
            let default = arguments.optional("default").and_then(|value| value.as_float()).unwrap_or(0.0);
            Value::Float(match &value {
                Value::Text(text) => {
                    meter.read(text.len())?;
                    text.trim().parse().unwrap_or(default)
                }
                other => other.as_float().unwrap_or(default),
            })
        }
        "round" => round(&value, &mut arguments)?,
        "format" => {
            let Value::Text(pattern) = &value else {
                return Err(Fault::failed(format!("{} is no pattern to format", value.kind())));
            };
            let values = std::mem::take(&mut arguments.positional);
            let named = std::mem::take(&mut arguments.named);
            return format::percent(meter, pattern, &values, &named);
        }
        _ => {
            let text = match &value {
                Value::Text(text) => text.clone(),
                other => python::text(meter, other)?.into(),
            };
            return on_text(meter, name, &text, arguments);
        }
    };
    arguments.finish()?;
    Ok(made)
}

fn on_text(meter: &Meter, name: &str, text: &str, mut arguments: Arguments) -> Outcome<Value> {
    let made = match name {
        "lower" | "upper" | "title" | "capitalize" => cased(meter, text, name)?,
        "trim" => {
            let characters = arguments.optional_text("chars")?;
            methods::trimmed(meter, text, characters.as_deref(), true, true)?
        }
        "replace" => {
            let (old, new) = (arguments.required("old")?, arguments.required("new")?);
            let (old, new) = (python::text(meter, &old)?, python::text(meter, &new)?);
            let count = arguments.optional_int("count")?.and_then(|count| usize::try_from(count).ok());
            methods::replaced(meter, text, &old, &new, count)?
        }
        "split" => {
            let separator = arguments.optional_text("sep")?;
            let most = arguments.optional_int("maxsplit")?;
            methods::split(meter, text, separator.as_deref(), most, false)?
        }
        "escape" | "e" => {
            meter.bytes(text.len().saturating_mul(10))?;
            let mut escaped = String::new();
            for character in text.chars() {
                match character {
                    '&' => escaped.push_str("&amp;"),
                    '<' => escaped.push_str("&lt;"),
                    '>' => escaped.push_str("&gt;"),
                    '\'' => escaped.push_str("&#39;"),
                    '"' => escaped.push_str("&#34;"),
                    other => escaped.push(other),
                }
            }
            Value::text(escaped)
        }
        "center" => {
            let width = arguments.optional_int("width")?.unwrap_or(80);
            meter.read(text.len())?;
            let length = text.chars().count();
            let missing = usize::try_from(width).unwrap_or(0).saturating_sub(length);
            meter.bytes(text.len().saturating_add(missing).saturating_mul(2))?;
            let before = missing / 2;
            Value::text(format!("{}{text}{}", " ".repeat(before), " ".repeat(missing - before)))
        }
        "indent" => indented(meter, text, &mut arguments)?,
        other => return Err(Fault::failed(format!("there is no filter `{}`", shown(other)))),
    };
    arguments.finish()?;
    Ok(made)
}

/// Upper case, lower case, and the two between.
pub(super) fn cased(meter: &Meter, text: &str, how: &str) -> Outcome<Value> {
    // A character's other case has at most three characters.
    meter.bytes(text.len().saturating_mul(8))?;
    Ok(Value::text(match how {
        "lower" => text.to_lowercase(),
        "upper" => text.to_uppercase(),
        "capitalize" => {
            let mut characters = text.chars();
            let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
            first + &characters.as_str().to_lowercase()
        }
        _ => {
            let mut titled = String::with_capacity(text.len());
            let mut begins = true;
            for character in text.chars() {
                match begins {
                    true => titled.extend(character.to_uppercase()),
                    false => titled.extend(character.to_lowercase()),
                }
                begins = !character.is_alphanumeric() && character != '\'';
            }
            titled
        }
    }))
}

/// Every line but the first, and empty ones, behind an indent.
fn indented(meter: &Meter, text: &str, arguments: &mut Arguments) -> Outcome<Value> {
    let indent = match arguments.optional("width") {
        Some(Value::Text(indent)) => indent.to_string(),
        Some(width) => indent_text(&width)?,
        None => " ".repeat(4),
    };
    let (first, blank) = (arguments.flag("first"), arguments.flag("blank"));
    meter.read(text.len())?;
    let lines = text.split('\n').count();
    meter.bytes(text.len().saturating_add(lines.saturating_mul(indent.len())).saturating_mul(2))?;
    let mut indented = String::new();
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        if (index > 0 || first) && (blank || !line.is_empty()) {
            indented.push_str(&indent);
        }
        indented.push_str(line);
    }
    Ok(Value::text(indented))
}

fn round(value: &Value, arguments: &mut Arguments) -> Outcome<Value> {
    let precision = arguments.optional_int("precision")?.unwrap_or(0).clamp(-30, 30) as i32;
    let method = arguments.optional_text("method")?;
    let Some(number) = value.as_float() else {
        return Err(Fault::failed(format!("{} is no number to round", value.kind())));
    };
    let scale = 10f64.powi(precision);
    let scaled = number * scale;
    let rounded = match method.as_deref() {
        None | Some("common") => scaled.round_ties_even(),
        Some("ceil") => scaled.ceil(),
        Some("floor") => scaled.floor(),
        Some(_) => return Err(Fault::failed("round knows common, ceil and floor")),
    };
    Ok(Value::Float(rounded / scale))
}

/// The keywords of Python's `json.dumps`; a first plain argument is `ensure_ascii` where it is a truth value, and the
/// indent where it is a number.
fn style(renderer: &Renderer<'_>, arguments: &mut Arguments) -> Outcome<JsonStyle> {
    let mut style = JsonStyle { untouched: renderer.given.mark, ..JsonStyle::default() };
    let first = (!arguments.positional.is_empty()).then(|| arguments.optional("first")).flatten();
    let (flag, indent) = match first {
        Some(flag @ Value::Bool(_)) => (Some(flag), None),
        other => (None, other),
    };
    style.ensure_ascii = arguments.named("ensure_ascii").or(flag).is_some_and(|value| value.is_true());
    style.sort_keys = arguments.named("sort_keys").is_some_and(|value| value.is_true());
    match arguments.named("indent").or(indent) {
        None | Some(Value::None | Value::Undefined) => {}
        Some(indent) => {
            style.indent = Some(match indent.as_text() {
                Some(text) => text.to_owned(),
                None => indent_text(&indent)?,
            });
            style.item_separator = ",".to_owned();
        }
    }
    match arguments.named("separators") {
        None | Some(Value::None) => {}
        Some(Value::List(list)) => match list.items.as_slice() {
            [Value::Text(item), Value::Text(key)] => {
                (style.item_separator, style.key_separator) = (item.to_string(), key.to_string());
            }
            _ => return Err(Fault::failed("tojson's separators must be two strings")),
        },
        Some(_) => return Err(Fault::failed("tojson's separators must be two strings")),
    }
    Ok(style)
}

/// An indent of some spaces.
fn indent_text(indent: &Value) -> Outcome<String> {
    const MAXIMUM: i128 = 64;
    match indent.as_int() {
        Some(spaces @ 0..=MAXIMUM) => Ok(" ".repeat(spaces as usize)),
        _ => Err(Fault::failed("an indent must be a small number or a string")),
    }
}
