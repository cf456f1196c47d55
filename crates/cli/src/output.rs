//! Writing to standard output, whose reader may go away.

use std::io::{self, Write};

use anyhow::{Context, Result};

/// Writes text and shows it at once.
///
/// # Errors
/// What the system says; a closed pipe ends the program quietly (see `failure.rs`).
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("standard output")
}

/// As [`print`], with an end of line.
///
/// # Errors
/// As [`print`].
pub fn print_line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}

/// A remark to the user on standard error, which may be closed without harm.
pub fn remark(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}
