//! Blocked vector bytecode: the general kernel of the CPU, for any computed tensor.
//!
//! An expression compiles once into a register program whose instructions each work on a block of elements, so that
//! the cost of interpreting is spread over the block. It is the fallback of every site and the production kernel of
//! chains, norms, softmaxes, gates, rotary embeddings, gathers and small windows.
//!
//! `BlockProgram::compile(graph, node, layouts)` makes a program, where `layouts: &dyn Fn(NodeId) -> SourceLayout` tells
//! for each tensor read, and for `node` itself, where it lies. `program.run(&frame, rows, outer, &mut scratch)` runs it
//! for a range of rows; `outer: Option<Range<usize>>` restricts it to a part of the outermost axis, so that threads
//! share one row's work; the bits do not depend on either. `program.local_box(&frame, row)` says how much memory a
//! local tensor takes for a row.
//!
//! What must never live here: kernels that know a site's name, and choices between kernels.
//! Start reading at [`Frame`].

mod affine;
mod build;
mod choose;
mod code;
mod emit;
mod frame;
mod functions;
mod lanes;
mod layout;
mod machine;
mod memory;
mod merge;
mod program;
mod registers;
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
