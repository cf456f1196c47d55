//! IEEE 754 binary32: the identity.

use super::Layout;

pub(super) const LAYOUT: Layout =
    Layout { name: "f32", block_elements: 1, block_bytes: 4, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    let (values, _) = bytes.as_chunks();
    for (value, out) in values.iter().zip(out) {
        *out = f32::from_le_bytes(*value);
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
        *out = value.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, dequantise};

    #[test]
    fn is_the_identity_even_on_odd_addresses() {
        let values = [1.5f32, -0.0, f32::MIN_POSITIVE / 4.0, f32::INFINITY, 3.0e38];
        let mut bytes = vec![0xffu8];
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        let mut out = [0.0f32; 5];
        dequantise(Format::F32, &bytes[1..], &mut out).expect("lengths fit");
        assert_eq!(out.map(f32::to_bits), values.map(f32::to_bits));
    }
}
