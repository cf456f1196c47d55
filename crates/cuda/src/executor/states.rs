//! States of one session, and where a run's rows find and leave their values.
//!
//! A state that a kernel carries from row to row leaves one value, after the last row of a chain, and a little of each row
//! from which a commit of anything else walks its path again. Any other state leaves a value for each row.

use std::sync::Arc;

use fiddlehead_forest::{Forest, NO_PARENT, Segment, Shape};
use fiddlehead_plan::Pending;
use fiddlehead_plan::regime::tier;

use super::replay::Replay;
use super::session::CudaSession;
use crate::emit::Carried;
use crate::error::CudaError;
use crate::memory::{Block, Pool};

/// A state of one session.
#[derive(Debug)]
pub(super) struct StateStore {
    /// The value after the last committed node; absent before the first, when it is the graph's initial value.
    pub committed: Option<Arc<Block>>,
    /// Bytes of one value.
    bytes: usize,
    outgoing: Outgoing,
}

/// What a pending segment leaves.
#[derive(Debug)]
enum Outgoing {
    /// A value after each node, `[nodes, ...shape]`.
    Each(Option<Block>),
    /// The value after the last node of a chain, and rows for a commit of anything else.
    Last { next: Option<Arc<Block>>, rows: Option<Block>, carried: Carried },
}

/// Where the values of one state of one segment lie.
struct Places {
    /// The value before the segment.
    incoming: u64,
    /// A value for each node, or the value after a chain.
    outgoing: u64,
    /// The rows kept for a commit; zero when none are.
    kept: u64,
}

/// The addresses that a batch tells of its states: see `struct Batch` in `kernels/prelude.cuh`.
#[derive(Debug, Default)]
pub(super) struct StateAddresses {
    pub incoming: Vec<u64>,
    pub outgoing: Vec<u64>,
    pub kept: Vec<u64>,
    /// Values after the nodes that trees branch at, while a run lasts: one carried state after another uses it.
    pub branches: Option<Block>,
}

/// A block of so many bytes that nobody else holds.
fn unique(place: &mut Option<Arc<Block>>, pool: &Arc<Pool>, bytes: usize) -> Result<u64, CudaError> {
    if let Some(block) = place.as_mut().and_then(Arc::get_mut) {
        return Ok(block.address);
    }
    let block = pool.take(bytes)?;
    let address = block.address;
    *place = Some(Arc::new(block));
    Ok(address)
}

impl StateStore {
    pub(super) fn new(words: usize, carried: Option<Carried>) -> StateStore {
        let outgoing = match carried {
            None => Outgoing::Each(None),
            Some(carried) => Outgoing::Last { next: None, rows: None, carried },
        };
        StateStore { committed: None, bytes: words * 4, outgoing }
    }

    /// Bytes that a state of so many words takes at most in runs of `rows` nodes.
    pub(super) fn estimate(words: usize, carried: Option<Carried>, rows: usize) -> usize {
        let pending = match carried {
            None => words.saturating_mul(rows),
            // A single row leaves its value alone.
            Some(_) if rows < 2 => words,
            Some(carried) => words.saturating_add(carried.row_words.saturating_mul(tier(rows))),
        };
        pending.saturating_add(words).saturating_mul(4)
    }

    /// Makes room for what a segment leaves. `initial` is the address of the graph's initial value.
    fn prepare(&mut self, pool: &Arc<Pool>, segment: &Segment, initial: u64) -> Result<Places, CudaError> {
        let count = segment.count();
        let committed = self.committed.as_ref().map(|block| block.address);
        let incoming = committed.filter(|_| segment.base() > 0).unwrap_or(initial);
        Ok(match &mut self.outgoing {
            Outgoing::Each(pending) => {
                Places { incoming, outgoing: pool.reserve(pending, self.bytes * count)?, kept: 0 }
            }
            Outgoing::Last { next, rows, carried } => {
                let mut kept = 0;
                if count > 1 {
                    // By tiers, so that segments of many lengths use the same few sizes of blocks.
                    kept = pool.reserve(rows, carried.row_words * 4 * tier(count))?;
                    if segment.base() == 0 {
                        unique(&mut self.committed, pool, self.bytes)?;
                    }
                }
                Places { incoming, outgoing: unique(next, pool, self.bytes)?, kept }
            }
        })
    }

