//! Block programs against the reference interpreter, node by node along a chain.

mod exact;
mod folds;
mod formats;
mod harness;
mod random;
mod traps;
