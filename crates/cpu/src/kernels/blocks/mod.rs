//! Weights stored in blocks, as f32 lanes: one decoder for each format, written once over [`Vector`].
//!
//! A decoder hands a block's values, vector after vector, to a [`Sink`]: memory, or a running sum. The values equal those of
//! [`fiddlehead_storage::dequantise`] bit for bit in every family: products and sums of one value round one by one, in the
//! order that the format is defined with.
//!
//! To add a format: a decoder in `simple` or `super_blocks` and its arm in [`with_decoder`]. Without one the format
//! is served too, through the plain dequantising.

mod reader;
mod simple;
mod super_blocks;

pub use reader::BlockReader;
pub(super) use reader::decode_run;

pub(super) use simple::{F8E4M3, IQ4NL, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, UNEVEN};
pub(super) use super_blocks::{IQ4XS, Q2K, Q3K, Q4K, Q5K, Q6K};

use super::vector::Vector;

/// Takes the vectors of one block.
pub(super) trait Sink<V: Vector> {
    /// Lanes `index * LANES ..` of the block.
    fn put(&mut self, index: usize, values: V);
}

/// How one format's blocks are read.
pub(super) trait Decoder {
    /// Numbers in a block.
    const ELEMENTS: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Gives every vector of the block to `sink` once.
    /// # Safety
    /// `BYTES` bytes are readable at `block`.
    unsafe fn decode<V: Vector>(block: *const u8, sink: &mut impl Sink<V>);
}

/// Evaluates `$known` with the decoder of `$format` named `$decoder`, or `$other` for a format without one.
macro_rules! with_decoder {
    ($format:expr, $decoder:ident => $known:expr, $other:expr $(,)?) => {
        $crate::kernels::blocks::with_decoder!(@arms $format, $decoder, $known, $other,
            Q8_0 Q8_0, Q4_0 Q4_0, Q4_1 Q4_1, Q5_0 Q5_0, Q5_1 Q5_1, IQ4_NL IQ4NL, Q2_K Q2K, Q3_K Q3K, Q4_K Q4K,
            Q5_K Q5K, Q6_K Q6K, IQ4_XS IQ4XS, F8_E4M3_128 F8E4M3)
    };
    (@arms $format:expr, $decoder:ident, $known:expr, $other:expr, $($name:ident $type:ident),*) => {
        match $format {
            $(fiddlehead_storage::Format::$name => {
                type $decoder = $crate::kernels::blocks::$type;
                $known
            })*
            _ => $other,
        }
    };
}
pub(super) use with_decoder;

/// Values to memory.
pub(super) struct Store(*mut f32);

impl Store {
    /// # Safety
    /// Every value of the blocks given to it is writable at `to`.
    #[inline(always)]
    pub(super) unsafe fn new(to: *mut f32) -> Self {
        Self(to)
    }
}

impl<V: Vector> Sink<V> for Store {
    #[inline(always)]
    fn put(&mut self, index: usize, values: V) {
        // SAFETY: whoever made it vouches for a block's values from this address on.
        unsafe { values.store(self.0.add(index * V::LANES)) }
    }
}

/// The sum over a block of its values times activations, lane by lane: the pattern of [`super::dot`].
pub(super) struct Dot<V> {
    activations: *const f32,
    pub(super) sum: V,
}

impl<V: Vector> Dot<V> {
    /// # Safety
    /// As many activations as a block has values are readable.
    #[inline(always)]
    pub(super) unsafe fn new(activations: *const f32, sum: V) -> Self {
        Self { activations, sum }
    }
}

impl<V: Vector> Sink<V> for Dot<V> {
    #[inline(always)]
    fn put(&mut self, index: usize, values: V) {
        // SAFETY: whoever made it vouches for a block's activations from this address on.
        let x = unsafe { V::load(self.activations.add(index * V::LANES)) };
        self.sum = x.mul_add(values, self.sum);
    }
}

/// Hands on 32 numbers, group `group` of the block: `number × scale`, one scale for each sixteen.
#[inline(always)]
fn put_scaled<V: Vector>(numbers: V::Bytes, group: usize, scales: [V; 2], sink: &mut impl Sink<V>) {
    for index in 0..32 / V::LANES {
        let values = V::widen(numbers, index).mul(scales[index * V::LANES / 16]);
        sink.put(group * (32 / V::LANES) + index, values);
    }
}

/// As [`put_scaled`], plus an offset for each sixteen.
#[inline(always)]
fn put_shifted<V: Vector>(
    numbers: V::Bytes,
    group: usize,
    scales: [V; 2],
    offsets: [V; 2],
    sink: &mut impl Sink<V>,
) {
    for index in 0..32 / V::LANES {
        let half = index * V::LANES / 16;
        let values = V::widen(numbers, index).mul(scales[half]).add(offsets[half]);
        sink.put(group * (32 / V::LANES) + index, values);
    }
}
