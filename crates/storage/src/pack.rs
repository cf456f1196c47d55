//! Eight-bit floats with scales apart, put together into blocks.

use crate::{Format, StorageError, Tensor};

/// Elements along each side of the square that has one scale.
const SIDE: usize = 128;

/// A matrix of e4m3 values, one byte each, with one scale for each 128 × 128 of them, as a tensor whose blocks carry
/// their scales. The values are copied.
///
/// - `shape`: `[rows, columns]`, columns a multiple of 128
/// - `values`: `[rows, columns]` bytes
/// - `scales`: `[rows / 128 rounded up, columns / 128]`, factors that undo the quantising (`weight_scale_inv` in files)
///
/// # Errors
/// When the shapes or lengths do not fit each other.
pub fn pack_f8_e4m3(shape: Vec<usize>, values: &[u8], scales: &Tensor) -> Result<Tensor, StorageError> {
    let format = Format::F8_E4M3_128;
    let length = format.bytes_for_shape(&shape)?;
    let [rows, columns] = shape[..] else {
        return Err(StorageError::NoMatrix { shape });
    };
    let elements = rows * columns;
    if values.len() != elements {
        return Err(StorageError::WrongLength { shape, format, expected: elements, found: values.len() });
    }
    let expected = [rows.div_ceil(SIDE), columns / SIDE];
    if scales.shape() != expected {
        return Err(StorageError::WrongScales { shape, expected, found: scales.shape().to_vec() });
    }
    let mut packed = Vec::with_capacity(length);
    let mut scales_of_row = vec![0.0; columns / SIDE];
    for (row, values) in values.chunks_exact(columns.max(1)).enumerate() {
        if row % SIDE == 0 {
            scales.dequantise_row(row / SIDE, &mut scales_of_row)?;
        }
        for (values, scale) in values.as_chunks::<SIDE>().0.iter().zip(&scales_of_row) {
            packed.extend_from_slice(&scale.to_le_bytes());
            packed.extend_from_slice(values);
        }
    }
    Tensor::new(format, shape, packed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let scales = |shape: Vec<usize>| {
            let elements = shape.iter().product();
            Tensor::from_f32(shape, vec![1.0; elements]).expect("fits")
        };
        let pack = |shape: &[usize], values: usize, of_scales: &[usize]| {
            pack_f8_e4m3(shape.to_vec(), &vec![0; values], &scales(of_scales.to_vec()))
        };
        assert!(pack(&[2, 128], 256, &[1, 1]).is_ok());
        assert!(pack(&[0, 128], 0, &[0, 1]).is_ok());
        assert!(pack(&[2, 0], 0, &[1, 0]).is_ok());
        assert!(matches!(pack(&[2, 100], 200, &[1, 1]), Err(StorageError::PartialBlock { .. })));
        assert!(matches!(pack(&[1, 2, 128], 256, &[1, 1]), Err(StorageError::NoMatrix { .. })));
        assert!(matches!(pack(&[2, 128], 255, &[1, 1]), Err(StorageError::WrongLength { .. })));
        assert!(matches!(pack(&[129, 128], 129 * 128, &[1, 1]), Err(StorageError::WrongScales { .. })));
        assert!(matches!(pack(&[usize::MAX, 128], 0, &[1, 1]), Err(StorageError::TooLarge { .. })));
    }
}
