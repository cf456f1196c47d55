//! Memory of the host that the device reads and writes by itself: small copies go through it.

/// Bytes of the host's memory through which small copies go: the device reads and writes it by itself, so that a copy to
/// it is only asked for, and waits for nothing.
pub(super) const STAGING: usize = 1 << 20;
/// Larger copies go straight from the caller's memory.
pub(super) const MOST_STAGED: usize = STAGING / 4;

/// Memory of the host that the device reaches.
pub(super) struct Staging {
    pub start: *mut u8,
    /// Bytes that copies still under way may read.
    pub used: usize,
}

impl Staging {
    /// Room for bytes, a number of which is free.
    pub(super) fn room(&mut self, bytes: usize) -> *mut u8 {
        // SAFETY: the caller made sure that what is used and these fit.
        let room = unsafe { self.start.add(self.used) };
        self.used += bytes.next_multiple_of(64);
        room
    }

    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.used + bytes.next_multiple_of(64) <= STAGING
    }
}
