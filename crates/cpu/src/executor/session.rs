//! What a session keeps of one step on the CPU: its states and histories.

use std::sync::Arc;

use fiddlehead_plan::{DeviceError, Pending, StepSession};

use super::history::History;
use super::memory::Words;
use super::served::delta::{self, DeltaShape};
use crate::features::Isa;

/// A state of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct StateStore {
    /// The value after the last committed node; absent before the first, when it is the graph's initial value.
    pub committed: Option<Arc<Words>>,
    /// Values after each pending node, `[nodes, ...shape]`; for a carried state what it needs of each, to walk again.
    pub pending: Words,
    /// Words of one value.
    pub words: usize,
    /// For a state that a kernel carries.
    pub carried: Option<Carried>,
}

/// A state that a kernel carries from node to node by itself.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    shape: Arc<DeltaShape>,
    /// The value after the last node of a pending chain.
    next: Arc<Words>,
}

/// Where a kernel finds the state that it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedWords {
    /// The value before the segment. Written only before a session's first node, with the initial value.
    pub committed: *mut u32,
    /// Room for the value after the segment.
    pub next: *mut u32,
    /// Room for what a commit needs of each node.
    pub rows: *mut u32,
}

/// Pending nodes from which on what a commit needed of them is given back after it.
const LONG_SEGMENT: usize = 64;

fn unique(words: &mut Arc<Words>) -> *mut u32 {
    if Arc::get_mut(words).is_none() {
        *words = Arc::new(Words::zeroed(words.len()));
    }
    Arc::get_mut(words).map_or(std::ptr::null_mut(), Words::as_mut_ptr)
}

impl StateStore {
    pub(super) fn new(words: usize, carried: Option<Arc<DeltaShape>>) -> StateStore {
        let carried = carried.map(|shape| Carried { shape, next: Arc::new(Words::zeroed(words)) });
        StateStore { words, carried, ..StateStore::default() }
    }

    /// Bytes that a state of that many words takes at most in runs of `rows` nodes. `carried`: the words kept of each
    /// node, for a state that a kernel carries.
    pub(super) fn estimate(words: usize, carried: Option<usize>, rows: usize) -> usize {
        let pending = match carried {
            Some(of_node) => of_node.saturating_mul(rows).saturating_add(words),
            None => words.saturating_mul(rows),
        };
        pending.saturating_add(words).saturating_mul(4)
    }

    /// Makes room for a segment of a carried state; none for others.
    pub(super) fn carry(&mut self, base: usize, count: usize) -> Result<Option<CarriedWords>, DeviceError> {
        let Some(carried) = self.carried.as_mut() else { return Ok(None) };
        if count > 1 {
            self.pending.reserve(carried.shape.row_words() * count, "the operands of a recurrence")?;
        }
        let committed = self.committed.get_or_insert_with(|| Arc::new(Words::zeroed(self.words)));
        let committed = match base {
            0 => unique(committed),
            _ => committed.as_ptr().cast_mut(),
        };
        Ok(Some(CarriedWords { committed, next: unique(&mut carried.next), rows: self.pending.as_mut_ptr() }))
    }

    fn accept(&mut self, isa: Isa, pending: &Pending, path: &[usize]) -> Result<(), String> {
        let Some(&last) = path.last() else { return Ok(()) };
        let Some(carried) = &mut self.carried else {
            let value = &self.pending.as_slice()[last * self.words..(last + 1) * self.words];
            match self.committed.as_mut().and_then(Arc::get_mut) {
                Some(committed) => committed.as_mut_slice().copy_from_slice(value),
                None => {
                    let mut committed = Words::zeroed(self.words);
                    committed.as_mut_slice().copy_from_slice(value);
                    self.committed = Some(Arc::new(committed));
                }
            }
            return Ok(());
        };
        let committed = self.committed.get_or_insert_with(|| Arc::new(Words::zeroed(self.words)));
        if !(pending.is_chain() && path.len() == pending.count) {
            unique(&mut carried.next);
            let next = Arc::make_mut(&mut carried.next).as_mut_slice();
            next.copy_from_slice(committed.as_slice());
            delta::replay(isa, &carried.shape, self.pending.as_slice(), path.iter().copied(), next)
                .map_err(|error| error.to_string())?;
        }
        std::mem::swap(committed, &mut carried.next);
        if pending.count > LONG_SEGMENT {
            self.pending = Words::default();
        }
        Ok(())
    }
}

/// A session's part in one step of the model.
#[derive(Debug, Default)]
pub(super) struct CpuSession {
    pub states: Vec<StateStore>,
    pub histories: Vec<History>,
    pub pending: Pending,
}

/// What a snapshot keeps of one step: shared with the session until that writes.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    states: Vec<Option<Arc<Words>>>,
    histories: Vec<History>,
}

impl CpuSession {
    /// Keeps the nodes of a path of the pending segment, counted from its first.
    pub(super) fn accept(&mut self, isa: Isa, path: &[usize]) -> Result<(), String> {
        for state in &mut self.states {
            state.accept(isa, &self.pending, path)?;
        }
        let base = self.pending.position;
        for (index, &node) in path.iter().enumerate().filter(|(index, node)| index != *node) {
            self.histories.iter_mut().for_each(|history| history.move_row(base + node, base + index));
        }
        self.histories.iter_mut().for_each(|history| history.retire(base + path.len()));
        Ok(())
    }

    /// Keeps all of the chain of `count` nodes that ran last.
    pub(super) fn advance(&mut self, isa: Isa, count: usize) -> Result<(), String> {
        let path: Vec<usize> = (0..count).collect();
        self.pending = Pending::chain(self.pending.position, count);
        self.accept(isa, &path)?;
        self.pending.position += count;
        self.pending.end();
        Ok(())
    }
}

impl StepSession for CpuSession {
    type Kept = Kept;
    fn pending(&self) -> &Pending {
        &self.pending
    }
    fn pending_mut(&mut self) -> &mut Pending {
        &mut self.pending
    }
    fn keep(&self) -> Kept {
        Kept {
            states: self.states.iter().map(|state| state.committed.clone()).collect(),
            histories: self.histories.clone(),
        }
    }
    fn restore(&mut self, kept: &Kept) {
        for (state, committed) in self.states.iter_mut().zip(&kept.states) {
            state.committed.clone_from(committed);
        }
        self.histories.clone_from(&kept.histories);
    }
    fn bytes(&self) -> usize {
        let states = self.states.iter().map(|state| {
            state.pending.bytes()
                + state.committed.as_ref().map_or(0, |committed| committed.bytes())
                + state.carried.as_ref().map_or(0, |carried| carried.next.bytes())
        });
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
    fn kept_bytes(kept: &Kept) -> usize {
        kept.states.iter().flatten().map(|state| state.bytes()).sum::<usize>()
            + kept.histories.iter().map(History::bytes).sum::<usize>()
    }
}
