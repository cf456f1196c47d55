//! A conversation to be rendered.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::TextError;

/// What a chat template renders.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The messages: objects with `role` and what the template reads, such as `content`, `tool_calls`,
    /// `reasoning_content`.
    pub messages: Vec<Value>,
    /// Descriptions of tools, as JSON.
    pub tools: Option<Vec<Value>>,
    /// Documents to answer from.
    pub documents: Option<Vec<Value>>,
    /// Whether the rendered text ends with the beginning of the answer.
    pub add_generation_prompt: bool,
    /// More variables for the template, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// Which of several templates; `None` chooses: `tool_use` for tools where there is one, else `default`.
    pub template: Option<String>,
    /// The time that `strftime_now` tells, in UTC; `None` is the time of rendering.
    pub now: Option<SystemTime>,
}

impl ChatRequest {
    /// A request for an answer to `messages`.
    pub fn new(messages: Vec<Value>) -> ChatRequest {
        ChatRequest {
            messages,
            tools: None,
            documents: None,
            add_generation_prompt: true,
            variables: Map::new(),
            template: None,
            now: None,
        }
    }

    /// A message of plain text.
    pub fn message(role: &str, content: &str) -> Value {
        json!({ "role": role, "content": content })
    }

    /// Every message is an object with a role that is a plain word: a role stands in a template's own words, where it
    /// must not be able to end a turn.
    pub(crate) fn check(&self) -> Result<(), TextError> {
        for (index, message) in self.messages.iter().enumerate() {
            let bad = |reason: &str| TextError::BadMessage { index, reason: reason.to_owned() };
            let role = message["role"].as_str().ok_or_else(|| bad("it needs a `role`, a string"))?;
            let plain = |character: char| character.is_ascii_alphanumeric() || "_-. ".contains(character);
            if role.is_empty() || !role.chars().all(plain) {
                return Err(bad("its `role` must be a plain word, such as `user`"));
            }
        }
        Ok(())
    }

    /// Visits every text that the request brings and a template may write, names of fields included.
    pub(crate) fn each_text(&self, visit: &mut impl FnMut(&str)) {
        let lists = [Some(&self.messages), self.tools.as_ref(), self.documents.as_ref()];
        for value in lists.into_iter().flatten().flatten().chain(self.variables.values()) {
            each_text(value, visit);
        }
    }
}

fn each_text(value: &Value, visit: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(list) => list.iter().for_each(|value| each_text(value, visit)),
        Value::Object(object) => {
            for (name, value) in object {
                visit(name);
                if !is_keyword(name, value) {
                    each_text(value, visit);
                }
            }
        }
        _ => {}
    }
}

/// Whether a field's value is a word that templates compare and write as their own, never marked: roles are checked to
/// be plain, and types are plain or not written.
pub(crate) fn is_keyword(name: &str, value: &Value) -> bool {
    let plain = |text: &str| {
        text.chars().all(|character| character.is_ascii_alphanumeric() || "_-. ".contains(character))
    };
    matches!(name, "role" | "type") && value.as_str().is_some_and(plain)
}