    /// Keeps the initial value that a session's first segment started from, for a commit that walks its path again.
    pub(super) fn begin(&self, pool: &Pool, count: usize, initial: u64) -> Result<(), CudaError> {
        match (&self.outgoing, &self.committed) {
            (Outgoing::Last { .. }, Some(committed)) if count > 1 => {
                pool.runtime.copy(committed.address, initial, self.bytes)
            }
            _ => Ok(()),
        }
    }

    /// The work that a commit of a path needs before [`StateStore::accept`], if any.
    pub(super) fn replay(
        &mut self,
        pool: &Arc<Pool>,
        pending: &Pending,
        path: &[usize],
    ) -> Result<Option<Replay>, CudaError> {
        let Outgoing::Last { next, rows: Some(rows), carried } = &mut self.outgoing else { return Ok(None) };
        let whole = pending.is_chain() && path.len() == pending.count;
        let (Some(committed), false, false) = (&self.committed, whole, path.is_empty()) else {
            return Ok(None);
        };
        let to = unique(next, pool, self.bytes)?;
        Ok(Some(Replay { kernel: carried.replay, rows: rows.address, from: committed.address, to }))
    }

    /// Makes the value after the last node of a path the committed one.
    pub(super) fn accept(&mut self, pool: &Arc<Pool>, path: &[usize]) -> Result<(), CudaError> {
        match &mut self.outgoing {
            Outgoing::Each(pending) => {
                let (Some(&last), Some(pending)) = (path.last(), pending.as_ref()) else { return Ok(()) };
                let from = pending.address + (last * self.bytes) as u64;
                // A snapshot may share the old value, so it is replaced and not written.
                let to = unique(&mut self.committed, pool, self.bytes)?;
                pool.runtime.copy(to, from, self.bytes)
            }
            Outgoing::Last { next, rows, .. } => {
                if !path.is_empty() {
                    std::mem::swap(&mut self.committed, next);
                }
                // Others may have the memory before this session needs it again.
                *rows = None;
                Ok(())
            }
        }
    }

    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        let pending = match &self.outgoing {
            Outgoing::Each(pending) => pending.as_ref().map_or(0, |block| block.bytes),
            Outgoing::Last { next, rows, .. } => {
                next.as_ref().map_or(0, |block| block.bytes) + rows.as_ref().map_or(0, |block| block.bytes)
            }
        };
        pending + self.committed.as_ref().map_or(0, |block| block.bytes)
    }
}

impl StateAddresses {
    /// Makes sessions, one a segment, ready for a forest; `initial` gives the address of each state's first value.
    pub(super) fn new(
        forest: &Forest,
        sessions: &mut [&mut CudaSession],
        pool: &Arc<Pool>,
        initial: &[u64],
    ) -> Result<StateAddresses, CudaError> {
        let mut addresses = StateAddresses::default();
        let branches: Vec<Branches> =
            forest.segments().iter().map(|part| Branches::of(forest, part)).collect();
        let largest = sessions.first().map_or(0, |session| {
            let carried =
                session.states.iter().filter(|state| matches!(state.outgoing, Outgoing::Last { .. }));
            carried.map(|state| state.bytes).max().unwrap_or(0)
        });
        let places: usize = branches.iter().map(|branches| branches.places).sum();
        if places * largest > 0 {
            addresses.branches = Some(pool.take(places * largest)?);
        }
        let start = addresses.branches.as_ref().map_or(0, |block| block.address);
        for (index, &initial) in initial.iter().enumerate() {
            let mut aside = start;
            for ((segment, session), branches) in
                forest.segments().iter().zip(sessions.iter_mut()).zip(&branches)
            {
                let state = &mut session.states[index];
                let places = state.prepare(pool, segment, initial)?;
                addresses.kept.push(places.kept);
                match state.outgoing {
                    Outgoing::Each(_) => addresses.each(forest, segment, &places, state.bytes),
                    Outgoing::Last { .. } => {
                        addresses.last(forest, segment, &places, aside, branches, state.bytes)
                    }
                }
                aside += (branches.places * largest) as u64;
            }
        }
        Ok(addresses)
    }

    fn each(&mut self, forest: &Forest, segment: &Segment, places: &Places, bytes: usize) {
        for node in segment.range() {
            let after = |node: usize| places.outgoing + ((node - segment.first()) * bytes) as u64;
            self.outgoing.push(after(node));
            self.incoming.push(match forest.parents()[node] {
                NO_PARENT => places.incoming,
                parent => after(parent as usize),
            });
        }
    }

