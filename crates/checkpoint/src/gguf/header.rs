//! The counts, the metadata and the tensors' declarations.

use fiddlehead_storage::Bytes;

use super::cursor::Cursor;
use super::value::{Array, Value, ValueType};
use super::{FileError, MAGIC, MAXIMUM_DIMENSIONS, MAXIMUM_TENSORS, MAXIMUM_VALUES, Metadata, shorten};

/// The least that a value of the metadata takes: its key's length, its type, one byte.
const LEAST_VALUE_BYTES: u64 = 8 + 4 + 1;
/// The least that a tensor's declaration takes: its name's length, the count of dimensions, type and offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 4 + 4 + 8;
/// Keys are at most this long, by the format.
const LONGEST_KEY: usize = 65_535;

/// What stands before the tensors' bytes.
pub(super) struct Header {
    pub version: u32,
    pub metadata: Metadata,
    pub tensors: Vec<Declared>,
    /// Where the header ends; the data begins at the next aligned byte.
    pub end: usize,
}

/// A tensor as the file declares it.
pub(super) struct Declared {
    pub name: String,
    /// Outermost first.
    pub shape: Vec<u64>,
    pub type_id: u32,
    /// From the beginning of the data.
    pub offset: u64,
}

pub(super) fn read(file: &Bytes) -> Result<Header, FileError> {
    let mut cursor = Cursor::new(file);
    if !file.starts_with(MAGIC) {
        return Err(FileError::NoMagic);
    }
    cursor.take("the magic", 4)?;
    let version = version(cursor.u32("the version")?)?;
    let tensor_count = cursor.u64("the count of tensors")?;
    let value_count = cursor.count("the metadata", LEAST_VALUE_BYTES)?;
    cursor.room("the tensors' declarations", tensor_count, LEAST_TENSOR_BYTES)?;
    few("values of metadata", value_count, MAXIMUM_VALUES)?;
    few("tensors", tensor_count, MAXIMUM_TENSORS)?;
    let mut metadata = Metadata::default();
    for position in 0..value_count {
        let (key, value) = entry(&mut cursor, position)?;
        if metadata.get(&key).is_some() {
            return Err(bad_metadata(&key, "the key occurs twice"));
        }
        metadata.set(key, value);
    }
    let mut tensors = Vec::new();
    for position in 0..tensor_count {
        tensors.push(declared(&mut cursor, position)?);
    }
    Ok(Header { version, metadata, tensors, end: cursor.at() })
}

fn few(what: &'static str, count: u64, most: u64) -> Result<(), FileError> {
    if count > most { Err(FileError::TooMany { what, count, most }) } else { Ok(()) }
}

fn version(version: u32) -> Result<u32, FileError> {
    let found = match version {
        2 | 3 => return Ok(version),
        _ if matches!(version.swap_bytes(), 1..=3) => "a big-endian GGUF file".to_owned(),
        _ => format!("a GGUF file of version {version}"),
    };
    Err(FileError::Version { found })
}

fn entry(cursor: &mut Cursor<'_>, position: u64) -> Result<(String, Value), FileError> {
    let unnamed = |reason: &str| bad_metadata(&format!("number {position}"), reason);
    let key = cursor.text(&format!("key {position} of the metadata"))?;
    if key.len() > LONGEST_KEY {
        return Err(unnamed("its key is longer than 65535 bytes"));
    }
    let key = std::str::from_utf8(key).map_err(|_| unnamed("its key is not UTF-8"))?;
    let id = cursor.u32(key)?;
    Ok((key.to_owned(), value(cursor, key, value_type(key, id)?)?))
}

fn value_type(key: &str, id: u32) -> Result<ValueType, FileError> {
    ValueType::from_id(id).ok_or_else(|| bad_metadata(key, format!("unknown value type {id}")))
}

fn value(cursor: &mut Cursor<'_>, key: &str, kind: ValueType) -> Result<Value, FileError> {
    let what = format!("metadata `{}`", shorten(key));
    match kind {
        ValueType::Text => {
            let length = cursor.u64(&what)?;
            Ok(Value::Text(cursor.view(&what, length)?))
        }
        ValueType::Array => {
            let element = value_type(key, cursor.u32(&what)?)?;
            let count = cursor.u64(&what)?;
            Ok(Value::Array(array(cursor, key, &what, element, count)?))
        }
        scalar => {
            let bytes = cursor.take(&what, scalar.least_bytes())?;
            Value::scalar(scalar, bytes).ok_or_else(|| bad_metadata(key, "no value of its type"))
        }
    }
}

fn array(
    cursor: &mut Cursor<'_>,
    key: &str,
    what: &str,
    element: ValueType,
    count: u64,
) -> Result<Array, FileError> {
    if element == ValueType::Array {
        return Err(bad_metadata(key, "an array of arrays, which no model file needs"));
    }
    cursor.room(what, count, element.least_bytes())?;
    let bytes = if element == ValueType::Text {
        let mut ahead = Cursor::new_at(cursor);
        for _ in 0..count {
            ahead.text(what)?;
        }
        cursor.view(what, (ahead.at() - cursor.at()) as u64)?
    } else {
        cursor.view(what, count * element.least_bytes())?
    };
    // The count fits: its elements take at least a byte each of a file that is in memory.
    Ok(Array::from_checked(element, count as usize, bytes))
}

fn declared(cursor: &mut Cursor<'_>, position: u64) -> Result<Declared, FileError> {
    let bad = |name: &str, reason: String| FileError::BadTensor { name: shorten(name), reason };
    let name = cursor.text(&format!("the name of tensor {position}"))?;
    let name = std::str::from_utf8(name)
        .map_err(|_| bad(&format!("number {position}"), "its name is not UTF-8".to_owned()))?;
    let what = format!("the declaration of tensor `{}`", shorten(name));
    let dimensions = cursor.u32(&what)?;
    if dimensions as usize > MAXIMUM_DIMENSIONS {
        return Err(bad(name, format!("{dimensions} dimensions; there are at most {MAXIMUM_DIMENSIONS}")));
    }
    let mut shape = (0..dimensions).map(|_| cursor.u64(&what)).collect::<Result<Vec<u64>, _>>()?;
    shape.reverse();
    let type_id = cursor.u32(&what)?;
    let offset = cursor.u64(&what)?;
    Ok(Declared { name: name.to_owned(), shape, type_id, offset })
}

fn bad_metadata(key: &str, reason: impl Into<String>) -> FileError {
    FileError::BadMetadata { key: shorten(key), reason: reason.into() }
}
