//! Contractions with activations rounded to bf16, for programs that allow it (`compute bf16`): AVX-512 BF16 multiplies pairs of
//! bf16 and sums them in f32, twice the rate of f32.
//!
//! One (activation row, weight row) pair has one pattern for every number of rows, so a site that takes this candidate takes it
//! for all of them. The bits differ from the f32 kernels': activations are rounded, subnormals count as zero, and lane
//! `i` sums the pairs of elements `2i, 2i+1` of each 32. Without AVX-512 BF16 there is no such kernel: f32 is always allowed.

use super::views::{ActivationRows, OutputRows, WeightView};
use crate::features::Features;
use fiddlehead_storage::Format;
use half::bf16;
use std::marker::PhantomData;
use std::ops::Range;

/// Why this kernel cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BrainError {
    /// The system does not enable AVX-512 BF16.
    #[error("AVX-512 BF16 is not enabled on this system")]
    NotEnabled,
    /// The weight is stored in another format; rounding it is not this kernel's to decide.
    #[error("the weight is stored as {0}, not bf16")]
    WeightFormat(Format),
}

/// Activations `[rows, columns]` rounded to bf16.
#[derive(Clone, Copy, Debug)]
pub struct BrainRows<'a> {
    values: &'a [bf16],
    rows: usize,
    columns: usize,
}

impl BrainRows<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The value that element `[row, column]` was rounded to.
    ///
    /// # Panics
    /// When it is outside.
    pub fn value(&self, row: usize, column: usize) -> bf16 {
        assert!(row < self.rows && column < self.columns, "[{row}, {column}] is outside");
        self.values[row * self.columns + column]
    }
}

/// Memory for rounded rows, reused.
#[derive(Debug, Default)]
pub struct BrainBuffer {
    values: Vec<bf16>,
}

impl BrainBuffer {
    /// Rounds f32 rows to nearest even.
    pub fn round(&mut self, features: Features, rows: &ActivationRows<'_>) -> BrainRows<'_> {
        let columns = rows.columns;
        let room = self.room(rows.rows * columns);
        for row in 0..rows.rows {
            // SAFETY: this thread alone uses the room, which has as many values.
            unsafe { room.round(features, row * columns, &rows.values[row * rows.row_stride..][..columns]) };
        }
        self.rows(0, rows.rows, columns)
    }

    /// Room for `values` values, for threads to fill part by part.
    pub fn room(&mut self, values: usize) -> BrainRoom<'_> {
        if self.values.len() < values {
            self.values.resize(values, bf16::ZERO);
        }
        BrainRoom { start: self.values.as_mut_ptr(), values, storage: PhantomData }
    }

    /// Rows that lie there from value `first` on.
    ///
    /// # Panics
    /// When they end beyond the room.
    pub fn rows(&self, first: usize, rows: usize, columns: usize) -> BrainRows<'_> {
        BrainRows { values: &self.values[first..first + rows * columns], rows, columns }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<bf16>()
    }
}

/// A place for rounded values that several threads may fill, each its own part.
#[derive(Debug)]
pub struct BrainRoom<'a> {
    start: *mut bf16,
    values: usize,
    storage: PhantomData<&'a mut BrainBuffer>,
}

// SAFETY: it stands for an exclusive borrow of plain numbers; `round` is unsafe and asks for disjoint parts.
unsafe impl Sync for BrainRoom<'_> {}

impl BrainRoom<'_> {
    /// Rounds values to the place `first`.
    ///
    /// # Safety
    /// No other thread fills or reads the same values meanwhile.
    ///
    /// # Panics
    /// When they end beyond the room.
    pub unsafe fn round(&self, features: Features, first: usize, values: &[f32]) {
        assert!(first.checked_add(values.len()).is_some_and(|end| end <= self.values), "beyond the room");
        // SAFETY: inside the buffer, which `self` borrows, and the caller is the only user of this part.
        let to = unsafe { std::slice::from_raw_parts_mut(self.start.add(first), values.len()) };
        #[cfg(target_arch = "x86_64")]
        if features.avx512_bf16 && Features::detect().avx512_bf16 {
            // SAFETY: AVX-512 BF16 is enabled; both slices have one length.
            return unsafe { wide::round(values, to) };
        }
        let _ = features;
        to.iter_mut().zip(values).for_each(|(to, value)| *to = bf16::from_f32(*value));
    }
}

