//! 32 nibbles under a binary16 scale and minimum: `scale × nibble + minimum`.
//!
//! Block: scale, minimum (2 bytes each), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, half_at, pack_nibbles};
use crate::quantise::affine;

pub(super) const LAYOUT: Layout =
    Layout { name: "q4_1", block_elements: 32, block_bytes: 20, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<20>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        each_nibble(&block[4..], out, |_, nibble| scale * f32::from(nibble) + minimum);
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<20>().0) {
        let found = affine::<15, 32>(values);
        block[..2].copy_from_slice(&found.scale.to_le_bytes());
        block[2..4].copy_from_slice(&found.offset.to_le_bytes());
        pack_nibbles(&mut block[4..], |index| found.numbers[index] as u8);
    }
}
