//! What a session keeps of one step on a GPU: its states and histories.

use std::sync::Arc;

use fiddlehead_plan::{Pending, StepSession};

use super::history::History;
use super::replay::Replay;
use super::states::StateStore;
use crate::emit::Carried;
use crate::error::CudaError;
use crate::memory::{Block, Pool};

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
    /// A session's part; states by their words, with how a kernel carries them.
    pub(super) fn new(
        states: &[(usize, Option<Carried>)],
        histories: &[(usize, Option<usize>)],
    ) -> CudaSession {
        CudaSession {
            states: states.iter().map(|&(words, carried)| StateStore::new(words, carried)).collect(),
            histories: histories.iter().map(|&(words, reach)| History::new(words, reach)).collect(),
            pending: Pending::default(),
        }
    }

    /// Keeps the initial values that the session's first segment, of so many nodes, started from.
    pub(super) fn begin(&self, pool: &Pool, count: usize, initial: &[u64]) -> Result<(), CudaError> {
        self.states.iter().zip(initial).try_for_each(|(state, &initial)| state.begin(pool, count, initial))
    }

    /// What has to be walked again before a path is accepted.
    pub(super) fn replays(&mut self, pool: &Arc<Pool>, path: &[usize]) -> Result<Vec<Replay>, CudaError> {
        let mut replays = Vec::new();
        for state in &mut self.states {
            replays.extend(state.replay(pool, &self.pending, path)?);
        }
        Ok(replays)
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
        let states = self.states.iter().map(StateStore::held);
        states.sum::<usize>() + self.histories.iter().map(History::bytes).sum::<usize>()
    }
    fn kept_bytes(kept: &Kept) -> usize {
        kept.states.iter().flatten().map(|state| state.bytes).sum::<usize>()
            + kept.histories.iter().map(History::bytes).sum::<usize>()
    }
}
