//! 128 eight-bit floats (e4m3: 4 bits of exponent with bias 7, 3 of mantissa, no infinities) under one f32 scale:
//! `scale × value`.
//!
//! Block: scale (binary32), 128 bytes. Files keep the scales apart, one for each 128 × 128 elements;
//! [`crate::pack_f8_e4m3`] puts them before their blocks, so that a row is whole by itself as in every other format.

use super::Layout;

pub(super) const LAYOUT: Layout =
    Layout { name: "f8_e4m3_128", block_elements: 128, block_bytes: 132, dequantise, quantise: None };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<132>().0.iter().zip(out.as_chunks_mut::<128>().0) {
        let (scale, values) = block.split_at(4);
        let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]);
        for (out, &value) in out.iter_mut().zip(values) {
            *out = scale * e4m3(value);
        }
    }
}

/// The value of one byte. The only pattern for no number has all of its exponent and mantissa set.
fn e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (bits >> 3 & 15, f32::from(bits & 7));
    let magnitude = match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 512.0,
        _ => (1.0 + mantissa / 8.0) * f32::exp2(f32::from(exponent) - 7.0),
    };
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Tensor, pack_f8_e4m3};

    #[test]
    fn known_values() {
        for (bits, value) in [
            (0x00, 0.0),
            (0x01, 0.001953125),
            (0x07, 0.013671875),
            (0x08, 0.015625),
            (0x38, 1.0),
            (0x39, 1.125),
            (0x7e, 448.0),
            (0xfe, -448.0),
            (0xb8, -1.0),
        ] {
            assert_eq!(e4m3(bits), value, "{bits:#04x}");
        }
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        assert!(e4m3(0x80).is_sign_negative() && e4m3(0x80) == 0.0);
    }

    #[test]
    fn scales_apply_to_squares_of_128() {
        let (rows, columns) = (130usize, 256usize);
        let bits = |row: usize, column: usize| (0x30 + (row * 7 + column * 3) % 16) as u8;
        let values: Vec<u8> = (0..rows * columns).map(|at| bits(at / columns, at % columns)).collect();
        let scales = Tensor::from_f32(vec![2, 2], vec![0.5, 2.0, 4.0, 0.25]).expect("fits");
        let packed = pack_f8_e4m3(vec![rows, columns], &values, &scales).expect("fits");
        assert_eq!((packed.format(), packed.shape()), (Format::F8_E4M3_128, [rows, columns].as_slice()));
        let scale = [[0.5, 2.0], [4.0, 0.25]];
        for (at, value) in packed.to_f32().expect("values").into_iter().enumerate() {
            let (row, column) = (at / columns, at % columns);
            assert_eq!(value, e4m3(bits(row, column)) * scale[row / 128][column / 128], "{row}, {column}");
        }
    }
}
