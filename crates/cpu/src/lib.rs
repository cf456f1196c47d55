//! CPU kernels and executor.

pub mod bytecode;
