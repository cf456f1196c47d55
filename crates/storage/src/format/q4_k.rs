//! 256 nibbles in 8 sub-blocks of 32: `scale × s × nibble − minimum × m`, with a 6-bit s and m for each.
//!
//! Block: scale, minimum (binary16 each), 12 bytes of s and m, 128 bytes of nibbles: of each 32 bytes the low nibbles are
//! one sub-block and the high ones the next.

use super::Layout;
use super::nibbles::{half_at, pack_scales_and_minima, scale_and_minimum};
use crate::quantise::{nested_affine, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "q4_k", block_elements: 256, block_bytes: 144, dequantise, quantise: Some(quantise) };

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

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<144>().0) {
        let found = nested_affine::<15, 8, 32>(&sub_blocks(values), 63);
        block.fill(0);
        block[..2].copy_from_slice(&found.scale.to_le_bytes());
        block[2..4].copy_from_slice(&found.minimum.to_le_bytes());
        pack_scales_and_minima(&mut block[4..16], &found.sub_scales, &found.sub_minima);
        for (index, numbers) in found.numbers.iter().enumerate() {
            for (byte, number) in block[16 + index / 2 * 32..].iter_mut().zip(numbers) {
                *byte |= (*number as u8) << (index % 2 * 4);
            }
        }
    }
}
