//! Formats whose blocks of 256 hold small groups with scales of their own, themselves scaled. What the bytes mean is
//! told in `fiddlehead_storage`.

use super::simple::{UNEVEN, decoder};
use super::{Decoder, Sink, put_scaled, put_shifted};
use crate::kernels::vector::Vector;
use crate::kernels::vector::bytes::Bytes32;

/// # Safety
/// 4 bytes are readable at `from`.
#[inline(always)]
unsafe fn word(from: *const u8) -> u32 {
    // SAFETY: the caller's condition.
    u32::from_le_bytes(unsafe { from.cast::<[u8; 4]>().read() })
}

#[inline(always)]
fn joined(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The first sixteen of 32 signed bytes times `first`, the others times `second`.
#[inline(always)]
fn products<V: Vector>(bytes: V::Bytes, first: V, second: V) -> [f32; 32] {
    let mut all = [0.0; 32];
    for index in 0..32 / V::LANES {
        let factor = if index * V::LANES < 16 { first } else { second };
        let values = V::widen(bytes, index).mul(factor);
        // SAFETY: the vectors fill the 32 values.
        unsafe { values.store(all.as_mut_ptr().add(index * V::LANES)) };
    }
    all
}

/// Scales and negated minima of the eight groups of a `q4_k` or `q5_k` block: `[scales, .., minima, ..]`, sixteen apart.
/// # Safety
/// 16 bytes are readable at `block`.
#[inline(always)]
unsafe fn scales_and_minima<V: Vector>(block: *const u8) -> [f32; 32] {
    // SAFETY: the caller's condition.
    unsafe {
        let [a, b, c] = [word(block.add(4)), word(block.add(8)), word(block.add(12))];
        let upper = |from: u32| (from >> 6 & 0x0303_0303) << 4;
        let scales = joined(a & 0x3f3f_3f3f, c & 0x0f0f_0f0f | upper(a));
        let minima = joined(b & 0x3f3f_3f3f, c >> 4 & 0x0f0f_0f0f | upper(b));
        let minimum = V::splat_f16(block.add(2)).mul(V::splat(-1.0));
        products(V::Bytes::of_words([scales, 0, minima, 0]), V::splat_f16(block), minimum)
    }
}

decoder!(
    /// Scales and minima of groups of 16 in nibbles, numbers of two bits.
    Q2K, 256, 84, V, block, sink, {
        let minimum = V::splat_f16(block.add(82)).mul(V::splat(-1.0));
        let factors = products(V::Bytes::load_nibbles(block), V::splat_f16(block.add(80)), minimum);
        for group in 0..8 {
            let packed = V::Bytes::load(block.add(16 + group / 4 * 32));
            let numbers = packed.shift_right(group % 4 * 2).and(V::Bytes::splat(3));
            let scales = [V::splat(factors[group * 2]), V::splat(factors[group * 2 + 1])];
            let minima = [V::splat(factors[group * 2 + 16]), V::splat(factors[group * 2 + 17])];
            put_shifted(numbers, group, scales, minima, sink);
        }
    }
);

decoder!(
    /// Third bits, numbers of two bits, scales of groups of 16 with their upper bits apart.
    Q3K, 256, 110, V, block, sink, {
        let nibbles = block.add(96).cast::<u64>().read_unaligned().to_le();
        let upper = word(block.add(104));
        let bits = |shift: u32| (upper >> shift & 0x0303_0303) << 4;
        let low = nibbles & 0x0f0f_0f0f_0f0f_0f0f | joined(bits(0), bits(2));
        let high = nibbles >> 4 & 0x0f0f_0f0f_0f0f_0f0f | joined(bits(4), bits(6));
        let steps = V::Bytes::of_words([low, high, 0, 0]).sub(V::Bytes::splat(32));
        let scale = V::splat_f16(block.add(108));
        let factors = products(steps, scale, scale);
        let thirds = V::Bytes::load(block);
        for group in 0..8 {
            let packed = V::Bytes::load(block.add(32 + group / 4 * 32));
            let lower = packed.shift_right(group % 4 * 2).and(V::Bytes::splat(3));
            let third = thirds.shift_right(group).and(V::Bytes::splat(1)).shift_left(2);
            let scales = [V::splat(factors[group * 2]), V::splat(factors[group * 2 + 1])];
            put_scaled(lower.or(third).sub(V::Bytes::splat(4)), group, scales, sink);
        }
    }
);

decoder!(
    /// Scales and minima of groups of 32, nibbles.
    Q4K, 256, 144, V, block, sink, {
        let factors = scales_and_minima::<V>(block);
        for pair in 0..4 {
            let packed = V::Bytes::load(block.add(16 + pair * 32));
            for high in 0..2 {
                let group = pair * 2 + high;
                let numbers = packed.shift_right(high * 4).and(V::Bytes::splat(15));
                let (scale, minimum) = (V::splat(factors[group]), V::splat(factors[group + 16]));
                put_shifted(numbers, group, [scale; 2], [minimum; 2], sink);
            }
        }
    }
);

decoder!(
    /// Scales and minima of groups of 32, fifth bits, nibbles.
    Q5K, 256, 176, V, block, sink, {
        let factors = scales_and_minima::<V>(block);
        let fifths = V::Bytes::load(block.add(16));
        for group in 0..8 {
            let packed = V::Bytes::load(block.add(48 + group / 2 * 32));
            let lower = packed.shift_right(group % 2 * 4).and(V::Bytes::splat(15));
            let fifth = fifths.shift_right(group).and(V::Bytes::splat(1)).shift_left(4);
            let (scale, minimum) = (V::splat(factors[group]), V::splat(factors[group + 16]));
            put_shifted(lower.or(fifth), group, [scale; 2], [minimum; 2], sink);
        }
    }
);

decoder!(
    /// Nibbles, upper bits, signed scales of groups of 16; the number less 32.
    Q6K, 256, 210, V, block, sink, {
        let steps = [block.add(192), block.add(200)].map(|at| at.cast::<u64>().read_unaligned().to_le());
        let scale = V::splat_f16(block.add(208));
        let factors = products(V::Bytes::of_words([steps[0], steps[1], 0, 0]), scale, scale);
        for group in 0..8 {
            let (half, quarter) = (group / 4, group % 4);
            let nibbles = V::Bytes::load(block.add(half * 64 + quarter % 2 * 32));
            let lower = nibbles.shift_right(quarter / 2 * 4).and(V::Bytes::splat(15));
            let upper = V::Bytes::load(block.add(128 + half * 32)).shift_right(quarter * 2);
            let upper = upper.and(V::Bytes::splat(3)).shift_left(4);
            let scales = [V::splat(factors[group * 2]), V::splat(factors[group * 2 + 1])];
            put_scaled(lower.or(upper).sub(V::Bytes::splat(32)), group, scales, sink);
        }
    }
);

decoder!(
    /// Scales of groups of 32 in two parts, nibbles that index uneven values.
    IQ4XS, 256, 136, V, block, sink, {
        let upper = block.add(2).cast::<u16>().read_unaligned().to_le();
        let lower = word(block.add(4));
        let mut steps = 0u64;
        for group in 0..8 {
            let step = lower >> (group * 4) & 15 | u32::from(upper >> (group * 2) & 3) << 4;
            steps |= u64::from(step) << (group * 8);
        }
        let scale = V::splat_f16(block);
        let bytes = V::Bytes::of_words([steps, 0, 0, 0]).sub(V::Bytes::splat(32));
        let factors = products(bytes, scale, scale);
        for group in 0..8 {
            let numbers = V::Bytes::load_nibbles(block.add(8 + group * 16)).look_up(&UNEVEN);
            put_scaled(numbers, group, [V::splat(factors[group]); 2], sink);
        }
    }
);
