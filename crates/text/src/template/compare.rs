//! Equality and order, as Python has them.

use std::cmp::Ordering;
use std::rc::Rc;

use super::meter::{Fault, Meter, Outcome};
use super::value::Value;

/// Whether two values are equal.
pub(super) fn equal(meter: &Meter, left: &Value, right: &Value) -> Outcome<bool> {
    meter.steps(1)?;
    Ok(match (left, right) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
        (Value::Text(left), Value::Text(right)) => {
            meter.read(if left.len() == right.len() { left.len() } else { 0 })?;
            left == right
        }
        (Value::List(left), Value::List(right)) => {
            if left.tuple != right.tuple || left.items.len() != right.items.len() {
                return Ok(false);
            }
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            for (left, right) in left.items.iter().zip(&right.items) {
                if !meter.deeper(|| equal(meter, left, right))? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.entries.len() != right.entries.len() {
                return Ok(false);
            }
            if Rc::ptr_eq(left, right) {
                return Ok(true);
            }
            for (key, left) in &left.entries {
                meter.steps(1)?;
                let Some(right) = right.entries.get(key) else { return Ok(false) };
                if !meter.deeper(|| equal(meter, left, right))? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Namespace(left), Value::Namespace(right))
        | (Value::Macro(left), Value::Macro(right))
        | (Value::Loop(left), Value::Loop(right)) => left == right,
        (Value::Function(left), Value::Function(right)) => left == right,
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => left.as_int() == right.as_int(),
        _ => match (left.as_float(), right.as_float()) {
            (Some(left), Some(right)) => left == right,
            _ => false,
        },
    })
}

/// The order of two values of one kind.
pub(super) fn order(meter: &Meter, left: &Value, right: &Value) -> Outcome<Ordering> {
    meter.steps(1)?;
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            meter.read(left.len().min(right.len()))?;
            Ok(left.cmp(right))
        }
        (Value::List(left), Value::List(right)) => {
            for (left, right) in left.items.iter().zip(&right.items) {
                let ordering = meter.deeper(|| order(meter, left, right))?;
                if ordering != Ordering::Equal {
                    return Ok(ordering);
                }
            }
            Ok(left.items.len().cmp(&right.items.len()))
        }
        (Value::Bool(_) | Value::Int(_), Value::Bool(_) | Value::Int(_)) => {
            Ok(left.as_int().cmp(&right.as_int()))
        }
        _ => match (left.as_float(), right.as_float()) {
            // Nothing is in order with NaN; equal is as good as anything.
            (Some(left), Some(right)) => Ok(left.partial_cmp(&right).unwrap_or(Ordering::Equal)),
            _ => Err(Fault::failed(format!("{} and {} have no order", left.kind(), right.kind()))),
        },
    }
}

/// Sorts by keys, equal ones as they came. A comparison may fail, which the standard library's sorts cannot.
pub(super) fn sort<T>(
    items: Vec<(Value, T)>,
    compare: &mut dyn FnMut(&Value, &Value) -> Outcome<Ordering>,
) -> Outcome<Vec<(Value, T)>> {
    if items.len() < 2 {
        return Ok(items);
    }
    let mut left = items;
    let right = left.split_off(left.len() / 2);
    let left = sort(left, compare)?;
    let right = sort(right, compare)?;
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some((first, _)), Some((second, _))) = (left.peek(), right.peek()) {
        let from_left = compare(first, second)? != Ordering::Greater;
        merged.extend(if from_left { left.next() } else { right.next() });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}