    fn last(
        &mut self,
        forest: &Forest,
        segment: &Segment,
        places: &Places,
        aside: u64,
        branches: &Branches,
        bytes: usize,
    ) {
        let chain = segment.shape() != Shape::Tree;
        for (index, node) in segment.range().enumerate() {
            let branch = |index: usize| branches.of[index].map(|place| aside + (place * bytes) as u64);
            let last = chain && index + 1 == segment.count();
            self.outgoing.push(if last { places.outgoing } else { branch(index).unwrap_or(0) });
            // A node that follows its parent finds the value where the kernel carries it.
            self.incoming.push(match forest.parents()[node] {
                NO_PARENT => places.incoming,
                parent => branch(parent as usize - segment.first()).unwrap_or(0),
            });
        }
    }
}

/// The nodes that a segment branches at. Their values are put aside for later children, in as many places as there are
/// branching nodes on one path: depth-first order is done with one before it comes to another beside it.
struct Branches {
    /// By node, counted from the segment's first: its place.
    of: Vec<Option<usize>>,
    places: usize,
}

impl Branches {
    fn of(forest: &Forest, segment: &Segment) -> Branches {
        let count = segment.count();
        let mut branches = Branches { of: vec![None; count], places: 0 };
        if segment.shape() != Shape::Tree {
            return branches;
        }
        let parent = |node: usize| match forest.parents()[segment.first() + node] {
            NO_PARENT => None,
            parent => Some(parent as usize - segment.first()),
        };
        // A node's first child follows it; any other child makes it branch.
        let mut branching = vec![false; count];
        for node in 0..count {
            if let Some(parent) = parent(node).filter(|&parent| parent + 1 != node) {
                branching[parent] = true;
            }
        }
        // Branching nodes above each node, itself not counted.
        let mut above = vec![0; count];
        for node in 0..count {
            above[node] = parent(node).map_or(0, |parent| above[parent] + usize::from(branching[parent]));
            if branching[node] {
                branches.of[node] = Some(above[node]);
                branches.places = branches.places.max(above[node] + 1);
            }
        }
        branches
    }
}

#[cfg(test)]
mod tests {
    use fiddlehead_forest::SessionId;
    use fiddlehead_forest::shapes::{chain, comb, single_tree, star};

    use super::*;

    fn places(parents: &[Option<u32>]) -> (Vec<Option<usize>>, usize) {
        let forest = single_tree(SessionId(0), 5, parents).expect("a tree");
        let branches = Branches::of(&forest, &forest.segments()[0]);
        (branches.of, branches.places)
    }

    #[test]
    fn only_branching_nodes_have_places() {
        assert_eq!(places(&chain(4)), (vec![None; 4], 0));
        assert_eq!(places(&star(4)).1, 1);
        // 0 branches into 1 and 5; 1 into 2 and 3; 5 into 6 and 7.
        let parents = [None, Some(0), Some(1), Some(1), Some(3), Some(0), Some(5), Some(5)];
        let (of, count) = places(&parents);
        assert_eq!(of, [Some(0), Some(1), None, None, None, Some(1), None, None]);
        assert_eq!(count, 2);
    }

    #[test]
    fn nodes_of_one_path_have_places_of_their_own() {
        let parents = comb(20);
        let (of, _) = places(&parents);
        for (node, place) in of.iter().enumerate().filter_map(|(node, place)| Some((node, (*place)?))) {
            let mut at = parents[node];
            while let Some(above) = at {
                assert_ne!(of[above as usize], Some(place), "nodes {node} and {above}");
                at = parents[above as usize];
            }
        }
    }

    #[test]
    fn a_carried_state_is_estimated_by_its_rows() {
        let carried = Carried { row_words: 10, replay: 0 };
        assert_eq!(StateStore::estimate(100, None, 512), 4 * 100 * 513);
        assert_eq!(StateStore::estimate(100, Some(carried), 512), 4 * (200 + 10 * 512));
        assert_eq!(StateStore::estimate(100, Some(carried), 300), 4 * (200 + 10 * 512));
        assert_eq!(StateStore::estimate(100, Some(carried), 1), 4 * 200);
    }
}
