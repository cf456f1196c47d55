//! CPU kernels and executor.
//!
//! Here live the kernels for every kind of site, the thread pool that runs them, and the reading of what the system
//! enables. Nothing here may know files, checkpoints, sessions or HTTP.
//!
//! Start reading at [`kernels`] for what can be computed, at [`pool`] for how it is spread over threads, and at
//! [`features`] for which instructions may be used.

pub mod bytecode;
pub mod executor;
pub mod features;
pub mod kernels;
pub mod pool;
