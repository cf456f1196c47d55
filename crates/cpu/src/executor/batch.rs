//! One run's batch as steps see it: rows of every set, where each row's path lies, and where outgoing states go.

use fiddlehead_forest::{Class, Forest, NO_PARENT, Shape};
use fiddlehead_graph::HistoryId;
use fiddlehead_plan::DeviceError;

use super::program::{Place, Program};
use super::session::{CarriedWords, CpuSession};
use crate::bytecode::{HistoryRows, Span};
use fiddlehead_plan::order::SetIndex;

/// The rows of a set.
#[derive(Debug, Default)]
pub(super) struct SetRows {
    /// Forest nodes, ascending.
    pub nodes: Vec<u32>,
    /// Their depths.
    pub here: Vec<i32>,
}

/// One session's part of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentRows {
    pub base: usize,
    pub first: usize,
    pub count: usize,
    /// A node or a chain: rows of the segment lie at their depths.
    pub chain: bool,
}

/// The pages of one history of one segment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageTable {
    /// Its first page's place in [`Batch::pages`].
    start: usize,
    count: usize,
    /// The page number of the first one.
    first_page: usize,
}

/// How a history lies in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageShape {
    pub row_words: usize,
    pub page_rows: usize,
}

/// Memory is kept from run to run.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub sets: Vec<SetRows>,
    pub segments: Vec<SegmentRows>,
    pub segment_of: Vec<u32>,
    pub parents: Vec<u32>,
    /// The last node of each node's subtree.
    pub ends: Vec<u32>,
    pub classes: Vec<Class>,
    /// For nodes of a tree: where its path starts in `path_rows`, root first, itself last.
    path_start: Vec<u32>,
    /// Rows counted from the segment's first.
    path_rows: Vec<u32>,
    pages: Vec<*mut u32>,
    /// `[histories, segments]`.
    tables: Vec<PageTable>,
    pub page_shapes: Vec<PageShape>,
    /// `[states, segments]`: where the values after a segment's nodes go.
    outgoing: Vec<*mut u32>,
    /// `[states, segments]`: the committed value; null before the first node.
    incoming: Vec<*mut u32>,
    /// `[states, segments]`: of states that kernels carry.
    carried: Vec<CarriedWords>,
    /// By buffer that is a state: each row's incoming value.
    pub state_rows: Vec<Vec<*mut u32>>,
}

// SAFETY: the pointers are into pages, states and arenas that the run holds exclusively; which thread may touch which
// words is decided by the steps, as for the slots of bytecode.
unsafe impl Send for Batch {}
// SAFETY: as above.
unsafe impl Sync for Batch {}

impl Batch {
    /// Takes in a forest and makes the sessions ready for it: pages and outgoing states writable. `sessions` holds one
    /// entry a segment.
    pub(super) fn prepare(
        &mut self,
        program: &Program,
        forest: &Forest,
        sessions: &mut [&mut CpuSession],
    ) -> Result<(), DeviceError> {
        self.rows(program, forest);
        self.paths(forest);
        self.pages(program, sessions);
        self.states(program, sessions)
    }

    /// A batch of one row without a session, for what reads no path.
    pub(super) fn prepare_alone(&mut self, program: &Program) {
        *self = Batch::default();
        for _ in &program.sets {
            self.sets.push(SetRows { nodes: vec![0], here: vec![0] });
        }
        self.segments.push(SegmentRows { base: 0, first: 0, count: 1, chain: true });
        self.segment_of.push(0);
        self.parents.push(NO_PARENT);
        self.ends.push(0);
        self.classes.push(Class::Generated);
        self.state_rows = vec![Vec::new(); program.buffers.len()];
    }

    fn rows(&mut self, program: &Program, forest: &Forest) {
        self.sets.resize_with(program.sets.len(), SetRows::default);
        for (rows, set) in self.sets.iter_mut().zip(&program.sets) {
            rows.nodes.clear();
            rows.here.clear();
            let held = |&node: &usize| set.holds(forest.wanted()[node]);
            for node in (0..forest.len()).filter(held) {
                rows.nodes.push(node as u32);
                rows.here.push(forest.depths()[node]);
            }
        }
        self.segments.clear();
        self.segments.extend(forest.segments().iter().map(|segment| SegmentRows {
            base: segment.base(),
            first: segment.first(),
            count: segment.count(),
            chain: segment.shape() != Shape::Tree,
        }));
        self.segment_of.clear();
        self.segment_of.extend_from_slice(forest.segment_indices());
        self.parents.clear();
        self.parents.extend_from_slice(forest.parents());
        self.ends.clear();
        self.ends.extend_from_slice(forest.ends());
        self.classes.clear();
        self.classes.extend_from_slice(forest.classes());
    }

    fn paths(&mut self, forest: &Forest) {
        self.path_start.clear();
        self.path_rows.clear();
        for segment in forest.segments() {
            let tree = segment.shape() == Shape::Tree;
            for node in segment.range() {
                self.path_start.push(self.path_rows.len() as u32);
                if tree {
                    let first = segment.first() as u32;
                    self.path_rows.extend(forest.ancestors(node as u32).map(|row| row - first));
                }
            }
        }
    }

