//! IEEE 754 binary16.

use half::f16;

use super::Layout;

pub(super) const LAYOUT: Layout =
    Layout { name: "f16", block_elements: 1, block_bytes: 2, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    let (values, _) = bytes.as_chunks();
    for (value, out) in values.iter().zip(out) {
        *out = f16::from_le_bytes(*value).to_f32();
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
        *out = f16::from_f32(*value).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, dequantise};

    #[test]
    fn known_values() {
        let table = [
            (0x3c00u16, 1.0f32),
            (0xc000, -2.0),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
        ];
        for (bits, value) in table {
            let mut out = [0.0];
            dequantise(Format::F16, &bits.to_le_bytes(), &mut out).expect("lengths fit");
            assert_eq!(out[0], value);
        }
    }
}
