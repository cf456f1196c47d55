//! Filters on lists and maps.

use std::rc::Rc;

use super::arguments::Arguments;
use super::compare::{equal, order, sort};
use super::meter::{Fault, Meter, Outcome};
use super::render::Renderer;
use super::value::{Entries, Map, Value};
use super::{filters, operators, python, tests};

pub(super) const NAMES: [&str; 20] = [
    "batch",
    "dictsort",
    "first",
    "groupby",
    "items",
    "join",
    "last",
    "list",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "slice",
    "sort",
    "sum",
    "unique",
];

pub(super) fn apply(
    renderer: &mut Renderer<'_>,
    name: &str,
    value: Value,
    mut arguments: Arguments,
) -> Outcome<Value> {
    renderer.meter.steps(1)?;
    let made = match name {
        "map" => return map(renderer, &value, arguments),
        "select" | "reject" => return select(renderer, &value, name == "select", None, arguments),
        "selectattr" | "rejectattr" => {
            let path = arguments.text("attribute")?;
            return select(renderer, &value, name == "selectattr", Some(&path), arguments);
        }
        "items" => match &value {
            Value::Map(map) => items(&renderer.meter, map)?,
            Value::Undefined => Value::list(&renderer.meter, Vec::new())?,
            other => return Err(Fault::failed(format!("{} has no items", other.kind()))),
        },
        "dictsort" => dictsort(renderer, &value, &mut arguments)?,
        "groupby" => groupby(renderer, &value, &mut arguments)?,
        "reverse" if matches!(value, Value::Text(_)) => {
            let text = value.as_text().unwrap_or_default();
            renderer.meter.bytes(text.len().saturating_mul(2))?;
            Value::text(text.chars().rev().collect::<String>())
        }
        "first" | "last" => {
            let length = value.length(&renderer.meter)?;
            let at = if name == "first" { 0 } else { length.saturating_sub(1) };
            match (&value, length) {
                (_, 0) => Value::Undefined,
                (Value::Map(map), _) => {
                    map.entries.get_index(at).map_or(Value::Undefined, |(key, _)| key.value())
                }
                _ => renderer.item(&value, &Value::Int(at as i128))?,
            }
        }
        _ => on_items(renderer, name, value.items(&renderer.meter)?, &mut arguments)?,
    };
    arguments.finish()?;
    Ok(made)
}

