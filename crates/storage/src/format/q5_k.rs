//! 256 five-bit numbers in 8 sub-blocks of 32: `scale × s × number − minimum × m`, with a 6-bit s and m for each.
//!
//! Block: scale, minimum (binary16 each), 12 bytes of s and m as in `q4_k`, 256 fifth bits (32 bytes: byte i holds those of
//! elements i, i + 32, …), 128 bytes of nibbles as in `q4_k`.

use super::Layout;
use super::nibbles::{half_at, pack_scales_and_minima, scale_and_minimum};
use crate::quantise::{nested_affine, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "q5_k", block_elements: 256, block_bytes: 176, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<176>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        let fifth_bits = &block[16..48];
        for (index, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let (sub_scale, sub_minimum) = scale_and_minimum(&block[4..16], index);
            let (scale, minimum) = (scale * sub_scale, minimum * sub_minimum);
            let shift = index % 2 * 4;
            for ((out, &byte), &fifth) in out.iter_mut().zip(&block[48 + index / 2 * 32..]).zip(fifth_bits) {
                let number = byte >> shift & 15 | (fifth >> index & 1) << 4;
                *out = scale * f32::from(number) - minimum;
            }
        }
    }
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<176>().0) {
        let found = nested_affine::<31, 8, 32>(&sub_blocks(values), 63);
        block.fill(0);
        block[..2].copy_from_slice(&found.scale.to_le_bytes());
        block[2..4].copy_from_slice(&found.minimum.to_le_bytes());
        pack_scales_and_minima(&mut block[4..16], &found.sub_scales, &found.sub_minima);
        for (index, numbers) in found.numbers.iter().enumerate() {
            for (at, number) in numbers.iter().enumerate() {
                let number = *number as u8;
                block[16 + at] |= (number >> 4) << index;
                block[48 + index / 2 * 32 + at] |= (number & 15) << (index % 2 * 4);
            }
        }
    }
}
