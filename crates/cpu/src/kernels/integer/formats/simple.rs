//! Formats whose blocks are one group under one scale.

use super::{Group, Groups, Unpack, each};
use crate::kernels::blocks::{IQ4NL, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, UNEVEN};
use crate::kernels::integer::interleave::{Rows, bits, first_of_each, halves, interleave};
use std::arch::x86_64::*;

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
pub(super) unsafe fn nibbles(rows: &Rows, offset: usize) -> [__m512i; 8] {
    // SAFETY: the callers read within a block.
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

/// Bit `i` of a nibble as 16 in byte `i`.
const FIFTHS: [i32; 16] = {
    let mut table = [0; 16];
    let mut nibble = 0;
    while nibble < 16 {
        let spread = nibble & 1 | (nibble & 2) << 7 | (nibble & 4) << 14 | (nibble & 8) << 21;
        table[nibble as usize] = spread << 4;
        nibble += 1;
    }
    table
};

/// Nibbles with the fifth bits of each row's 32 numbers.
#[inline(always)]
unsafe fn five_bits(mut numbers: [__m512i; 8], fifths: __m512i) -> [__m512i; 8] {
    // SAFETY: the callers in this file run with AVX-512; the table is a register long.
    unsafe {
        let table = _mm512_loadu_si512(FIFTHS.as_ptr().cast());
        each!(j in 0 1 2 3 4 5 6 7 => {
            // The lookup reads the lowest four bits of each lane.
            let upper = _mm512_permutexvar_epi32(_mm512_srl_epi32(fifths, _mm_cvtsi32_si128(j as i32 * 4)), table);
            numbers[j] = _mm512_or_si512(numbers[j], upper);
        });
        numbers
    }
}

impl Unpack for Q5_0 {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 22 bytes.
        unsafe {
            let scale = halves(first_of_each(rows, 0));
            let offset = _mm512_mul_ps(scale, _mm512_set1_ps(-16.0));
            let numbers = five_bits(nibbles(rows, 6), first_of_each(rows, 2));
            to.put(0, Group { numbers, scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}

impl Unpack for Q5_1 {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 24 bytes.
        unsafe {
            let [head, fifths, ..] = interleave(rows, 0);
            let (scale, offset) = (halves(head), halves(_mm512_srli_epi32::<16>(head)));
            let numbers = five_bits(nibbles(rows, 8), fifths);
            to.put(0, Group { numbers, scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}

/// What a nibble of the uneven formats stands for, moved up by 128.
#[inline(always)]
pub(super) unsafe fn uneven(mut numbers: [__m512i; 8]) -> [__m512i; 8] {
    // SAFETY: the callers run with AVX-512 BW; the table is 16 bytes long.
    unsafe {
        let table = _mm_xor_si128(_mm_loadu_si128(UNEVEN.as_ptr().cast()), _mm_set1_epi8(-128));
        let table = _mm512_broadcast_i32x4(table);
        for number in &mut numbers {
            *number = _mm512_shuffle_epi8(table, *number);
        }
        numbers
    }
}

impl Unpack for IQ4NL {
    const HALVES: usize = 1;
    #[inline(always)]
    unsafe fn unpack(rows: &Rows, to: &mut impl Groups) {
        // SAFETY: the caller's condition; reads lie within 18 bytes.
        unsafe {
            let scale = halves(first_of_each(rows, 0));
            let offset = _mm512_mul_ps(scale, _mm512_set1_ps(-128.0));
            to.put(0, Group { numbers: uneven(nibbles(rows, 2)), scales: [scale; 2], offsets: [offset; 2] });
        }
    }
}
