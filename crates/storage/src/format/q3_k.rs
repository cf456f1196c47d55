//! 256 three-bit numbers in 16 sub-blocks of 16: `scale × (s − 32) × (number − 4)`, with a 6-bit s for each.
//!
//! Block: 256 third bits (32 bytes: byte i holds those of elements i, i + 32, …), 64 bytes of the lower two bits as in
//! `q2_k`, 12 bytes of s (low nibbles in the first eight, upper two bits in the last four), scale (binary16).

use super::Layout;
use super::nibbles::half_at;
use crate::quantise::{Signed, nested, sub_blocks};

pub(super) const LAYOUT: Layout =
    Layout { name: "q3_k", block_elements: 256, block_bytes: 110, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<110>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        let (third_bits, numbers, sub_scales) = (&block[..32], &block[32..96], &block[96..108]);
        let scale = half_at(block, 108);
        for (index, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let (half, shift, start) = (index / 8, index / 2 % 4 * 2, index % 2 * 16);
            let scale = scale * sub_scale(sub_scales, index);
            let lower = &numbers[half * 32 + start..];
            for ((out, &byte), &third) in out.iter_mut().zip(lower).zip(&third_bits[start..]) {
                let number = byte >> shift & 3 | (third >> (index / 2) & 1) << 2;
                *out = scale * (f32::from(number) - 4.0);
            }
        }
    }
}

/// The scale of sub-block `index` (0..16), with its offset taken off.
fn sub_scale(packed: &[u8], index: usize) -> f32 {
    let low = packed[index % 8] >> (index / 8 * 4) & 15;
    let high = packed[8 + index % 4] >> (index / 4 * 2) & 3;
    f32::from(low | high << 4) - 32.0
}

fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<256>().0.iter().zip(out.as_chunks_mut::<110>().0) {
        let found = nested::<Signed<-4, 3>, 16, 16>(&sub_blocks(values), [-32, 31]);
        block.fill(0);
        for (index, levels) in found.levels.iter().enumerate() {
            let (half, shift, start) = (index / 8, index / 2 % 4 * 2, index % 2 * 16);
            let sub_scale = (found.sub_scales[index] + 32) as u8;
            block[96 + index % 8] |= (sub_scale & 15) << (index / 8 * 4);
            block[104 + index % 4] |= (sub_scale >> 4) << (index / 4 * 2);
            for (at, level) in levels.iter().enumerate() {
                let number = (level + 4.0) as u8;
                block[start + at] |= (number >> 2) << (index / 2);
                block[32 + half * 32 + start + at] |= (number & 3) << shift;
            }
        }
        block[108..110].copy_from_slice(&found.scale.to_le_bytes());
    }
}
