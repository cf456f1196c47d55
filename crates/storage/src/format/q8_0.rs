//! 32 signed bytes under one binary16 scale: `scale × byte`.
//!
//! Block: scale (2 bytes), 32 bytes.

use super::Layout;
use super::nibbles::half_at;

pub(super) const LAYOUT: Layout = Layout { name: "q8_0", block_elements: 32, block_bytes: 34, dequantise };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<34>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        for (out, &byte) in out.iter_mut().zip(&block[2..]) {
            *out = scale * f32::from(byte as i8);
        }
    }
}
