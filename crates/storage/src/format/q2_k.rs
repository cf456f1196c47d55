//! 256 two-bit numbers in 16 sub-blocks of 16: `scale × s × number − minimum × m`, with a 4-bit s and m for each.
//!
//! Block: 16 bytes (s in the low nibble, m in the high one), 64 bytes of numbers, scale, minimum (binary16 each). The
//! numbers of each half of the block lie in 32 bytes: the first 32 elements in their lowest two bits, and so on.

use super::Layout;
use super::nibbles::half_at;
use crate::quantise::{nested_affine, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "q2_k", block_elements: 256, block_bytes: 84, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<84>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (sub_scales, numbers) = (&block[..16], &block[16..80]);
        let (scale, minimum) = (half_at(block, 80), half_at(block, 82));
        for (index, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (half, shift, start) = (index / 8, index / 2 % 4 * 2, index % 2 * 16);
            let scale = scale * f32::from(sub_scales[index] & 15);
            let minimum = minimum * f32::from(sub_scales[index] >> 4);
            for (out, &byte) in out.iter_mut().zip(&numbers[half * 32 + start..]) {
                *out = scale * f32::from(byte >> shift & 3) - minimum;
            }
        }
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<84>().0) {
        let found = nested_affine::<3, 16, 16>(&sub_blocks(values), 15);
        block.fill(0);
        for (index, found_numbers) in found.numbers.iter().enumerate() {
            let (half, shift, start) = (index / 8, index / 2 % 4 * 2, index % 2 * 16);
            block[index] = found.sub_scales[index] | found.sub_minima[index] << 4;
            for (byte, number) in block[16 + half * 32 + start..].iter_mut().zip(found_numbers) {
                *byte |= (*number as u8) << shift;
            }
        }
        block[80..82].copy_from_slice(&found.scale.to_le_bytes());
        block[82..84].copy_from_slice(&found.minimum.to_le_bytes());
    }
}
