//! 32 nibbles that index sixteen unevenly spaced values, under one binary16 scale: `scale × VALUES[nibble]`.
//!
//! Block: scale (2 bytes), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, half_at};

pub(super) const LAYOUT: Layout = Layout { name: "iq4_nl", block_elements: 32, block_bytes: 18, dequantise };

/// The values that a nibble stands for, part of the format.
pub(super) const VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0,
];

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        each_nibble(&block[2..], out, |_, nibble| scale * VALUES[usize::from(nibble)]);
    }
}
