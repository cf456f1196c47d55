//! Programs inside a Markdown page, with what is to be done with them: every example of `docs/language.md` is a test.
//!
//! A fenced block whose info string starts with `fh` is a program; the words after it, `name=value`, say how it is run:
//!
//! - `run=F`: the function `F` of the top level, on random inputs;
//! - `step=F`: the `step fn F`, at the nodes of a forest, each with random inputs;
//! - `model=M`: every step of the model `M`, at the nodes of a forest, with random weights;
//! - `error=RULE`: the program is wrong, and the first message is of that rule;
//! - `N=8`: a size; `name=true`, `name=false`: a static value;
//! - `ids=5`: random ids and integers are from `0 .. 5` (from `0 .. 1` when absent). An `i32` parameter of a step named
//!   `at` is the node's depth instead;
//! - `kinds=a,b,a`: the kinds of a model's layers, in order.

use std::collections::BTreeMap;

/// A program of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The line of the page on which its text starts, from 1.
    pub line: usize,
    /// The program.
    pub text: String,
    /// What is to be done with it.
    pub action: Action,
    /// Sizes by name.
    pub sizes: BTreeMap<String, i64>,
    /// Static values by name.
    pub statics: BTreeMap<String, bool>,
    /// Random ids and integers are below this.
    pub ids: i64,
    /// The kinds of a model's layers.
    pub kinds: Vec<String>,
}

/// What is to be done with an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run a function of the top level.
    Function(String),
    /// Run a step function of the top level.
    Step(String),
    /// Run every step of a model.
    Model(String),
    /// See that it is refused, by the rule of that name.
    Refused(String),
}

/// A block's info string that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ExampleError {
    /// The line of the info string, from 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

/// The programs of a page, in order.
///
/// # Errors
/// When a block's info string has an unknown word, has no action or several, or when the last block does not end.
pub fn examples(page: &str) -> Result<Vec<Example>, ExampleError> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((place, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut example = match info.strip_prefix("fh") {
            Some(words) => Some(described(words, place + 1)?),
            None => None,
        };
        loop {
            let Some((_, line)) = lines.next() else {
                return Err(ExampleError { line: place + 1, problem: "the block does not end".into() });
            };
            if line == "```" {
                break;
            }
            if let Some(example) = &mut example {
                example.text.push_str(line);
                example.text.push('\n');
            }
        }
        found.extend(example);
    }
    Ok(found)
}

fn described(words: &str, line: usize) -> Result<Example, ExampleError> {
    let error = |problem: String| ExampleError { line, problem };
    let mut action = None;
    let mut example = Example {
        line: line + 1,
        text: String::new(),
        action: Action::Function(String::new()),
        sizes: BTreeMap::new(),
        statics: BTreeMap::new(),
        ids: 1,
        kinds: Vec::new(),
    };
    for word in words.split_whitespace() {
        let Some((name, value)) = word.split_once('=') else {
            return Err(error(format!("`{word}` is not `name=value`")));
        };
        let number = value.parse::<i64>();
        let new = match (name, value, number) {
            ("run", _, _) => Action::Function(value.into()),
            ("step", _, _) => Action::Step(value.into()),
            ("model", _, _) => Action::Model(value.into()),
            ("error", _, _) => Action::Refused(value.into()),
            ("kinds", _, _) => {
                example.kinds = value.split(',').map(str::to_string).collect();
                continue;
            }
            ("ids", _, Ok(number)) => {
                example.ids = number;
                continue;
            }
            (_, "true" | "false", _) => {
                example.statics.insert(name.into(), value == "true");
                continue;
            }
            (_, _, Ok(number)) => {
                example.sizes.insert(name.into(), number);
                continue;
            }
            _ => return Err(error(format!("`{word}` has no meaning"))),
        };
        if action.replace(new).is_some() {
            return Err(error("several actions".into()));
        }
    }
    example.action = action.ok_or_else(|| error("no `run=`, `step=`, `model=` or `error=`".into()))?;
    Ok(example)
}
