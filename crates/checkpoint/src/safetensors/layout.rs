//! The declarations against the file: types, sizes, and a full cover of the data without overlap.

use super::header::Declared;
use super::{Element, Entry, FileError};

/// Checks every declaration and the cover; `data_start` is where the data begin in the file.
pub(super) fn check(
    mut declared: Vec<Declared>,
    data_start: usize,
    data_length: usize,
) -> Result<Vec<Entry>, FileError> {
    declared.sort_by(|left, right| left.offsets.cmp(&right.offsets).then_with(|| left.name.cmp(&right.name)));
    check_names(&declared)?;
    let mut expected = 0;
    let mut entries = Vec::with_capacity(declared.len());
    for tensor in declared {
        let end = check_range(&tensor, expected, data_length)?;
        let begin = expected;
        expected = end;
        entries.push(entry(tensor, begin, end, data_start)?);
    }
    let extra = data_length - expected;
    if extra > 0 {
        return Err(FileError::TrailingBytes { extra });
    }
    Ok(entries)
}

fn check_names(declared: &[Declared]) -> Result<(), FileError> {
    let mut names: Vec<&str> = declared.iter().map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(bad(pair[0], "the name occurs twice in the header")),
        None => Ok(()),
    }
}

/// The end of a tensor that begins where the one before it ended, within the data.
fn check_range(tensor: &Declared, expected: usize, data_length: usize) -> Result<usize, FileError> {
    let (begin, end) = tensor.offsets;
    if end < begin {
        return Err(bad(&tensor.name, format!("it ends at byte {end}, before it begins at {begin}")));
    }
    let expected = expected as u64;
    if begin != expected {
        let kind =
            if begin < expected { "two tensors overlap" } else { "the bytes between belong to no tensor" };
        return Err(FileError::NotContiguous { name: tensor.name.clone(), begin, expected, kind });
    }
    usize::try_from(end).ok().filter(|&end| end <= data_length).ok_or_else(|| FileError::Truncated {
        name: tensor.name.clone(),
        end,
        available: data_length,
    })
}

fn entry(tensor: Declared, begin: usize, end: usize, data_start: usize) -> Result<Entry, FileError> {
    let Declared { name, dtype, shape, .. } = tensor;
    let Some(element) = Element::from_name(&dtype) else {
        let known = Element::names().collect::<Vec<_>>().join(", ");
        return Err(bad(&name, format!("unknown element type `{}`; known are {known}", shorten(&dtype))));
    };
    let size = shape
        .iter()
        .map(|&size| usize::try_from(size).ok())
        .collect::<Option<Vec<usize>>>()
        .and_then(|shape| Some((element.bytes_for(&shape)?, shape)));
    let Some((bytes, shape)) = size else {
        return Err(bad(
            &name,
            format!("shape {shape:?} of {dtype} has no size in bytes: it overflows or ends inside a byte"),
        ));
    };
    if bytes != end - begin {
        return Err(bad(
            &name,
            format!("shape {shape:?} of {dtype} takes {bytes} bytes, its range has {}", end - begin),
        ));
    }
    // Neither sum overflows: both ends lie within a file that is in memory.
    Ok(Entry { name, element, shape, range: data_start + begin..data_start + end })
}

fn bad(name: &str, reason: impl Into<String>) -> FileError {
    FileError::BadTensor { name: shorten(name), reason: reason.into() }
}

/// A name from a hostile file may be as long as the file; a message needs its beginning.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
