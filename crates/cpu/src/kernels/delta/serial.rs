//! The delta rule node after node.
//!
//! A column of the state (one value dimension) evolves by itself, so a chain keeps a block of columns in the first-level
//! cache while it walks all tokens. Each node's arithmetic is the same in every form: with a key-major state, two running
//! sums over even and odd key dimensions; with a value-major one, the pattern of a dot product.

use super::{Decay, DeltaRows, StateLayout};
use crate::features::Isa;
use crate::kernels::elementary;
use crate::kernels::vector::{Kernel, Vector};
use crate::kernels::views::OutputRows;
use std::ops::Range;

/// Vectors of value columns in a key-major block: 64 columns of 128 keys are 32 KiB.
const PANEL: usize = 4;

/// Walks all nodes of `rows` as one chain. `state` is read and replaced; `outputs` `[nodes, value_dim]` are written.
///
/// # Panics
/// When the shapes disagree.
pub fn delta_chain(
    isa: Isa,
    layout: StateLayout,
    rows: &DeltaRows<'_>,
    state: &mut [f32],
    outputs: &mut OutputRows<'_>,
) {
    rows.assert_shapes();
    assert_eq!(state.len(), rows.key_dim() * rows.value_dim(), "the state's size");
    assert_eq!((outputs.rows(), outputs.columns()), (rows.nodes(), rows.value_dim()), "the outputs' shape");
    let to = state.as_mut_ptr();
    isa.run(Serial { layout, rows, nodes: 0..rows.nodes(), from: to, to, outputs });
}

/// Advances one node from its parent's state to its own, with the bits of [`delta_chain`]. Output row `node` is written.
///
/// # Panics
/// When the shapes disagree or there is no such node.
pub fn delta_step(
    isa: Isa,
    layout: StateLayout,
    rows: &DeltaRows<'_>,
    node: usize,
    parent: &[f32],
    child: &mut [f32],
    outputs: &mut OutputRows<'_>,
) {
    rows.assert_shapes();
    assert!(node < rows.nodes(), "node {node} of {}", rows.nodes());
    let size = rows.key_dim() * rows.value_dim();
    assert_eq!((parent.len(), child.len()), (size, size), "the states' sizes");
    assert_eq!((outputs.rows(), outputs.columns()), (rows.nodes(), rows.value_dim()), "the outputs' shape");
    let (from, to) = (parent.as_ptr(), child.as_mut_ptr());
    isa.run(Serial { layout, rows, nodes: node..node + 1, from, to, outputs });
}

/// `from` holds the state before the first node, `to` the state after the last; they are equal for an update in place.
struct Serial<'a, 'b> {
    layout: StateLayout,
    rows: &'a DeltaRows<'a>,
    nodes: Range<usize>,
    from: *const f32,
    to: *mut f32,
    outputs: &'a mut OutputRows<'b>,
}

impl Kernel for Serial<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let width = self.rows.value_dim();
        // SAFETY (all calls): the entry points have checked the sizes of states, rows and outputs.
        match self.layout {
            StateLayout::KeyMajor => {
                let mut column = 0;
                while column + PANEL * V::LANES <= width {
                    // SAFETY: the columns lie within the state.
                    unsafe { self.columns::<V, PANEL, false>(column, V::LANES) };
                    column += PANEL * V::LANES;
                }
                while column + V::LANES <= width {
                    // SAFETY: as above.
                    unsafe { self.columns::<V, 1, false>(column, V::LANES) };
                    column += V::LANES;
                }
                if column < width {
                    // SAFETY: as above; the vector is masked.
                    unsafe { self.columns::<V, 1, true>(column, width - column) };
                }
            }
            StateLayout::ValueMajor => {
                let mut row = 0;
                while row + 4 <= width {
                    // SAFETY: the rows lie within the state.
                    unsafe { self.transposed_rows::<V, 4>(row) };
                    row += 4;
                }
                while row < width {
                    // SAFETY: as above.
                    unsafe { self.transposed_rows::<V, 1>(row) };
                    row += 1;
                }
            }
        }
    }
}

impl Serial<'_, '_> {
    /// The factor of the old state at a node, or none. The exponential has the bits of `exp_slice`.
    #[inline(always)]
    fn decay<V: Vector>(&self, node: usize) -> Option<V> {
        match &self.rows.decay {
            Decay::Keep => None,
            Decay::Log(scalars) => Some(elementary::exp(V::splat(scalars.at(node)))),
            Decay::Factor(scalars) => Some(V::splat(scalars.at(node))),
        }
    }

    #[inline(always)]
    fn beta(&self, node: usize) -> Option<f32> {
        self.rows.beta.as_ref().map(|scalars| scalars.at(node))
    }

