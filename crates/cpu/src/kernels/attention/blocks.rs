//! The computation: for a batch of (row, head) pairs, block after block of keys.

use super::history::Walk;
use super::{AttentionArguments, KEY_BLOCK, ScoreTransform};
use crate::kernels::broadcast::{Extent, Start, scaled_rows};
use crate::kernels::dot::tile_rows;
use crate::kernels::elementary;
use crate::kernels::vector::{Kernel, Vector};
use crate::kernels::views::OutputRows;
use std::ops::Range;

/// (row, head) pairs that share a pass over the keys: their scores and queries stay in the first-level cache.
const PAIRS: usize = 24;

pub(super) struct Attend<'a, 'b> {
    pub arguments: &'a AttentionArguments<'a>,
    pub outputs: &'a mut OutputRows<'b>,
}

/// Some heads of some rows; pair `i` is row `rows.start + i / heads.len()`, head `heads.start + i % heads.len()`.
struct Batch {
    rows: Range<usize>,
    heads: Range<usize>,
}

impl Batch {
    #[inline(always)]
    fn pairs(&self) -> usize {
        self.rows.len() * self.heads.len()
    }

    #[inline(always)]
    fn pair(&self, index: usize) -> (usize, usize) {
        (self.rows.start + index / self.heads.len(), self.heads.start + index % self.heads.len())
    }
}

impl Kernel for Attend<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let a = self.arguments;
        let mut head = 0;
        while head < a.heads {
            let heads = head..a.heads.min(head + PAIRS);
            let most_rows = (PAIRS / heads.len()).max(1);
            let mut row = 0;
            while row < a.query_rows {
                let rows = row..a.query_rows.min(row + most_rows);
                row = rows.end;
                self.batch::<V>(Batch { rows, heads: heads.clone() });
            }
            head = heads.end;
        }
    }
}

impl Attend<'_, '_> {
    #[inline(always)]
    fn batch<V: Vector>(&mut self, batch: Batch) {
        let a = self.arguments;
        let pairs = batch.pairs();
        // A sink is a score that was met before all others and has no value.
        let mut greatest = [f32::NEG_INFINITY; PAIRS];
        let mut sums = [0.0f32; PAIRS];
        for pair in 0..pairs {
            let (row, head) = batch.pair(pair);
            if let Some(sinks) = a.sinks {
                greatest[pair] = sinks[head];
                sums[pair] = if sinks[head] > f32::NEG_INFINITY { 1.0 } else { 0.0 };
            }
            let output = self.outputs.row(row).wrapping_add(head * a.value_dim);
            // SAFETY: the outputs hold `heads * value_dim` columns in each row.
            unsafe { std::slice::from_raw_parts_mut(output, a.value_dim) }.fill(0.0);
        }
        let depths = a.depths(batch.rows.start).start..a.depths(batch.rows.end - 1).end;
        let mut walk = Walk::new(a.history, a.first_key_depth);
        let mut block = depths.start / KEY_BLOCK * KEY_BLOCK;
        while block < depths.end {
            let slots = depths.start.max(block) - block..depths.end.min(block + KEY_BLOCK) - block;
            let mut keys = [std::ptr::null::<u8>(); KEY_BLOCK];
            let mut values = [std::ptr::null::<f32>(); KEY_BLOCK];
            walk.visit(block + slots.start..block + slots.end, |depth, key, value| {
                keys[depth - block] = key.cast();
                values[depth - block] = value;
            });
            let mut scores = [f32::NEG_INFINITY; PAIRS * KEY_BLOCK];
            self.score::<V>(&batch, &keys, slots.clone(), &mut scores);
            let mut factors = [1.0f32; PAIRS];
            for pair in 0..pairs {
                let (row, head) = batch.pair(pair);
                let valid = within(&a.depths(row), block);
                if valid.is_empty() {
                    continue;
                }
                let scores = &mut scores[pair * KEY_BLOCK..][..KEY_BLOCK];
                scores[..valid.start].fill(f32::NEG_INFINITY);
                scores[valid.end..].fill(f32::NEG_INFINITY);
                self.transform::<V>(head, block + valid.start, &mut scores[valid]);
                // SAFETY: one block of scores.
                factors[pair] =
                    unsafe { soften::<V>(scores.as_mut_ptr(), &mut greatest[pair], &mut sums[pair]) };
            }
            self.add_values::<V>(&batch, &values, block, &scores, &factors);
            block += KEY_BLOCK;
        }
        for pair in 0..pairs {
            let (row, head) = batch.pair(pair);
            let output = self.outputs.row(row).wrapping_add(head * a.value_dim);
            let mut index = 0;
            // SAFETY: `value_dim` outputs; the last vector is masked.
            unsafe {
                while index < a.value_dim {
                    let kept = (a.value_dim - index).min(V::LANES);
                    let sum = V::load_first(output.add(index), kept).div(V::splat(sums[pair]));
                    sum.store_first(output.add(index), kept);
                    index += kept;
                }
            }
        }
    }

