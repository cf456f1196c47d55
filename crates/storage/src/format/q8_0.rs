//! 32 signed bytes under one binary16 scale: `scale × byte`.
//!
//! Block: scale (2 bytes), 32 bytes.

use super::Layout;
use super::nibbles::half_at;
use crate::quantise::{Signed, centred};

pub(super) const LAYOUT: Layout =
    Layout { name: "q8_0", block_elements: 32, block_bytes: 34, dequantise, quantise: Some(quantise) };

fn dequantise(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<34>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let scale = half_at(block, 0);
        for (out, &byte) in out.iter_mut().zip(&block[2..]) {
            *out = scale * f32::from(byte as i8);
        }
    }
}

/// Level −128 stays unused: products of pairs of signed bytes then fit into 16 bits.
fn quantise(values: &[f32], out: &mut [u8]) {
    for (values, block) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<34>().0) {
        let (scale, levels) = centred::<Signed<-127, 127>, 32>(values);
        block[..2].copy_from_slice(&scale.to_le_bytes());
        for (byte, level) in block[2..].iter_mut().zip(levels) {
            *byte = level as i8 as u8;
        }
    }
}
