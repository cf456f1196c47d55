//! How the blocks of each format become groups of unsigned numbers with a scale and an offset: a value is
//! `scale × number + offset`, so a format with negative numbers moves them up and pays with its offset.

use super::interleave::{Rows, bits, byte, first_of_each, halves, interleave};
use crate::kernels::blocks::{Decoder, Q4_0, Q4_1, Q4K, Q6K, Q8_0};
use std::arch::x86_64::*;

/// A loop written out, so that shifts and register choices are constants. Left to the compiler some tiles kept the loop, which
/// doubled their time (`q4_k`, one row: 27 µs against 14).
macro_rules! each {
    ($name:ident in $($value:literal)* => $body:block) => {
        $({
            let $name: usize = $value;
            $body
        })*
    };
}

/// 32 numbers of each of sixteen rows.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Register `j` holds in each row's lane the numbers `4j .. 4j + 4`, unsigned bytes.
    pub numbers: [__m512i; 8],
    /// For each sixteen numbers; both alike where [`Unpack::HALVES`] is 1.
    pub scales: [__m512; 2],
    /// As the scales.
    pub offsets: [__m512; 2],
}

/// Takes the groups of a block.
pub(super) trait Groups {
    /// Group `index` of the block.
    /// # Safety
    /// AVX-512 VNNI is enabled.
    unsafe fn put(&mut self, index: usize, group: Group);
}

/// A format with an integer kernel.
pub(super) trait Unpack: Decoder {
    /// Scales in a group of 32: 1 or 2.
    const HALVES: usize;
    /// Gives every group of the block of sixteen rows to `to`, in order.
    /// # Safety
    /// AVX-512 VNNI is enabled and a block is readable at every row.
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups);
}

impl Unpack for Q8_0 {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 34 bytes.
        unsafe {
            let scale = halves(first_of_each(rows, 0));
            let offset = _mm512_mul_ps(scale, _mm512_set1_ps(-128.0));
            let (first, second) = (interleave(rows, 2), interleave(rows, 18));
            let mut numbers = [_mm512_setzero_si512(); 8];
            for j in 0..4 {
                numbers[j] = _mm512_xor_si512(first[j], _mm512_set1_epi8(-128));
                numbers[j + 4] = _mm512_xor_si512(second[j], _mm512_set1_epi8(-128));
            }
            to.put(0, Group { numbers, scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}

/// The nibbles of 16 bytes at `offset`: low ones, then high ones.
#[inline(always)]
unsafe fn nibbles(rows: &Rows, offset: usize) -> [__m512i; 8] {
    // SAFETY: the callers in this file read within a block.
    unsafe {
        let packed = interleave(rows, offset);
        let mut numbers = [_mm512_setzero_si512(); 8];
        for j in 0..4 {
            numbers[j] = bits(packed[j], 0, 15);
            numbers[j + 4] = bits(packed[j], 4, 15);
        }
        numbers
    }
}

impl Unpack for Q4_0 {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 18 bytes.
        unsafe {
            let scale = halves(first_of_each(rows, 0));
            let offset = _mm512_mul_ps(scale, _mm512_set1_ps(-8.0));
            to.put(0, Group { numbers: nibbles(rows, 2), scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}

impl Unpack for Q4_1 {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 20 bytes.
        unsafe {
            let head = first_of_each(rows, 0);
            let (scale, offset) = (halves(head), halves(_mm512_srli_epi32::<16>(head)));
            to.put(0, Group { numbers: nibbles(rows, 4), scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}

impl Unpack for Q4K {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 144 bytes.
        unsafe {
            let [head, a, b, c] = interleave(rows, 0);
            let scale = halves(head);
            let minimum = _mm512_mul_ps(halves(_mm512_srli_epi32::<16>(head)), _mm512_set1_ps(-1.0));
            // Scales and minima of groups 0 to 3, then 4 to 7, a byte each.
            let upper = |from: __m512i| _mm512_slli_epi32::<4>(bits(from, 6, 3));
            let scales = [bits(a, 0, 63), _mm512_or_si512(bits(c, 0, 15), upper(a))];
            let minima = [bits(b, 0, 63), _mm512_or_si512(bits(c, 4, 15), upper(b))];
            each!(pair in 0 1 2 3 => {
                let (first, second) = (interleave(rows, 16 + pair * 32), interleave(rows, 32 + pair * 32));
                each!(high in 0 1 => {
                    let group = pair * 2 + high;
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..4 {
                        numbers[j] = bits(first[j], high * 4, 15);
                        numbers[j + 4] = bits(second[j], high * 4, 15);
                    }
                    let own_scale = _mm512_mul_ps(scale, byte(scales[group / 4], group % 4, false));
                    let offset = _mm512_mul_ps(minimum, byte(minima[group / 4], group % 4, false));
                    to.put(group, Group { numbers, scales: [own_scale; 2], offsets: [offset; 2] });
                });
            });
        }
    }
}

impl Unpack for Q6K {
    const HALVES: usize = 2;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 210 bytes.
        unsafe {
            let steps = interleave(rows, 192);
            // The scale is the last two bytes of the block.
            let scale = halves(_mm512_srli_epi32::<16>(interleave(rows, 194)[3]));
            each!(half in 0 1 => {
                let upper = [interleave(rows, 128 + half * 32), interleave(rows, 144 + half * 32)];
                each!(quarter in 0 1 2 3 => {
                    let group = half * 4 + quarter;
                    let at = half * 64 + quarter % 2 * 32;
                    let lower = [interleave(rows, at), interleave(rows, at + 16)];
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..8 {
                        let low = bits(lower[j / 4][j % 4], quarter / 2 * 4, 15);
                        let high = bits(upper[j / 4][j % 4], quarter * 2, 3);
                        numbers[j] = _mm512_or_si512(low, _mm512_slli_epi16::<4>(high));
                    }
                    let mut scales = [_mm512_setzero_ps(); 2];
                    let mut offsets = [_mm512_setzero_ps(); 2];
                    for side in 0..2 {
                        let step = byte(steps[group / 2], group % 2 * 2 + side, true);
                        scales[side] = _mm512_mul_ps(scale, step);
                        offsets[side] = _mm512_mul_ps(scales[side], _mm512_set1_ps(-32.0));
                    }
                    to.put(group, Group { numbers, scales, offsets });
                });
            });
        }
    }
}