/// Whether [`contract_brain`] serves weights of this format here, or why not.
///
/// # Errors
/// As [`contract_brain`].
pub fn check(features: Features, format: Format) -> Result<(), BrainError> {
    if !(features.avx512_bf16 && Features::detect().avx512_bf16) {
        return Err(BrainError::NotEnabled);
    }
    match format {
        Format::BF16 => Ok(()),
        other => Err(BrainError::WeightFormat(other)),
    }
}

/// Computes `output[m, n - columns.start] = Σ_k weight[n, k] · activations[m, k]` for `n` in `columns`.
///
/// # Errors
/// When the system or the weight's format does not allow it.
///
/// # Panics
/// When the shapes disagree, as for [`super::contraction::contract`].
pub fn contract_brain(
    features: Features,
    weight: &WeightView<'_>,
    activations: &BrainRows<'_>,
    columns: Range<usize>,
    output: &mut OutputRows<'_>,
) -> Result<(), BrainError> {
    check(features, weight.format)?;
    assert_eq!(weight.columns, activations.columns, "the sum's length differs");
    assert!(
        columns.start <= columns.end && columns.end <= weight.rows,
        "columns {columns:?} of {}",
        weight.rows
    );
    assert_eq!((output.rows(), output.columns()), (activations.rows, columns.len()), "the output's shape");
    // SAFETY: AVX-512 BF16 is enabled, which `Features` offers only together with AVX-512 F, BW, DQ and VL; shapes agree.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        wide::contract(weight, activations, columns, output)
    };
    Ok(())
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{BrainRows, OutputRows, WeightView};
    use crate::kernels::tiles::exact_tiles;
    use crate::kernels::vector::{Vector, Wide};
    use half::bf16;
    use std::arch::x86_64::*;
    use std::ops::Range;

    /// Values in one register.
    const LANES: usize = 32;
    /// Bytes of activations kept in the first-level cache between weight rows.
    const ROW_BLOCK_BYTES: usize = 24 * 1024;

    #[inline(always)]
    unsafe fn pairs(from: *const u8) -> __m512bh {
        // SAFETY: the caller vouches for 64 readable bytes; both types are 512 bits of plain data.
        unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn first_pairs(from: *const u8, count: usize) -> __m512bh {
        // SAFETY: masked values are not read; the caller vouches for the others.
        unsafe {
            let loaded = _mm512_maskz_loadu_epi16((1u32 << count) - 1, from.cast());
            std::mem::transmute::<__m512i, __m512bh>(loaded)
        }
    }

    /// # Safety
    /// Every pointer has `length` readable bf16.
    #[inline(always)]
    unsafe fn accumulate<const M: usize, const N: usize>(
        activations: [*const u8; M],
        weights: [*const u8; N],
        length: usize,
    ) -> [[Wide; N]; M] {
        // SAFETY: `k + LANES <= length` in the loop, `k + rest = length` after it.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); N]; M];
            let mut x = [std::mem::transmute::<__m512i, __m512bh>(_mm512_setzero_si512()); M];
            let whole = length - length % LANES;
            let mut k = 0;
            while k < whole {
                for m in 0..M {
                    x[m] = pairs(activations[m].add(k * 2));
                }
                for n in 0..N {
                    let w = pairs(weights[n].add(k * 2));
                    for m in 0..M {
                        sums[m][n] = _mm512_dpbf16_ps(sums[m][n], x[m], w);
                    }
                }
                k += LANES;
            }
            let rest = length - whole;
            if rest > 0 {
                for m in 0..M {
                    x[m] = first_pairs(activations[m].add(k * 2), rest);
                }
                for n in 0..N {
                    let w = first_pairs(weights[n].add(k * 2), rest);
                    for m in 0..M {
                        sums[m][n] = _mm512_dpbf16_ps(sums[m][n], x[m], w);
                    }
                }
            }
            let mut lanes = [[Wide(_mm512_setzero_ps()); N]; M];
            for m in 0..M {
                for n in 0..N {
                    lanes[m][n] = Wide(sums[m][n]);
                }
            }
            lanes
        }
    }

    /// Rounds to nearest even; subnormal numbers become zero, as the products take them anyway.
    ///
    /// # Safety
    /// AVX-512 BF16 is enabled; `to` is as long as `from`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) unsafe fn round(from: &[f32], to: &mut [bf16]) {
        let count = from.len();
        let mut at = 0;
        while at < count {
            let mask = match count - at {
                left @ ..16 => ((1u32 << left) - 1) as u16,
                _ => u16::MAX,
            };
            // SAFETY: masked values are neither read nor written; the others lie within both slices.
            unsafe {
                let rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from.as_ptr().add(at)));
                let rounded = std::mem::transmute::<__m256bh, __m256i>(rounded);
                _mm256_mask_storeu_epi16(to.as_mut_ptr().add(at).cast(), mask, rounded);
            }
            at += 16;
        }
    }

    /// # Safety
    /// The instructions are enabled and the shapes agree.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    pub(super) unsafe fn contract(
        weight: &WeightView<'_>,
        activations: &BrainRows<'_>,
        columns: Range<usize>,
        output: &mut OutputRows<'_>,
    ) {
        let length = weight.columns;
        let count = columns.len();
        let base = activations.values.as_ptr().cast::<u8>();
        let address = |row: usize| base.wrapping_add(row * length * 2);
        if activations.rows == 1 {
            let to = output.row(0);
            let mut n = 0;
            while n + 8 <= count {
                let weights: [*const u8; 8] = std::array::from_fn(|i| weight.row(columns.start + n + i));
                // SAFETY: rows hold `length` values, the output `count` columns.
                unsafe {
                    let [[a, b, c, d, e, f, g, h]] = accumulate::<1, 8>([base], weights, length);
                    to.add(n).cast::<[f32; 4]>().write_unaligned(Wide::sum4([a, b, c, d]));
                    to.add(n + 4).cast::<[f32; 4]>().write_unaligned(Wide::sum4([e, f, g, h]));
                }
                n += 8;
            }
            if n == count {
                return;
            }
        }
        let done = if activations.rows == 1 { count / 8 * 8 } else { 0 };
        let row_block = (ROW_BLOCK_BYTES / (length * 2).max(1) / 6).max(1) * 6;
        let mut first = 0;
        while first < activations.rows {
            let end = activations.rows.min(first + row_block);
            let mut n = done;
            while n < count {
                let kept = (count - n).min(4);
                let weights: [*const u8; 4] =
                    std::array::from_fn(|i| weight.row(columns.start + n + i.min(kept - 1)));
                exact_tiles!(at in end - first, most 6, M of [1 2 3 4 5 .. 6] => {
                    let row = first + at;
                    let from: [*const u8; M] = std::array::from_fn(|m| address(row + m));
                    // SAFETY: rows below `end` exist; only `kept` sums are stored.
                    unsafe {
                        let sums = accumulate::<M, 4>(from, weights, length);
                        for m in 0..M {
                            let finished = Wide::sum4(sums[m]);
                            let to = output.row(row + m).add(n);
                            std::ptr::copy_nonoverlapping(finished.as_ptr(), to, kept);
                        }
                    }
                });
                n += kept;
            }
            first = end;
        }
    }
}
