//! Weights in blocks, as the general kernel reads them.

use fiddlehead_storage::{Tensor, dequantise};

use crate::bytecode::Decode;

/// Elements of the longest block that is cut.
const LONGEST_BLOCK: usize = 256;

impl Decode for Tensor {
    fn elements(&self) -> usize {
        Tensor::elements(self)
    }

    /// A block that the range cuts is decoded whole, beside the result.
    fn decode(&self, first: usize, out: &mut [f32]) {
        let (block, bytes) = (self.format().block_elements(), self.format().block_bytes());
        let (mut at, mut done) = (first, 0);
        while done < out.len() {
            let (within, left) = (at % block, out.len() - done);
            let start = at / block * bytes;
            let count =
                if within == 0 && left >= block { left / block * block } else { left.min(block - within) };
            let blocks = (within + count).div_ceil(block);
            let stored = self.bytes().get(start..start + blocks * bytes).unwrap_or_default();
            let target = &mut out[done..done + count];
            if within == 0 && count.is_multiple_of(block) {
                fill(self, stored, target);
            } else {
                let mut whole = [0.0; LONGEST_BLOCK];
                let whole = &mut whole[..block.min(LONGEST_BLOCK)];
                fill(self, stored, whole);
                target.copy_from_slice(&whole[within..within + count]);
            }
            (at, done) = (at + count, done + count);
        }
    }
}

/// A range beyond the tensor, which no program that was compiled for its shape asks for, reads as NaN.
fn fill(tensor: &Tensor, stored: &[u8], out: &mut [f32]) {
    if dequantise(tensor.format(), stored, out).is_err() {
        out.fill(f32::NAN);
    }
}

/// Whether the general kernel can read a tensor block by block where it is stored.
pub(super) fn readable_in_place(tensor: &Tensor) -> bool {
    tensor.format().block_elements() <= LONGEST_BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use fiddlehead_storage::Format;

    #[test]
    fn any_part_of_any_format_is_that_part_of_the_whole() {
        for &format in Format::ALL {
            let elements = 3 * format.block_elements().max(32);
            let bytes: Vec<u8> = (0..format.bytes_for(elements).expect("whole blocks"))
                // Small exponents everywhere: scales are halves, whose upper byte decides.
                .map(|index| (index * 37 % 60) as u8)
                .collect();
            let tensor = Tensor::new(format, vec![elements], bytes.into()).expect("fits");
            assert!(readable_in_place(&tensor), "{format}");
            let whole = tensor.to_f32().expect("decodes");
            for (first, count) in
                [(0, elements), (1, 40), (31, 2), (elements - 1, 1), (5, elements - 5), (32, 33)]
            {
                let mut part = vec![0.0; count];
                tensor.decode(first, &mut part);
                let same =
                    part.iter().zip(&whole[first..first + count]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{format}, {count} from {first}");
            }
        }
    }
}
