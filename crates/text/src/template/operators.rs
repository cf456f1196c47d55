//! What operators do, as Python has it.

use minijinja::machinery::ast::BinOpKind;

use super::compare::equal;
use super::meter::{Fault, Meter, Outcome};
use super::value::Value;
use super::{format, python};

/// `-value`.
pub(super) fn negate(value: &Value) -> Outcome<Value> {
    match value {
        Value::Float(value) => Ok(Value::Float(-value)),
        Value::Bool(_) | Value::Int(_) => {
            let number = value.as_int().and_then(i128::checked_neg);
            number.map(Value::Int).ok_or_else(too_large)
        }
        other => Err(Fault::failed(format!("{} has no negative", other.kind()))),
    }
}

/// `left ~ right`: both written out.
pub(super) fn join(meter: &Meter, left: &Value, right: &Value) -> Outcome<Value> {
    let mut text = python::text(meter, left)?;
    python::write(&mut text, meter, right)?;
    meter.bytes(text.len())?;
    Ok(Value::text(text))
}

/// The operators of arithmetic, on strings and lists too.
pub(super) fn calculate(meter: &Meter, op: BinOpKind, left: &Value, right: &Value) -> Outcome<Value> {
    match (op, left, right) {
        (BinOpKind::Add, Value::Text(first), Value::Text(second)) => {
            meter.bytes(first.len().saturating_add(second.len()).saturating_mul(2))?;
            Ok(Value::text([&**first, &**second].concat()))
        }
        (BinOpKind::Add, Value::List(first), Value::List(second)) if first.tuple == second.tuple => {
            meter.entries(first.items.len().saturating_add(second.items.len()))?;
            let items = first.items.iter().chain(&second.items).cloned().collect();
            if first.tuple { Value::tuple(meter, items) } else { Value::list(meter, items) }
        }
        (BinOpKind::Mul, Value::Text(_) | Value::List(_), count) => repeat(meter, left, count),
        (BinOpKind::Mul, count, Value::Text(_) | Value::List(_)) => repeat(meter, right, count),
        (BinOpKind::Rem, Value::Text(pattern), values) => {
            let values = match values {
                Value::List(list) if list.tuple => list.items.clone(),
                other => vec![other.clone()],
            };
            format::percent(meter, pattern, &values, &[])
        }
        _ => numbers(op, left, right),
    }
}

fn repeat(meter: &Meter, value: &Value, count: &Value) -> Outcome<Value> {
    let Some(count) = count.as_int().filter(|_| !matches!(count, Value::Float(_))) else {
        return Err(Fault::failed(format!("{} cannot be repeated by {}", value.kind(), count.kind())));
    };
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    match value {
        Value::Text(text) => {
            meter.bytes(text.len().saturating_mul(count).saturating_mul(2))?;
            Ok(Value::text(text.repeat(count)))
        }
        Value::List(list) => {
            meter.entries(list.items.len().saturating_mul(count))?;
            let items: Vec<Value> = match list.items.is_empty() {
                true => Vec::new(),
                false => (0..count).flat_map(|_| list.items.iter().cloned()).collect(),
            };
            if list.tuple { Value::tuple(meter, items) } else { Value::list(meter, items) }
        }
        other => Err(Fault::failed(format!("{} cannot be repeated", other.kind()))),
    }
}

fn too_large() -> Fault {
    Fault::failed("a number is too large")
}

