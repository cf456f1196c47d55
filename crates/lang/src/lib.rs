//! Source text to typed program: lexer, parser, types and diagnostics of the Fiddlehead language.
//!
//! Here live the text's grammar, its rules and its messages, and the typed program ([`hir`]) that they yield. Devices,
//! checkpoints and the graph never appear here. Start reading at [`hir`]; the language itself is described in
//! `docs/language.md`.

pub mod hir;
pub mod size;
pub mod source;

pub use size::{Size, SizeError, SizeSymbol};
pub use source::{Source, Span};
