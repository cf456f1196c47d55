//! Formats whose blocks of 256 hold groups with scales of their own.

use super::simple::{nibbles, uneven};
use super::{Group, Groups, Unpack, each};
use crate::kernels::blocks::{IQ4XS, Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::kernels::integer::interleave::{Rows, bits, byte, halves, interleave};
use std::arch::x86_64::*;

/// Scales and minima of the groups of a `q4_k` or `q5_k` block.
struct Factors {
    scale: __m512,
    minimum: __m512,
    /// Of groups 0 to 3, then 4 to 7, a byte each.
    scales: [__m512i; 2],
    minima: [__m512i; 2],
}

impl Factors {
    /// # Safety
    /// AVX-512 BW is enabled and a block is readable at every row.
    #[inline(always)]
    unsafe fn read(rows: &Rows) -> Factors {
        // SAFETY: the caller's condition; the first 16 bytes of a block.
        unsafe {
            let [head, a, b, c] = interleave(rows, 0);
            let minimum = _mm512_mul_ps(halves(_mm512_srli_epi32::<16>(head)), _mm512_set1_ps(-1.0));
            let upper = |from: __m512i| _mm512_slli_epi32::<4>(bits(from, 6, 3));
            Factors {
                scale: halves(head),
                minimum,
                scales: [bits(a, 0, 63), _mm512_or_si512(bits(c, 0, 15), upper(a))],
                minima: [bits(b, 0, 63), _mm512_or_si512(bits(c, 4, 15), upper(b))],
            }
        }
    }

    /// A group's scale and offset.
    /// # Safety
    /// AVX-512 F is enabled.
    #[inline(always)]
    unsafe fn of(&self, group: usize) -> (__m512, __m512) {
        // SAFETY: the caller's condition.
        unsafe {
            let scale = _mm512_mul_ps(self.scale, byte(self.scales[group / 4], group % 4, false));
            (scale, _mm512_mul_ps(self.minimum, byte(self.minima[group / 4], group % 4, false)))
        }
    }
}

impl Unpack for Q4K {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 144 bytes.
        unsafe {
            let factors = Factors::read(rows);
            each!(pair in 0 1 2 3 => {
                let (first, second) = (interleave(rows, 16 + pair * 32), interleave(rows, 32 + pair * 32));
                each!(high in 0 1 => {
                    let group = pair * 2 + high;
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..4 {
                        numbers[j] = bits(first[j], high * 4, 15);
                        numbers[j + 4] = bits(second[j], high * 4, 15);
                    }
                    let (scale, offset) = factors.of(group);
                    to.put(group, Group { numbers, scales: [scale; 2], offsets: [offset; 2] });
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

impl Unpack for Q5K {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 176 bytes.
        unsafe {
            let factors = Factors::read(rows);
            let fifths = [interleave(rows, 16), interleave(rows, 32)];
            each!(pair in 0 1 2 3 => {
                let lower = [interleave(rows, 48 + pair * 32), interleave(rows, 64 + pair * 32)];
                each!(high in 0 1 => {
                    let group = pair * 2 + high;
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..8 {
                        let fifth = _mm512_slli_epi16::<4>(bits(fifths[j / 4][j % 4], group, 1));
                        numbers[j] = _mm512_or_si512(bits(lower[j / 4][j % 4], high * 4, 15), fifth);
                    }
                    let (scale, offset) = factors.of(group);
                    to.put(group, Group { numbers, scales: [scale; 2], offsets: [offset; 2] });
                });
            });
        }
    }
}

impl Unpack for Q2K {
    const HALVES: usize = 2;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 84 bytes.
        unsafe {
            let steps = interleave(rows, 0);
            // Scale and minimum are the last four bytes of the block.
            let head = interleave(rows, 68)[3];
            let scale = halves(head);
            let minimum = _mm512_mul_ps(halves(_mm512_srli_epi32::<16>(head)), _mm512_set1_ps(-1.0));
            each!(half in 0 1 => {
                let packed = [interleave(rows, 16 + half * 32), interleave(rows, 32 + half * 32)];
                each!(quarter in 0 1 2 3 => {
                    let group = half * 4 + quarter;
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..8 {
                        numbers[j] = bits(packed[j / 4][j % 4], quarter * 2, 3);
                    }
                    let mut scales = [_mm512_setzero_ps(); 2];
                    let mut offsets = [_mm512_setzero_ps(); 2];
                    for side in 0..2 {
                        let (own, at) = (steps[group / 2], group % 2 * 2 + side);
                        scales[side] = _mm512_mul_ps(scale, byte(bits(own, 0, 15), at, false));
                        offsets[side] = _mm512_mul_ps(minimum, byte(bits(own, 4, 15), at, false));
                    }
                    to.put(group, Group { numbers, scales, offsets });
                });
            });
        }
    }
}

impl Unpack for Q3K {
    const HALVES: usize = 2;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 110 bytes.
        unsafe {
            // The scale is the last two bytes of the block; before it twelve bytes of steps.
            let scale = halves(_mm512_srli_epi32::<16>(interleave(rows, 94)[3]));
            let [_, first, second, upper] = interleave(rows, 92);
            let mut steps = [_mm512_setzero_si512(); 4];
            each!(four in 0 1 2 3 => {
                let lower = bits([first, second][four % 2], four / 2 * 4, 15);
                steps[four] = _mm512_or_si512(lower, _mm512_slli_epi16::<4>(bits(upper, four * 2, 3)));
            });
            let thirds = [interleave(rows, 0), interleave(rows, 16)];
            each!(half in 0 1 => {
                let packed = [interleave(rows, 32 + half * 32), interleave(rows, 48 + half * 32)];
                each!(quarter in 0 1 2 3 => {
                    let group = half * 4 + quarter;
                    let mut numbers = [_mm512_setzero_si512(); 8];
                    for j in 0..8 {
                        let third = _mm512_slli_epi16::<2>(bits(thirds[j / 4][j % 4], group, 1));
                        numbers[j] = _mm512_or_si512(bits(packed[j / 4][j % 4], quarter * 2, 3), third);
                    }
                    let mut scales = [_mm512_setzero_ps(); 2];
                    let mut offsets = [_mm512_setzero_ps(); 2];
                    for side in 0..2 {
                        let step = byte(steps[group / 2], group % 2 * 2 + side, false);
                        scales[side] = _mm512_mul_ps(scale, _mm512_sub_ps(step, _mm512_set1_ps(32.0)));
                        offsets[side] = _mm512_mul_ps(scales[side], _mm512_set1_ps(-4.0));
                    }
                    to.put(group, Group { numbers, scales, offsets });
                });
            });
        }
    }
}

impl Unpack for IQ4XS {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 136 bytes.
        unsafe {
            let [head, lower, ..] = interleave(rows, 0);
            let scale = halves(head);
            each!(group in 0 1 2 3 4 5 6 7 => {
                let shifted = |from: __m512i, count: usize, mask: i32| {
                    let down = _mm512_srl_epi32(from, _mm_cvtsi32_si128(count as i32));
                    _mm512_and_si512(down, _mm512_set1_epi32(mask))
                };
                let upper = _mm512_slli_epi32::<4>(shifted(head, 16 + group * 2, 3));
                let step = _mm512_cvtepi32_ps(_mm512_or_si512(shifted(lower, group * 4, 15), upper));
                let own = _mm512_mul_ps(scale, _mm512_sub_ps(step, _mm512_set1_ps(32.0)));
                let offset = _mm512_mul_ps(own, _mm512_set1_ps(-128.0));
                let numbers = uneven(nibbles(rows, 8 + group * 16));
                to.put(group, Group { numbers, scales: [own; 2], offsets: [offset; 2] });
            });
        }
    }
}
