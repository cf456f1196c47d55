//! A kernel under construction: its text, its arguments, and how it is launched.

use std::fmt::Write;

use fiddlehead_graph::{HistoryId, InputId, NodeId, ParamId, StateId};
use fiddlehead_plan::order::SetIndex;

/// Threads of a block, unless a site needs another number.
pub(crate) const BLOCK: u32 = 128;

/// What a kernel is given, by place; the executor knows the addresses. Whatever tells one layer's kernel from the next
/// one's is an argument, so that layers alike share their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Argument {
    /// The run's batch.
    Batch,
    /// The number of the kernel's first trap among the program's.
    Traps,
    /// The number of a history, by which the batch knows it.
    History(HistoryId),
    /// The number of a state.
    State(StateId),
    /// A weight as it is stored.
    Weight(ParamId),
    /// Known values, by their place in [`super::Program::constants`].
    Constant(usize),
    /// The buffer of a node.
    Buffer(NodeId),
    /// What the caller handed in.
    Input(InputId),
    /// Memory of each block for itself.
    Scratch,
    /// The path that a commit walks again.
    Replay,
}

/// How many blocks a kernel is launched with, at the most that its regime has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Once for all.
    One,
    /// Each row of a set.
    Set(SetIndex),
    /// Each session's part of the batch.
    Segments,
}

/// `ceil(rows * per_row / per_block)` blocks; kernels walk on when there are fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub rows: Rows,
    pub per_row: usize,
    pub per_block: usize,
}

/// One kernel of a program.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub name: String,
    pub text: String,
    pub arguments: Vec<Argument>,
    pub grid: Grid,
    pub block: u32,
    /// Words of scratch for each block.
    pub scratch: usize,
    /// The number of its first trap.
    pub traps: usize,
    /// What it computes, for people.
    pub nodes: Vec<NodeId>,
    pub family: &'static str,
    /// Which of its family's kernels it is.
    pub candidate: &'static str,
    depth: usize,
    names: usize,
}

impl Kernel {
    pub fn new(name: String, grid: Grid, family: &'static str) -> Kernel {
        Kernel {
            name,
            text: String::new(),
            arguments: vec![Argument::Batch, Argument::Traps],
            grid,
            block: BLOCK,
            scratch: 0,
            traps: 0,
            nodes: Vec::new(),
            family,
            candidate: "emitted",
            depth: 1,
            names: 0,
        }
    }

    /// The name of an argument within the kernel; added when it is new.
    pub fn argument(&mut self, argument: Argument) -> String {
        let place = self.arguments.iter().position(|&other| other == argument).unwrap_or_else(|| {
            self.arguments.push(argument);
            self.arguments.len() - 1
        });
        match place {
            0 => "b".into(),
            1 => "t".into(),
            place => format!("p{place}"),
        }
    }

    /// A name that no other part of the kernel has.
    pub fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    /// Adds a line.
    pub fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if text.starts_with('}') {
            self.depth = self.depth.saturating_sub(1);
        }
        let _ = writeln!(self.text, "{}{}", "    ".repeat(self.depth), text);
        if text.ends_with('{') {
            self.depth += 1;
        }
    }

    /// The kernel's definition but for its name.
    pub fn definition(&self) -> String {
        let argument = |(place, argument): (usize, &Argument)| match argument {
            Argument::Batch => "const Batch* b".to_string(),
            Argument::Traps => "u64 t".to_string(),
            Argument::Weight(_) => format!("const u8* p{place}"),
            Argument::Replay => format!("const Replay* p{place}"),
            Argument::History(_) | Argument::State(_) => format!("u64 p{place}"),
            _ => format!("u32* p{place}"),
        };
        let arguments: Vec<String> = self.arguments.iter().enumerate().map(argument).collect();
        format!("({}) {{\n{}}}\n", arguments.join(", "), self.text)
    }
}
