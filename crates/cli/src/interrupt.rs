//! Ctrl-C: the first one stops the answer, a second one before that worked ends the program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::failure::INTERRUPTED;

/// Catches Ctrl-C from now on and gives the flag that it sets.
///
/// # Errors
/// When the system does not let signals be caught.
pub fn catch() -> Result<Arc<AtomicBool>> {
    let cancelled = Arc::new(AtomicBool::new(false));
    // The order matters: the shutdown looks at the flag before this signal sets it.
    flag::register_conditional_shutdown(SIGINT, i32::from(INTERRUPTED), Arc::clone(&cancelled))
        .and_then(|_| flag::register(SIGINT, Arc::clone(&cancelled)))
        .context("Ctrl-C cannot be caught")?;
    Ok(cancelled)
}
