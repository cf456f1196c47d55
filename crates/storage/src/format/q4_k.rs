//! 256 nibbles in 8 sub-blocks of 32: `scale × s × nibble − minimum × m`, with a 6-bit s and m for each.
//!
//! Block: scale, minimum (binary16 each), 12 bytes of s and m, 128 bytes of nibbles: of each 32 bytes the low nibbles are
//! one sub-block and the high ones the next.

use super::Layout;
use super::nibbles::{half_at, scale_and_minimum};

pub(super) const LAYOUT: Layout = Layout { name: "q4_k", block_elements: 256, block_bytes: 144, dequantise };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<144>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        for (index, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (sub_scale, sub_minimum) = scale_and_minimum(&block[4..16], index);
            let (scale, minimum) = (scale * sub_scale, minimum * sub_minimum);
            let shift = index % 2 * 4;
            for (out, &byte) in out.iter_mut().zip(&block[16 + index / 2 * 32..]) {
                *out = scale * f32::from(byte >> shift & 15) - minimum;
            }
        }
    }
}
