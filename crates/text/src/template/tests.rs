//! What may stand behind `is`.

use std::cmp::Ordering;

use super::arguments::Arguments;
use super::compare::{equal, order};
use super::expression::shown;
use super::meter::{Fault, Outcome};
use super::render::Renderer;
use super::value::Value;
use super::{filters, operators};

/// Whether `value` is what the test says.
pub(super) fn holds(
    renderer: &Renderer<'_>,
    name: &str,
    value: &Value,
    mut arguments: Arguments,
) -> Outcome<bool> {
    let meter = &renderer.meter;
    meter.steps(1)?;
    let whole =
        || value.as_int().ok_or_else(|| Fault::failed(format!("{} is no whole number", value.kind())));
    let holds = match name {
        "defined" => !matches!(value, Value::Undefined),
        "undefined" => matches!(value, Value::Undefined),
        "none" => matches!(value, Value::None),
        "string" => matches!(value, Value::Text(_)),
        "number" => matches!(value, Value::Int(_) | Value::Float(_) | Value::Bool(_)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "mapping" => matches!(value, Value::Map(_)),
        "sequence" => matches!(value, Value::List(_) | Value::Map(_) | Value::Text(_)),
        "iterable" => matches!(value, Value::List(_) | Value::Map(_) | Value::Text(_) | Value::Undefined),
        "callable" => matches!(value, Value::Macro(_) | Value::Function(_) | Value::Loop(_)),
        "odd" => whole()?.rem_euclid(2) == 1,
        "even" => whole()?.rem_euclid(2) == 0,
        "divisibleby" => match arguments.optional_int("number")? {
            None | Some(0) => return Err(Fault::failed("divisibleby takes a number that is not 0")),
            Some(by) => whole()?.wrapping_rem(by) == 0,
        },
        "lower" | "upper" => {
            let text = value.as_text().unwrap_or_default();
            meter.read(text.len().saturating_mul(4))?;
            let (small, large) = (text.chars().any(char::is_lowercase), text.chars().any(char::is_uppercase));
            if name == "lower" { small && !large } else { large && !small }
        }
        "eq" | "equalto" | "==" => equal(meter, value, &arguments.required("other")?)?,
        "ne" | "!=" => !equal(meter, value, &arguments.required("other")?)?,
        "lt" | "lessthan" | "<" => order(meter, value, &arguments.required("other")?)? == Ordering::Less,
        "le" | "<=" => order(meter, value, &arguments.required("other")?)? != Ordering::Greater,
        "gt" | "greaterthan" | ">" => {
            order(meter, value, &arguments.required("other")?)? == Ordering::Greater
        }
        "ge" | ">=" => order(meter, value, &arguments.required("other")?)? != Ordering::Less,
        "in" => operators::contains(meter, &arguments.required("values")?, value)?,
        "sameas" => {
            let other = arguments.required("other")?;
            std::mem::discriminant(value) == std::mem::discriminant(&other) && equal(meter, value, &other)?
        }
        "startingwith" | "endingwith" => {
            let part = arguments.text("text")?;
            let text = value.as_text().unwrap_or_default();
            meter.read(part.len())?;
            if name == "startingwith" { text.starts_with(&*part) } else { text.ends_with(&*part) }
        }
        "filter" => filters::is_known(value.as_text().unwrap_or_default()),
        other => return Err(Fault::failed(format!("there is no test `{}`", shown(other)))),
    };
    arguments.finish()?;
    Ok(holds)
}
