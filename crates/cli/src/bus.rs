//! A model's file that goes away while it is used: another process cuts it short, a disk or a network fails.
//!
//! Weights are read where they lie in the mapped file, so the system can only send SIGBUS when their pages are gone.
//! Nothing can go on from there; what can be done is to say so.

/// Makes SIGBUS end the program with a message and the exit code of a failure.
#[cfg(unix)]
pub fn explain() {
    use signal_hook::consts::SIGBUS;
    use signal_hook::low_level::{exit, register};

    const MESSAGE: &[u8] =
        b"error: a model's file can no longer be read: it was cut short or replaced in place while \
        it was in use, or its disk failed; put it back and start again\n";
    let say = || {
        // SAFETY: `write` may be called in a signal handler; the message is a constant.
        unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
        exit(i32::from(crate::failure::FAILED));
    };
    // SAFETY: the handler only writes a constant and ends the program, both of which a signal handler may do. Without
    // it the signal ends the program as well.
    drop(unsafe { register(SIGBUS, say) });
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub fn explain() {}
