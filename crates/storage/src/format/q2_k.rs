//! 256 two-bit numbers in 16 sub-blocks of 16: `scale × s × number − minimum × m`, with a 4-bit s and m for each.
//!
//! Block: 16 bytes (s in the low nibble, m in the high one), 64 bytes of numbers, scale, minimum (binary16 each). The
//! numbers of each half of the block lie in 32 bytes: the first 32 elements in their lowest two bits, and so on.

use super::Layout;
use super::nibbles::half_at;

pub(super) const LAYOUT: Layout = Layout { name: "q2_k", block_elements: 256, block_bytes: 84, dequantise };

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
