//! Sizes and places of the tensors' bytes.

use std::collections::BTreeSet;

use super::header::Declared;
use super::tensor_type::TensorType;
use super::{DEFAULT_ALIGNMENT, Entry, FileError, MAXIMUM_ALIGNMENT, Metadata, shorten};

/// The alignment that the metadata asks for.
pub(super) fn alignment(metadata: &Metadata) -> Result<usize, FileError> {
    let Some(value) = metadata.get("general.alignment") else { return Ok(DEFAULT_ALIGNMENT) };
    let alignment = value.as_u64().and_then(|value| usize::try_from(value).ok());
    alignment.filter(|value| value.is_power_of_two() && *value <= MAXIMUM_ALIGNMENT).ok_or_else(|| {
        FileError::BadMetadata {
            key: "general.alignment".to_owned(),
            reason: format!("{value}; a power of two up to {MAXIMUM_ALIGNMENT} is wanted"),
        }
    })
}

/// The tensors with their ranges in a file of `length` bytes whose header ends at `header_end`.
pub(super) fn check(
    declared: Vec<Declared>,
    header_end: usize,
    alignment: usize,
    length: usize,
) -> Result<Vec<Entry>, FileError> {
    // A file without tensors may end where its header does.
    let data_start = header_end.next_multiple_of(alignment).min(length);
    let available = length - data_start;
    let mut names = BTreeSet::new();
    for tensor in &declared {
        if !names.insert(tensor.name.as_str()) {
            return Err(bad(&tensor.name, "the name occurs twice"));
        }
    }
    let mut offsets: Vec<u64> = declared.iter().map(|tensor| tensor.offset).collect();
    offsets.sort_unstable();
    let mut entries = Vec::with_capacity(declared.len());
    for tensor in declared {
        let next = offsets.partition_point(|&offset| offset <= tensor.offset);
        let next = offsets.get(next).copied().unwrap_or(available as u64);
        entries.push(entry(tensor, next, data_start, alignment, available)?);
    }
    check_overlap(&entries)?;
    Ok(entries)
}

fn entry(
    tensor: Declared,
    next: u64,
    data_start: usize,
    alignment: usize,
    available: usize,
) -> Result<Entry, FileError> {
    let Declared { name, shape, type_id, offset } = tensor;
    if !offset.is_multiple_of(alignment as u64) {
        return Err(bad(
            &name,
            format!("it begins at byte {offset} of the data, which is no multiple of {alignment}"),
        ));
    }
    let tensor_type = TensorType::from_id(type_id);
    let sizes = shape.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<usize>>>();
    let elements = sizes.as_ref().and_then(|sizes| sizes.iter().try_fold(1usize, |a, &b| a.checked_mul(b)));
    let (Some(sizes), Some(_)) = (sizes, elements) else {
        return Err(bad(&name, format!("shape {shape:?} is larger than the address space")));
    };
    let bytes = match tensor_type.bytes_for(&sizes) {
        Some(bytes) => bytes.ok_or_else(|| {
            bad(&name, format!("shape {shape:?} of {tensor_type} ends inside a block or is too large"))
        })? as u64,
        None => next.saturating_sub(offset),
    };
    let end = offset.saturating_add(bytes);
    if offset > available as u64 || end > available as u64 {
        return Err(FileError::TensorPastEnd { name: shorten(&name), end, available });
    }
    // Neither sum overflows: both ends lie within a file that is in memory.
    let range = data_start + offset as usize..data_start + end as usize;
    Ok(Entry { name, tensor_type, shape: sizes, range })
}

fn check_overlap(entries: &[Entry]) -> Result<(), FileError> {
    let mut order: Vec<&Entry> = entries.iter().filter(|entry| !entry.range.is_empty()).collect();
    order.sort_unstable_by_key(|entry| entry.range.start);
    for pair in order.windows(2) {
        if let [before, after] = pair
            && after.range.start < before.range.end
        {
            return Err(bad(&after.name, format!("it overlaps tensor `{}`", shorten(&before.name))));
        }
    }
    Ok(())
}

fn bad(name: &str, reason: impl Into<String>) -> FileError {
    FileError::BadTensor { name: shorten(name), reason: reason.into() }
}
