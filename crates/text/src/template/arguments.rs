//! The arguments of a call, taken one after the other.

use std::rc::Rc;

use super::expression::shown;
use super::meter::{Fault, Outcome};
use super::value::Value;

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub positional: Vec<Value>,
    pub named: Vec<(Rc<str>, Value)>,
    pub taken: usize,
}

impl Arguments {
    /// The next positional argument, or the one of that name.
    pub(super) fn optional(&mut self, name: &str) -> Option<Value> {
        if let Some(value) = self.positional.get_mut(self.taken) {
            self.taken += 1;
            return Some(std::mem::replace(value, Value::None));
        }
        self.named(name)
    }

    /// The argument of that name only.
    pub(super) fn named(&mut self, name: &str) -> Option<Value> {
        let at = self.named.iter().position(|(known, _)| **known == *name)?;
        Some(self.named.swap_remove(at).1)
    }

    pub(super) fn required(&mut self, name: &str) -> Outcome<Value> {
        self.optional(name).ok_or_else(|| Fault::failed(format!("the argument `{name}` is missing")))
    }

    /// A string.
    pub(super) fn text(&mut self, name: &str) -> Outcome<Rc<str>> {
        text(name, self.required(name)?)
    }

    /// A string, or nothing.
    pub(super) fn optional_text(&mut self, name: &str) -> Outcome<Option<Rc<str>>> {
        match self.optional(name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => text(name, value).map(Some),
        }
    }

    /// A whole number, or nothing.
    pub(super) fn optional_int(&mut self, name: &str) -> Outcome<Option<i128>> {
        match self.optional(name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => match value.as_int() {
                Some(number) => Ok(Some(number)),
                None => Err(Fault::failed(format!("`{name}` must be a whole number, not {}", value.kind()))),
            },
        }
    }

    /// Whether the argument is given and holds.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        self.optional(name).is_some_and(|value| value.is_true())
    }

    /// Everything must have been taken.
    pub(super) fn finish(self) -> Outcome<()> {
        if let Some((name, _)) = self.named.first() {
            return Err(Fault::failed(format!("there is no argument `{}`", shown(name))));
        }
        match self.positional.len().checked_sub(self.taken) {
            None | Some(0) => Ok(()),
            Some(more) => Err(Fault::failed(format!("{more} arguments too many"))),
        }
    }
}

fn text(name: &str, value: Value) -> Outcome<Rc<str>> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(Fault::failed(format!("`{name}` must be a string, not {}", other.kind()))),
    }
}
