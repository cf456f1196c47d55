//! From values to blocks: the search that every format shares. What a block looks like stays in its file in `format/`.
//!
//! All searches minimise the squared error of the values as they come out again, with every scale already rounded as the
//! block holds it. [`centred`] is for formats of a scale alone, [`affine`] for those of a scale and a minimum;
//! [`nested`] and [`nested_affine`] are the same two for blocks whose sub-blocks have small scales of their own.

mod affine;
mod centred;
mod levels;
mod nested;
mod nested_affine;
mod sums;

pub(crate) use affine::affine;
pub(crate) use centred::centred;
pub(crate) use levels::{Signed, Uneven};
pub(crate) use nested::nested;
pub(crate) use nested_affine::nested_affine;

use half::f16;

use crate::{Format, StorageError};

/// The largest magnitude that every format but f32 and bf16 holds: scales are binary16.
const LARGEST: f32 = 65504.0;
/// Values no larger than this are nearer to zero than to anything that a binary16 scale can make of them.
const NOTHING: f32 = 1.0 / (1 << 25) as f32;

/// Writes `values` as blocks of `format`, with the least squared error that the format's search finds.
///
/// `out` has exactly the bytes that so many values take.
///
/// # Errors
/// When the values end inside a block, the output has another length, a value is not finite or larger than the format
/// can hold, or the format is one that is only read.
///
/// ```
/// use fiddlehead_storage::{Format, dequantise, quantise};
///
/// let values: Vec<f32> = (0..32).map(|at| (at as f32 * 0.7).sin()).collect();
/// let mut block = vec![0; Format::Q8_0.bytes_for(values.len())?];
/// quantise(Format::Q8_0, &values, &mut block)?;
/// let mut again = [0.0; 32];
/// dequantise(Format::Q8_0, &block, &mut again)?;
/// assert!(values.iter().zip(&again).all(|(value, again)| (value - again).abs() < 0.005));
/// # Ok::<(), fiddlehead_storage::StorageError>(())
/// ```
pub fn quantise(format: Format, values: &[f32], out: &mut [u8]) -> Result<(), StorageError> {
    let expected = format.bytes_for(values.len())?;
    if out.len() != expected {
        return Err(StorageError::WrongLength {
            shape: vec![values.len()],
            format,
            expected,
            found: out.len(),
        });
    }
    let Some(search) = format.layout().quantise else { return Err(StorageError::OnlyRead { format }) };
    let most = match format {
        Format::F32 => f32::MAX,
        // The largest that is not rounded to infinity.
        Format::BF16 => f32::from_bits(0x7f7f_7fff),
        _ => LARGEST,
    };
    // NaN compares with nothing, so it is refused too.
    let fits = |value: f32| value.abs().partial_cmp(&most).is_some_and(std::cmp::Ordering::is_le);
    if let Some((at, &value)) = values.iter().enumerate().find(|(_, value)| !fits(**value)) {
        return Err(StorageError::Unstorable { format, at, value: value.to_string() });
    }
    search(values, out);
    Ok(())
}

/// A block's sub-blocks: `SUBS × N` values.
pub(crate) fn sub_blocks<const SUBS: usize, const N: usize>(values: &[f32; 256]) -> [[f32; N]; SUBS] {
    const { assert!(SUBS * N == 256) };
    let parts = values.as_chunks::<N>().0;
    std::array::from_fn(|sub| parts[sub])
}

/// A scale as a block holds it. One that is not zero stays so, and finite.
fn half(scale: f32) -> f16 {
    let rounded = f16::from_f32(scale.clamp(-LARGEST, LARGEST));
    if rounded.to_bits() & 0x7fff == 0 && scale != 0.0 {
        return if scale < 0.0 { -f16::MIN_POSITIVE_SUBNORMAL } else { f16::MIN_POSITIVE_SUBNORMAL };
    }
    rounded
}

/// A scale as a block holds it, and the next ones in both directions; none of them zero.
fn halves(scale: f32) -> [f16; 3] {
    let middle = half(scale);
    let bits = middle.to_bits();
    let step = |bits: u16| {
        let other = f16::from_bits(bits);
        if other.is_finite() && bits & 0x7fff != 0 { other } else { middle }
    };
    [middle, step(bits.wrapping_add(1)), step(bits.wrapping_sub(1))]
}

/// The value of largest magnitude, with its sign.
fn peak(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |peak: f32, &value| if value.abs() > peak.abs() { value } else { peak })
}
