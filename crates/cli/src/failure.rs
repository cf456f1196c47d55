//! What a user sees when something goes wrong, and the exit code.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Error;
use fiddlehead_engine::EngineError;

/// It failed.
pub const FAILED: u8 = 1;
/// The command line or the configuration is wrong.
const USAGE: u8 = 2;
/// Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// The user asked for something that makes no sense.
#[derive(Debug)]
struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error of the command line or the configuration file.
pub fn usage(message: impl Into<String>) -> Error {
    Usage(message.into()).into()
}

/// Tells the user and gives the exit code. That nobody reads the output any more is no failure.
pub fn report(error: &Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let mut stderr = anstream::stderr();
    let shown = match program_errors(error) {
        Some(rendered) => write!(stderr, "{rendered}"),
        None => writeln!(stderr, "\x1b[1m\x1b[31merror:\x1b[0m {}", message(error)),
    };
    // With standard error closed there is nobody left to tell.
    drop(shown);
    ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
}

/// A text from a file as it may be shown: what would move a terminal's cursor or change its colours is spelt out.
pub fn visible(text: &str) -> String {
    let spelt = |letter: char| match letter {
        '\n' | '\t' => letter.to_string(),
        _ if letter.is_control() => letter.escape_default().to_string(),
        _ => letter.to_string(),
    };
    text.chars().map(spelt).collect()
}

/// The error and its causes in one line; a cause that the words before it hold already is not said again.
pub fn message(error: &Error) -> String {
    let mut message = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if message.is_empty() {
            message = text;
        } else if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
    }
    visible(&message)
}

/// The messages about a program's text, drawn with its lines. Colours are taken out again where there is no terminal.
fn program_errors(error: &Error) -> Option<String> {
    let Some(EngineError::Program(diagnostics)) = error.downcast_ref::<EngineError>() else { return None };
    let count = diagnostics.items.len();
    let errors = if count == 1 { "error" } else { "errors" };
    let name = &diagnostics.source.name;
    Some(format!(
        "{}\x1b[1m\x1b[31merror:\x1b[0m {name} has {count} {errors}; docs/language.md has the rules\n",
        diagnostics.render(true)
    ))
}

fn is_closed_pipe(error: &Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    kinds.into_iter().any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// A parser's message without its `error: ` and without the usage lines.
pub fn clap_message(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or(text).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_steer_a_terminal() {
        let error = anyhow::anyhow!("tensor `a\u{1b}[2Jb\u{9b}1m\r\u{7}`\nnext");
        assert_eq!(message(&error), "tensor `a\\u{1b}[2Jb\\u{9b}1m\\r\\u{7}`\nnext");
    }
}
