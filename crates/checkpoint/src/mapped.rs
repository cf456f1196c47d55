//! A file mapped into memory.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fiddlehead_storage::{Bytes, Memory};

struct Mapped(memmap2::Mmap);

impl Memory for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Maps a regular file, whole. A pipe or a device is refused: its length means nothing.
pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
    // A pipe blocks on being opened, so what it is must be known before.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Bytes::from_static(&[]));
    }
    // SAFETY: the mapping is private and read-only, and nothing here writes to the file. That no other process
    // truncates it while it is mapped cannot be enforced; the crate's documentation says so.
    let mapped = unsafe { memmap2::Mmap::map(&file)? };
    Ok(Bytes::from_memory(Arc::new(Mapped(mapped))))
}
