//! The delta rule for a whole chain or tree at once: one block triangular solve over ancestors.
//!
//! With `G_i` the sum of log decays from the root to node i: the Gram matrix `A_ij = beta_i e^{G_i − G_j} (k_i · k_j)` over
//! strict ancestors j, the right side `R_i = beta_i (v_i − e^{G_i} S0ᵀ k_i)`, then `(I + A) U = R` by blocks of 16 with the
//! explicit inverse of each diagonal block, all in f32 (merging blocks at lower precision loses the result when equal
//! keys follow each other). Outputs are `o_i = e^{G_i} S0ᵀ q_i + Σ_j P_ij u_j`. Nothing is advanced until [`DeltaBlock::commit`].
//!
//! Depth-first order makes A strictly lower triangular. Where j is no ancestor, `e^{G_i − G_j}` may overflow: it is selected
//! away, never multiplied by zero. A chain is the tree whose every interval runs to the end: the same code, the same bits.

use super::{Decay, DeltaRows, StateLayout};
use crate::features::Isa;
use crate::kernels::broadcast::{Extent, Start, scaled_rows};
use crate::kernels::dot::tile_rows;
use crate::kernels::elementary;
use crate::kernels::vector::{Kernel, Vector};
use crate::kernels::views::{ActivationRows, OutputRows};

/// Most nodes of one block.
pub const MOST_NODES: usize = 128;
/// Rows of a diagonal block.
const DIAGONAL: usize = 16;

/// Who descends from whom. Nodes are in depth-first order.
#[derive(Clone, Copy, Debug)]
pub enum Ancestry<'a> {
    /// Each node's parent is the node before it.
    Chain,
    /// The last node of each node's subtree, itself included: j is an ancestor of i, or i, when `j <= i <= ends[j]`.
    Tree(&'a [u32]),
}

impl Ancestry<'_> {
    #[inline(always)]
    fn reaches(&self, ancestor: usize, node: usize) -> bool {
        match self {
            Ancestry::Chain => true,
            Ancestry::Tree(ends) => node <= ends[ancestor] as usize,
        }
    }
}

/// A block that cannot be solved in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeltaBlockError {
    /// Too many nodes for one block.
    #[error(
        "a delta-rule block of {0} nodes; the most is {MOST_NODES}, use the serial form or smaller blocks"
    )]
    TooManyNodes(usize),
    /// The form divides by decays, which must be above zero.
    #[error("the decay of node {0} is not above zero; use the serial form")]
    DecayNotPositive(usize),
    /// The intervals are not those of a tree in depth-first order.
    #[error("the subtree interval of node {0} ends outside its parent's or the block")]
    BadInterval(usize),
}

/// The solved block of one value head, and its reusable memory.
#[derive(Default)]
pub struct DeltaBlock {
    pub(super) nodes: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    pub(super) layout: Option<StateLayout>,
    /// Sum of log decays from the root, `[nodes]`. In f64: differences of large sums would lose the factor's digits.
    pub(super) path_decay: Vec<f64>,
    /// e^{G_i}, `[nodes]`.
    pub(super) root_factor: Vec<f32>,
    /// `[nodes, key_dim]`: packed keys.
    pub(super) keys: Vec<f32>,
    /// −A, `[nodes, nodes]`.
    gram: Vec<f32>,
    /// P, `[nodes, nodes]`.
    mixing: Vec<f32>,
    /// R, then U, `[nodes, value_dim]`.
    pub(super) updates: Vec<f32>,
    /// Scratch of one diagonal block and its right side.
    inverse: [[f32; DIAGONAL]; DIAGONAL],
    right_side: Vec<f32>,
    /// Scratch of a commit: scaled keys, `[path, key_dim]`.
    pub(super) scaled_keys: Vec<f32>,
    /// `[path, value_dim]`.
    pub(super) path_updates: Vec<f32>,
}

