//! The register tile: sixteen weight rows in the lanes against up to eight activation rows:
//! eight sums, a group's eight registers and its scales fit the 32 registers.

use super::formats::{Group, Groups, Unpack};
use super::interleave::Rows;
use super::rounding::{Facts, GROUP, GROUP_BYTES};
use super::{IntegerScratch, RoundedRows};
use crate::kernels::blocks::{IQ4NL, IQ4XS, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use crate::kernels::tiles::exact_tiles;
use crate::kernels::views::{OutputRows, WeightView};
use fiddlehead_storage::Format;
use std::arch::x86_64::*;
use std::ops::Range;

/// A group as it lies in the scratch.
pub(super) type Unpacked = Group;

/// Up to so many rows a group goes from its block to the sums in registers. More sums spill what unpacking needs (`q4_k`, 8
/// rows: 54 µs against the copy's 40).
const DIRECT_ROWS: usize = 4;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Running sums of `M` activation rows.
struct Sums<const M: usize> {
    numbers: [*const i8; M],
    facts: [*const Facts; M],
    /// The group of the row that the next block starts with.
    first: usize,
    sums: [__m512; M],
}

impl<const M: usize> Sums<M> {
    /// Adds the row's group `at`.
    /// # Safety
    /// AVX-512 VNNI is enabled; the group exists in every activation row.
    #[inline(always)]
    unsafe fn add(&mut self, at: usize, group: &Group, halves: usize) {
        // SAFETY: the caller's condition.
        unsafe {
            for m in 0..M {
                let x = self.numbers[m].add(at * GROUP_BYTES).cast::<i32>();
                let facts = &*self.facts[m].add(at);
                let scale = _mm512_set1_ps(facts.scale);
                let mut sum = self.sums[m];
                // The high parts' sum counts 256 times, then come the low parts': exact, within 2^29.
                if halves == 1 {
                    // Two chains: half the latency of one.
                    let [mut even, mut odd] = [_mm512_setzero_si512(); 2];
                    for j in 0..4 {
                        even = dot(even, group.numbers[j * 2], x.add(j * 2));
                        odd = dot(odd, group.numbers[j * 2 + 1], x.add(j * 2 + 1));
                    }
                    [even, odd] = [_mm512_slli_epi32::<8>(even), _mm512_slli_epi32::<8>(odd)];
                    for j in 0..4 {
                        even = dot(even, group.numbers[j * 2], x.add(8 + j * 2));
                        odd = dot(odd, group.numbers[j * 2 + 1], x.add(8 + j * 2 + 1));
                    }
                    let product = _mm512_cvtepi32_ps(_mm512_add_epi32(even, odd));
                    sum = _mm512_fmadd_ps(_mm512_mul_ps(product, scale), group.scales[0], sum);
                    sum = _mm512_fmadd_ps(_mm512_set1_ps(facts.total), group.offsets[0], sum);
                } else {
                    for half in 0..2 {
                        let mut product = _mm512_setzero_si512();
                        for j in half * 4..half * 4 + 4 {
                            product = dot(product, group.numbers[j], x.add(j));
                        }
                        product = _mm512_slli_epi32::<8>(product);
                        for j in half * 4..half * 4 + 4 {
                            product = dot(product, group.numbers[j], x.add(8 + j));
                        }
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(product), scale);
                        sum = _mm512_fmadd_ps(product, group.scales[half], sum);
                        sum = _mm512_fmadd_ps(_mm512_set1_ps(facts.halves[half]), group.offsets[half], sum);
                    }
                }
                self.sums[m] = sum;
            }
        }
    }
}

/// Adds four products of unsigned numbers with four activations, the same in every lane.
#[inline(always)]
unsafe fn dot(sum: __m512i, numbers: __m512i, activations: *const i32) -> __m512i {
    // SAFETY: the caller vouches for VNNI and for four activations.
    unsafe { _mm512_dpbusd_epi32(sum, numbers, _mm512_set1_epi32(activations.read_unaligned())) }
}

/// [`Sums`] for a format with `HALVES` scales in a group.
struct Adding<const M: usize, const HALVES: usize>(Sums<M>);

impl<const M: usize, const HALVES: usize> Groups for Adding<M, HALVES> {
    #[inline(always)]
    unsafe fn put(&mut self, index: usize, group: Group) {
        // SAFETY: the caller's condition; whoever walks the blocks keeps `first` within the rows.
        unsafe { self.0.add(self.0.first + index, &group, HALVES) }
    }
}

/// Groups to the scratch.
struct Keeping<'a>(&'a mut Vec<Unpacked>);

impl Groups for Keeping<'_> {
    #[inline(always)]
    unsafe fn put(&mut self, _: usize, group: Group) {
        self.0.push(group);
    }
}

/// One call's operands.
struct Call<'a, 'b> {
    weight: &'a WeightView<'a>,
    activations: &'a RoundedRows<'a>,
    columns: Range<usize>,
    output: &'a mut OutputRows<'b>,
}

