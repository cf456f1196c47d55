//! 32 nibbles under one binary16 scale: `scale × (nibble − 8)`.
//!
//! Block: scale (2 bytes), 16 bytes whose low nibbles are the first half of the block and whose high ones the second.

use super::Layout;
use super::nibbles::{each_nibble, half_at, pack_nibbles};
use crate::quantise::{Signed, centred};

pub(super) const LAYOUT: Layout =
    Layout { name: "q4_0", block_elements: 32, block_bytes: 18, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        each_nibble(&block[2..], out, |_, nibble| scale * (f32::from(nibble) - 8.0));
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<18>().0) {
        let (scale, levels) = centred::<Signed<-8, 7>, 32>(values);
        block[..2].copy_from_slice(&scale.to_le_bytes());
        pack_nibbles(&mut block[2..], |index| (levels[index] + 8.0) as u8);
    }
}
