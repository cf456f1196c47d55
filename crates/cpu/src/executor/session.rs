//! What a session keeps of one step: its position, states and histories, and the segment that waits for a commit.

use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, NO_PARENT, Segment, Shape};

use super::history::History;
use super::memory::Words;

/// A state of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct StateStore {
    /// The value after the last committed node; absent before the first, when it is the graph's initial value.
    pub committed: Option<Arc<Words>>,
    /// Values after each pending node, `[nodes, ...shape]`.
    pub pending: Words,
    /// Words of one value.
    pub words: usize,
}

impl StateStore {
    fn accept(&mut self, offset: usize) {
        let value = &self.pending.as_slice()[offset * self.words..(offset + 1) * self.words];
        match self.committed.as_mut().and_then(Arc::get_mut) {
            Some(committed) => committed.as_mut_slice().copy_from_slice(value),
            None => {
                let mut committed = Words::zeroed(self.words);
                committed.as_mut_slice().copy_from_slice(value);
                self.committed = Some(Arc::new(committed));
            }
        }
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
    pub(super) fn commit(&mut self, accepted: &Accepted) -> Result<(), String> {
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
        for &node in accepted.nodes() {
            let node = (node as usize).wrapping_sub(self.pending.first);
            if node >= self.pending.count || self.pending.parent(node) != parent {
                return Err("the accepted path is not one of the pending segment".into());
            }
            parent = Some(node);
        }
        if let Some(last) = parent {
            for state in &mut self.states {
                state.accept(last);
            }
        }
        let base = self.position;
        for (index, &node) in accepted.nodes().iter().enumerate() {
            let node = node as usize - self.pending.first;
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
    pub(super) fn advance(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1) {
            self.states.iter_mut().for_each(|state| state.accept(last));
        }
        self.position += count;
        let position = self.position;
        self.histories.iter_mut().for_each(|history| history.retire(position));
        self.pending.active = false;
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
            state.pending.bytes() + state.committed.as_ref().map_or(0, |committed| committed.bytes())
        });
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
}