impl DeltaBlock {
    /// Solves the block over `rows` from the stored `state` (none: zero) and writes `outputs` `[nodes, value_dim]`.
    ///
    /// # Errors
    /// When there are more than [`MOST_NODES`] nodes, a decay factor is not above zero, or the intervals are no tree.
    ///
    /// # Panics
    /// When the shapes disagree.
    pub fn solve(
        &mut self,
        isa: Isa,
        layout: StateLayout,
        rows: &DeltaRows<'_>,
        ancestry: Ancestry<'_>,
        state: Option<&[f32]>,
        outputs: &mut OutputRows<'_>,
    ) -> Result<(), DeltaBlockError> {
        rows.assert_shapes();
        let (nodes, key_dim, value_dim) = (rows.nodes(), rows.key_dim(), rows.value_dim());
        assert_eq!((outputs.rows(), outputs.columns()), (nodes, value_dim), "the outputs' shape");
        assert!(state.is_none_or(|state| state.len() == key_dim * value_dim), "the state's size");
        if nodes > MOST_NODES {
            return Err(DeltaBlockError::TooManyNodes(nodes));
        }
        self.sum_decays(rows, ancestry)?;
        (self.nodes, self.key_dim, self.value_dim, self.layout) = (nodes, key_dim, value_dim, Some(layout));
        self.keys.clear();
        for node in 0..nodes {
            let start = node * rows.keys.row_stride;
            self.keys.extend_from_slice(&rows.keys.values[start..start + key_dim]);
        }
        for matrix in [&mut self.gram, &mut self.mixing] {
            matrix.clear();
            matrix.resize(nodes * nodes, 0.0);
        }
        self.updates.clear();
        self.updates.resize(nodes * value_dim, 0.0);
        self.right_side.resize(DIAGONAL * value_dim, 0.0);
        self.root_factor.resize(nodes, 0.0);
        isa.run(Solve { block: self, layout, rows, ancestry, state, outputs });
        Ok(())
    }

    /// Path sums of log decays, and the check of the intervals.
    fn sum_decays(&mut self, rows: &DeltaRows<'_>, ancestry: Ancestry<'_>) -> Result<(), DeltaBlockError> {
        let nodes = rows.nodes();
        if let Ancestry::Tree(ends) = ancestry {
            assert_eq!(ends.len(), nodes, "an interval for each node");
        }
        self.path_decay.clear();
        // The open ancestors of the node at hand.
        let mut open: Vec<usize> = Vec::new();
        for node in 0..nodes {
            while open.last().is_some_and(|last| !ancestry.reaches(*last, node)) {
                open.pop();
            }
            let parent = open.last().copied();
            if let Ancestry::Tree(ends) = ancestry {
                let end = ends[node] as usize;
                let limit = parent.map_or(nodes - 1, |parent| ends[parent] as usize);
                if end < node || end > limit {
                    return Err(DeltaBlockError::BadInterval(node));
                }
            }
            let log = match &rows.decay {
                Decay::Keep => 0.0,
                Decay::Log(scalars) => scalars.at(node) as f64,
                Decay::Factor(scalars) => {
                    let factor = scalars.at(node);
                    if factor.is_nan() || factor <= 0.0 {
                        return Err(DeltaBlockError::DecayNotPositive(node));
                    }
                    (factor as f64).ln()
                }
            };
            if log == f64::NEG_INFINITY {
                return Err(DeltaBlockError::DecayNotPositive(node));
            }
            self.path_decay.push(parent.map_or(0.0, |parent| self.path_decay[parent]) + log);
            open.push(node);
        }
        Ok(())
    }
}

struct Solve<'a, 'b> {
    block: &'a mut DeltaBlock,
    layout: StateLayout,
    rows: &'a DeltaRows<'a>,
    ancestry: Ancestry<'a>,
    state: Option<&'a [f32]>,
    outputs: &'a mut OutputRows<'b>,
}

impl Kernel for Solve<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        for node in 0..self.block.nodes {
            self.block.root_factor[node] = self.block.path_decay[node].exp() as f32;
        }
        self.gram::<V>();
        self.right_side::<V>();
        self.substitute::<V>();
        self.outputs::<V>();
    }
}