    /// All nodes for `N` vectors of columns of a key-major state.
    #[inline(always)]
    unsafe fn columns<V: Vector, const N: usize, const MASKED: bool>(&mut self, column: usize, kept: usize) {
        let (keys, width) = (self.rows.key_dim(), self.rows.value_dim());
        let mut from = self.from.wrapping_add(column);
        let to = self.to.wrapping_add(column);
        for node in self.nodes.clone() {
            let (key, query) = (self.rows.keys.row(node), self.rows.queries.row(node));
            let value = self.rows.values.row(node).wrapping_add(column);
            let output = self.outputs.row(node).wrapping_add(column);
            // SAFETY: see `run`; masked vectors touch only `kept` lanes.
            unsafe {
                let load = |at: *const f32, n: usize| {
                    if MASKED { V::load_first(at, kept) } else { V::load(at.add(n * V::LANES)) }
                };
                let factor = self.decay::<V>(node);
                let decayed = |held: V| match factor {
                    Some(factor) => held.mul(factor),
                    None => held,
                };
                let mut sums = [[V::splat(0.0); N]; 2];
                for k in 0..keys {
                    let scale = V::splat(*key.add(k));
                    for n in 0..N {
                        let held = decayed(load(from.add(k * width), n));
                        sums[k % 2][n] = scale.mul_add(held, sums[k % 2][n]);
                    }
                }
                let mut correction = [V::splat(0.0); N];
                for n in 0..N {
                    correction[n] = load(value, n).sub(sums[0][n].add(sums[1][n]));
                    if let Some(beta) = self.beta(node) {
                        correction[n] = correction[n].mul(V::splat(beta));
                    }
                }
                let mut sums = [[V::splat(0.0); N]; 2];
                for k in 0..keys {
                    let scale = V::splat(*key.add(k));
                    let query = V::splat(*query.add(k));
                    for n in 0..N {
                        let held = decayed(load(from.add(k * width), n));
                        let updated = scale.mul_add(correction[n], held);
                        let at = to.add(k * width + n * V::LANES);
                        if MASKED {
                            updated.store_first(at, kept)
                        } else {
                            updated.store(at)
                        }
                        sums[k % 2][n] = query.mul_add(updated, sums[k % 2][n]);
                    }
                }
                for n in 0..N {
                    let sum = sums[0][n].add(sums[1][n]);
                    let at = output.add(n * V::LANES);
                    if MASKED { sum.store_first(at, kept) } else { sum.store(at) }
                }
            }
            from = to;
        }
    }

    /// All nodes for `R` rows of a value-major state.
    #[inline(always)]
    unsafe fn transposed_rows<V: Vector, const R: usize>(&mut self, row: usize) {
        let length = self.rows.key_dim();
        let mut from = self.from.wrapping_add(row * length);
        let to = self.to.wrapping_add(row * length);
        let whole = length - length % V::LANES;
        for node in self.nodes.clone() {
            let (key, query) = (self.rows.keys.row(node), self.rows.queries.row(node));
            let value = self.rows.values.row(node).wrapping_add(row);
            let output = self.outputs.row(node).wrapping_add(row);
            // SAFETY: see `run`; the last vector of a row is masked.
            unsafe {
                let factor = self.decay::<V>(node);
                let decayed = |held: V| match factor {
                    Some(factor) => held.mul(factor),
                    None => held,
                };
                let mut sums = [V::splat(0.0); R];
                let mut k = 0;
                while k < whole {
                    let key = V::load(key.add(k));
                    for r in 0..R {
                        sums[r] = key.mul_add(decayed(V::load(from.add(r * length + k))), sums[r]);
                    }
                    k += V::LANES;
                }
                let rest = length - whole;
                if rest > 0 {
                    let key = V::load_first(key.add(k), rest);
                    for r in 0..R {
                        let held = decayed(V::load_first(from.add(r * length + k), rest));
                        sums[r] = key.mul_add(held, sums[r]);
                    }
                }
                let predicted = finish::<V, R>(sums);
                let mut corrections = [V::splat(0.0); R];
                for r in 0..R {
                    let correction = *value.add(r) - predicted[r];
                    corrections[r] = V::splat(match self.beta(node) {
                        Some(beta) => correction * beta,
                        None => correction,
                    });
                }
                let mut sums = [V::splat(0.0); R];
                let mut k = 0;
                while k < whole {
                    let (key, query) = (V::load(key.add(k)), V::load(query.add(k)));
                    for r in 0..R {
                        let held = decayed(V::load(from.add(r * length + k)));
                        let updated = key.mul_add(corrections[r], held);
                        updated.store(to.add(r * length + k));
                        sums[r] = query.mul_add(updated, sums[r]);
                    }
                    k += V::LANES;
                }
                if rest > 0 {
                    let (key, query) = (V::load_first(key.add(k), rest), V::load_first(query.add(k), rest));
                    for r in 0..R {
                        let held = decayed(V::load_first(from.add(r * length + k), rest));
                        let updated = key.mul_add(corrections[r], held);
                        updated.store_first(to.add(r * length + k), rest);
                        sums[r] = query.mul_add(updated, sums[r]);
                    }
                }
                let results = finish::<V, R>(sums);
                std::ptr::copy_nonoverlapping(results.as_ptr(), output, R);
            }
            from = to;
        }
    }
}

/// The sums of the lanes of one or four vectors.
#[inline(always)]
fn finish<V: Vector, const R: usize>(sums: [V; R]) -> [f32; R] {
    let mut finished = [0.0; R];
    if R == 4 {
        let four = V::sum4([sums[0], sums[1 % R], sums[2 % R], sums[3 % R]]);
        finished.copy_from_slice(&four[..R]);
    } else {
        for r in 0..R {
            finished[r] = sums[r].sum();
        }
    }
    finished
}
