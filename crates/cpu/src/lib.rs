//! CPU kernels and executor.
