//! What a session keeps of one step: its position, states and histories, and the segment that waits for a commit.

use std::sync::Arc;

use fiddlehead_forest::{Accepted, Forest, NO_PARENT, Segment, Shape};
use fiddlehead_plan::DeviceError;

use super::history::History;
use crate::error::CudaError;
use crate::memory::{Block, Pool};

/// A state of one session.
#[derive(Debug)]
pub(super) struct StateStore {
    /// The value after the last committed node; absent before the first, when it is the graph's initial value.
    pub committed: Option<Arc<Block>>,
    /// Values after each pending node, `[nodes, ...shape]`.
    pending: Option<Block>,
    bytes: usize,
}

impl StateStore {
    fn new(words: usize) -> StateStore {
        StateStore { committed: None, pending: None, bytes: words * 4 }
    }

    /// Room for the values after so many nodes.
    pub(super) fn prepare(&mut self, pool: &Arc<Pool>, count: usize) -> Result<u64, CudaError> {
        let bytes = self.bytes * count;
        match &self.pending {
            Some(block) if block.bytes >= bytes => Ok(block.address),
            _ => {
                self.pending = None;
                let block = pool.take(bytes)?;
                let address = block.address;
                self.pending = Some(block);
                Ok(address)
            }
        }
    }

    /// Bytes of one value.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn accept(&mut self, pool: &Arc<Pool>, path: &[usize]) -> Result<(), CudaError> {
        let (Some(&last), Some(pending)) = (path.last(), &self.pending) else { return Ok(()) };
        let from = pending.address + (last * self.bytes) as u64;
        // A snapshot may share the old value, so it is replaced and not written.
        if self.committed.as_mut().and_then(Arc::get_mut).is_none() {
            self.committed = Some(Arc::new(pool.take(self.bytes)?));
        }
        let to = self.committed.as_ref().map_or(0, |block| block.address);
        pool.runtime.copy(to, from, self.bytes)
    }
}

/// A segment that ran and was not committed yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    pub active: bool,
    first: usize,
    count: usize,
    /// Each node's parent, counted from `first`; empty for a chain.
    parents: Vec<u32>,
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
    fn parent(&self, node: usize) -> Option<usize> {
        match self.parents.get(node) {
            Some(&NO_PARENT) => None,
            Some(&parent) => Some(parent as usize),
            None => node.checked_sub(1),
        }
    }
}

/// A session's part in one step of the model.
#[derive(Debug)]
pub(super) struct StepSession {
    pub position: usize,
    pub states: Vec<StateStore>,
    pub histories: Vec<History>,
    pub pending: Pending,
}

/// What a snapshot keeps of one step: shared with the session until that writes.
#[derive(Clone, Debug)]
pub(super) struct StepSnapshot {
    pub position: usize,
    states: Vec<Option<Arc<Block>>>,
    histories: Vec<History>,
}

impl StepSnapshot {
    pub(super) fn bytes(&self) -> usize {
        self.states.iter().flatten().map(|state| state.bytes).sum::<usize>()
            + self.histories.iter().map(History::bytes).sum::<usize>()
    }
}

impl StepSession {
    pub(super) fn new(states: &[usize], histories: &[(usize, Option<usize>)]) -> StepSession {
        StepSession {
            position: 0,
            states: states.iter().map(|&words| StateStore::new(words)).collect(),
            histories: histories.iter().map(|&(words, reach)| History::new(words, reach)).collect(),
            pending: Pending::default(),
        }
    }

    /// Keeps an accepted path of the pending segment.
    pub(super) fn commit(&mut self, pool: &Arc<Pool>, accepted: &Accepted) -> Result<(), DeviceError> {
        let wrong = |why: String| DeviceError::Session { session: accepted.session().0, why };
        if !self.pending.active {
            return Err(wrong("no segment is pending: run one first".into()));
        }
        if accepted.base() != self.position {
            let (base, position) = (accepted.base(), self.position);
            return Err(wrong(format!("the path hangs from {base}, the session stands at {position}")));
        }
        let mut parent = None;
        let mut path = Vec::with_capacity(accepted.len());
        for &node in accepted.nodes() {
            let node = (node as usize).wrapping_sub(self.pending.first);
            if node >= self.pending.count || self.pending.parent(node) != parent {
                return Err(wrong("the accepted path is not one of the pending segment".into()));
            }
            parent = Some(node);
            path.push(node);
        }
        for state in &mut self.states {
            state.accept(pool, &path)?;
        }
        let base = self.position;
        for (index, &node) in path.iter().enumerate().filter(|(index, node)| index != *node) {
            for history in &mut self.histories {
                history.move_row(pool, base + node, base + index)?;
            }
        }
        self.position += accepted.len();
        let position = self.position;
        self.histories.iter_mut().for_each(|history| history.retire(position));
        self.pending.active = false;
        Ok(())
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
            state.pending.as_ref().map_or(0, |block| block.bytes)
                + state.committed.as_ref().map_or(0, |block| block.bytes)
        });
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
}
