//! One vector of f32 lanes, three ways: plain arrays, AVX2 and AVX-512.
//!
//! A kernel is written once over [`Vector`] as a [`Kernel`]; [`Isa::run`] compiles it once per family inside a function
//! that has the instructions enabled. Everything on the way down must be `#[inline(always)]`: a function that is not
//! inlined there would be compiled without the instructions.
//!
//! The associated operations are safe to call only inside [`Kernel::run`], which is why the trait stays in this crate.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod bytes;
mod plain;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Lanes as Wide;

use crate::features::Isa;
use bytes::Bytes32;

/// A fixed number of f32 lanes.
///
/// Sums over lanes always follow one tree: lane `i` meets lane `i + LANES/2`, and so on halving. `sum` and `sum4` give
/// the same bits.
pub(crate) trait Vector: Copy {
    /// How many f32 lanes there are.
    const LANES: usize;
    /// Rows of activations that a register tile of four weight rows can hold without spilling.
    const TILE_ROWS: usize;
    /// From this many activation rows on, decoding a block of a narrow weight to f32 first is faster than loading it anew
    /// for each tile.
    const DECODE_ROWS: usize;
    /// The result of a comparison.
    type Mask: Copy;
    /// Bytes of stored numbers that widen to lanes.
    type Bytes: Bytes32;

    fn splat(value: f32) -> Self;
    /// # Safety
    /// `LANES` values are readable at `from`.
    unsafe fn load(from: *const f32) -> Self;
    /// The first `count <= LANES` values; zero in the other lanes.
    /// # Safety
    /// `count` values are readable at `from`.
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// # Safety
    /// `LANES` values are writable at `to`.
    unsafe fn store(self, to: *mut f32);
    /// # Safety
    /// `count <= LANES` values are writable at `to`.
    unsafe fn store_first(self, to: *mut f32, count: usize);
    /// # Safety
    /// `2 * LANES` bytes are readable at `from`.
    unsafe fn load_f16(from: *const u8) -> Self;
    /// # Safety
    /// `2 * LANES` bytes are readable at `from`.
    unsafe fn load_bf16(from: *const u8) -> Self;
    /// # Safety
    /// `2 * count` bytes are readable at `from`, `count <= LANES`.
    #[inline(always)]
    unsafe fn load_f16_first(from: *const u8, count: usize) -> Self {
        let mut bytes = [0u8; 32];
        // SAFETY: `count <= LANES <= 16` values of two bytes fit the buffer, and the caller vouches for the source.
        unsafe {
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count * 2);
            Self::load_f16(bytes.as_ptr())
        }
    }
    /// # Safety
    /// `2 * count` bytes are readable at `from`, `count <= LANES`.
    #[inline(always)]
    unsafe fn load_bf16_first(from: *const u8, count: usize) -> Self {
        let mut bytes = [0u8; 32];
        // SAFETY: as in `load_f16_first`.
        unsafe {
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count * 2);
            Self::load_bf16(bytes.as_ptr())
        }
    }
    /// A half-precision number in every lane.
    /// # Safety
    /// 2 bytes are readable at `from`.
    unsafe fn splat_f16(from: *const u8) -> Self;
    /// Eight-bit floats (e4m3), one byte each, divided by 256.
    /// # Safety
    /// `LANES` bytes are readable at `from`.
    unsafe fn load_f8_scaled(from: *const u8) -> Self;
    /// The signed bytes `index * LANES ..` as numbers; `(index + 1) * LANES <= 32`.
    fn widen(bytes: Self::Bytes, index: usize) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    /// `other` where either is NaN.
    fn min(self, other: Self) -> Self;
    /// `other` where either is NaN.
    fn max(self, other: Self) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    fn floor(self) -> Self;
    /// To the nearest whole number, ties to even.
    fn round(self) -> Self;
    /// `self * factor + addend`, fused where the family fuses.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// `self * factor + addend` with an exact product in every family: what range reductions need.
    fn fused(self, factor: Self, addend: Self) -> Self;
    /// `self < other`; false where either is NaN.
    fn less(self, other: Self) -> Self::Mask;
    fn equal(self, other: Self) -> Self::Mask;
    /// Lanes of `yes` where the mask is set, of `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    fn any(mask: Self::Mask) -> bool;
    /// `self * 2^power`, rounded once, for whole powers from -160 to 160 and `self` within [0.25, 4].
    fn scale_by_power(self, power: Self) -> Self;
    /// `(m, e)` with `self = m * 2^e` and `1 <= m < 2`, for finite positive lanes (subnormal included).
    fn split(self) -> (Self, Self);
    /// The sum of all lanes, along the fixed tree.
    fn sum(self) -> f32;
    /// The greatest lane; unspecified with NaN.
    fn greatest(self) -> f32;
    /// `[sum(v0), sum(v1), sum(v2), sum(v3)]`, the bits of four `sum`s.
    fn sum4(vectors: [Self; 4]) -> [f32; 4];
    /// Hints that the cache line at `address` will be read soon. Any address is allowed.
    fn prefetch(address: *const u8);
}

