//! Reading what a user names, which may be a device or a pipe without an end.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// Texts (programs, prompts, configuration files) longer than this are refused before memory fills up. In bytes.
const LONGEST_TEXT: u64 = 16 << 20;

/// The bytes of a file that should be a text.
///
/// # Errors
/// What the system says, and when there are more than any text has.
pub fn read_text(path: &Path) -> io::Result<Vec<u8>> {
    text_of(File::open(path)?)
}

/// All bytes of what should be a text.
///
/// # Errors
/// As [`read_text`].
pub fn text_of(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST_TEXT {
        let why = format!("more than {} MiB, which is no text to work with", LONGEST_TEXT >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The bytes of a file that begins with `magic`; of any other file only its beginning.
///
/// # Errors
/// What the system says.
pub fn read_if_it_begins(path: &Path, magic: &[u8]) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.by_ref().take(magic.len() as u64).read_to_end(&mut bytes)?;
    if bytes == magic {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}
