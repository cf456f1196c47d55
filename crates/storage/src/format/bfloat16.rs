//! The upper half of a binary32.

use half::bf16;

use super::Layout;

pub(super) const LAYOUT: Layout =
    Layout { name: "bf16", block_elements: 1, block_bytes: 2, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    let (values, _) = bytes.as_chunks();
    for (value, out) in values.iter().zip(out) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(*value)) << 16);
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
        *out = bf16::from_f32(*value).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, dequantise};

    #[test]
    fn is_the_upper_half() {
        for value in [1.0f32, -2.0, 0.15625, f32::NEG_INFINITY, -0.0] {
            let bits = (value.to_bits() >> 16) as u16;
            let mut out = [0.0f32];
            dequantise(Format::BF16, &bits.to_le_bytes(), &mut out).expect("lengths fit");
            assert_eq!(out[0].to_bits(), value.to_bits());
        }
    }
}
