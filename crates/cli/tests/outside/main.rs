//! The product from outside: the binary, its files, its exit codes and its words.

mod bad_input;
mod bench;
#[cfg(unix)]
mod chat;
#[cfg(unix)]
mod completions;
mod configuration;
mod exec;
mod explain;
mod inspect;
mod memory;
mod models;
mod perplexity;
mod quantize;
mod run;
mod score;
#[cfg(unix)]
mod terminal;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// What a run of the binary gave.
pub struct Ran {
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it remarked.
    pub stderr: String,
}

impl Ran {
    fn of(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// It worked, and said nothing on standard error.
    pub fn succeeded(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""));
        self.stdout
    }

    /// It ended with that code, one clear message that holds all of `words`, and no panic.
    pub fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.contains("error: "), "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert!(!self.stderr.contains('\u{1b}'), "colours without a terminal: {}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in: {}", self.stderr);
        }
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fiddlehead"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the binary with nothing on standard input.
pub fn fiddlehead(arguments: &[&str]) -> Ran {
    Ran::of(command(arguments).output().expect("the binary runs"))
}

/// Runs the binary with a text on standard input.
pub fn fiddlehead_reading(input: &[u8], arguments: &[&str]) -> Ran {
    let mut child = command(arguments).stdin(Stdio::piped()).spawn().expect("the binary runs");
    // A binary that refuses its flags does not read.
    drop(child.stdin.take().expect("piped").write_all(input));
    Ran::of(child.wait_with_output().expect("it ends"))
}

/// Starts the binary.
pub fn start(arguments: &[&str]) -> Child {
    command(arguments).spawn().expect("the binary runs")
}

/// A file of the built-in model.
pub fn stories(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-11m")).join(name)
}