fn on_items(
    renderer: &Renderer<'_>,
    name: &str,
    mut items: Vec<Value>,
    arguments: &mut Arguments,
) -> Outcome<Value> {
    let meter = &renderer.meter;
    match name {
        "list" => Value::list(meter, items),
        "reverse" => {
            items.reverse();
            Value::list(meter, items)
        }
        "join" => {
            let separator = arguments.optional_text("d")?;
            let path = arguments.optional_text("attribute")?;
            let items = attributes(renderer, items, path.as_deref())?;
            joined(meter, &items, separator.as_deref().unwrap_or_default())
        }
        "sum" => {
            let path = arguments.optional_text("attribute")?;
            let start = arguments.optional("start").unwrap_or(Value::Int(0));
            let add = minijinja::machinery::ast::BinOpKind::Add;
            let items = attributes(renderer, items, path.as_deref())?;
            items.iter().try_fold(start, |sum, item| operators::calculate(meter, add, &sum, item))
        }
        "min" | "max" => {
            let exact = arguments.flag("case_sensitive");
            let path = arguments.optional_text("attribute")?;
            let sorted = sorted(renderer, items, exact, path.as_deref(), name == "max")?;
            Ok(sorted.into_iter().next().unwrap_or(Value::Undefined))
        }
        "sort" => {
            let reverse = arguments.flag("reverse");
            let exact = arguments.flag("case_sensitive");
            let path = arguments.optional_text("attribute")?;
            Value::list(meter, sorted(renderer, items, exact, path.as_deref(), reverse)?)
        }
        "unique" => {
            let exact = arguments.flag("case_sensitive");
            let path = arguments.optional_text("attribute")?;
            let mut seen: Vec<Value> = Vec::new();
            let mut kept = Vec::new();
            for item in items {
                let key = sort_key(renderer, &item, exact, path.as_deref())?;
                let mut known = false;
                for other in &seen {
                    if equal(meter, other, &key)? {
                        known = true;
                        break;
                    }
                }
                if !known {
                    seen.push(key);
                    kept.push(item);
                }
            }
            Value::list(meter, kept)
        }
        "batch" | "slice" => {
            let count = arguments.optional_int("count")?.and_then(|count| usize::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            let count = count.ok_or_else(|| Fault::failed(format!("{name} takes a number above 0")))?;
            let fill = arguments.optional("fill_with");
            meter.entries(count.saturating_add(items.len()))?;
            let mut parts: Vec<Vec<Value>> = Vec::new();
            if name == "batch" {
                parts.extend(items.chunks(count).map(<[Value]>::to_vec));
                if let (Some(fill), Some(last)) = (fill, parts.last_mut()) {
                    last.resize(count, fill);
                }
            } else {
                let (each, more) = (items.len() / count, items.len() % count);
                let mut rest = items.into_iter();
                for index in 0..count {
                    let mut part: Vec<Value> = rest.by_ref().take(each + usize::from(index < more)).collect();
                    if let (Some(fill), true) = (&fill, index >= more && more > 0) {
                        part.push(fill.clone());
                    }
                    parts.push(part);
                }
            }
            let parts = parts.into_iter().map(|part| Value::list(meter, part)).collect::<Outcome<_>>()?;
            Value::list(meter, parts)
        }
        other => Err(Fault::failed(format!("there is no filter `{other}`"))),
    }
}

/// A map's pairs.
pub(super) fn items(meter: &Meter, map: &Map) -> Outcome<Value> {
    meter.entries(map.entries.len())?;
    let pairs = map.entries.iter().map(|(key, value)| Value::tuple(meter, vec![key.value(), value.clone()]));
    let pairs = pairs.collect::<Outcome<_>>()?;
    Value::list(meter, pairs)
}

/// The texts of `items` with a separator between.
pub(super) fn joined(meter: &Meter, items: &[Value], separator: &str) -> Outcome<Value> {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        meter.steps(1)?;
        if index > 0 {
            meter.bytes(separator.len())?;
            text.push_str(separator);
        }
        python::write(&mut text, meter, item)?;
    }
    meter.bytes(text.len())?;
    Ok(Value::text(text))
}

/// What a path like `function.name` leads to.
fn follow(renderer: &Renderer<'_>, value: &Value, path: &str) -> Outcome<Value> {
    let mut value = value.clone();
    for part in path.split('.') {
        renderer.meter.read(16 + part.len())?;
        value = match part.parse::<i128>() {
            Ok(index) if matches!(value, Value::List(_)) => renderer.item(&value, &Value::Int(index))?,
            _ if matches!(value, Value::Undefined) => return Ok(value),
            _ => renderer.attribute(&value, part)?,
        };
    }
    Ok(value)
}

fn attributes(renderer: &Renderer<'_>, items: Vec<Value>, path: Option<&str>) -> Outcome<Vec<Value>> {
    match path {
        Some(path) => items.iter().map(|item| follow(renderer, item, path)).collect(),
        None => Ok(items),
    }
}

/// What an item is sorted by: its attribute, in lower case unless case matters.
fn sort_key(renderer: &Renderer<'_>, item: &Value, exact: bool, path: Option<&str>) -> Outcome<Value> {
    let key = match path {
        Some(path) => follow(renderer, item, path)?,
        None => item.clone(),
    };
    match &key {
        Value::Text(text) if !exact => filters::cased(&renderer.meter, text, "lower"),
        _ => Ok(key),
    }
}

