//! Advancing a state along the accepted path of a solved block: `S ← e^{G_n} S0 + Σ_m e^{G_n − G_m} k_m u_mᵀ`.

use super::StateLayout;
use super::block::DeltaBlock;
use crate::features::Isa;
use crate::kernels::broadcast::{Extent, Start, scaled_rows};
use crate::kernels::vector::{Kernel, Vector};

impl DeltaBlock {
    /// The state after the accepted `path` of the solved block: node indices from a root to its last node. `from` is the
    /// state that was solved from (none: zero), `to` the new one. An empty path copies.
    ///
    /// # Panics
    /// When nothing has been solved, or a size or index does not fit the solved block.
    pub fn commit(&mut self, isa: Isa, path: &[usize], from: Option<&[f32]>, to: &mut [f32]) {
        let layout = self.layout.expect("a block is solved before it is committed");
        let size = self.key_dim * self.value_dim;
        assert_eq!(to.len(), size, "the state's size");
        assert!(from.is_none_or(|from| from.len() == size), "the state's size");
        assert!(path.iter().all(|node| *node < self.nodes), "a path inside the block");
        let last = path.last().map_or(0.0, |node| self.path_decay[*node]);
        let factor = path.last().map_or(1.0, |node| self.root_factor[*node]);
        self.scaled_keys.clear();
        self.path_updates.clear();
        for node in path {
            let factor = (last - self.path_decay[*node]).exp() as f32;
            let key = &self.keys[node * self.key_dim..][..self.key_dim];
            self.scaled_keys.extend(key.iter().map(|value| value * factor));
            self.path_updates.extend_from_slice(&self.updates[node * self.value_dim..][..self.value_dim]);
        }
        match from {
            Some(from) => to.iter_mut().zip(from).for_each(|(to, from)| *to = from * factor),
            None => to.fill(0.0),
        }
        isa.run(Commit { block: self, layout, length: path.len(), to });
    }
}

struct Commit<'a> {
    block: &'a DeltaBlock,
    layout: StateLayout,
    length: usize,
    to: &'a mut [f32],
}

impl Kernel for Commit<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Self { block, layout, length, to } = self;
        let (keys, values) = (block.key_dim, block.value_dim);
        let scaled = block.scaled_keys.as_ptr();
        let to = to.as_mut_ptr();
        // SAFETY: `commit` has checked the sizes and the path, and made one scaled key and one update row for each node of it.
        unsafe {
            match layout {
                StateLayout::KeyMajor => {
                    // The coefficient of state row k is key element k of each path node: one running sum over the path.
                    scaled_rows::<V>(
                        Extent { rows: keys, columns: values, length },
                        Start::Keep,
                        keys,
                        |k| scaled.add(k),
                        |m| block.path_updates.as_ptr().add(m * values),
                        |k| to.add(k * values),
                    )
                }
                StateLayout::ValueMajor => {
                    let updates = block.path_updates.as_ptr();
                    scaled_rows::<V>(
                        Extent { rows: values, columns: keys, length },
                        Start::Keep,
                        values,
                        |v| updates.add(v),
                        |m| scaled.add(m * keys),
                        |v| to.add(v * keys),
                    )
                }
            }
        }
    }
}
