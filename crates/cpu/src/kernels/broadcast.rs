//! The register tile of scaled rows: `out[m, c] = start + Σ_k a[m, k] · b[k, c]`, with `b` contiguous along `c`.
//!
//! Each output is one running sum in rising `k`, so neither the tile's shape, nor a pause between two ranges of `k` (the
//! sum rests in memory as the same f32), can change a bit.

use super::tiles::exact_tiles;
use super::vector::Vector;

/// Vectors in a full panel of columns.
const PANEL: usize = 4;

/// What the sums begin with.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    Zero,
    /// What the output holds.
    Keep,
    /// What the output holds, times this factor for each row.
    Scaled(&'a [f32]),
}

/// The size of a call: `rows` × `columns` outputs, sums over `length`.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub rows: usize,
    pub columns: usize,
    pub length: usize,
}

/// Runs the whole extent.
///
/// `coefficient(m)` is the address of `a[m, 0]`, whose next element is `step` values on; `source(k)` that of `b[k, 0]`;
/// `target(m)` that of `out[m, 0]`.
///
/// # Safety
/// All addressed elements are inside their allocations, and no output overlaps an operand.
#[inline(always)]
pub(crate) unsafe fn scaled_rows<V: Vector>(
    extent: Extent,
    start: Start<'_>,
    step: usize,
    coefficient: impl Fn(usize) -> *const f32,
    source: impl Fn(usize) -> *const f32,
    mut target: impl FnMut(usize) -> *mut f32,
) {
    let mut column = 0;
    // SAFETY: each panel lies within the columns; the caller vouches for the addresses.
    unsafe {
        while column + PANEL * V::LANES <= extent.columns {
            panel::<V, PANEL, false>(
                extent,
                start,
                step,
                column,
                V::LANES,
                &coefficient,
                &source,
                &mut target,
            );
            column += PANEL * V::LANES;
        }
        while column + V::LANES <= extent.columns {
            panel::<V, 1, false>(extent, start, step, column, V::LANES, &coefficient, &source, &mut target);
            column += V::LANES;
        }
        let rest = extent.columns - column;
        if rest > 0 {
            panel::<V, 1, true>(extent, start, step, column, rest, &coefficient, &source, &mut target);
        }
    }
}

/// `N` vectors of columns for all rows. With `MASKED`, the only vector has `kept` lanes.
#[expect(clippy::too_many_arguments, reason = "one inlined loop split from its caller")]
#[inline(always)]
unsafe fn panel<V: Vector, const N: usize, const MASKED: bool>(
    extent: Extent,
    start: Start<'_>,
    step: usize,
    column: usize,
    kept: usize,
    coefficient: &impl Fn(usize) -> *const f32,
    source: &impl Fn(usize) -> *const f32,
    target: &mut impl FnMut(usize) -> *mut f32,
) {
    exact_tiles!(row in extent.rows, most V::TILE_ROWS, M of [1 2 3 4 5 .. 6] => {
        // SAFETY: the caller's condition for rows below `row + M <= rows`.
        unsafe {
            tile::<V, M, N, MASKED>(
                extent.length,
                start,
                step,
                row,
                column,
                kept,
                coefficient,
                source,
                target,
            )
        };
    });
}

#[expect(clippy::too_many_arguments, reason = "one inlined loop split from its caller")]
#[inline(always)]
unsafe fn tile<V: Vector, const M: usize, const N: usize, const MASKED: bool>(
    length: usize,
    start: Start<'_>,
    step: usize,
    row: usize,
    column: usize,
    kept: usize,
    coefficient: &impl Fn(usize) -> *const f32,
    source: &impl Fn(usize) -> *const f32,
    target: &mut impl FnMut(usize) -> *mut f32,
) {
    let mut sums = [[V::splat(0.0); N]; M];
    let mut coefficients = [std::ptr::null::<f32>(); M];
    for m in 0..M {
        coefficients[m] = coefficient(row + m);
    }
    // SAFETY: the caller's condition; masked vectors touch only `kept` lanes.
    unsafe {
        if !matches!(start, Start::Zero) {
            for m in 0..M {
                let at = target(row + m).add(column);
                for n in 0..N {
                    let held = if MASKED { V::load_first(at, kept) } else { V::load(at.add(n * V::LANES)) };
                    sums[m][n] = match start {
                        Start::Scaled(factors) => held.mul(V::splat(factors[row + m])),
                        _ => held,
                    };
                }
            }
        }
        for k in 0..length {
            let from = source(k).add(column);
            let mut factors = [V::splat(0.0); M];
            for m in 0..M {
                factors[m] = V::splat(*coefficients[m].add(k * step));
            }
            for n in 0..N {
                let b = if MASKED { V::load_first(from, kept) } else { V::load(from.add(n * V::LANES)) };
                for m in 0..M {
                    sums[m][n] = factors[m].mul_add(b, sums[m][n]);
                }
            }
        }
        for m in 0..M {
            let at = target(row + m).add(column);
            for n in 0..N {
                if MASKED {
                    sums[m][n].store_first(at, kept);
                } else {
                    sums[m][n].store(at.add(n * V::LANES));
                }
            }
        }
    }
}
