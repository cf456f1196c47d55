//! Writing GGUF files, version 3.

use std::io::{self, Write};

use fiddlehead_storage::{Format, Tensor};

use super::layout::alignment;
use super::{FileError, MAGIC, MAXIMUM_DIMENSIONS, Metadata, TensorType};

/// What is known of a tensor before its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// Its name.
    pub name: String,
    /// How it is stored.
    pub format: Format,
    /// The dimensions, outermost first.
    pub shape: Vec<usize>,
}

/// Why a GGUF file cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The system.
    #[error("the file cannot be written: {0}")]
    Io(#[from] io::Error),
    /// What should be written would be no valid file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The tensors' bytes do not come as they were declared.
    #[error("tensor `{name}` was declared with {expected} bytes and comes with {found}")]
    WrongLength {
        /// The tensor.
        name: String,
        /// Bytes that its declaration takes.
        expected: usize,
        /// Bytes that came.
        found: usize,
    },
    /// More or fewer tensors than were declared.
    #[error("{declared} tensors were declared and {found} written")]
    WrongCount {
        /// How many were declared.
        declared: usize,
        /// How many came.
        found: usize,
    },
}

/// Writes a file's header at once and its tensors one by one, so that a large model is never in memory as a whole.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    /// Name and bytes of each tensor.
    tensors: Vec<(String, usize)>,
    written: usize,
    /// Bytes of the next tensor that were written in parts already.
    begun: usize,
    alignment: usize,
}

impl<W: Write> Writer<W> {
    /// Writes everything before the tensors' bytes.
    ///
    /// # Errors
    /// When a tensor has too many dimensions, a format that GGUF files cannot hold, or a shape without a size; when
    /// the metadata asks for an alignment that makes no sense; and what the system says.
    pub fn new(mut out: W, metadata: &Metadata, tensors: &[Declaration]) -> Result<Writer<W>, WriteError> {
        let alignment = alignment(metadata)?;
        let mut header = MAGIC.to_vec();
        header.extend(3u32.to_le_bytes());
        header.extend((tensors.len() as u64).to_le_bytes());
        header.extend((metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata.iter() {
            text(&mut header, key);
            header.extend(value.value_type().id().to_le_bytes());
            value.encode(&mut header);
        }
        let mut sizes = Vec::with_capacity(tensors.len());
        let mut offset = 0usize;
        for tensor in tensors {
            let bytes = declare(&mut header, tensor, offset)?;
            let end = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(alignment));
            offset = end.ok_or_else(|| bad(tensor, "it would end past the address space"))?;
            sizes.push((tensor.name.clone(), bytes));
        }
        header.resize(header.len().next_multiple_of(alignment), 0);
        out.write_all(&header)?;
        Ok(Writer { out, tensors: sizes, written: 0, begun: 0, alignment })
    }

    /// Writes the bytes of the next tensor.
    ///
    /// # Errors
    /// When they are not as many as declared, and what the system says.
    pub fn tensor(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let (name, expected) = self.next()?;
        let found = self.begun + bytes.len();
        if found != *expected {
            // Nothing is written of a tensor that is wrong as a whole.
            return Err(WriteError::WrongLength { name: name.clone(), expected: *expected, found });
        }
        self.part(bytes)?;
        if bytes.is_empty() { self.end_tensor() } else { Ok(()) }
    }

    /// Writes some of the bytes of the next tensor, behind those written before. The last part ends it; a tensor of no
    /// bytes is ended by [`Writer::end_tensor`].
    ///
    /// # Errors
    /// When they are more than declared, and what the system says.
    pub fn part(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let (name, expected) = self.next()?;
        let found = self.begun + bytes.len();
        if found > *expected {
            return Err(WriteError::WrongLength { name: name.clone(), expected: *expected, found });
        }
        let whole = found == *expected && !bytes.is_empty();
        self.out.write_all(bytes)?;
        self.begun = found;
        if whole { self.end_tensor() } else { Ok(()) }
    }

    /// Ends the next tensor, all of whose bytes are written.
    ///
    /// # Errors
    /// When bytes are missing, and what the system says.
    pub fn end_tensor(&mut self) -> Result<(), WriteError> {
        let (name, expected) = self.next()?;
        if self.begun != *expected {
            let (name, expected) = (name.clone(), *expected);
            return Err(WriteError::WrongLength { name, expected, found: self.begun });
        }
        let padding = self.begun.next_multiple_of(self.alignment) - self.begun;
        self.out.write_all(&vec![0; padding])?;
        self.written += 1;
        self.begun = 0;
        Ok(())
    }

    /// Name and bytes of the tensor that is written now.
    fn next(&self) -> Result<&(String, usize), WriteError> {
        let declared = self.tensors.len();
        self.tensors.get(self.written).ok_or(WriteError::WrongCount { declared, found: declared + 1 })
    }

    /// Ends the file and gives the output back, flushed.
    ///
    /// # Errors
    /// When a declared tensor is missing, and what the system says.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if self.written != self.tensors.len() {
            return Err(WriteError::WrongCount { declared: self.tensors.len(), found: self.written });
        }
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes a whole file.
///
/// # Errors
/// As [`Writer`].
pub fn write<W: Write>(out: W, metadata: &Metadata, tensors: &[(&str, &Tensor)]) -> Result<W, WriteError> {
    let declarations: Vec<Declaration> = tensors
        .iter()
        .map(|(name, tensor)| Declaration {
            name: (*name).to_owned(),
            format: tensor.format(),
            shape: tensor.shape().to_vec(),
        })
        .collect();
    let mut writer = Writer::new(out, metadata, &declarations)?;
    for (_, tensor) in tensors {
        writer.tensor(tensor.bytes())?;
    }
    writer.finish()
}

/// Appends a declaration; gives the bytes of the tensor.
fn declare(header: &mut Vec<u8>, tensor: &Declaration, offset: usize) -> Result<usize, FileError> {
    if tensor.shape.len() > MAXIMUM_DIMENSIONS {
        return Err(bad(
            tensor,
            format!("shape {:?} has more than {MAXIMUM_DIMENSIONS} dimensions", tensor.shape),
        ));
    }
    let kind = TensorType::of_format(tensor.format)
        .ok_or_else(|| bad(tensor, format!("GGUF files cannot hold {}", tensor.format)))?;
    let bytes =
        tensor.format.bytes_for_shape(&tensor.shape).map_err(|error| bad(tensor, error.to_string()))?;
    text(header, &tensor.name);
    header.extend((tensor.shape.len() as u32).to_le_bytes());
    for &size in tensor.shape.iter().rev() {
        header.extend((size as u64).to_le_bytes());
    }
    header.extend(kind.id().to_le_bytes());
    header.extend((offset as u64).to_le_bytes());
    Ok(bytes)
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn bad(tensor: &Declaration, reason: impl Into<String>) -> FileError {
    FileError::BadTensor { name: tensor.name.clone(), reason: reason.into() }
}
