//! Texts with places to fill in: Python's `%` and `str.format`, as far as templates use them.

use std::iter::Peekable;
use std::rc::Rc;
use std::str::Chars;

use super::meter::{Fault, Meter, Outcome};
use super::python;
use super::value::Value;

/// The widest that a place may be.
const WIDEST: usize = 1000;

/// How one place is filled in.
#[derive(Debug, Default)]
struct Place {
    left: bool,
    right: bool,
    zeros: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

/// `pattern % values`.
pub(super) fn percent(
    meter: &Meter,
    pattern: &str,
    values: &[Value],
    named: &[(Rc<str>, Value)],
) -> Outcome<Value> {
    meter.bytes(pattern.len().saturating_mul(2))?;
    let mut text = String::new();
    let mut characters = pattern.chars().peekable();
    let mut values = values.iter();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let mut name = None;
        if characters.next_if_eq(&'(').is_some() {
            name = Some(characters.by_ref().take_while(|&character| character != ')').collect::<String>());
        }
        let place = place(&mut characters)?;
        let kind = characters.next().ok_or_else(|| Fault::failed("a format ends with `%`"))?;
        if kind == '%' {
            text.push('%');
            continue;
        }
        let value = match &name {
            Some(name) => named.iter().find(|(known, _)| **known == **name).map(|(_, value)| value),
            None => values.next(),
        };
        let value = value.ok_or_else(|| Fault::failed("a format has more places than values"))?;
        let filled = filled(meter, value, kind, &place)?;
        pad(meter, &mut text, &filled, &place, matches!(kind, 's' | 'r'))?;
    }
    if values.next().is_some() {
        return Err(Fault::failed("a format has fewer places than values"));
    }
    meter.bytes(text.len())?;
    Ok(Value::text(text))
}

fn number(characters: &mut Peekable<Chars<'_>>) -> Outcome<Option<usize>> {
    let mut number = None;
    while let Some(digit) = characters.peek().and_then(|character| character.to_digit(10)) {
        characters.next();
        let value = number.unwrap_or(0usize) * 10 + digit as usize;
        if value > WIDEST {
            return Err(Fault::failed(format!("a place of a format is wider than {WIDEST}")));
        }
        number = Some(value);
    }
    Ok(number)
}

fn place(characters: &mut Peekable<Chars<'_>>) -> Outcome<Place> {
    let mut place = Place::default();
    while let Some(flag) = characters.next_if(|flag| "-0+ #<>".contains(*flag)) {
        match flag {
            '-' | '<' => place.left = true,
            '>' => place.right = true,
            '0' => place.zeros = true,
            '+' => place.plus = true,
            _ => {}
        }
    }
    place.width = number(characters)?.unwrap_or(0);
    if characters.next_if_eq(&'.').is_some() {
        place.precision = Some(number(characters)?.unwrap_or(0));
    }
    Ok(place)
}

fn filled(meter: &Meter, value: &Value, kind: char, place: &Place) -> Outcome<String> {
    meter.bytes(64 + place.precision.unwrap_or(0))?;
    let whole = || match value {
        Value::Float(value) => Ok(*value as i128),
        other => {
            other.as_int().ok_or_else(|| Fault::failed(format!("{} is no number to format", other.kind())))
        }
    };
    let sign = |text: String| if place.plus && !text.starts_with('-') { format!("+{text}") } else { text };
    Ok(match kind {
        's' => {
            let text = python::text(meter, value)?;
            match place.precision {
                Some(precision) => text.chars().take(precision).collect(),
                None => text,
            }
        }
        'r' => {
            let mut text = String::new();
            python::write_literal(&mut text, meter, value, 0)?;
            text
        }
        'd' | 'i' | 'u' => sign(whole()?.to_string()),
        'x' => format!("{:x}", whole()?),
        'X' => format!("{:X}", whole()?),
        'o' => format!("{:o}", whole()?),
        'f' | 'F' => {
            let number = value.as_float();
            let number =
                number.ok_or_else(|| Fault::failed(format!("{} is no number to format", value.kind())))?;
            sign(format!("{number:.*}", place.precision.unwrap_or(6)))
        }
        other => return Err(Fault::failed(format!("a format has a place of the unknown kind `{other}`"))),
    })
}

fn pad(meter: &Meter, text: &mut String, filled: &str, place: &Place, is_text: bool) -> Outcome<()> {
    let missing = place.width.saturating_sub(filled.chars().count());
    meter.bytes(filled.len().saturating_add(missing))?;
    if place.left {
        text.push_str(filled);
        text.extend((0..missing).map(|_| ' '));
    } else if place.zeros && !is_text {
        let (sign, digits) = filled.split_at(usize::from(filled.starts_with(['-', '+'])));
        text.push_str(sign);
        text.extend((0..missing).map(|_| '0'));
        text.push_str(digits);
    } else {
        text.extend((0..missing).map(|_| ' '));
        text.push_str(filled);
    }
    Ok(())
}

/// `pattern.format(…)`: `{}`, `{0}`, `{name}`, each perhaps with a width and a precision behind a colon.
pub(super) fn braces(
    meter: &Meter,
    pattern: &str,
    values: &[Value],
    named: &[(Rc<str>, Value)],
) -> Outcome<Value> {
    meter.bytes(pattern.len().saturating_mul(2))?;
    let mut text = String::new();
    let mut characters = pattern.chars().peekable();
    let mut next = 0;
    while let Some(character) = characters.next() {
        match character {
            '{' if characters.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if characters.next_if_eq(&'}').is_some() => text.push('}'),
            '}' => return Err(Fault::failed("a format has a `}` without `{`")),
            '{' => {
                let mut inner = String::new();
                loop {
                    match characters.next() {
                        Some('}') => break,
                        Some(character) => inner.push(character),
                        None => return Err(Fault::failed("a format has a `{` without `}`")),
                    }
                }
                let (name, format) = inner.split_once(':').unwrap_or((&inner, ""));
                let value = match name.parse::<usize>() {
                    Ok(index) => values.get(index),
                    Err(_) if name.is_empty() => {
                        next += 1;
                        values.get(next - 1)
                    }
                    Err(_) => named.iter().find(|(known, _)| **known == *name).map(|(_, value)| value),
                };
                let value = value.ok_or_else(|| Fault::failed("a format has a place without a value"))?;
                let mut format = format.chars().peekable();
                let place = place(&mut format)?;
                let kind = format.next().unwrap_or('s');
                let filled = filled(meter, value, kind, &place)?;
                let is_text = matches!(value, Value::Text(_));
                let left = Place { left: place.left || (is_text && !place.right), ..place };
                pad(meter, &mut text, &filled, &left, is_text)?;
            }
            other => text.push(other),
        }
    }
    meter.bytes(text.len())?;
    Ok(Value::text(text))
}