fn numbers(op: BinOpKind, left: &Value, right: &Value) -> Outcome<Value> {
    let sign = match op {
        BinOpKind::Add => "+",
        BinOpKind::Sub => "-",
        BinOpKind::Mul => "*",
        BinOpKind::Div => "/",
        BinOpKind::FloorDiv => "//",
        BinOpKind::Rem => "%",
        BinOpKind::Pow => "**",
        _ => return Err(Fault::failed("this operator is not known")),
    };
    let (Some(first), Some(second)) = (left.as_float(), right.as_float()) else {
        return Err(Fault::failed(format!("there is no {} {sign} {}", left.kind(), right.kind())));
    };
    let zero = || Err(Fault::failed("a number is divided by zero"));
    let whole = !matches!(left, Value::Float(_)) && !matches!(right, Value::Float(_));
    if let (true, Some(first), Some(second)) =
        (whole && !matches!(op, BinOpKind::Div), left.as_int(), right.as_int())
    {
        let number = match op {
            BinOpKind::Add => first.checked_add(second),
            BinOpKind::Sub => first.checked_sub(second),
            BinOpKind::Mul => first.checked_mul(second),
            BinOpKind::FloorDiv | BinOpKind::Rem if second == 0 => return zero(),
            // Python rounds down where Rust rounds towards zero.
            BinOpKind::FloorDiv => first
                .checked_div(second)
                .map(|quotient| quotient - i128::from(first % second != 0 && (first < 0) != (second < 0))),
            BinOpKind::Rem => first
                .checked_rem(second)
                .map(|rest| if rest != 0 && (rest < 0) != (second < 0) { rest + second } else { rest }),
            _ if second < 0 => return Ok(Value::Float((first as f64).powf(second as f64))),
            _ => u32::try_from(second).ok().and_then(|second| first.checked_pow(second)),
        };
        return number.map(Value::Int).ok_or_else(too_large);
    }
    Ok(Value::Float(match op {
        BinOpKind::Add => first + second,
        BinOpKind::Sub => first - second,
        BinOpKind::Mul => first * second,
        BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem if second == 0.0 => return zero(),
        BinOpKind::Div => first / second,
        BinOpKind::FloorDiv => (first / second).floor(),
        BinOpKind::Rem => first - second * (first / second).floor(),
        _ => first.powf(second),
    }))
}

/// Whether `item` is in `value`.
pub(super) fn contains(meter: &Meter, value: &Value, item: &Value) -> Outcome<bool> {
    match value {
        Value::Undefined => Ok(false),
        Value::Text(text) => match item {
            Value::Text(part) => {
                meter.read(text.len().saturating_add(part.len()))?;
                Ok(text.contains(&**part))
            }
            other => Err(Fault::failed(format!("{} is never in a string", other.kind()))),
        },
        Value::Map(map) => match item {
            Value::List(_) | Value::Map(_) | Value::Undefined => Ok(false),
            item => Ok(map.entries.contains_key(&item.key()?)),
        },
        Value::List(list) => {
            for other in &list.items {
                if equal(meter, other, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        other => Err(Fault::failed(format!("nothing is in {}", other.kind()))),
    }
}

/// The position that an index means: negative ones count from the end.
pub(super) fn position(index: i128, length: usize) -> Option<usize> {
    let index = if index < 0 { index + length as i128 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length)
}

/// `value[start:stop:step]`.
pub(super) fn slice(
    meter: &Meter,
    value: &Value,
    start: &Value,
    stop: &Value,
    step: &Value,
) -> Outcome<Value> {
    let bound = |bound: &Value| match bound {
        Value::None => Ok(None),
        other => match other.as_int() {
            Some(number) => Ok(Some(number.clamp(-(1 << 62), 1 << 62))),
            None => Err(Fault::failed(format!("{} is no bound of a slice", other.kind()))),
        },
    };
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    if step == 0 {
        return Err(Fault::failed("a slice has the step 0"));
    }
    match value {
        Value::Undefined => Value::list(meter, Vec::new()),
        Value::List(list) => {
            let chosen = chosen(list.items.len(), start, stop, step);
            meter.entries(chosen.len())?;
            let items: Vec<Value> = chosen.filter_map(|index| list.items.get(index).cloned()).collect();
            if list.tuple { Value::tuple(meter, items) } else { Value::list(meter, items) }
        }
        Value::Text(text) => {
            meter.bytes(text.len().saturating_mul(6))?;
            let characters: Vec<char> = text.chars().collect();
            let chosen = chosen(characters.len(), start, stop, step);
            Ok(Value::text(chosen.filter_map(|index| characters.get(index)).collect::<String>()))
        }
        other => Err(Fault::failed(format!("{} cannot be sliced", other.kind()))),
    }
}

/// The indices of a slice, as Python's `slice.indices` gives them.
fn chosen(
    length: usize,
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> impl ExactSizeIterator<Item = usize> {
    let length = length as i128;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamp = |bound: i128| (if bound < 0 { bound + length } else { bound }).clamp(lowest, highest);
    let start = start.map_or(if step > 0 { lowest } else { highest }, clamp);
    let stop = stop.map_or(if step > 0 { highest } else { lowest }, clamp);
    let span = if step > 0 { stop - start } else { start - stop };
    let count = if span > 0 { (span - 1) / step.abs() + 1 } else { 0 };
    (0..count as usize).map(move |turn| (start + turn as i128 * step) as usize)
}
