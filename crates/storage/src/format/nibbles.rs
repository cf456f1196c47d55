//! What several block formats share: half-precision scales and the packed scales of the 4- and 5-bit super-blocks.

use half::f16;

/// The binary16 at a byte of a block. `at + 2` lies within every block this is called with.
pub(super) fn half_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 6-bit scale and minimum of sub-block `index` (0..8) out of 12 bytes: the first four lie whole in the low six
/// bits of their bytes, the other four have their low nibbles in the last four bytes and their upper two bits above the
/// first ones.
pub(super) fn scale_and_minimum(packed: &[u8], index: usize) -> (f32, f32) {
    let (scale, minimum) = if index < 4 {
        (packed[index] & 63, packed[index + 4] & 63)
    } else {
        let low = packed[index + 4];
        (low & 15 | packed[index - 4] >> 6 << 4, low >> 4 | packed[index] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

/// Writes 32 values from 16 bytes: the low nibbles, then the high ones.
pub(super) fn each_nibble(packed: &[u8], out: &mut [f32], value: impl Fn(usize, u8) -> f32) {
    let (low, high) = out.split_at_mut(16);
    for (index, ((&byte, low), high)) in packed.iter().zip(low).zip(high).enumerate() {
        *low = value(index, byte & 15);
        *high = value(index + 16, byte >> 4);
    }
}

/// Packs 32 nibbles into 16 bytes, as [`each_nibble`] reads them.
pub(super) fn pack_nibbles(packed: &mut [u8], nibble: impl Fn(usize) -> u8) {
    for (index, byte) in packed[..16].iter_mut().enumerate() {
        *byte = nibble(index) | nibble(index + 16) << 4;
    }
}

/// The fifth bits of 32 numbers, bit i for element i.
pub(super) fn fifth_bits(number: impl Fn(usize) -> u8) -> u32 {
    (0..32).fold(0, |bits, index| bits | u32::from(number(index) >> 4) << index)
}

/// Packs 6-bit scales and minima into 12 bytes that are zero, as [`scale_and_minimum`] reads them.
pub(super) fn pack_scales_and_minima(packed: &mut [u8], scales: &[u8; 8], minima: &[u8; 8]) {
    for (index, (&scale, &minimum)) in scales.iter().zip(minima).enumerate() {
        if index < 4 {
            packed[index] |= scale;
            packed[index + 4] |= minimum;
        } else {
            packed[index + 4] |= scale & 15 | (minimum & 15) << 4;
            packed[index - 4] |= scale >> 4 << 6;
            packed[index] |= minimum >> 4 << 6;
        }
    }
}