/// A computation written once for every family.
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// Runs with vectors `V`. Must be `#[inline(always)]`.
    fn run<V: Vector>(self) -> Self::Output;
}

impl Isa {
    /// Runs `kernel` with this family, or with the widest enabled one if this family is not.
    #[inline]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self.allowed() {
            Isa::Plain => kernel.run::<plain::Lanes>(),
            // SAFETY: `allowed` returns a family only if the system enables all of its instructions.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => unsafe { run_avx2(kernel) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => unsafe { run_avx512(kernel) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => kernel.run::<plain::Lanes>(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<avx2::Lanes>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<avx512::Lanes>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Features;

    struct SumsAgree;
    impl Kernel for SumsAgree {
        type Output = ();
        #[inline(always)]
        fn run<V: Vector>(self) {
            let mut seed = 1u32;
            let mut values = [0f32; 64];
            for value in &mut values {
                seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
                *value = (seed >> 8) as f32 / 65536.0 - 128.0;
            }
            // SAFETY: 64 values hold four vectors of at most 16 lanes.
            let vectors: [V; 4] = std::array::from_fn(|i| unsafe { V::load(values.as_ptr().add(i * 16)) });
            let together = V::sum4(vectors);
            for i in 0..4 {
                assert_eq!(together[i].to_bits(), vectors[i].sum().to_bits());
                let mut lanes = values[i * 16..i * 16 + V::LANES].to_vec();
                while lanes.len() > 1 {
                    let half = lanes.len() / 2;
                    lanes = (0..half).map(|lane| lanes[lane] + lanes[lane + half]).collect();
                }
                assert_eq!(together[i].to_bits(), lanes[0].to_bits());
            }
        }
    }

    #[test]
    fn four_sums_follow_the_tree_of_one() {
        for isa in Features::detect().usable() {
            isa.run(SumsAgree);
        }
    }

    struct Powers;
    impl Kernel for Powers {
        type Output = ();
        #[inline(always)]
        fn run<V: Vector>(self) {
            for power in -160..=160 {
                for mantissa in [1.0f32, 1.2345678, 1.9999999, 0.75, 2.5] {
                    let got = V::splat(mantissa).scale_by_power(V::splat(power as f32)).greatest();
                    let expected = (mantissa as f64 * 2f64.powi(power)) as f32;
                    assert_eq!(got.to_bits(), expected.to_bits(), "{mantissa} * 2^{power}");
                }
            }
            for value in [1.0f32, 0.1, 3.75e20, f32::MIN_POSITIVE, 1e-45, 3e-41, f32::MAX] {
                let (m, e) = V::splat(value).split();
                let (m, e) = (m.greatest(), e.greatest());
                assert!((1.0..2.0).contains(&m));
                assert_eq!(m as f64 * 2f64.powi(e as i32), value as f64, "{value} = {m} * 2^{e}");
            }
        }
    }

    #[test]
    fn powers_of_two_scale_and_split_exactly() {
        for isa in Features::detect().usable() {
            isa.run(Powers);
        }
    }
}