impl Solve<'_, '_> {
    /// −A and P: raw dot products of keys and queries with keys, then the decay of each pair.
    #[inline(always)]
    fn gram<V: Vector>(&mut self) {
        let block = &mut *self.block;
        let (nodes, length) = (block.nodes, block.key_dim);
        let keys = block.keys.as_ptr();
        let mut column = 0;
        while column < nodes {
            let kept = (nodes - column).min(4);
            let weights: [*const u8; 4] =
                std::array::from_fn(|i| keys.wrapping_add((column + i.min(kept - 1)) * length).cast());
            // Rows above the columns hold no ancestors.
            for (source, target) in
                [(None, block.gram.as_mut_ptr()), (Some(&self.rows.queries), block.mixing.as_mut_ptr())]
            {
                let row = |m: usize| match source {
                    None => keys.wrapping_add((column + m) * length),
                    Some(queries) => queries.row(column + m),
                };
                // SAFETY: packed keys and query rows hold `length` values; both matrices are [nodes, nodes].
                unsafe {
                    tile_rows::<V, f32>(nodes - column, weights, kept, length, row, |m| {
                        target.add((column + m) * nodes + column)
                    })
                };
            }
            column += kept;
        }
        let keep_all = matches!(self.rows.decay, Decay::Keep);
        let mut factors = [1.0f32; MOST_NODES];
        for node in 0..nodes {
            if !keep_all {
                for other in 0..node {
                    factors[other] = (block.path_decay[node] - block.path_decay[other]) as f32;
                }
                exponentials::<V>(&mut factors[..node]);
                factors[node] = 1.0;
            }
            let beta = self.rows.beta.as_ref().map_or(1.0, |scalars| scalars.at(node));
            let gram = &mut block.gram[node * nodes..][..nodes];
            let mixing = &mut block.mixing[node * nodes..][..nodes];
            for other in 0..nodes {
                let ancestor = other <= node && self.ancestry.reaches(other, node);
                mixing[other] = if ancestor { factors[other] * mixing[other] } else { 0.0 };
                gram[other] =
                    if ancestor && other < node { -(beta * factors[other] * gram[other]) } else { 0.0 };
            }
        }
    }

    /// `R_i = beta_i (v_i − e^{G_i} S0ᵀ k_i)` into `updates`.
    #[inline(always)]
    fn right_side<V: Vector>(&mut self) {
        let block = &mut *self.block;
        let values = block.value_dim;
        if let Some(state) = self.state {
            let keys = ActivationRows {
                values: &block.keys,
                rows: block.nodes,
                columns: block.key_dim,
                row_stride: block.key_dim,
            };
            let target = block.updates.as_mut_ptr();
            // SAFETY: `updates` is [nodes, value_dim].
            unsafe { read_state::<V>(self.layout, state, &keys, values, |node| target.add(node * values)) };
        }
        for node in 0..block.nodes {
            let beta = self.rows.beta.as_ref().map_or(1.0, |scalars| scalars.at(node));
            let factor = block.root_factor[node];
            let start = node * self.rows.values.row_stride;
            let value = &self.rows.values.values[start..start + values];
            let row = &mut block.updates[node * values..][..values];
            for (held, value) in row.iter_mut().zip(value) {
                *held = beta * (value - factor * *held);
            }
        }
    }

    /// `(I + A) U = R`, in place in `updates`.
    #[inline(always)]
    fn substitute<V: Vector>(&mut self) {
        let block = &mut *self.block;
        let (nodes, values) = (block.nodes, block.value_dim);
        let mut first = 0;
        while first < nodes {
            let size = (nodes - first).min(DIAGONAL);
            let gram = block.gram.as_ptr();
            let updates = block.updates.as_mut_ptr();
            let right_side = block.right_side.as_mut_ptr();
            invert(&block.gram, nodes, first, size, &mut block.inverse);
            // SAFETY: rows `first..first + size` and columns below them lie in the matrices; the right side holds
            // `DIAGONAL` rows; operands and outputs are different rows or different vectors.
            unsafe {
                std::ptr::copy_nonoverlapping(updates.add(first * values), right_side, size * values);
                scaled_rows::<V>(
                    Extent { rows: size, columns: values, length: first },
                    Start::Keep,
                    1,
                    |m| gram.add((first + m) * nodes),
                    |k| updates.add(k * values).cast_const(),
                    |m| right_side.add(m * values),
                );
                scaled_rows::<V>(
                    Extent { rows: size, columns: values, length: size },
                    Start::Zero,
                    1,
                    |m| block.inverse[m].as_ptr(),
                    |k| right_side.add(k * values).cast_const(),
                    |m| updates.add((first + m) * values),
                );
            }
            first += size;
        }
    }

