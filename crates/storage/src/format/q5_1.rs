//! 32 five-bit numbers under a binary16 scale and minimum: `scale × number + minimum`.
//!
//! Block: scale, minimum (2 bytes each), 32 fifth bits (4 bytes, as in `q5_0`), 16 bytes of nibbles as in `q4_0`.

use super::Layout;
use super::nibbles::{each_nibble, half_at};

pub(super) const LAYOUT: Layout = Layout { name: "q5_1", block_elements: 32, block_bytes: 24, dequantise };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<24>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
        let fifth = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
        each_nibble(&block[8..], out, |index, nibble| {
            let number = nibble | ((fifth >> index & 1) as u8) << 4;
            scale * f32::from(number) + minimum
        });
    }
}
