//! Storage formats of weights, their plain dequantising and quantising.
//!
//! What lives here: the block formats ([`Format`]), what a block means in numbers ([`dequantise`]), the search for the
//! block that comes nearest to given numbers ([`quantise`](fn@quantise)), shared memory
//! with cheap views ([`Bytes`]), and a weight as everybody hands it around ([`Tensor`]).
//!
//! What must never live here: files and their headers (`checkpoint`), devices and fast kernels (`cpu`, `cuda`).
//!
//! Start reading at [`Format`]; then [`Tensor`]. To add a format: one file in `format/` with its [`Layout`], its
//! `mod` line and one arm in `format.rs`.
//!
//! ```
//! use fiddlehead_storage::{Bytes, Format, Tensor};
//!
//! let bytes = Bytes::from(vec![0x80, 0x3f, 0x00, 0xc0]); // 1.0 and -2.0 in bf16
//! let tensor = Tensor::new(Format::BF16, vec![1, 2], bytes)?;
//! let mut row = [0.0; 2];
//! tensor.dequantise_row(0, &mut row)?;
//! assert_eq!(row, [1.0, -2.0]);
//! # Ok::<(), fiddlehead_storage::StorageError>(())
//! ```

mod bytes;
mod error;
mod format;
mod pack;
mod quantise;
mod tensor;

pub use bytes::{Bytes, Memory};
pub use error::StorageError;
pub use format::{Format, Layout, dequantise};
pub use pack::pack_f8_e4m3;
pub use quantise::quantise;
pub use tensor::Tensor;