fn sorted(
    renderer: &Renderer<'_>,
    items: Vec<Value>,
    exact: bool,
    path: Option<&str>,
    reverse: bool,
) -> Outcome<Vec<Value>> {
    let meter = &renderer.meter;
    meter.entries(items.len().saturating_mul(2))?;
    let keyed = items.into_iter().map(|item| Ok((sort_key(renderer, &item, exact, path)?, item)));
    let keyed = keyed.collect::<Outcome<Vec<_>>>()?;
    let sorted = sort(keyed, &mut |left, right| {
        let ordering = order(meter, left, right)?;
        Ok(if reverse { ordering.reverse() } else { ordering })
    })?;
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

fn map(renderer: &mut Renderer<'_>, value: &Value, mut arguments: Arguments) -> Outcome<Value> {
    let items = value.items(&renderer.meter)?;
    let mut made = Vec::new();
    if let Some(path) = arguments.named("attribute") {
        let default = arguments.named("default");
        arguments.finish()?;
        for item in &items {
            let found = match &path {
                Value::Text(path) => follow(renderer, item, path)?,
                index => renderer.item(item, index)?,
            };
            made.push(match (&default, found) {
                (Some(default), Value::Undefined) => default.clone(),
                (_, found) => found,
            });
        }
    } else {
        let filter = arguments.text("filter")?;
        for item in items {
            let again = again(renderer, &arguments, 1)?;
            made.push(filters::apply(renderer, &filter, item, again)?);
        }
    }
    Value::list(&renderer.meter, made)
}

/// The arguments behind the first `skip`, for one more call.
fn again(renderer: &Renderer<'_>, arguments: &Arguments, skip: usize) -> Outcome<Arguments> {
    renderer.meter.entries(arguments.positional.len() + arguments.named.len() + 1)?;
    let positional = arguments.positional.iter().skip(skip).cloned().collect();
    Ok(Arguments { positional, named: arguments.named.clone(), ..Arguments::default() })
}

fn select(
    renderer: &mut Renderer<'_>,
    value: &Value,
    wanted: bool,
    path: Option<&str>,
    mut arguments: Arguments,
) -> Outcome<Value> {
    let items = value.items(&renderer.meter)?;
    let test = arguments.optional_text("test")?;
    let skip = usize::from(path.is_some()) + 1;
    let mut kept = Vec::new();
    for item in items {
        let subject = match path {
            Some(path) => follow(renderer, &item, path)?,
            None => item.clone(),
        };
        let holds = match &test {
            Some(test) => tests::holds(renderer, test, &subject, again(renderer, &arguments, skip)?)?,
            None => subject.is_true(),
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Value::list(&renderer.meter, kept)
}

fn dictsort(renderer: &Renderer<'_>, value: &Value, arguments: &mut Arguments) -> Outcome<Value> {
    let exact = arguments.flag("case_sensitive");
    let by = arguments.optional_text("by")?;
    let reverse = arguments.flag("reverse");
    let Value::Map(map) = value else {
        return Err(Fault::failed(format!("{} cannot be sorted as a map", value.kind())));
    };
    let Value::List(pairs) = items(&renderer.meter, map)? else { return Ok(Value::Undefined) };
    let path = if by.as_deref() == Some("value") { "1" } else { "0" };
    Value::list(&renderer.meter, sorted(renderer, pairs.items.clone(), exact, Some(path), reverse)?)
}

/// Groups of items with one attribute: maps with `grouper` and `list`.
fn groupby(renderer: &Renderer<'_>, value: &Value, arguments: &mut Arguments) -> Outcome<Value> {
    let meter = &renderer.meter;
    let path = arguments.text("attribute")?;
    let default = arguments.optional("default");
    let items = value.items(meter)?;
    meter.entries(items.len().saturating_mul(2))?;
    let keyed = items.into_iter().map(|item| {
        let found = follow(renderer, &item, &path)?;
        let found = match (&default, found) {
            (Some(default), Value::Undefined) => default.clone(),
            (_, found) => found,
        };
        Ok((found, item))
    });
    let keyed = sort(keyed.collect::<Outcome<Vec<_>>>()?, &mut |left, right| order(meter, left, right))?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in keyed {
        match groups.last_mut() {
            Some((last, group)) if equal(meter, last, &key)? => group.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    let groups = groups.into_iter().map(|(key, group)| {
        let mut entries = Entries::new();
        entries.insert(super::value::Key::Text(Rc::from("grouper")), key);
        entries.insert(super::value::Key::Text(Rc::from("list")), Value::list(meter, group)?);
        Value::map(meter, entries)
    });
    let groups = groups.collect::<Outcome<_>>()?;
    Value::list(meter, groups)
}
