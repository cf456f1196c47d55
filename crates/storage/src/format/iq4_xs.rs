//! 256 nibbles in 8 sub-blocks of 32 that index the values of `iq4_nl`: `scale × (s − 32) × VALUES[nibble]`, with a 6-bit s
//! for each.
//!
//! Block: scale (binary16), the upper two bits of each s (2 bytes, little-endian), the lower nibbles of s (4 bytes), then
//! for each sub-block 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::iq4_nl::VALUES;
use super::nibbles::{each_nibble, half_at};

pub(super) const LAYOUT: Layout =
    Layout { name: "iq4_xs", block_elements: 256, block_bytes: 136, dequantise };

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
