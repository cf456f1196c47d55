//! The sealed dataflow graph: what a program means, once its sizes are known.
//!
//! Here live the graph ([`ir`]), the way it is built, its validator, rewrites, lowering from a typed program, and the
//! queries that find sites. Nothing here knows a device, source text, or what a transformer is.
//! Start reading at [`ir`].

pub mod builder;
pub mod display;
mod expr;
pub mod ir;
pub mod lower;
pub mod queries;
pub mod rewrite;
pub mod validate;

pub use ir::*;
