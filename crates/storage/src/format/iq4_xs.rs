//! 256 nibbles in 8 sub-blocks of 32 that index the values of `iq4_nl`: `scale × (s − 32) × VALUES[nibble]`, with a 6-bit s
//! for each.
//!
//! Block: scale (binary16), the upper two bits of each s (2 bytes, little-endian), the lower nibbles of s (4 bytes), then
//! for each sub-block 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::iq4_nl::VALUES;
use super::nibbles::{each_nibble, half_at, pack_nibbles};
use crate::quantise::{Uneven, nested, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "iq4_xs", block_elements: 256, block_bytes: 136, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<136>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let scale = half_at(block, 0);
        let upper_bits = u16::from_le_bytes([block[2], block[3]]);
        let sub_blocks = block[8..].as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<32>().0);
        for (index, (nibbles, out)) in sub_blocks.enumerate() {
            let low = block[4 + index / 2] >> (index % 2 * 4) & 15;
            let high = (upper_bits >> (index * 2) & 3) as u8;
            let scale = scale * (f32::from(low | high << 4) - 32.0);
            each_nibble(nibbles, out, |_, nibble| scale * VALUES[usize::from(nibble)]);
        }
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<136>().0) {
        let found = nested::<Uneven, 8, 32>(&sub_blocks(values), [-32, 31]);
        block.fill(0);
        block[..2].copy_from_slice(&found.scale.to_le_bytes());
        let mut upper_bits = 0u16;
        for (index, (sub_scale, levels)) in found.sub_scales.iter().zip(&found.levels).enumerate() {
            let sub_scale = (sub_scale + 32) as u8;
            upper_bits |= u16::from(sub_scale >> 4) << (index * 2);
            block[4 + index / 2] |= (sub_scale & 15) << (index % 2 * 4);
            pack_nibbles(&mut block[8 + index * 16..][..16], |index| Uneven::place(levels[index]));
        }
        block[2..4].copy_from_slice(&upper_bits.to_le_bytes());
    }
}
