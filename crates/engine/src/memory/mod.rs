//! Memory: what a model will take, what the system has, and whether the one fits the other.
//!
//! Start reading at [`MemoryEstimate`]; `available.rs` is the only place that asks the system.

mod available;
mod estimate;
mod size;

pub use available::{AvailableMemory, MemoryBound};
pub use estimate::MemoryEstimate;
pub use size::ByteSize;
