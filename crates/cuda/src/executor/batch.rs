//! One run's batch as kernels see it: the bytes of `struct Batch` in `kernels/prelude.cuh` and of the arrays it points
//! to, made on the host and copied at once.

use std::sync::Arc;

use fiddlehead_forest::{Class, Forest, Shape};
use fiddlehead_plan::order::RowSet;

use super::session::CudaSession;
use super::states::StateAddresses;
use crate::emit::Program;
use crate::error::CudaError;
use crate::memory::{Block, Pool};

/// Bytes of `struct Batch`: two counts and twenty-two addresses.
const HEADER: usize = 8 + 22 * 8;

/// A batch on its way to the device.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// By set: its forest nodes, ascending.
    pub sets: Vec<Vec<u32>>,
    pub segments: usize,
    arrays: Vec<Array>,
    /// Values that trees put aside, while the batch lasts.
    branches: Option<Block>,
}

#[derive(Debug)]
enum Array {
    Ints(Vec<i32>),
    Addresses(Vec<u64>),
}

fn ints(values: impl IntoIterator<Item = usize>) -> Array {
    Array::Ints(values.into_iter().map(|value| value as i32).collect())
}

/// By row: how many rows of its class follow in its segment, itself included; negative for generated ones.
fn prompt_runs(forest: &Forest) -> Array {
    let mut runs = vec![0i32; forest.len()];
    for segment in forest.segments() {
        let mut after: Option<(Class, i32)> = None;
        for node in segment.range().rev() {
            let class = forest.classes()[node];
            let run = after.filter(|(other, _)| *other == class).map_or(1, |(_, run)| run + 1);
            after = Some((class, run));
            runs[node] = if class == Class::Prompt { run } else { -run };
        }
    }
    Array::Ints(runs)
}

impl Batch {
    /// The rows of each set, all that a regime depends on.
    pub(super) fn rows(program: &Program, forest: &Forest) -> Batch {
        let rows = |set: &RowSet| {
            let held = |&node: &u32| set.holds(forest.wanted()[node as usize]);
            (0..forest.len() as u32).filter(held).collect()
        };
        Batch {
            sets: program.sets.iter().map(rows).collect(),
            segments: forest.segments().len(),
            ..Batch::default()
        }
    }

    /// A batch of one row without a session, for what reads no path.
    pub(super) fn alone(program: &Program) -> Batch {
        let sets = program.sets.len();
        let mut batch = Batch { sets: vec![vec![0]; sets], segments: 1, ..Batch::default() };
        batch.arrays = vec![
            ints(vec![1; sets]),
            ints(0..sets),
            ints(vec![0; sets]),
            ints(vec![0; sets]),
            ints([0]),
            Array::Ints(vec![-1]),
            ints([0]),
            Array::Ints(vec![-1]),
            ints([0]),
            ints([0]),
            ints([1]),
            ints([1]),
            ints([0]),
            ints([]),
            ints([]),
            ints([]),
            ints([]),
            Array::Addresses(Vec::new()),
            Array::Addresses(Vec::new()),
            Array::Addresses(Vec::new()),
            Array::Addresses(Vec::new()),
        ];
        batch
    }

    /// Describes a forest and its sessions, which are made ready for it: pages and outgoing states writable. `initial`
    /// gives the address of each state's first value.
    pub(super) fn describe(
        &mut self,
        forest: &Forest,
        sessions: &mut [&mut CudaSession],
        pool: &Arc<Pool>,
        initial: &[u64],
    ) -> Result<(), CudaError> {
        let rows = forest.len();
        let mut start = 0;
        let starts: Vec<usize> = self.sets.iter().map(|set| (start, start += set.len()).0).collect();
        let mut set_row = vec![-1i32; self.sets.len() * rows];
        for (set, nodes) in self.sets.iter().enumerate() {
            for (row, &node) in nodes.iter().enumerate() {
                set_row[set * rows + node as usize] = row as i32;
            }
        }
        let (mut path_start, mut path_row) = (Vec::new(), Vec::new());
        for segment in forest.segments() {
            let tree = segment.shape() == Shape::Tree;
            for node in segment.range() {
                path_start.push(path_row.len());
                if tree {
                    path_row.extend(forest.ancestors(node as u32).map(|row| row as usize - segment.first()));
                }
            }
        }
        let (mut page_start, mut page_first, mut page_rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut pages = Vec::new();
        let histories = sessions.first().map_or(0, |session| session.histories.len());
        for index in 0..histories {
            page_rows.push(0);
            for (segment, session) in forest.segments().iter().zip(sessions.iter_mut()) {
                let history = &mut session.histories[index];
                history.prepare(pool, segment.base(), segment.count())?;
                page_rows[index] = history.page_rows();
                page_start.push(pages.len());
                page_first.push(history.first_page());
                pages.extend(history.addresses());
            }
        }
        let states = StateAddresses::new(forest, sessions, pool, initial)?;
        self.branches = states.branches;
        let segments = forest.segments();
        self.arrays = vec![
            ints(self.sets.iter().map(Vec::len)),
            ints(starts),
            ints(self.sets.iter().flatten().map(|&node| node as usize)),
            Array::Ints(set_row),
            Array::Ints(forest.depths().to_vec()),
            Array::Ints(forest.parents().iter().map(|&parent| parent as i32).collect()),
            ints(forest.segment_indices().iter().map(|&segment| segment as usize)),
            prompt_runs(forest),
            ints(segments.iter().map(|segment| segment.base())),
            ints(segments.iter().map(|segment| segment.first())),
            ints(segments.iter().map(|segment| segment.count())),
            ints(segments.iter().map(|segment| usize::from(segment.shape() != Shape::Tree))),
            ints(path_start),
            ints(path_row),
            ints(page_start),
            ints(page_first),
            ints(page_rows),
            Array::Addresses(pages),
            Array::Addresses(states.incoming),
            Array::Addresses(states.outgoing),
            Array::Addresses(states.kept),
        ];
        Ok(())
    }

    /// Bytes that the batch takes on the device.
    pub(super) fn bytes(&self) -> usize {
        self.arrays.iter().fold(HEADER, |bytes, array| bytes + array.bytes())
    }

    /// The bytes for a batch that will lie at `address`.
    pub(super) fn encode(&self, address: u64, trap: u64) -> Vec<u8> {
        let rows = self.sets.first().map_or(0, Vec::len);
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend((rows as i32).to_le_bytes());
        bytes.extend((self.segments as i32).to_le_bytes());
        let mut at = address + HEADER as u64;
        for array in &self.arrays {
            bytes.extend(at.to_le_bytes());
            at += array.bytes() as u64;
        }
        bytes.extend(trap.to_le_bytes());
        for array in &self.arrays {
            let start = bytes.len();
            match array {
                Array::Ints(values) => values.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
                Array::Addresses(values) => values.iter().for_each(|value| bytes.extend(value.to_le_bytes())),
            }
            bytes.resize(start + array.bytes(), 0);
        }
        bytes
    }
}

impl Array {
    /// Bytes, so that what comes after begins at a multiple of eight.
    fn bytes(&self) -> usize {
        match self {
            Array::Ints(values) => (values.len() * 4).next_multiple_of(8),
            Array::Addresses(values) => values.len() * 8,
        }
    }
}
