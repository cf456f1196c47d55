//! Contractions with activations rounded to sixteen bits in two parts, for programs that allow eight (`compute q8`): integer
//! products of stored numbers and both parts, summed exactly for each group, by AVX-512 VNNI.
//!
//! An output sums, group by group of 32 in rising order, `scale · activation_scale · Σ number · rounded` and
//! `offset · activation_scale · Σ rounded` into one f32: a pattern of its weight row and activation row alone, for every number
//! of rows, so a site that takes this candidate takes it for all of them.
//!
//! Sixteen weight rows lie side by side in the lanes: their blocks are transposed by fours of bytes as they are read
//! (`interleave`), so no lanes are ever added, and a scale is one multiplication for sixteen outputs. Up to four
//! activation rows meet a group straight from registers; more rows meet it from a copy of the unpacked sixteen rows.
//!
//! Activations have one scale for each 32 with every format, also those with blocks of 256: a finer scale costs no
//! instruction here and weights of different formats share one rounding.

#[cfg(target_arch = "x86_64")]
mod formats;
#[cfg(target_arch = "x86_64")]
mod interleave;
mod rounding;
#[cfg(target_arch = "x86_64")]
mod tile;

pub use rounding::{RoundedBuffer, RoundedRoom, RoundedRows};

use super::views::{OutputRows, WeightView};
use crate::features::Features;
use fiddlehead_storage::Format;
use std::ops::Range;

/// Why this kernel cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntegerError {
    /// The system does not enable AVX-512 VNNI.
    #[error("AVX-512 VNNI is not enabled on this system")]
    NotEnabled,
    /// The weight is stored in a format whose numbers are no small integers.
    #[error("there is no integer kernel for weights stored as {0}")]
    Format(Format),
    /// Rows that are no whole number of 32 values.
    #[error("rows of {0} values are no whole number of groups of 32")]
    Columns(usize),
}

/// Whether [`contract_integer`] serves weights of this format here, or why not.
///
/// # Errors
/// As [`contract_integer`].
pub fn check(features: Features, format: Format) -> Result<(), IntegerError> {
    if !(features.avx512_vnni && Features::detect().avx512_vnni) {
        return Err(IntegerError::NotEnabled);
    }
    match format {
        Format::F32 | Format::F16 | Format::BF16 | Format::F8_E4M3_128 => Err(IntegerError::Format(format)),
        _ => Ok(()),
    }
}

/// Scratch space of one thread; grows to what it needs and is reused.
#[derive(Default)]
pub struct IntegerScratch {
    /// Sixteen weight rows unpacked.
    #[cfg(target_arch = "x86_64")]
    unpacked: Vec<tile::Unpacked>,
}

/// Computes `output[m, n - columns.start] = Σ_k weight[n, k] · rounded activation[m, k]` for `n` in `columns`.
///
/// # Errors
/// When the system or the weight's format does not allow it.
///
/// # Panics
/// When the shapes disagree, as for [`super::contraction::contract`].
pub fn contract_integer(
    features: Features,
    weight: &WeightView<'_>,
    activations: &RoundedRows<'_>,
    columns: Range<usize>,
    output: &mut OutputRows<'_>,
    scratch: &mut IntegerScratch,
) -> Result<(), IntegerError> {
    check(features, weight.format)?;
    assert_eq!(weight.columns, activations.columns(), "the sum's length differs");
    assert!(
        columns.start <= columns.end && columns.end <= weight.rows,
        "columns {columns:?} of {}",
        weight.rows
    );
    assert_eq!((output.rows(), output.columns()), (activations.rows(), columns.len()), "the output's shape");
    // SAFETY: AVX-512 VNNI is enabled, which `Features` offers only together with AVX-512 F, BW, DQ and VL; shapes agree.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        tile::contract(weight, activations, columns, output, scratch)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = scratch;
    Ok(())
}
