//! The values of a tensor of the file, row by row, out of the checkpoint's.

use std::ops::Range;

use fiddlehead_models::{ConvertedTensor, Transform};
use fiddlehead_storage::{Format, StorageError, quantise};

/// Reads rows and writes them in `format`, values from the checkpoint changed as the file wants them.
pub(crate) fn quantise_rows(
    tensor: &ConvertedTensor,
    format: Format,
    rows: Range<usize>,
) -> Result<Vec<u8>, StorageError> {
    let length = tensor.shape.last().copied().unwrap_or(1);
    let mut values = vec![0.0; rows.len() * length];
    let first = rows.start;
    read(tensor, rows, length, &mut values)?;
    let mut bytes = vec![0; format.bytes_for(values.len())?];
    quantise(format, &values, &mut bytes).map_err(|error| match error {
        // Counted from the beginning of the tensor.
        StorageError::Unstorable { format, at, value } => {
            StorageError::Unstorable { format, at: first * length + at, value }
        }
        other => other,
    })?;
    Ok(bytes)
}

/// Copies rows as they are stored.
pub(crate) fn copy_rows(tensor: &ConvertedTensor, rows: Range<usize>) -> Result<Vec<u8>, StorageError> {
    let mut bytes = Vec::new();
    for_each_row(tensor, rows, |_, stored, row| {
        bytes.extend_from_slice(stored.row(row)?);
        Ok(())
    })?;
    Ok(bytes)
}

fn read(
    tensor: &ConvertedTensor,
    rows: Range<usize>,
    length: usize,
    out: &mut [f32],
) -> Result<(), StorageError> {
    let mut straight = vec![0.0; if tensor.columns.is_some() { length } else { 0 }];
    for_each_row(tensor, rows, |place, stored, row| {
        let out = &mut out[place * length..(place + 1) * length];
        match &tensor.columns {
            None => stored.dequantise_row(row, out)?,
            Some(order) => {
                stored.dequantise_row(row, &mut straight)?;
                for (out, &column) in out.iter_mut().zip(order.iter()) {
                    *out = straight[column as usize];
                }
            }
        }
        match tensor.transform {
            Transform::None => {}
            Transform::OnePlus => out.iter_mut().for_each(|value| *value += 1.0),
            Transform::NegativeExp => out.iter_mut().for_each(|value| *value = -value.exp()),
        }
        Ok(())
    })
}

/// Calls `each` with a row's place among `rows`, and its tensor and place there.
fn for_each_row(
    tensor: &ConvertedTensor,
    rows: Range<usize>,
    mut each: impl FnMut(usize, &fiddlehead_storage::Tensor, usize) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut first = 0;
    for piece in &tensor.pieces {
        let end = first + piece.count();
        for row in rows.start.max(first)..rows.end.min(end) {
            let stored = match &piece.rows {
                None => row - first,
                Some(order) => order[row - first] as usize,
            };
            each(row - rows.start, &piece.tensor, stored)?;
        }
        first = end;
    }
    Ok(())
}
