//! Files mapped into memory, and reading them ahead of their use.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fiddlehead_storage::{Bytes, Memory};

/// Bytes read ahead at a time: large enough for a disk to be busy, small enough to tell how far it is.
const PIECE: usize = 16 << 20;

/// A whole file in memory.
#[derive(Debug)]
pub(crate) struct Mapped {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl Memory for Mapped {
    fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Opens a regular file. A pipe or a device is refused: its length means nothing.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    // A pipe blocks on being opened, so what it is must be known before.
    if !path.metadata()?.is_file() {
        return Err(refuse());
    }
    let file = File::open(path)?;
    // The path may name something else by now.
    if file.metadata()?.is_file() { Ok(file) } else { Err(refuse()) }
}

/// Maps a regular file, whole; `None` beside the bytes of an empty one, which has nothing to map.
pub(crate) fn map(path: &Path) -> io::Result<(Bytes, Option<Arc<Mapped>>)> {
    let file = open_regular(path)?;
    if file.metadata()?.len() == 0 {
        return Ok((Bytes::from_static(&[]), None));
    }
    // SAFETY: the mapping is private and read-only, and nothing here writes to the file. That no other process
    // truncates it while it is mapped cannot be enforced; the crate's documentation says so.
    let map = unsafe { memmap2::Mmap::map(&file)? };
    if file.metadata()?.len() < map.len() as u64 {
        return Err(shorter());
    }
    let mapped = Arc::new(Mapped { path: path.to_owned(), map });
    Ok((Bytes::from_memory(mapped.clone()), Some(mapped)))
}

fn shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "it cannot be read to its end: it became shorter while it was open, or the disk failed; try again",
    )
}

impl Mapped {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Reads the pages that are not in memory yet, in the file's order. `go_on` hears how many bytes were gone through
    /// and says whether to go on; gives whether it went to the end.
    ///
    /// A file that became shorter is an error here, where a plain read of its memory would end the program.
    #[cfg(target_os = "linux")]
    pub(crate) fn read_ahead(&self, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<bool> {
        use memmap2::Advice;
        for start in (0..self.len()).step_by(PIECE) {
            let length = PIECE.min(self.len() - start);
            if !self.is_resident(start, length) {
                match self.map.advise_range(Advice::PopulateRead, start, length) {
                    Ok(()) => {}
                    Err(error) if error.raw_os_error() == Some(libc::EFAULT) => return Err(shorter()),
                    // A kernel before 5.14: it reads ahead by itself, and does not say how far it is.
                    Err(_) => self.map.advise_range(Advice::WillNeed, start, length)?,
                }
            }
            if !go_on(length) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Elsewhere pages are read when they are first used.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read_ahead(&self, go_on: &mut dyn FnMut(usize) -> bool) -> io::Result<bool> {
        Ok((0..self.len()).step_by(PIECE).all(|start| go_on(PIECE.min(self.len() - start))))
    }

    /// Whether the system holds all pages of a range in memory, mapped here or not.
    #[cfg(target_os = "linux")]
    fn is_resident(&self, start: usize, length: usize) -> bool {
        const LEAST_PAGE: usize = 4096;
        let mut pages = [0u8; PIECE / LEAST_PAGE];
        let Some(range) = self.map.get(start..start + length) else { return false };
        // SAFETY: the range is mapped and starts at a page, as pieces do; there is room for a byte a page.
        let failed =
            unsafe { libc::mincore(range.as_ptr().cast_mut().cast(), length, pages.as_mut_ptr()) } != 0;
        // Pages may be larger than the least: then there are fewer answers, and the rest is not looked at.
        let page = page_bytes();
        !failed && pages.iter().take(length.div_ceil(page)).all(|page| page & 1 == 1)
    }
}

/// Bytes of a page.
#[cfg(target_os = "linux")]
fn page_bytes() -> usize {
    // SAFETY: it only asks.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(4096)
}
