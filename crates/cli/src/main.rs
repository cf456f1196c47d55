//! The fiddlehead command.
fn main() {}
