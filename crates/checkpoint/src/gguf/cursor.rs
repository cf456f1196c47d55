//! Reading forward through a header; every length is compared with the bytes left.

use fiddlehead_storage::Bytes;

use super::FileError;

/// Where reading is.
pub(super) struct Cursor<'a> {
    file: &'a Bytes,
    all: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a Bytes) -> Cursor<'a> {
        Cursor { file, all: file.as_slice(), at: 0 }
    }

    /// One that reads ahead of another.
    pub(super) fn new_at(other: &Cursor<'a>) -> Cursor<'a> {
        Cursor { ..*other }
    }

    /// Bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    pub(super) fn left(&self) -> usize {
        self.all.len() - self.at
    }

    pub(super) fn truncated(&self, what: impl Into<String>, wanted: u64) -> FileError {
        FileError::Truncated { what: what.into(), at: self.at, wanted, left: self.left() }
    }

    /// The next bytes.
    pub(super) fn take(&mut self, what: &str, length: u64) -> Result<&'a [u8], FileError> {
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length))
            .filter(|&end| end <= self.all.len())
            .ok_or_else(|| self.truncated(what, length))?;
        let taken = &self.all[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// The next bytes as a view that keeps the file alive.
    pub(super) fn view(&mut self, what: &str, length: u64) -> Result<Bytes, FileError> {
        let start = self.at;
        self.take(what, length)?;
        self.file.slice(start..self.at).ok_or_else(|| self.truncated(what, length))
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], FileError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(what, N as u64)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, FileError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, FileError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length, then as many bytes.
    pub(super) fn text(&mut self, what: &str) -> Result<&'a [u8], FileError> {
        let length = self.u64(what)?;
        self.take(what, length)
    }

    /// A count of things that take at least `least` bytes each.
    pub(super) fn count(&mut self, what: &str, least: u64) -> Result<u64, FileError> {
        let count = self.u64(what)?;
        self.room(what, count, least)?;
        Ok(count)
    }

    /// That `count` things of at least `least` bytes each can be in what is left.
    pub(super) fn room(&self, what: &str, count: u64, least: u64) -> Result<(), FileError> {
        let wanted = count.saturating_mul(least);
        if wanted > self.left() as u64 {
            return Err(self.truncated(format!("{what} ({count})"), wanted));
        }
        Ok(())
    }
}