    /// Raw scores of all pairs against the block's keys.
    #[inline(always)]
    fn score<V: Vector>(
        &self,
        batch: &Batch,
        keys: &[*const u8; KEY_BLOCK],
        slots: Range<usize>,
        scores: &mut [f32; PAIRS * KEY_BLOCK],
    ) {
        let a = self.arguments;
        let mut slot = slots.start;
        while slot < slots.end {
            let kept = (slots.end - slot).min(4);
            let four: [*const u8; 4] = std::array::from_fn(|i| keys[slot + i.min(kept - 1)]);
            let target = scores.as_mut_ptr();
            // SAFETY: keys and queries hold `key_dim` values, checked on entry; scores have a block for each pair.
            unsafe {
                tile_rows::<V, f32>(
                    batch.pairs(),
                    four,
                    kept,
                    a.key_dim,
                    |pair| {
                        let (row, head) = batch.pair(pair);
                        a.queries.as_ptr().add(row * a.query_row_stride + head * a.query_head_stride)
                    },
                    |pair| target.add(pair * KEY_BLOCK + slot),
                )
            };
            slot += kept;
        }
    }

    #[inline(always)]
    fn transform<V: Vector>(&self, head: usize, depth: usize, scores: &mut [f32]) {
        let (at, count) = (scores.as_mut_ptr(), scores.len());
        let function = match self.arguments.transform {
            ScoreTransform::Function(function) => return function(head, depth, scores),
            other => other,
        };
        let mut index = 0;
        while index < count {
            let kept = (count - index).min(V::LANES);
            // SAFETY: the slice holds `count` scores; the last vector is masked.
            unsafe {
                let score = V::load_first(at.add(index), kept);
                let score = match function {
                    ScoreTransform::SoftCap { scale, cap } => {
                        let inner = score.mul(V::splat(scale)).div(V::splat(cap));
                        elementary::tanh(inner).mul(V::splat(cap))
                    }
                    ScoreTransform::Scale(scale) => score.mul(V::splat(scale)),
                    ScoreTransform::Function(_) => score,
                };
                score.store_first(at.add(index), kept);
            }
            index += kept;
        }
    }

    /// Adds the block's weighted values to the outputs; pairs that see the same keys run together.
    #[inline(always)]
    fn add_values<V: Vector>(
        &mut self,
        batch: &Batch,
        values: &[*const f32; KEY_BLOCK],
        block: usize,
        weights: &[f32; PAIRS * KEY_BLOCK],
        factors: &[f32; PAIRS],
    ) {
        let a = self.arguments;
        let heads = batch.heads.len();
        let mut row = batch.rows.start;
        while row < batch.rows.end {
            let valid = within(&a.depths(row), block);
            let mut end = row + 1;
            while end < batch.rows.end && within(&a.depths(end), block) == valid {
                end += 1;
            }
            if !valid.is_empty() {
                let first = (row - batch.rows.start) * heads;
                let outputs = &mut *self.outputs;
                // SAFETY: slots in `valid` have their value rows gathered; outputs and weights hold these pairs.
                unsafe {
                    scaled_rows::<V>(
                        Extent { rows: (end - row) * heads, columns: a.value_dim, length: valid.len() },
                        Start::Scaled(&factors[first..]),
                        1,
                        |m| weights.as_ptr().add((first + m) * KEY_BLOCK + valid.start),
                        |k| *values.get_unchecked(valid.start + k),
                        |m| {
                            let (row, head) = batch.pair(first + m);
                            outputs.row(row).add(head * a.value_dim)
                        },
                    )
                };
            }
            row = end;
        }
    }
}

/// The slots of a block that lie within `depths`; all empty ones are equal.
#[inline(always)]
fn within(depths: &Range<usize>, block: usize) -> Range<usize> {
    let start = depths.start.max(block) - block;
    let end = depths.end.min(block + KEY_BLOCK).max(block) - block;
    if start < end { start..end } else { 0..0 }
}

/// Turns one block of scores into weights relative to the running maximum, and returns the factor for what was summed
/// before. Slots outside the row's range hold −∞ and become zero.
///
/// # Safety
/// `scores` holds [`KEY_BLOCK`] values.
#[inline(always)]
unsafe fn soften<V: Vector>(scores: *mut f32, greatest: &mut f32, sum: &mut f32) -> f32 {
    // SAFETY: the lanes of each vector lie within the block, a multiple of every family's lanes.
    unsafe {
        let mut most = V::splat(f32::NEG_INFINITY);
        let mut at = 0;
        while at < KEY_BLOCK {
            most = V::load(scores.add(at)).max(most);
            at += V::LANES;
        }
        let most = most.greatest();
        let new = if most > *greatest { most } else { *greatest };
        // Nothing above −∞ yet: weights of zero, and a sum that stays zero.
        let base = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let mut added = V::splat(0.0);
        let mut at = 0;
        while at < KEY_BLOCK {
            let weight = elementary::exp(V::load(scores.add(at)).sub(V::splat(base)));
            weight.store(scores.add(at));
            added = added.add(weight);
            at += V::LANES;
        }
        let mut factor = [0.0; 16];
        elementary::exp(V::splat(*greatest - base)).store(factor.as_mut_ptr());
        *sum = *sum * factor[0] + added.sum();
        *greatest = new;
        factor[0]
    }
}
