//! Contractions with a stored weight: `y[m, n] = Σ_k w[n, k] · x[m, k]`.
//!
//! The ladder: one activation row streams several weight rows at a time (bound by memory); more rows share each group of
//! four weight rows, block of rows by block, from the first-level cache. Where loading a stored number as f32 costs more
//! than a multiplication (blocks; narrow floats with AVX2 and plain), several rows decode a small part of the weight once:
//! what a single row block meets stays in the first-level cache, the rest in the second. One row meets blocks as they are
//! decoded, in registers. All follow the pattern of [`super::dot`], so all give the same bits for the same pair of rows, and
//! a weight in blocks gives those of its dequantised values.
//!
//! Lost: decoding f16 and bf16 first with AVX-512 (16 rows 45 µs instead of 38, 512 rows equal;
//! `docs/performance/cpu-kernels.md`).

use super::blocks::{Decoder, Dot, decode_run, with_decoder};
use super::dot::{Element, accumulate, tile_rows};
use super::parallel::{PerThread, by_columns};
use super::vector::{Kernel, Vector};
use super::views::{ActivationRows, OutputRows, WeightView};
use crate::features::Isa;
use crate::pool::Pool;
use fiddlehead_storage::Format;
use half::{bf16, f16};
use std::ops::Range;

/// Bytes of activations kept in the first-level cache between weight rows.
const ROW_BLOCK_BYTES: usize = 24 * 1024;
/// Bytes of decoded weight kept in the second-level cache.
const WEIGHT_BLOCK_BYTES: usize = 192 * 1024;
/// Bytes of decoded weight beside a single block of activations in the first-level cache.
const SMALL_WEIGHT_BLOCK_BYTES: usize = 16 * 1024;

/// Scratch space of one thread for decoded weights; grows to what it needs and is reused.
#[derive(Default)]
pub struct ContractionScratch {
    decoded: Vec<f32>,
}

/// Computes `output[m, n - columns.start] = Σ_k weight[n, k] · activations[m, k]` for `n` in `columns` and every row `m`.
///
/// The caller parallelises by giving disjoint columns (or rows, through the views) to threads; the bits of an output depend
/// on its weight row and activation row alone.
///
/// # Panics
/// When the shapes disagree: `activations.columns != weight.columns`, `columns` beyond the weight's rows, or an output
/// that is not `[activations.rows, columns.len()]`.
pub fn contract(
    isa: Isa,
    weight: &WeightView<'_>,
    activations: &ActivationRows<'_>,
    columns: Range<usize>,
    output: &mut OutputRows<'_>,
    scratch: &mut ContractionScratch,
) {
    assert_eq!(weight.columns, activations.columns, "the sum's length differs");
    assert!(
        columns.start <= columns.end && columns.end <= weight.rows,
        "columns {columns:?} of {}",
        weight.rows
    );
    assert_eq!((output.rows(), output.columns()), (activations.rows, columns.len()), "the output's shape");
    isa.run(Contract { weight, activations, columns, output, scratch });
}

/// [`contract`] over all of the weight's rows, spread over the pool.
///
/// `scratches` holds one entry for each thread of the pool.
///
/// # Panics
/// As [`contract`], and when there are fewer scratches than threads.
pub fn contract_parallel(
    pool: &Pool,
    isa: Isa,
    weight: &WeightView<'_>,
    activations: &ActivationRows<'_>,
    output: &mut OutputRows<'_>,
    scratches: &mut [ContractionScratch],
) {
    assert!(scratches.len() >= pool.threads(), "one scratch for each thread");
    assert_eq!((output.rows(), output.columns()), (activations.rows, weight.rows), "the output's shape");
    let scratches = PerThread::new(scratches);
    let grain = columns_per_task(weight, activations.rows, pool.threads());
    by_columns(pool, output, grain, |columns, part, thread| {
        // SAFETY: the pool never runs two tasks at once with the same thread index.
        let scratch = unsafe { scratches.get(thread) };
        contract(isa, weight, activations, columns, part, scratch);
    });
}

/// Weight rows to give one task: enough work to hide a task's cost, few enough that threads end together.
pub fn columns_per_task(weight: &WeightView<'_>, rows: usize, threads: usize) -> usize {
    if threads == 1 {
        return weight.rows.max(1);
    }
    // About 4 µs of work: bytes bound small batches, multiplications large ones.
    let row_bytes = weight.row_bytes().max(1);
    let row_work = row_bytes.max(weight.columns * rows / 8);
    let enough = (128 * 1024usize).div_ceil(row_work).next_multiple_of(8);
    let even = weight.rows.div_ceil(threads * 4).next_multiple_of(8);
    enough.min(weight.rows.div_ceil(threads).next_multiple_of(8)).max(even.min(256)).max(1)
}

