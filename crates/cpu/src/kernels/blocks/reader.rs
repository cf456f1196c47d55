//! Single elements and runs of a weight in blocks: what gathering a row (an embedding) reads.

use fiddlehead_storage::Format;

use super::{Decoder, Store};
use crate::bytecode::Decode;
use crate::features::Isa;
use crate::kernels::vector::{Kernel, Vector};

/// Numbers of the largest block there is a decoder for.
const MOST_ELEMENTS: usize = 256;

/// A weight in blocks as the bytecode reads it: any run of its elements in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct BlockReader<'a> {
    isa: Isa,
    format: Format,
    bytes: &'a [u8],
}

impl<'a> BlockReader<'a> {
    /// The whole blocks in `bytes`; a row is a whole number of blocks, so rows follow each other without a gap.
    pub fn new(isa: Isa, format: Format, bytes: &'a [u8]) -> Self {
        Self { isa, format, bytes }
    }
}

impl Decode for BlockReader<'_> {
    fn elements(&self) -> usize {
        self.bytes.len() / self.format.block_bytes() * self.format.block_elements()
    }

    /// # Panics
    /// When the run ends beyond the weight.
    fn decode(&self, first: usize, out: &mut [f32]) {
        assert!(first.checked_add(out.len()).is_some_and(|end| end <= self.elements()), "beyond the weight");
        let (elements, bytes) = (self.format.block_elements(), self.format.block_bytes());
        let mut block = first / elements;
        let mut inside = first % elements;
        let mut done = 0;
        let mut whole = vec![0.0; if elements > MOST_ELEMENTS { elements } else { 0 }];
        let mut buffer = [0.0; MOST_ELEMENTS];
        while done < out.len() {
            let take = (elements - inside).min(out.len() - done);
            if inside == 0 && take == elements {
                let count = (out.len() - done) / elements;
                let run = count * elements;
                decode_blocks(
                    self.isa,
                    self.format,
                    &self.bytes[block * bytes..],
                    &mut out[done..done + run],
                );
                (block, done) = (block + count, done + run);
                continue;
            }
            let buffer = if whole.is_empty() { &mut buffer[..elements] } else { &mut whole };
            decode_blocks(self.isa, self.format, &self.bytes[block * bytes..], buffer);
            out[done..done + take].copy_from_slice(&buffer[inside..inside + take]);
            (block, inside, done) = (block + 1, 0, done + take);
        }
    }
}

/// Writes the values of whole blocks from the start of `bytes`, as many as `out` holds.
///
/// # Panics
/// When `out` is no whole number of blocks or `bytes` are fewer.
fn decode_blocks(isa: Isa, format: Format, bytes: &[u8], out: &mut [f32]) {
    let blocks = out.len() / format.block_elements();
    assert_eq!(out.len(), blocks * format.block_elements(), "whole blocks");
    let bytes = &bytes[..blocks * format.block_bytes()];
    isa.run(Blocks { format, bytes, out });
}

struct Blocks<'a> {
    format: Format,
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Kernel for Blocks<'_> {
    type Output = ();
    #[inline(always)]
    fn run<V: Vector>(self) {
        // SAFETY: bytes and values are of the same whole blocks.
        unsafe { decode_run::<V>(self.format, self.bytes.as_ptr(), self.out.as_mut_ptr(), self.out.len()) }
    }
}

/// Writes `count` values, whole blocks, from `from` on to `to`.
///
/// # Safety
/// `count` values are writable, the bytes of their blocks readable; `count` is a whole number of blocks.
#[inline(always)]
pub(in crate::kernels) unsafe fn decode_run<V: Vector>(
    format: Format,
    from: *const u8,
    to: *mut f32,
    count: usize,
) {
    super::with_decoder!(
        format,
        D => {
            for block in 0..count / D::ELEMENTS {
                // SAFETY: the caller's condition; blocks below the count.
                unsafe {
                    let mut sink = Store::new(to.add(block * D::ELEMENTS));
                    D::decode::<V>(from.add(block * D::BYTES), &mut sink);
                }
            }
        },
        {
            let bytes = count / format.block_elements() * format.block_bytes();
            // SAFETY: the caller's condition.
            let (bytes, out) =
                unsafe { (std::slice::from_raw_parts(from, bytes), std::slice::from_raw_parts_mut(to, count)) };
            let fits = fiddlehead_storage::dequantise(format, bytes, out);
            debug_assert!(fits.is_ok(), "whole blocks");
        },
    );
}
