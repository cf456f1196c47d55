//! Formats whose blocks are one group of numbers under one scale. What the bytes mean is told in `fiddlehead_storage`.

use super::{Decoder, Sink, put_scaled, put_shifted};
use crate::kernels::vector::Vector;
use crate::kernels::vector::bytes::Bytes32;

/// The values that a nibble of `iq4_nl` and `iq4_xs` stands for.
pub(in crate::kernels) const UNEVEN: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

macro_rules! decoder {
    ($(#[$documentation:meta])* $name:ident, $elements:literal, $bytes:literal, $vector:ident, $block:ident, $sink:ident, $body:block) => {
        $(#[$documentation])*
        pub(in crate::kernels) struct $name;

        impl Decoder for $name {
            const ELEMENTS: usize = $elements;
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn decode<$vector: Vector>($block: *const u8, $sink: &mut impl Sink<$vector>) {
                // SAFETY: the caller vouches for the block's bytes, and every read lies within them.
                unsafe { $body }
            }
        }
    };
}
pub(super) use decoder;

decoder!(
    /// Scale, 32 signed bytes.
    Q8_0, 32, 34, V, block, sink, {
        put_scaled(V::Bytes::load(block.add(2)), 0, [V::splat_f16(block); 2], sink);
    }
);

decoder!(
    /// Scale, nibbles less 8.
    Q4_0, 32, 18, V, block, sink, {
        let numbers = V::Bytes::load_nibbles(block.add(2)).sub(V::Bytes::splat(8));
        put_scaled(numbers, 0, [V::splat_f16(block); 2], sink);
    }
);

decoder!(
    /// Scale, minimum, nibbles.
    Q4_1, 32, 20, V, block, sink, {
        let numbers = V::Bytes::load_nibbles(block.add(4));
        put_shifted(numbers, 0, [V::splat_f16(block); 2], [V::splat_f16(block.add(2)); 2], sink);
    }
);

/// Five-bit numbers: nibbles at `nibbles` and their upper bits in the 32 bits at `fifth`.
/// # Safety
/// 16 and 4 bytes are readable there.
#[inline(always)]
unsafe fn five_bits<V: Vector>(nibbles: *const u8, fifth: *const u8) -> V::Bytes {
    // SAFETY: the caller's condition.
    unsafe {
        let upper = V::Bytes::spread(u32::from_le_bytes(fifth.cast::<[u8; 4]>().read()));
        V::Bytes::load_nibbles(nibbles).or(upper.and(V::Bytes::splat(16)))
    }
}

decoder!(
    /// Scale, fifth bits, nibbles; the number less 16.
    Q5_0, 32, 22, V, block, sink, {
        let numbers = five_bits::<V>(block.add(6), block.add(2)).sub(V::Bytes::splat(16));
        put_scaled(numbers, 0, [V::splat_f16(block); 2], sink);
    }
);

decoder!(
    /// Scale, minimum, fifth bits, nibbles.
    Q5_1, 32, 24, V, block, sink, {
        let numbers = five_bits::<V>(block.add(8), block.add(4));
        put_shifted(numbers, 0, [V::splat_f16(block); 2], [V::splat_f16(block.add(2)); 2], sink);
    }
);

decoder!(
    /// Scale, nibbles that index uneven values.
    IQ4NL, 32, 18, V, block, sink, {
        let numbers = V::Bytes::load_nibbles(block.add(2)).look_up(&UNEVEN);
        put_scaled(numbers, 0, [V::splat_f16(block); 2], sink);
    }
);

decoder!(
    /// Scale, 128 eight-bit floats.
    F8E4M3, 128, 132, V, block, sink, {
        let scale = V::splat(f32::from_le_bytes(block.cast::<[u8; 4]>().read()));
        for index in 0..128 / V::LANES {
            let values = V::load_f8_scaled(block.add(4 + index * V::LANES)).mul(V::splat(256.0));
            sink.put(index, values.mul(scale));
        }
    }
);