struct Contract<'a, 'b> {
    weight: &'a WeightView<'a>,
    activations: &'a ActivationRows<'a>,
    columns: Range<usize>,
    output: &'a mut OutputRows<'b>,
    scratch: &'a mut ContractionScratch,
}

impl Kernel for Contract<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let narrow = V::DECODE_ROWS;
        match (self.weight.format, self.activations.rows) {
            (_, 0) => {}
            (Format::F32, 1) => self.one_row::<V, f32>(),
            (Format::F16, 1) => self.one_row::<V, f16>(),
            (Format::BF16, 1) => self.one_row::<V, bf16>(),
            (Format::F32, _) => self.shared_rows::<V, f32>(),
            (Format::F16, rows) if rows < narrow => self.shared_rows::<V, f16>(),
            (Format::BF16, rows) if rows < narrow => self.shared_rows::<V, bf16>(),
            (format, 1) => {
                with_decoder!(format, D => self.one_row_of_blocks::<V, D>(), self.decoded_rows::<V>())
            }
            _ => self.decoded_rows::<V>(),
        }
    }
}

impl Contract<'_, '_> {
    /// Eight weight rows in flight.
    #[inline(always)]
    fn one_row<V: Vector, E: Element>(self) {
        let length = self.weight.columns;
        let activation = self.activations.row(0);
        let output = self.output.row(0);
        let count = self.columns.len();
        let ahead = prefetch_distance(self.weight.row_stride_bytes);
        let mut n = 0;
        while n + 8 <= count {
            let weights: [*const u8; 8] =
                std::array::from_fn(|i| self.weight.row(self.columns.start + n + i));
            // SAFETY: the views hold `length` elements in each of these rows, and the output `count` columns.
            unsafe {
                let [sums] = accumulate::<V, E, 1, 8>([activation], weights, length, ahead);
                let [a, b, c, d, e, f, g, h] = sums;
                output.add(n).cast::<[f32; 4]>().write_unaligned(V::sum4([a, b, c, d]));
                output.add(n + 4).cast::<[f32; 4]>().write_unaligned(V::sum4([e, f, g, h]));
            }
            n += 8;
        }
        while n < count {
            let kept = (count - n).min(4);
            let weights = four_rows(self.weight, self.columns.start + n, kept);
            // SAFETY: as above; only `kept` sums are stored.
            unsafe { tile_rows::<V, E>(1, weights, kept, length, |_| activation, |_| output.add(n)) };
            n += kept;
        }
    }

    /// Four weight rows in flight, each block decoded into registers.
    #[inline(always)]
    fn one_row_of_blocks<V: Vector, D: Decoder>(self) {
        let length = self.weight.columns;
        let activation = self.activations.row(0);
        let output = self.output.row(0);
        let count = self.columns.len();
        let ahead = 4 * self.weight.row_stride_bytes;
        let mut n = 0;
        while n < count {
            let kept = (count - n).min(4);
            let weights = four_rows(self.weight, self.columns.start + n, kept);
            let mut sums = [V::splat(0.0); 4];
            for block in 0..length / D::ELEMENTS {
                for row in 0..4 {
                    let address = weights[row].wrapping_add(block * D::BYTES);
                    V::prefetch(address.wrapping_add(ahead));
                    // SAFETY: the views hold these blocks and activations.
                    unsafe {
                        let mut dot = Dot::new(activation.add(block * D::ELEMENTS), sums[row]);
                        D::decode::<V>(address, &mut dot);
                        sums[row] = dot.sum;
                    }
                }
            }
            let finished = V::sum4(sums);
            // SAFETY: the output has `count` columns.
            unsafe { std::ptr::copy_nonoverlapping(finished.as_ptr(), output.add(n), kept) };
            n += kept;
        }
    }

    /// Every group of four weight rows serves a block of activation rows from the first-level cache.
    #[inline(always)]
    fn shared_rows<V: Vector, E: Element>(self) {
        let length = self.weight.columns;
        let count = self.columns.len();
        let row_block = row_block::<V>(length);
        let mut row = 0;
        while row < self.activations.rows {
            let rows = (self.activations.rows - row).min(row_block);
            let mut n = 0;
            while n < count {
                let kept = (count - n).min(4);
                let weights = four_rows(self.weight, self.columns.start + n, kept);
                let output = &mut *self.output;
                // SAFETY: the views hold `length` elements in each row; outputs have `count` columns.
                unsafe {
                    tile_rows::<V, E>(
                        rows,
                        weights,
                        kept,
                        length,
                        |m| self.activations.row(row + m),
                        |m| output.row(row + m).add(n),
                    )
                };
                n += kept;
            }
            row += rows;
        }
    }

