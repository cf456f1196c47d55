//! Blocked vector bytecode: the general kernel of the CPU, for any computed tensor.
//!
//! An expression compiles once into a register program whose instructions each work on a block of elements, so that
//! the cost of interpreting is spread over the block. It is the fallback of every site and the production kernel of
//! chains, norms, softmaxes, gates, rotary embeddings, gathers and small windows.
//!
//! [`BlockProgram::compile`] makes a program from a node and the layouts of what it reads and writes;
//! [`BlockProgram::run`] runs it for a range of rows and, when asked, a part of the outermost axis, so that threads
//! share one row's work; the bits depend on neither. [`BlockProgram::local_box`] says how much memory a local tensor
//! takes for a row.
//!
//! A node goes through these files: `build` turns its expressions into `value`s with proven or checked indices
//! (`affine`), `window` cuts its space where nothing is left to choose, `choose` picks the axis of the lanes, `emit`
//! (with `access` and `result`) writes the instructions of `code`, `merge` and `registers` tidy them, and `machine`
//! (with `lanes` and `memory`) runs them.
//!
//! Numerics: + − × ÷ are single IEEE operations in source order, never fused; elementary functions are those of
//! [`crate::kernels::rows`]; sums along the lanes go to 64 partials by position and meet in one tree, sums across the
//! lanes go in order. Which of the two is a function of the node and its layouts alone.
//!
//! What must never live here: kernels that know a site's name, and choices between kernels.
//! Start reading at [`Frame`], then at `code`.

mod access;
mod affine;
mod build;
mod choose;
mod code;
mod compile;
mod emit;
mod frame;
mod functions;
mod integer;
mod lanes;
mod layout;
mod machine;
mod memory;
mod merge;
mod operations;
mod program;
mod registers;
mod result;
mod scratch;
mod top;
mod value;
mod window;

pub use frame::{
    Decode, Frame, HistoryRows, LocalBox, LocalRow, NoHistories, Read, Slot, Span, Trap, TrapKind,
};
pub use layout::{CompileError, Format, SourceLayout, Strides, row_major_strides};
pub use program::{BlockProgram, Outer};
pub use scratch::Scratch;

/// The most axes of one node, folded ones included.
pub const MAX_AXES: usize = 12;
