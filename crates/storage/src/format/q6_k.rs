//! 256 six-bit numbers in 16 sub-blocks of 16: `scale × s × (number − 32)`, with a signed byte s for each.
//!
//! Block: 128 bytes of lower nibbles, 64 bytes of upper bits, 16 bytes of s, scale (binary16). Each half of the block has
//! 64 bytes of nibbles, the low ones for its first 64 elements and the high ones for the rest, and 32 bytes of upper bits:
//! the first 32 elements in their lowest two bits, and so on.

use super::Layout;
use super::nibbles::half_at;
use crate::quantise::{Signed, nested, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "q6_k", block_elements: 256, block_bytes: 210, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<210>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (nibbles, upper_bits, sub_scales) = (&block[..128], &block[128..192], &block[192..208]);
        let scale = half_at(block, 208);
        for (index, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (half, quarter, start) = (index / 8, index / 2 % 4, index % 2 * 16);
            let scale = scale * f32::from(sub_scales[index] as i8);
            let nibbles = &nibbles[half * 64 + quarter % 2 * 32 + start..];
            let upper_bits = &upper_bits[half * 32 + start..];
            for ((out, &byte), &upper) in out.iter_mut().zip(nibbles).zip(upper_bits) {
                let number = byte >> (quarter / 2 * 4) & 15 | (upper >> (quarter * 2) & 3) << 4;
                *out = scale * (f32::from(number) - 32.0);
            }
        }
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<210>().0) {
        let found = nested::<Signed<-32, 31>, 16, 16>(&sub_blocks(values), [-128, 127]);
        block.fill(0);
        for (index, levels) in found.levels.iter().enumerate() {
            let (half, quarter, start) = (index / 8, index / 2 % 4, index % 2 * 16);
            block[192 + index] = found.sub_scales[index] as u8;
            for (at, level) in levels.iter().enumerate() {
                let number = (level + 32.0) as u8;
                block[half * 64 + quarter % 2 * 32 + start + at] |= (number & 15) << (quarter / 2 * 4);
                block[128 + half * 32 + start + at] |= (number >> 4) << (quarter * 2);
            }
        }
        block[208..210].copy_from_slice(&found.scale.to_le_bytes());
    }
}