    /// Blocks of the weight are decoded once, then met by blocks of activation rows.
    #[inline(always)]
    fn decoded_rows<V: Vector>(self) {
        let length = self.weight.columns;
        let row_block = row_block::<V>(length);
        let block_bytes = match self.activations.rows <= row_block {
            true => SMALL_WEIGHT_BLOCK_BYTES,
            false => WEIGHT_BLOCK_BYTES,
        };
        let weight_block = (block_bytes / (length * 4).max(1) / 4).max(1) * 4;
        let mut first = self.columns.start;
        while first < self.columns.end {
            let block = first..self.columns.end.min(first + weight_block);
            decode::<V>(self.weight, block.clone(), &mut self.scratch.decoded);
            let base = self.scratch.decoded.as_ptr();
            let mut row = 0;
            while row < self.activations.rows {
                let rows = (self.activations.rows - row).min(row_block);
                let mut n = 0;
                while n < block.len() {
                    let kept = (block.len() - n).min(4);
                    let weights: [*const u8; 4] =
                        std::array::from_fn(|i| base.wrapping_add((n + i.min(kept - 1)) * length).cast());
                    let column = first - self.columns.start + n;
                    let output = &mut *self.output;
                    // SAFETY: rows below `block.len()` hold `length` f32 at `base`; the views vouch for the rest.
                    unsafe {
                        tile_rows::<V, f32>(
                            rows,
                            weights,
                            kept,
                            length,
                            |m| self.activations.row(row + m),
                            |m| output.row(row + m).add(column),
                        )
                    };
                    n += kept;
                }
                row += rows;
            }
            first = block.end;
        }
    }
}

/// How far ahead of a read the next weight rows are prefetched, in bytes: two groups of eight rows, or one, while they fit the
/// first-level cache beside the rows at hand; else a little further along the same row. From the shared cache this took a
/// 512 KB weight from 6.4 to 5.1 µs; from the private one it costs about 5%.
#[inline(always)]
fn prefetch_distance(row_stride_bytes: usize) -> usize {
    const MOST: usize = 24 * 1024;
    match row_stride_bytes {
        stride if stride * 16 <= MOST => stride * 16,
        stride if stride * 8 <= MOST => stride * 8,
        _ => 2048,
    }
}

/// Activation rows that stay in the first-level cache, whole tiles of them.
#[inline(always)]
fn row_block<V: Vector>(length: usize) -> usize {
    (ROW_BLOCK_BYTES / (length * 4).max(1) / V::TILE_ROWS).max(1) * V::TILE_ROWS
}

/// Four row addresses from `first`, the last of `kept` rows repeated.
#[inline(always)]
fn four_rows(weight: &WeightView<'_>, first: usize, kept: usize) -> [*const u8; 4] {
    std::array::from_fn(|i| weight.row(first + i.min(kept - 1)))
}

/// Weight rows `rows` as f32, one after another.
#[inline(always)]
fn decode<V: Vector>(weight: &WeightView<'_>, rows: Range<usize>, decoded: &mut Vec<f32>) {
    let length = weight.columns;
    if decoded.len() < rows.len() * length {
        decoded.resize(rows.len() * length, 0.0);
    }
    for (index, row) in rows.enumerate() {
        let from = weight.row(row);
        let to = decoded[index * length..][..length].as_mut_ptr();
        // SAFETY: the row holds `length` numbers, whole blocks, and the target `length` values.
        unsafe {
            match weight.format {
                Format::F16 => widen_row::<V, f16>(from, to, length),
                Format::BF16 => widen_row::<V, bf16>(from, to, length),
                format => decode_run::<V>(format, from, to, length),
            }
        }
    }
}

/// # Safety
/// `length` numbers are readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn widen_row<V: Vector, E: Element>(from: *const u8, to: *mut f32, length: usize) {
    let mut k = 0;
    // SAFETY: the caller's condition.
    unsafe {
        while k + V::LANES <= length {
            E::load::<V>(from.add(k * E::BYTES)).store(to.add(k));
            k += V::LANES;
        }
        E::load_first::<V>(from.add(k * E::BYTES), length - k).store_first(to.add(k), length - k);
    }
}
