//! Eight lanes in an array: the portable reference. Multiply and add round separately.

use super::Vector;
use super::bytes::Array;
use half::{bf16, f16};

/// Eight f32 lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes([f32; 8]);

impl Lanes {
    #[inline(always)]
    fn map(self, operation: impl Fn(f32) -> f32) -> Self {
        Self(self.0.map(operation))
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }
}

#[inline(always)]
fn power_of_two(power: i32) -> f32 {
    f32::from_bits(((power + 127) as u32) << 23)
}

impl Vector for Lanes {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 2;
    const DECODE_ROWS: usize = 13;
    type Mask = [bool; 8];
    type Bytes = Array;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self([value; 8])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for eight readable values; the read needs no alignment.
        unsafe { Self(from.cast::<[f32; 8]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        let mut lanes = [0.0; 8];
        for (lane, value) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: `lane < count`, and the caller vouches for `count` values.
            *value = unsafe { from.add(lane).read_unaligned() };
        }
        Self(lanes)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for eight writable values.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        for (lane, value) in self.0.iter().enumerate().take(count) {
            // SAFETY: `lane < count`, and the caller vouches for `count` values.
            unsafe { to.add(lane).write_unaligned(*value) }
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for sixteen readable bytes.
        let bits = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        Self(bits.map(|bits| f16::from_bits(bits).to_f32()))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for sixteen readable bytes.
        let bits = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        Self(bits.map(|bits| bf16::from_bits(bits).to_f32()))
    }
    #[inline(always)]
    unsafe fn splat_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for two readable bytes.
        Self::splat(f16::from_le_bytes(unsafe { from.cast::<[u8; 2]>().read() }).to_f32())
    }
    #[inline(always)]
    unsafe fn load_f8_scaled(from: *const u8) -> Self {
        // SAFETY: the caller vouches for eight readable bytes.
        let bytes = unsafe { from.cast::<[u8; 8]>().read() };
        // The exponent's field of an f16 is one bit wider and biased by 8 more.
        Self(bytes.map(|byte| {
            let bits = u16::from(byte & 0x80) << 8 | u16::from(byte & 0x7f) << 7;
            if byte & 0x7f == 0x7f { f32::NAN } else { f16::from_bits(bits).to_f32() }
        }))
    }
    #[inline(always)]
    fn widen(bytes: Array, index: usize) -> Self {
        Self(std::array::from_fn(|lane| f32::from(bytes.signed(index * 8 + lane))))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(f32::abs)
    }
    #[inline(always)]
    fn floor(self) -> Self {
        self.map(f32::floor)
    }
    #[inline(always)]
    fn round(self) -> Self {
        self.map(f32::round_ties_even)
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] * factor.0[lane] + addend.0[lane]))
    }
    /// The product of two f32 is exact in f64; only the sum's double rounding differs from a true fusion.
    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            (self.0[lane] as f64 * factor.0[lane] as f64 + addend.0[lane] as f64) as f32
        }))
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self::Mask {
        std::array::from_fn(|lane| self.0[lane] < other.0[lane])
    }
    #[inline(always)]
    fn equal(self, other: Self) -> Self::Mask {
        std::array::from_fn(|lane| self.0[lane] == other.0[lane])
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(std::array::from_fn(|lane| if mask[lane] { yes.0[lane] } else { no.0[lane] }))
    }
    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        mask.iter().any(|set| *set)
    }
    #[inline(always)]
    fn scale_by_power(self, power: Self) -> Self {
        self.zip(power, |value, power| {
            let power = power as i32;
            let half = power >> 1;
            value * power_of_two(half) * power_of_two(power - half)
        })
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let mut mantissas = [0.0; 8];
        let mut exponents = [0.0; 8];
        for lane in 0..8 {
            let small = self.0[lane] < f32::MIN_POSITIVE;
            let bits = (if small { self.0[lane] * 16_777_216.0 } else { self.0[lane] }).to_bits();
            mantissas[lane] = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000);
            exponents[lane] = (bits >> 23) as f32 - if small { 151.0 } else { 127.0 };
        }
        (Self(mantissas), Self(exponents))
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let l = self.0;
        let four = [l[0] + l[4], l[1] + l[5], l[2] + l[6], l[3] + l[7]];
        (four[0] + four[2]) + (four[1] + four[3])
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        self.0
            .iter()
            .fold(f32::NEG_INFINITY, |greatest, value| if *value > greatest { *value } else { greatest })
    }
    #[inline(always)]
    fn sum4(vectors: [Self; 4]) -> [f32; 4] {
        vectors.map(Self::sum)
    }
    #[inline(always)]
    fn prefetch(_address: *const u8) {}
}
