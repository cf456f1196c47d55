//! What a session keeps of one step on a GPU: its states and histories.

use std::sync::Arc;

use fiddlehead_plan::{Pending, StepSession};

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

/// A session's part in one step of the model.
#[derive(Debug, Default)]
pub(super) struct CudaSession {
    pub states: Vec<StateStore>,
    pub histories: Vec<History>,
    pub pending: Pending,
}

/// What a snapshot keeps of one step: shared with the session until that writes.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    states: Vec<Option<Arc<Block>>>,
    histories: Vec<History>,
}

impl CudaSession {
    pub(super) fn new(states: &[usize], histories: &[(usize, Option<usize>)]) -> CudaSession {
        CudaSession {
            states: states.iter().map(|&words| StateStore::new(words)).collect(),
            histories: histories.iter().map(|&(words, reach)| History::new(words, reach)).collect(),
            pending: Pending::default(),
        }
    }

    /// Keeps the nodes of a path of the pending segment, counted from its first.
    pub(super) fn accept(&mut self, pool: &Arc<Pool>, path: &[usize]) -> Result<(), CudaError> {
        for state in &mut self.states {
            state.accept(pool, path)?;
        }
        let base = self.pending.position;
        for (index, &node) in path.iter().enumerate().filter(|(index, node)| index != *node) {
            for history in &mut self.histories {
                history.move_row(pool, base + node, base + index)?;
            }
        }
        self.histories.iter_mut().for_each(|history| history.retire(base + path.len()));
        Ok(())
    }
}

impl StepSession for CudaSession {
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
            state.pending.as_ref().map_or(0, |block| block.bytes)
                + state.committed.as_ref().map_or(0, |block| block.bytes)
        });
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
    fn kept_bytes(kept: &Kept) -> usize {
        kept.states.iter().flatten().map(|state| state.bytes).sum::<usize>()
            + kept.histories.iter().map(History::bytes).sum::<usize>()
    }
}
