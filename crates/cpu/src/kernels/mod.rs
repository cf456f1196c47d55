//! Kernels: plain functions over slices, each written once over a vector type and compiled for every family of
//! instructions in [`crate::features::Isa`].
//!
//! Nothing here knows graphs, plans or models. Every kernel keeps one rule: **the bits of a row of output depend on
//! that row's operands alone**, never on how many rows are computed beside it, how columns are blocked, or on threads.
//!
//! Start reading at [`contraction`]; `vector` explains how one text serves three instruction families.
//! A wrong shape in a call is a defect of the caller: kernels assert their shapes (each documents its panics), and the
//! views check theirs when made.

#![expect(
    clippy::needless_range_loop,
    reason = "register tiles are written as loops over const ranges, which unroll"
)]

pub mod attention;
pub mod blocks;
pub mod brain;
mod broadcast;
pub mod contraction;
pub mod delta;
mod dot;
mod elementary;
pub mod integer;
pub mod parallel;
pub mod rows;
pub mod strided;
mod tiles;
pub mod views;

pub(crate) mod vector;
