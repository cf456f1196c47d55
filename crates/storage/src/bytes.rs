//! Shared, immutable memory with cheap views.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Something that owns bytes for as long as a view of them lives: a mapped file, a vector.
///
/// [`Memory::bytes`] must return the same bytes each time.
pub trait Memory: Send + Sync + 'static {
    /// All bytes owned.
    fn bytes(&self) -> &[u8];
}

impl Memory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Memory for Vec<f32> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

#[derive(Clone)]
enum Source {
    Static(&'static [u8]),
    Shared(Arc<dyn Memory>),
}

/// A view into shared, immutable bytes. Cloning and slicing copy no bytes and keep the owner alive.
///
/// No alignment is promised: a file may put a tensor at any address.
#[derive(Clone)]
pub struct Bytes {
    source: Source,
    range: Range<usize>,
}

impl Bytes {
    /// Bytes that live as long as the program, such as an embedded file.
    pub fn from_static(bytes: &'static [u8]) -> Bytes {
        Bytes { source: Source::Static(bytes), range: 0..bytes.len() }
    }

    /// All bytes of an owner, which lives until the last view is dropped.
    pub fn from_memory(memory: Arc<dyn Memory>) -> Bytes {
        let length = memory.bytes().len();
        Bytes { source: Source::Shared(memory), range: 0..length }
    }

    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        let all = match &self.source {
            Source::Static(bytes) => bytes,
            Source::Shared(memory) => memory.bytes(),
        };
        all.get(self.range.clone()).unwrap_or_default()
    }

    /// A view of part of this view; `None` when the range is reversed or goes past the end.
    pub fn slice(&self, range: Range<usize>) -> Option<Bytes> {
        if range.start > range.end || range.end > self.range.len() {
            return None;
        }
        let range = self.range.start + range.start..self.range.start + range.end;
        Some(Bytes { source: self.source.clone(), range })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes::from_memory(Arc::new(bytes))
    }
}

impl From<Vec<f32>> for Bytes {
    fn from(values: Vec<f32>) -> Bytes {
        Bytes::from_memory(Arc::new(values))
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.source {
            Source::Static(_) => "static",
            Source::Shared(_) => "shared",
        };
        write!(formatter, "Bytes({kind}, {:?})", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_nest_and_refuse_ranges_past_the_end() {
        let all = Bytes::from((0..10u8).collect::<Vec<_>>());
        let part = all.slice(2..8).expect("in range");
        let inner = part.slice(1..3).expect("in range");
        assert_eq!(&*inner, &[3, 4]);
        assert!(part.slice(0..7).is_none());
        let (start, end) = (4, 3);
        assert!(part.slice(start..end).is_none());
        drop(all);
        assert_eq!(&*part, &[2, 3, 4, 5, 6, 7]);
    }
}
