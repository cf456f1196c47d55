//! Ctrl-C: the first one stops the answer, a second one before that worked ends the program.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::failure::INTERRUPTED;

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Catches Ctrl-C from now on and gives the flag that it sets.
///
/// # Errors
/// When the system does not let signals be caught.
pub fn catch() -> Result<&'static AtomicBool> {
    ctrlc::set_handler(|| {
        if CANCELLED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
    .context("Ctrl-C cannot be caught")?;
    Ok(&CANCELLED)
}
