//! Aligned memory of the executor: arenas, pages and states.

/// One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u32; 16]);

const LINE_WORDS: usize = 16;

/// Words in memory that starts at a cache line. Cloning copies them.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    lines: Vec<Line>,
    length: usize,
}

impl Words {
    /// Zeros.
    pub(super) fn zeroed(length: usize) -> Words {
        Words { lines: vec![Line([0; LINE_WORDS]); length.div_ceil(LINE_WORDS)], length }
    }
    /// Makes room for at least `length` words; what was held is lost when it moves.
    pub(super) fn reserve(&mut self, length: usize) {
        if length > self.length {
            *self = Words::zeroed(length);
        }
    }
    pub(super) fn len(&self) -> usize {
        self.length
    }
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
    pub(super) fn as_mut_ptr(&mut self) -> *mut u32 {
        self.lines.as_mut_ptr().cast()
    }
    pub(super) fn as_ptr(&self) -> *const u32 {
        self.lines.as_ptr().cast()
    }
    pub(super) fn as_slice(&self) -> &[u32] {
        // SAFETY: `lines` holds at least `length` words, all initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.length) }
    }
    pub(super) fn as_mut_slice(&mut self) -> &mut [u32] {
        // SAFETY: `lines` holds at least `length` words, all initialised, borrowed exclusively.
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
    pub(super) fn allocate(&mut self, words: usize) -> *mut u32 {
        let words = words.next_multiple_of(LINE_WORDS);
        while self.blocks.get(self.block).is_some_and(|block| self.used + words > block.len()) {
            self.block += 1;
            self.used = 0;
        }
        if self.block == self.blocks.len() {
            self.blocks.push(Words::zeroed(words.max(BUMP_BLOCK_WORDS)));
            self.used = 0;
        }
        let start = self.blocks[self.block].as_mut_ptr().wrapping_add(self.used);
        self.used += words;
        start
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
            let start = bump.allocate(words) as usize;
            assert_eq!(start % 64, 0);
            assert!(taken.iter().all(|&(from, to)| start + words * 4 <= from || to <= start || words == 0));
            taken.push((start, start + words * 4));
        }
        bump.reset();
        assert_eq!(bump.allocate(1) as usize, taken[0].0);
    }
}
