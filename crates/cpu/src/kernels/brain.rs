//! Contractions with activations rounded to bf16, for programs that allow it (`compute bf16`): AVX-512 BF16 multiplies pairs of
//! bf16 and sums them in f32, twice the rate of f32.
//!
//! One (activation row, weight row) pair has one pattern for every number of rows, so a site that takes this candidate takes it
//! for all of them. The bits differ from the f32 kernels': activations are rounded, subnormals count as zero, and lane
//! `i` sums the pairs of elements `2i, 2i+1` of each 32. Without AVX-512 BF16 there is no such kernel: f32 is always allowed.

use super::views::{ActivationRows, OutputRows, ViewError, WeightView};
use crate::features::Features;
use fiddlehead_storage::Format;
use half::bf16;
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

impl<'a> BrainRows<'a> {
    /// `rows` rows of `columns` values that follow each other.
    ///
    /// # Errors
    /// When `values` is too short.
    pub fn new(values: &'a [bf16], rows: usize, columns: usize) -> Result<Self, ViewError> {
        let needed = rows.checked_mul(columns).ok_or(ViewError::Overflow { rows, stride: columns })?;
        if needed > values.len() {
            let (stride, held, unit) = (columns, values.len(), "values");
            return Err(ViewError::TooShort { rows, columns, stride, needed, held, unit });
        }
        Ok(Self { values, rows, columns })
    }

    /// Rounds f32 rows to nearest even into `to`.
    pub fn round(rows: &ActivationRows<'_>, to: &'a mut Vec<bf16>) -> Self {
        to.clear();
        to.reserve(rows.rows * rows.columns);
        for row in 0..rows.rows {
            let from = &rows.values[row * rows.row_stride..][..rows.columns];
            to.extend(from.iter().map(|value| bf16::from_f32(*value)));
        }
        Self { values: to, rows: rows.rows, columns: rows.columns }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
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
    if !(features.avx512_bf16 && Features::detect().avx512_bf16) {
        return Err(BrainError::NotEnabled);
    }
    if weight.format != Format::BF16 {
        return Err(BrainError::WeightFormat(weight.format));
    }
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
    use super::*;
    use crate::kernels::vector::{Vector, Wide};
    use std::arch::x86_64::*;

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
                let mut row = first;
                while row < end {
                    macro_rules! tile {
                        ($rows:literal) => {{
                            let from: [*const u8; $rows] = std::array::from_fn(|m| address(row + m));
                            // SAFETY: rows below `end` exist; only `kept` sums are stored.
                            unsafe {
                                let sums = accumulate::<$rows, 4>(from, weights, length);
                                for m in 0..$rows {
                                    let finished = Wide::sum4(sums[m]);
                                    let to = output.row(row + m).add(n);
                                    std::ptr::copy_nonoverlapping(finished.as_ptr(), to, kept);
                                }
                            }
                            row += $rows;
                        }};
                    }
                    match end - row {
                        1 => tile!(1),
                        2 => tile!(2),
                        3 => tile!(3),
                        4 => tile!(4),
                        5 => tile!(5),
                        _ => tile!(6),
                    }
                }
                n += kept;
            }
            first = end;
        }
    }
}