    /// `o_i = e^{G_i} S0ᵀ q_i + Σ_j P_ij u_j`.
    #[inline(always)]
    fn outputs<V: Vector>(&mut self) {
        let block = &*self.block;
        let (nodes, values) = (block.nodes, block.value_dim);
        let outputs = &mut *self.outputs;
        if let Some(state) = self.state {
            // SAFETY: the outputs are [nodes, value_dim].
            unsafe {
                read_state::<V>(self.layout, state, &self.rows.queries, values, |node| outputs.row(node))
            };
        }
        let mut first = 0;
        while first < nodes {
            let size = (nodes - first).min(DIAGONAL);
            let start = match self.state {
                Some(_) => Start::Scaled(&block.root_factor[first..]),
                None => Start::Zero,
            };
            // SAFETY: P is [nodes, nodes], U [nodes, value_dim]; columns beyond a row's own node are zero.
            unsafe {
                scaled_rows::<V>(
                    Extent { rows: size, columns: values, length: first + size },
                    start,
                    1,
                    |m| block.mixing.as_ptr().add((first + m) * nodes),
                    |k| block.updates.as_ptr().add(k * values),
                    |m| outputs.row(first + m),
                )
            };
            first += size;
        }
    }
}

/// `target[i] = S0ᵀ x_i` for every row of `x` `[nodes, key_dim]`.
///
/// # Safety
/// `target(i)` has room for `width` values.
#[inline(always)]
unsafe fn read_state<V: Vector>(
    layout: StateLayout,
    state: &[f32],
    x: &ActivationRows<'_>,
    width: usize,
    mut target: impl FnMut(usize) -> *mut f32,
) {
    let length = x.columns;
    let state = state.as_ptr();
    // SAFETY: the state holds `length * width` values, the rows of `x` `length`; the caller vouches for the target.
    unsafe {
        match layout {
            StateLayout::KeyMajor => scaled_rows::<V>(
                Extent { rows: x.rows, columns: width, length },
                Start::Zero,
                1,
                |m| x.row(m),
                |k| state.add(k * width),
                target,
            ),
            StateLayout::ValueMajor => {
                let mut column = 0;
                while column < width {
                    let kept = (width - column).min(4);
                    let weights: [*const u8; 4] =
                        std::array::from_fn(|i| state.add((column + i.min(kept - 1)) * length).cast());
                    tile_rows::<V, f32>(
                        x.rows,
                        weights,
                        kept,
                        length,
                        |m| x.row(m),
                        |m| target(m).add(column),
                    );
                    column += kept;
                }
            }
        }
    }
}

/// The inverse of `I + A` on one diagonal block, by forward substitution; `gram` holds −A.
#[inline(always)]
fn invert(gram: &[f32], nodes: usize, first: usize, size: usize, inverse: &mut [[f32; DIAGONAL]; DIAGONAL]) {
    for row in 0..size {
        let mut sums = [0.0f32; DIAGONAL];
        sums[row] = 1.0;
        for between in 0..row {
            let factor = gram[(first + row) * nodes + first + between];
            for column in 0..=between {
                sums[column] += factor * inverse[between][column];
            }
        }
        inverse[row] = sums;
    }
}

/// e^x in place.
#[inline(always)]
fn exponentials<V: Vector>(values: &mut [f32]) {
    let (at, count) = (values.as_mut_ptr(), values.len());
    let mut index = 0;
    // SAFETY: the slice holds `count` values; the last vector is masked.
    unsafe {
        while index < count {
            let kept = (count - index).min(V::LANES);
            elementary::exp(V::load_first(at.add(index), kept)).store_first(at.add(index), kept);
            index += kept;
        }
    }
}
