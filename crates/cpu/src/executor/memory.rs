//! Aligned memory of the executor: arenas, pages and states.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use fiddlehead_plan::DeviceError;

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u32; LINE_WORDS]);

const LINE_WORDS: usize = 16;

/// Words in memory that starts at a cache line. Zeros take no memory until they are written. Cloning copies.
#[derive(Debug)]
pub(super) struct Words {
    start: NonNull<Line>,
    lines: usize,
    length: usize,
}

// SAFETY: the memory is owned, and reached only through borrows or addresses whose users vouch for it.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Default for Words {
    fn default() -> Words {
        Words { start: NonNull::dangling(), lines: 0, length: 0 }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        if self.lines > 0
            && let Ok(layout) = Layout::array::<Line>(self.lines)
        {
            // SAFETY: the memory was allocated with this layout, by `try_zeroed`.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) }
        }
    }
}

impl Clone for Words {
    fn clone(&self) -> Words {
        let mut copy = Words::zeroed(self.length);
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }
}

impl Words {
    /// Zeros; none when there is no such memory.
    fn try_zeroed(length: usize) -> Option<Words> {
        let lines = length.div_ceil(LINE_WORDS);
        if lines == 0 {
            return Some(Words { length, ..Words::default() });
        }
        let layout = Layout::array::<Line>(lines).ok()?;
        // SAFETY: the layout is not empty. All zeros are a line.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }.cast())?;
        Some(Words { start, lines, length })
    }

    /// Zeros.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], for what is named.
    pub(super) fn allocate(length: usize, what: impl Into<String>) -> Result<Words, DeviceError> {
        Words::try_zeroed(length)
            .ok_or_else(|| DeviceError::OutOfMemory { what: what.into(), wanted: length.saturating_mul(4) })
    }

    /// Zeros, for what is small beside what a run has taken already.
    pub(super) fn zeroed(length: usize) -> Words {
        match (Words::try_zeroed(length), Layout::array::<u32>(length)) {
            (Some(words), _) => words,
            (None, Ok(layout)) => handle_alloc_error(layout),
            (None, Err(_)) => handle_alloc_error(Layout::new::<Line>()),
        }
    }
    /// Makes room for at least `length` words; what was held is lost when it moves.
    ///
    /// # Errors
    /// As [`Words::allocate`].
    pub(super) fn reserve(&mut self, length: usize, what: &str) -> Result<(), DeviceError> {
        if length > self.length {
            *self = Words::default();
            *self = Words::allocate(length, what)?;
        }
        Ok(())
    }
    pub(super) fn len(&self) -> usize {
        self.length
    }
    pub(super) fn bytes(&self) -> usize {
        self.lines * size_of::<Line>()
    }
    pub(super) fn as_mut_ptr(&mut self) -> *mut u32 {
        self.start.as_ptr().cast()
    }
    pub(super) fn as_ptr(&self) -> *const u32 {
        self.start.as_ptr().cast_const().cast()
    }
    pub(super) fn as_slice(&self) -> &[u32] {
        // SAFETY: the memory holds at least `length` words, all initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }
    }
    pub(super) fn as_mut_slice(&mut self) -> &mut [u32] {
        // SAFETY: the memory holds at least `length` words, all initialised, borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr(), self.length) }
    }
}

/// Memory for tensors whose size is known only when a row is computed. Grows by blocks, so that what it handed out stays
/// where it is until [`Bump::reset`].
#[derive(Debug, Default)]
pub(super) struct Bump {
    blocks: Vec<Words>,
    block: usize,
    used: usize,
}

const BUMP_BLOCK_WORDS: usize = 64 * 1024;

impl Bump {
    /// Uninitialised in effect: holds what was there before.
    ///
    /// # Errors
    /// As [`Words::allocate`].
    pub(super) fn allocate(&mut self, words: usize) -> Result<*mut u32, DeviceError> {
        let words = words.checked_next_multiple_of(LINE_WORDS).unwrap_or(usize::MAX);
        while self.blocks.get(self.block).is_some_and(|block| words > block.len() - self.used) {
            self.block += 1;
            self.used = 0;
        }
        if self.block == self.blocks.len() {
            self.blocks.push(Words::allocate(words.max(BUMP_BLOCK_WORDS), "local tensors")?);
            self.used = 0;
        }
        let start = self.blocks[self.block].as_mut_ptr().wrapping_add(self.used);
        self.used += words;
        Ok(start)
    }
    /// Takes everything back.
    pub(super) fn reset(&mut self) {
        self.block = 0;
        self.used = 0;
    }
    pub(super) fn bytes(&self) -> usize {
        self.blocks.iter().map(Words::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bump_never_hands_out_the_same_words_twice() {
        let mut bump = Bump::default();
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for words in [1, 70_000, 16, 65_536, 3, 0, 40_000, 40_000] {
            let start = bump.allocate(words).expect("small") as usize;
            assert_eq!(start % 64, 0);
            assert!(taken.iter().all(|&(from, to)| start + words * 4 <= from || to <= start || words == 0));
            taken.push((start, start + words * 4));
        }
        bump.reset();
        assert_eq!(bump.allocate(1).expect("small") as usize, taken[0].0);
        assert!(bump.allocate(usize::MAX / 8).is_err());
    }
}
