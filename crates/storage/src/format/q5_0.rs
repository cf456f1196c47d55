//! 32 five-bit numbers under one binary16 scale: `scale × (number − 16)`.
//!
//! Block: scale (2 bytes), 32 fifth bits (4 bytes, little-endian, bit i for element i), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, fifth_bits, half_at, pack_nibbles};
use crate::quantise::{Signed, centred};

pub(super) const LAYOUT: Layout =
    Layout { name: "q5_0", block_elements: 32, block_bytes: 22, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<22>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        let fifth = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
        each_nibble(&block[6..], out, |index, nibble| {
            let number = nibble | ((fifth >> index & 1) as u8) << 4;
            scale * (f32::from(number) - 16.0)
        });
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<22>().0) {
        let (scale, levels) = centred::<Signed<-16, 15>, 32>(values);
        block[..2].copy_from_slice(&scale.to_le_bytes());
        let number = |index: usize| (levels[index] + 16.0) as u8;
        block[2..6].copy_from_slice(&fifth_bits(number).to_le_bytes());
        pack_nibbles(&mut block[6..], |index| number(index) & 15);
    }
}
