//! 32 nibbles that index sixteen unevenly spaced values, under one binary16 scale: `scale × VALUES[nibble]`.
//!
//! Block: scale (2 bytes), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, half_at, pack_nibbles};
use crate::quantise::{Uneven, centred};

pub(super) const LAYOUT: Layout =
    Layout { name: "iq4_nl", block_elements: 32, block_bytes: 18, dequantise, quantise: Some(quantise) };

/// The values that a nibble stands for, part of the format.
pub(super) const VALUES: [f32; 16] = Uneven::VALUES;

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        each_nibble(&block[2..], out, |_, nibble| scale * VALUES[usize::from(nibble)]);
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<18>().0) {
        let (scale, levels) = centred::<Uneven, 32>(values);
        block[..2].copy_from_slice(&scale.to_le_bytes());
        pack_nibbles(&mut block[2..], |index| Uneven::place(levels[index]));
    }
}
