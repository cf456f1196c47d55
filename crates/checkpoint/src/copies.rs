//! Copies of weights: how many bytes they may take, and whether they are made at all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::CheckpointError;

/// What becomes of weights that cannot be read where they lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// They are copied; all copies together take at most so many bytes.
    Within(u64),
    /// Nothing is copied: zeros that were never touched stand for their values. To plan with, not to compute with.
    Planned,
}

/// Bytes of copies so far.
#[derive(Debug)]
pub(crate) struct Copies {
    copying: Copying,
    taken: AtomicU64,
}

impl Copies {
    pub(crate) fn new(copying: Copying) -> Copies {
        Copies { copying, taken: AtomicU64::new(0) }
    }

    /// Asks for room for a copy of a tensor; gives whether it is to be made, or zeros of its length instead.
    pub(crate) fn take(&self, name: &str, bytes: usize) -> Result<bool, CheckpointError> {
        let bytes = bytes as u64;
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        match self.copying {
            Copying::Planned => Ok(false),
            Copying::Within(most) if taken <= most => Ok(true),
            Copying::Within(most) => {
                Err(CheckpointError::CopiesTooLarge { name: name.to_owned(), wanted: taken, most })
            }
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_counted_and_bounded() {
        let copies = Copies::new(Copying::Within(100));
        assert!(copies.take("a", 60).expect("fits"));
        let error = copies.take("b", 41).expect_err("one too many").to_string();
        assert!(error.contains("`b`") && error.contains("101") && error.contains("100"), "{error}");
        let planned = Copies::new(Copying::Planned);
        assert!(!planned.take("a", usize::MAX).expect("nothing is made"));
        assert_eq!(planned.bytes(), u64::MAX);
    }
}