    fn pages(&mut self, program: &Program, sessions: &mut [&mut CpuSession]) {
        self.pages.clear();
        self.tables.clear();
        self.page_shapes.clear();
        for history in 0..program.row_words.len() {
            let mut shape = PageShape::default();
            for (segment, session) in self.segments.iter().zip(sessions.iter_mut()) {
                let history = &mut session.histories[history];
                history.prepare(segment.base, segment.count);
                shape = PageShape { row_words: history.row_words(), page_rows: history.page_rows() };
                let start = self.pages.len();
                self.pages.extend(history.addresses());
                let count = self.pages.len() - start;
                self.tables.push(PageTable { start, count, first_page: history.first_page() });
            }
            self.page_shapes.push(shape);
        }
    }

    fn states(&mut self, program: &Program, sessions: &mut [&mut CpuSession]) -> Result<(), DeviceError> {
        self.carried.clear();
        self.outgoing.clear();
        self.incoming.clear();
        for state in 0..program.initials.len() {
            for (segment, session) in self.segments.iter().zip(sessions.iter_mut()) {
                let store = &mut session.states[state];
                let carried = store.carry(segment.base, segment.count)?;
                self.carried.push(carried.unwrap_or(CarriedWords {
                    committed: std::ptr::null_mut(),
                    next: std::ptr::null_mut(),
                    rows: std::ptr::null_mut(),
                }));
                if carried.is_some() {
                    self.outgoing.push(std::ptr::null_mut());
                    self.incoming.push(std::ptr::null_mut());
                    continue;
                }
                store.pending.reserve(store.words.saturating_mul(segment.count), "states")?;
                self.outgoing.push(store.pending.as_mut_ptr());
                let committed = store.committed.as_ref();
                self.incoming.push(committed.map_or(std::ptr::null_mut(), |value| value.as_ptr().cast_mut()));
            }
        }
        self.state_rows.resize_with(program.buffers.len(), Vec::new);
        Ok(())
    }

    /// Points each row to its incoming state. `initial` is the address of each state's first value.
    pub(super) fn point_states(&mut self, program: &Program, initial: &dyn Fn(usize) -> *mut u32) {
        for (index, buffer) in program.buffers.iter().enumerate() {
            let Place::State(state, set) = buffer.place else { continue };
            let mut rows = std::mem::take(&mut self.state_rows[index]);
            rows.clear();
            rows.extend(self.sets[set.0].nodes.iter().map(|&node| match self.parents[node as usize] {
                NO_PARENT => {
                    let segment = self.segment_of[node as usize] as usize;
                    let committed = self.incoming[state.index() * self.segments.len() + segment];
                    if committed.is_null() { initial(state.index()) } else { committed }
                }
                parent => self.outgoing_row(state.index(), parent as usize, buffer.elements),
            }));
            self.state_rows[index] = rows;
        }
    }

    /// Where the value of a state after a forest node goes.
    pub(super) fn outgoing_row(&self, state: usize, node: usize, words: usize) -> *mut u32 {
        let segment = self.segment_of[node] as usize;
        let start = self.outgoing[state * self.segments.len() + segment];
        start.wrapping_add((node - self.segments[segment].first) * words)
    }

    /// Where a kernel finds the state that it carries for a segment.
    pub(super) fn carried(&self, state: usize, segment: usize) -> CarriedWords {
        self.carried[state * self.segments.len() + segment]
    }

    /// Where a place of a segment's history lies; none when it is no longer kept.
    pub(super) fn history_row(&self, history: usize, segment: usize, place: usize) -> Option<*mut u32> {
        let shape = self.page_shapes[history];
        let table = self.tables[history * self.segments.len() + segment];
        let page =
            (place / shape.page_rows).checked_sub(table.first_page).filter(|&page| page < table.count)?;
        Some(self.pages[table.start + page].wrapping_add(place % shape.page_rows * shape.row_words))
    }

    /// Where a forest node's own row of a history goes.
    pub(super) fn own_row(&self, history: usize, node: usize) -> Option<*mut u32> {
        let segment = self.segment_of[node] as usize;
        let SegmentRows { base, first, .. } = self.segments[segment];
        self.history_row(history, segment, base + node - first)
    }

    /// The place in its segment's histories of the row at `depth` on the path of a forest node, and how many rows from
    /// there on follow the path.
    pub(super) fn place(&self, node: usize, depth: usize) -> (usize, usize) {
        let segment = self.segments[self.segment_of[node] as usize];
        if segment.chain {
            return (depth, segment.base + node - segment.first + 1 - depth);
        }
        if depth < segment.base {
            return (depth, segment.base - depth);
        }
        let start = self.path_start[node] as usize;
        (segment.base + self.path_rows[start + depth - segment.base] as usize, 1)
    }
}

/// The histories of the rows of one set.
#[derive(Clone, Copy)]
pub(super) struct SetHistories<'a> {
    pub batch: &'a Batch,
    pub set: SetIndex,
}

impl HistoryRows for SetHistories<'_> {
    fn span(&self, history: HistoryId, row: usize, depth: i32) -> Option<Span<'_>> {
        let node = *self.batch.sets[self.set.0].nodes.get(row)? as usize;
        let (place, follow) = self.batch.place(node, depth as usize);
        let segment = self.batch.segment_of[node] as usize;
        let shape = self.batch.page_shapes[history.index()];
        let start = self.batch.history_row(history.index(), segment, place)?;
        let count = follow.min(shape.page_rows - place % shape.page_rows);
        let length = count * shape.row_words;
        // SAFETY: the rows lie one after another in a page of the session, which lives as long as the run; rows that
        // this one reads were written by steps before.
        let values = unsafe { std::slice::from_raw_parts(start.cast_const().cast::<f32>(), length) };
        Some(Span { first: depth, count: count as i32, stride: shape.row_words, values })
    }
}
