//! What a commit does with a delta rule: nodes' operands are kept while they are pending, and an accepted path is walked
//! again when it is not all of a chain.

use super::{DecayForm, DeltaShape};
use crate::executor::batch::SegmentRows;
use crate::features::Isa;
use crate::kernels::delta::serial::delta_chain;
use crate::kernels::delta::{Decay, DeltaRows, Scalars};
use crate::kernels::views::{ActivationRows, OutputRows, ViewError};

/// Keeps what a commit needs of each node.
pub(super) fn keep(
    shape: &DeltaShape,
    segment: SegmentRows,
    operands: &DeltaRows<'_>,
    head: usize,
    kept: *mut u32,
) {
    let (keys, values) = (shape.key_dim, shape.value_dim);
    for node in 0..segment.count {
        let start = node * shape.row_words() + head * shape.head_words();
        // SAFETY: the session made room for the rows of the segment's nodes; each task writes its own head's part.
        unsafe {
            let to = kept.add(start).cast::<f32>();
            std::ptr::copy_nonoverlapping(operands.keys.row(node), to, keys);
            std::ptr::copy_nonoverlapping(operands.values.row(node), to.add(keys), values);
            *to.add(keys + values) = match &operands.decay {
                Decay::Keep => 0.0,
                Decay::Log(scalars) | Decay::Factor(scalars) => scalars.values[node * scalars.stride],
            };
            *to.add(keys + values + 1) =
                operands.beta.as_ref().map_or(1.0, |scalars| scalars.values[node * scalars.stride]);
        }
    }
}

/// Walks an accepted path again, from the committed state, over the rows that were kept. The bits are those of the run.
pub(in crate::executor) fn replay(
    isa: Isa,
    shape: &DeltaShape,
    kept: &[u32],
    path: impl Iterator<Item = usize> + Clone,
    state: &mut [u32],
) -> Result<(), ViewError> {
    let kept = floats(kept);
    let mut unread = vec![0.0; shape.value_dim];
    let (keys, values) = (shape.key_dim, shape.value_dim);
    for (head, &start) in shape.states.iter().enumerate() {
        // SAFETY: any word is an f32; the state is borrowed exclusively.
        let state = unsafe {
            let state = &mut state[start..start + shape.state_words()];
            std::slice::from_raw_parts_mut(state.as_mut_ptr().cast::<f32>(), state.len())
        };
        for node in path.clone() {
            let row = &kept[node * shape.row_words() + head * shape.head_words()..][..shape.head_words()];
            let scalar = |at: usize| Scalars { values: &row[at..at + 1], stride: 1 };
            let key = ActivationRows::new(&row[..keys], 1, keys, keys)?;
            let operands = DeltaRows {
                queries: key,
                keys: key,
                values: ActivationRows::new(&row[keys..keys + values], 1, values, values)?,
                decay: match shape.decay {
                    None => Decay::Keep,
                    Some(DecayForm::Factor) => Decay::Factor(scalar(keys + values)),
                    Some(DecayForm::Log) => Decay::Log(scalar(keys + values)),
                },
                beta: shape.beta.then(|| scalar(keys + values + 1)),
            };
            let mut outputs = OutputRows::new(&mut unread, 1, values, values)?;
            delta_chain(isa, shape.layout, &operands, state, &mut outputs);
        }
    }
    Ok(())
}

fn floats(words: &[u32]) -> &[f32] {
    // SAFETY: any word is an f32.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}
