//! Writing to standard output, whose reader may go away.

use std::io::{self, Write};

/// Writes text and shows it at once.
///
/// # Errors
/// What the system says; a closed pipe ends the program quietly (see `failure.rs`).
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// As [`print`], with an end of line.
///
/// # Errors
/// As [`print`].
pub fn print_line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    stdout.flush()
}

/// A remark to the user on standard error, which may be closed without harm.
pub fn remark(text: &str) {
    drop(writeln!(anstream::stderr(), "{text}"));
}
