//! The register tile of dot products: rows of activations against rows of weights, both contiguous along the sum.
//!
//! One (activation row, weight row) pair always follows one pattern: lane `i` of one accumulator sums the elements
//! `i, i + LANES, i + 2·LANES, …` in rising order, a last partial vector is padded with zeros, then the lanes are added along
//! the tree of [`Vector`]. A tile only decides which pairs are in flight together, so its shape cannot change a bit.

use super::tiles::exact_tiles;
use super::vector::Vector;
use half::{bf16, f16};

/// A stored number format that loads as f32 lanes.
pub(crate) trait Element {
    const BYTES: usize;
    /// # Safety
    /// `LANES` numbers are readable at `from`.
    unsafe fn load<V: Vector>(from: *const u8) -> V;
    /// # Safety
    /// `count <= LANES` numbers are readable at `from`.
    unsafe fn load_first<V: Vector>(from: *const u8, count: usize) -> V;
}

impl Element for f32 {
    const BYTES: usize = 4;
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8) -> V {
        // SAFETY: the caller's condition; vectors load from any alignment.
        unsafe { V::load(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(from: *const u8, count: usize) -> V {
        // SAFETY: the caller's condition.
        unsafe { V::load_first(from.cast(), count) }
    }
}

impl Element for f16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8) -> V {
        // SAFETY: the caller's condition.
        unsafe { V::load_f16(from) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(from: *const u8, count: usize) -> V {
        // SAFETY: the caller's condition.
        unsafe { V::load_f16_first(from, count) }
    }
}

impl Element for bf16 {
    const BYTES: usize = 2;
    #[inline(always)]
    unsafe fn load<V: Vector>(from: *const u8) -> V {
        // SAFETY: the caller's condition.
        unsafe { V::load_bf16(from) }
    }
    #[inline(always)]
    unsafe fn load_first<V: Vector>(from: *const u8, count: usize) -> V {
        // SAFETY: the caller's condition.
        unsafe { V::load_bf16_first(from, count) }
    }
}

/// The accumulators of `M` activation rows × `N` weight rows over `length` elements.
///
/// `ahead`: bytes beyond each weight's read position to prefetch; zero for none.
///
/// # Safety
/// Every activation pointer has `length` readable f32, every weight pointer `length` readable numbers of `E`.
#[inline(always)]
pub(crate) unsafe fn accumulate<V: Vector, E: Element, const M: usize, const N: usize>(
    activations: [*const f32; M],
    weights: [*const u8; N],
    length: usize,
    ahead: usize,
) -> [[V; N]; M] {
    // Loops rather than `map` and `from_fn`: those are functions without the vector instructions, and a vector that
    // crosses one goes through memory.
    let mut sums = [[V::splat(0.0); N]; M];
    let mut x = [V::splat(0.0); M];
    let whole = length - length % V::LANES;
    let mut k = 0;
    // SAFETY: `k + LANES <= length` in the loop and `k + rest = length` after it.
    unsafe {
        while k < whole {
            for m in 0..M {
                x[m] = V::load(activations[m].add(k));
            }
            for n in 0..N {
                let address = weights[n].add(k * E::BYTES);
                if ahead != 0 {
                    V::prefetch(address.wrapping_add(ahead));
                }
                let w = E::load::<V>(address);
                for m in 0..M {
                    sums[m][n] = x[m].mul_add(w, sums[m][n]);
                }
            }
            k += V::LANES;
        }
        let rest = length - whole;
        if rest > 0 {
            for m in 0..M {
                x[m] = V::load_first(activations[m].add(k), rest);
            }
            for n in 0..N {
                let w = E::load_first::<V>(weights[n].add(k * E::BYTES), rest);
                for m in 0..M {
                    sums[m][n] = x[m].mul_add(w, sums[m][n]);
                }
            }
        }
    }
    sums
}

/// Four weight rows against `M` activation rows: the finished sums, `[M][4]`.
///
/// # Safety
/// As [`accumulate`].
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, E: Element, const M: usize>(
    activations: [*const f32; M],
    weights: [*const u8; 4],
    length: usize,
) -> [[f32; 4]; M] {
    // SAFETY: the caller's condition.
    let sums = unsafe { accumulate::<V, E, M, 4>(activations, weights, length, 0) };
    let mut finished = [[0.0; 4]; M];
    for m in 0..M {
        finished[m] = V::sum4(sums[m]);
    }
    finished
}

/// Writes `[rows, 4]` tiles: `rows` activation rows against four weight rows, the first `kept` of which are stored.
///
/// `activation(m)` is the address of row `m`, `output(m)` where its first result goes.
///
/// # Safety
/// Addresses of rows below `rows` hold `length` values; outputs have room for `kept <= 4` values.
#[inline(always)]
pub(crate) unsafe fn tile_rows<V: Vector, E: Element>(
    rows: usize,
    weights: [*const u8; 4],
    kept: usize,
    length: usize,
    activation: impl Fn(usize) -> *const f32,
    mut output: impl FnMut(usize) -> *mut f32,
) {
    exact_tiles!(row in rows, most V::TILE_ROWS, M of [1 2 3 4 5 .. 6] => {
        let from: [*const f32; M] = std::array::from_fn(|m| activation(row + m));
        // SAFETY: the caller's condition, for rows below `row + M <= rows`.
        let sums = unsafe { tile::<V, E, M>(from, weights, length) };
        for (m, sums) in sums.iter().enumerate() {
            // SAFETY: the caller's condition: room for `kept` values.
            unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), output(row + m), kept) };
        }
    });
}
