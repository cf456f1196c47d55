//! What templates expect beyond the engine: `raise_exception`, `strftime_now`, `tojson` with Python's keywords, the
//! `generation` tag, arguments of tool calls as objects.

use std::borrow::Cow;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, State, Value};
use serde_json::Value as Json;

use super::json::{JsonStyle, dump};
use super::{MARK, NOW, date, python};

/// A template's own refusal; travels as an error's source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub String);

pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
    environment.add_filter("string", python::text);
}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python::text(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, "the template raised").with_source(Raised(message)))
}

fn strftime_now(state: &State, format: &str) -> Result<String, Error> {
    let now = state.lookup(NOW).and_then(|now| i64::try_from(now).ok());
    let now = now.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the time is not known"))?;
    Ok(date::format(format, now))
}

/// Python's `json.dumps` by its keywords; a first plain argument is `ensure_ascii` where it is a truth value, and the
/// indent where it is a number.
fn to_json(state: &State, value: &Value, first: Option<Value>, keywords: Kwargs) -> Result<Value, Error> {
    let mut style = JsonStyle::default();
    let first_is_flag = first.as_ref().is_some_and(|first| bool::try_from(first.clone()).is_ok());
    let ascii = keywords.get::<Option<Value>>("ensure_ascii")?.or(first.clone().filter(|_| first_is_flag));
    style.ensure_ascii = ascii.is_some_and(|ascii| ascii.is_true());
    style.sort_keys = keywords.get::<Option<Value>>("sort_keys")?.is_some_and(|sort| sort.is_true());
    let indent = keywords.get::<Option<Value>>("indent")?.or(first.filter(|_| !first_is_flag));
    if let Some(indent) = indent.filter(|indent| !indent.is_none() && !indent.is_undefined()) {
        style.indent = Some(indent_text(&indent)?);
        style.item_separator = ",".to_owned();
    }
    if let Some(separators) = keywords.get::<Option<Value>>("separators")?.filter(|value| !value.is_none()) {
        let part = |index: usize| {
            separators.get_item_by_index(index)?.as_str().map(str::to_owned).ok_or_else(bad_separators)
        };
        (style.item_separator, style.key_separator) = (part(0)?, part(1)?);
    }
    keywords.assert_all_used()?;
    style.untouched = state.lookup(MARK).and_then(|mark| mark.as_str()?.chars().next());
    Ok(Value::from_safe_string(dump(state, value, &style)?))
}

fn bad_separators() -> Error {
    Error::new(ErrorKind::InvalidOperation, "tojson's separators must be two strings")
}

/// An indent is a number of spaces or the text itself; a bound keeps a number from asking for gigabytes.
fn indent_text(indent: &Value) -> Result<String, Error> {
    const MAXIMUM: usize = 64;
    if let Some(text) = indent.as_str() {
        return Ok(text.to_owned());
    }
    match usize::try_from(indent.clone()) {
        Ok(spaces) if spaces <= MAXIMUM => Ok(" ".repeat(spaces)),
        _ => {
            Err(Error::new(ErrorKind::InvalidOperation, "tojson's indent must be a small number or a string"))
        }
    }
}

/// The source with `{% generation %}` and `{% endgeneration %}`, which mark the parts to train on, made into an `if` that
/// always holds: the engine knows no such tag, and the signs for white space around it keep their meaning.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut replaced = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        replaced.push_str(before);
        let end = tag.find("%}").unwrap_or(tag.len());
        let inner = &tag[2..end.max(2)];
        let word = inner.trim_matches(['-', '+']).trim();
        match word {
            "generation" => replaced += &format!("{{%{}", inner.replacen("generation", "if true", 1)),
            "endgeneration" => replaced += &format!("{{%{}", inner.replacen("endgeneration", "endif", 1)),
            _ => replaced.push_str(&tag[..end.max(2)]),
        }
        rest = &tag[end.max(2)..];
    }
    replaced + rest
}

/// A message whose tool calls carry their arguments as objects: the API has them as JSON in a string, templates were
/// written for objects. A string that is no object stays as it is.
pub(super) fn with_parsed_arguments(message: &Json) -> Cow<'_, Json> {
    let Some(calls) = message["tool_calls"].as_array() else { return Cow::Borrowed(message) };
    let parse = |call: &Json| {
        let arguments = call["function"]["arguments"].as_str()?;
        serde_json::from_str::<Json>(arguments).ok().filter(Json::is_object)
    };
    let mut message = message.clone();
    for (index, parsed) in calls.iter().map(parse).enumerate() {
        if let Some(parsed) = parsed {
            message["tool_calls"][index]["function"]["arguments"] = parsed;
        }
    }
    Cow::Owned(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_conditions() {
        for (source, expected) in [
            ("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c"),
            ("{%- generation -%}b{%+endgeneration+%}", "{%- if true -%}b{%+endif+%}"),
            (
                "{% if generation %}{{ generation }}{% endif %}",
                "{% if generation %}{{ generation }}{% endif %}",
            ),
            ("{% generation", "{% if true"),
            ("{%", "{%"),
            ("{%%}", "{%%}"),
        ] {
            assert_eq!(without_generation_tags(source), expected);
        }
    }
}
