//! 32 five-bit numbers under a binary16 scale and minimum: `scale × number + minimum`.
//!
//! Block: scale, minimum (2 bytes each), 32 fifth bits (4 bytes, as in `q5_0`), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, fifth_bits, half_at, pack_nibbles};
use crate::quantise::affine;

pub(super) const LAYOUT: Layout =
    Layout { name: "q5_1", block_elements: 32, block_bytes: 24, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<24>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        each_nibble(&block[8..], out, |index, nibble| {
            let number = nibble | ((fifth >> index & 1) as u8) << 4;
            scale * f32::from(number) + minimum
        });
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<24>().0) {
        let found = affine::<31, 32>(values);
        block[..2].copy_from_slice(&found.scale.to_le_bytes());
        block[2..4].copy_from_slice(&found.offset.to_le_bytes());
        let number = |index: usize| found.numbers[index] as u8;
        block[4..8].copy_from_slice(&fifth_bits(number).to_le_bytes());
        pack_nibbles(&mut block[8..], |index| number(index) & 15);
    }
}