/// # Safety
/// The instructions are enabled, the shapes agree and the format is one that `check` lets through.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn contract(
    weight: &WeightView<'_>,
    activations: &RoundedRows<'_>,
    columns: Range<usize>,
    output: &mut OutputRows<'_>,
    scratch: &mut IntegerScratch,
) {
    let mut call = Call { weight, activations, columns, output };
    // SAFETY: the caller's condition.
    unsafe {
        match weight.format {
            Format::Q8_0 => call.run::<Q8_0, 1>(scratch),
            Format::Q4_0 => call.run::<Q4_0, 1>(scratch),
            Format::Q4_1 => call.run::<Q4_1, 1>(scratch),
            Format::Q5_0 => call.run::<Q5_0, 1>(scratch),
            Format::Q5_1 => call.run::<Q5_1, 1>(scratch),
            Format::IQ4_NL => call.run::<IQ4NL, 1>(scratch),
            Format::Q2_K => call.run::<Q2K, 2>(scratch),
            Format::Q3_K => call.run::<Q3K, 2>(scratch),
            Format::Q4_K => call.run::<Q4K, 1>(scratch),
            Format::Q5_K => call.run::<Q5K, 1>(scratch),
            Format::IQ4_XS => call.run::<IQ4XS, 1>(scratch),
            Format::Q6_K => call.run::<Q6K, 2>(scratch),
            _ => {}
        }
    }
}

impl Call<'_, '_> {
    /// Sixteen weight rows at a time: straight from their blocks to the sums of few activation rows, else through a copy of
    /// the unpacked groups.
    #[inline(always)]
    unsafe fn run<U: Unpack, const HALVES: usize>(&mut self, scratch: &mut IntegerScratch) {
        debug_assert_eq!(U::HALVES, HALVES);
        let blocks = self.weight.columns / U::ELEMENTS;
        let groups = U::ELEMENTS / GROUP;
        for first in self.columns.clone().step_by(16) {
            let kept = (self.columns.end - first).min(16);
            let starts = std::array::from_fn(|row| self.weight.row(first + row.min(kept - 1)));
            let mut rows = Rows { starts, offset: 0 };
            if self.activations.rows() > DIRECT_ROWS {
                scratch.unpacked.clear();
                for block in 0..blocks {
                    rows.offset = block * U::BYTES;
                    // SAFETY: every row holds its blocks.
                    unsafe { U::unpack(&rows, &mut Keeping(&mut scratch.unpacked)) };
                }
                // SAFETY: the groups of these rows, as many as an activation row has.
                unsafe { self.unpacked::<HALVES>(first, kept, &scratch.unpacked) };
                continue;
            }
            exact_tiles!(row in self.activations.rows(), most DIRECT_ROWS, M of [1 2 3 .. 4] => {
                // SAFETY: rows below `row + M` exist.
                let mut adding = Adding::<M, HALVES>(unsafe { self.sums(row) });
                for block in 0..blocks {
                    adding.0.first = block * groups;
                    rows.offset = block * U::BYTES;
                    prefetch::<U>(&rows, self.weight.row_stride_bytes);
                    // SAFETY: every row holds its blocks, and every activation row their groups.
                    unsafe { U::unpack(&rows, &mut adding) };
                }
                // SAFETY: these rows exist, and `kept` columns from `first` on.
                unsafe { self.store(row, first, kept, adding.0.sums) };
            });
        }
    }

    /// All activation rows against sixteen weight rows that lie unpacked in the first-level cache. One text for all formats.
    ///
    /// # Safety
    /// AVX-512 VNNI is enabled, the groups are those of the columns `first .. first + kept`, all of them.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    unsafe fn unpacked<const HALVES: usize>(&mut self, first: usize, kept: usize, groups: &[Unpacked]) {
        exact_tiles!(row in self.activations.rows(), most 8, M of [1 2 3 4 5 6 7 .. 8] => {
            // SAFETY: rows below `row + M` exist and have that many groups.
            unsafe {
                let mut sums = self.sums::<M>(row);
                for (at, group) in groups.iter().enumerate() {
                    sums.add(at, group, HALVES);
                }
                self.store(row, first, kept, sums.sums);
            }
        });
    }

    /// Writes the sums of activation rows from `row` on for the columns `first .. first + kept`, which exist.
    #[inline(always)]
    unsafe fn store<const M: usize>(&mut self, row: usize, first: usize, kept: usize, sums: [__m512; M]) {
        for m in 0..M {
            let to = self.output.row(row + m).wrapping_add(first - self.columns.start);
            // SAFETY: the output has `kept` columns from there on; AVX-512 F is enabled wherever this is inlined.
            unsafe { _mm512_mask_storeu_ps(to, ((1u32 << kept) - 1) as u16, sums[m]) };
        }
    }

    /// Zero sums of activation rows from `row` on, which exist.
    #[inline(always)]
    unsafe fn sums<const M: usize>(&self, row: usize) -> Sums<M> {
        let columns = self.activations.columns();
        let numbers = self.activations.numbers.as_ptr();
        let facts = self.activations.facts.as_ptr();
        let mut sums = Sums {
            numbers: [numbers; M],
            facts: [facts; M],
            first: 0,
            // SAFETY: AVX-512 F is enabled wherever this is inlined.
            sums: [unsafe { _mm512_setzero_ps() }; M],
        };
        for m in 0..M {
            sums.numbers[m] = numbers.wrapping_add((row + m) * columns / GROUP * GROUP_BYTES);
            sums.facts[m] = facts.wrapping_add((row + m) * columns / GROUP);
        }
        sums
    }
}

/// Asks for the same block of the next sixteen rows, once for each cache line.
#[inline(always)]
fn prefetch<U: Unpack>(rows: &Rows, stride: usize) {
    if rows.offset % LINE >= U::BYTES {
        return;
    }
    for start in rows.starts {
        for line in 0..U::BYTES.div_ceil(LINE) {
            let address = start.wrapping_add(stride * 16 + rows.offset + line * LINE);
            // SAFETY: a hint; any address is allowed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
        }
    }
}
