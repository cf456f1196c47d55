//! What a session keeps of one step: its position, states and histories, and the segment that waits for a commit.

use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, NO_PARENT, Segment, Shape};

use fiddlehead_plan::DeviceError;

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
        if !(pending.parents.is_empty() && path.len() == pending.count) {
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

/// A segment that ran and was not committed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    /// Whether there is one.
    pub active: bool,
    pub first: usize,
    pub count: usize,
    /// Each node's parent, counted from `first`; empty for a chain.
    pub parents: Vec<u32>,
}

impl Pending {
    pub(super) fn set(&mut self, forest: &Forest, segment: &Segment) {
        self.active = true;
        self.first = segment.first();
        self.count = segment.count();
        self.parents.clear();
        if segment.shape() == Shape::Tree {
            let first = segment.first() as u32;
            self.parents.extend(forest.parents()[segment.range()].iter().map(|&parent| match parent {
                NO_PARENT => NO_PARENT,
                parent => parent - first,
            }));
        }
    }

    /// The parent of a node, both counted from the segment's first.
    pub(super) fn parent(&self, node: usize) -> Option<usize> {
        match self.parents.get(node) {
            Some(&NO_PARENT) => None,
            Some(&parent) => Some(parent as usize),
            None => node.checked_sub(1),
        }
    }
}

/// A session's part in one step of the model.
#[derive(Debug, Default)]
pub(super) struct StepSession {
    pub position: usize,
    pub states: Vec<StateStore>,
    pub histories: Vec<History>,
    pub pending: Pending,
}

/// What a snapshot keeps of one step: shared with the session until that writes.
#[derive(Clone, Debug)]
pub(super) struct StepSnapshot {
    position: usize,
    states: Vec<Option<Arc<Words>>>,
    histories: Vec<History>,
}

impl StepSnapshot {
    pub(super) fn bytes(&self) -> usize {
        self.states.iter().flatten().map(|state| state.bytes()).sum::<usize>()
            + self.histories.iter().map(History::bytes).sum::<usize>()
    }
    pub(super) fn position(&self) -> usize {
        self.position
    }
}

impl StepSession {
    /// Keeps an accepted path of the pending segment; says what is wrong with it otherwise.
    pub(super) fn commit(&mut self, isa: Isa, accepted: &Accepted) -> Result<(), String> {
        if !self.pending.active {
            return Err("no segment is pending: run one first".into());
        }
        if accepted.base() != self.position {
            return Err(format!(
                "the path hangs from {}, the session stands at {}",
                accepted.base(),
                self.position
            ));
        }
        let mut parent = None;
        let mut path = Vec::with_capacity(accepted.len());
        for &node in accepted.nodes() {
            let node = (node as usize).wrapping_sub(self.pending.first);
            if node >= self.pending.count || self.pending.parent(node) != parent {
                return Err("the accepted path is not one of the pending segment".into());
            }
            parent = Some(node);
            path.push(node);
        }
        for state in &mut self.states {
            state.accept(isa, &self.pending, &path)?;
        }
        let base = self.position;
        for (index, &node) in path.iter().enumerate() {
            if node != index {
                self.histories.iter_mut().for_each(|history| history.move_row(base + node, base + index));
            }
        }
        self.position += accepted.len();
        let position = self.position;
        self.histories.iter_mut().for_each(|history| history.retire(position));
        self.pending.active = false;
        Ok(())
    }

    /// Keeps the first `count` nodes of the chain that ran last.
    pub(super) fn advance(&mut self, isa: Isa, count: usize) -> Result<(), String> {
        let path: Vec<usize> = (0..count).collect();
        let pending = Pending { count, ..Pending::default() };
        for state in &mut self.states {
            state.accept(isa, &pending, &path)?;
        }
        self.position += count;
        let position = self.position;
        self.histories.iter_mut().for_each(|history| history.retire(position));
        self.pending.active = false;
        Ok(())
    }

    pub(super) fn discard(&mut self) {
        self.pending.active = false;
    }

    pub(super) fn snapshot(&self) -> StepSnapshot {
        StepSnapshot {
            position: self.position,
            states: self.states.iter().map(|state| state.committed.clone()).collect(),
            histories: self.histories.clone(),
        }
    }

    pub(super) fn restore(&mut self, snapshot: &StepSnapshot) {
        self.position = snapshot.position;
        for (state, committed) in self.states.iter_mut().zip(&snapshot.states) {
            state.committed.clone_from(committed);
        }
        self.histories.clone_from(&snapshot.histories);
        self.pending.active = false;
    }

    pub(super) fn bytes(&self) -> usize {
        let states = self.states.iter().map(|state| {
            state.pending.bytes()
                + state.committed.as_ref().map_or(0, |committed| committed.bytes())
                + state.carried.as_ref().map_or(0, |carried| carried.next.bytes())
        });
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
}
