//! Sixteen rows of bytes side by side.

use std::arch::x86_64::*;

/// The current block in sixteen weight rows: each row's address, and how far into them the block begins. Kept apart, so that
/// going on is one addition and not sixteen.
pub(super) struct Rows {
    pub starts: [*const u8; 16],
    pub offset: usize,
}

/// The 16 bytes `offset` into each row: register `j` holds in lane `r` the bytes `4j .. 4j + 4` of row `r`.
///
/// # Safety
/// AVX-512 F is enabled; 16 bytes at `offset` are readable in every row.
#[inline(always)]
pub(super) unsafe fn interleave(rows: &Rows, offset: usize) -> [__m512i; 4] {
    // SAFETY: the caller's condition.
    unsafe {
        let [a, b, c, d] = every_fourth(rows, offset);
        let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (other_low, other_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(low, other_low),
            _mm512_unpackhi_epi64(low, other_low),
            _mm512_unpacklo_epi64(high, other_high),
            _mm512_unpackhi_epi64(high, other_high),
        ]
    }
}

/// The four bytes `offset` into each row, a row in each lane.
///
/// # Safety
/// As [`interleave`]: 16 bytes are read.
#[inline(always)]
pub(super) unsafe fn first_of_each(rows: &Rows, offset: usize) -> __m512i {
    // SAFETY: the caller's condition.
    unsafe {
        let [a, b, c, d] = every_fourth(rows, offset);
        _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d))
    }
}

/// Rows 0, 4, 8, 12 in the quarters of the first register, 1, 5, 9, 13 in those of the second, and so on.
#[inline(always)]
unsafe fn every_fourth(rows: &Rows, offset: usize) -> [__m512i; 4] {
    // SAFETY: the caller of both functions above vouches for the bytes.
    unsafe {
        let mut quarters = [_mm512_setzero_si512(); 4];
        for first in 0..4 {
            let read = |row: usize| _mm_loadu_si128(rows.starts[row].add(rows.offset + offset).cast());
            let mut all = _mm512_castsi128_si512(read(first));
            all = _mm512_inserti32x4::<1>(all, read(first + 4));
            all = _mm512_inserti32x4::<2>(all, read(first + 8));
            quarters[first] = _mm512_inserti32x4::<3>(all, read(first + 12));
        }
        quarters
    }
}

/// The half-precision numbers in the lower halves of the lanes.
///
/// # Safety
/// AVX-512 F is enabled.
#[inline(always)]
pub(super) unsafe fn halves(lanes: __m512i) -> __m512 {
    // SAFETY: the caller's condition.
    unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(lanes)) }
}

/// Each byte shifted right, zeros coming in, and cut to `mask`; the mask has no bit that the shift brings from a neighbour.
///
/// # Safety
/// AVX-512 F and BW are enabled.
#[inline(always)]
pub(super) unsafe fn bits(bytes: __m512i, shift: usize, mask: u8) -> __m512i {
    // SAFETY: the caller's condition.
    unsafe {
        let shifted = _mm512_srl_epi16(bytes, _mm_cvtsi32_si128(shift as i32));
        _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
    }
}

/// Byte `index` of each lane as a number.
///
/// # Safety
/// AVX-512 F is enabled.
#[inline(always)]
pub(super) unsafe fn byte(lanes: __m512i, index: usize, signed: bool) -> __m512 {
    // SAFETY: the caller's condition.
    unsafe {
        let top = _mm512_sll_epi32(lanes, _mm_cvtsi32_si128(24 - 8 * index as i32));
        let down = _mm_cvtsi32_si128(24);
        let number = if signed { _mm512_sra_epi32(top, down) } else { _mm512_srl_epi32(top, down) };
        _mm512_cvtepi32_ps(number)
    }
}
