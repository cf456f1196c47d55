//! Sessions, sampling and generation.
