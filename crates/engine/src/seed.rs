//! Seeds that nobody chose.

use std::hash::{BuildHasher, RandomState};

/// A seed that nobody chose, from the system's randomness.
pub fn draw_seed() -> u64 {
    // The standard library seeds its hash maps from the system; the hash of nothing is then a random word. It is kept
    // below 2^53, so that every reader of JSON can hand it back unchanged.
    RandomState::new().hash_one(0u8) >> 11
}
