//! Eight lanes in one AVX2 register, with FMA and F16C.

use super::Vector;
use super::bytes::Register;
use std::arch::x86_64::*;

/// Eight f32 lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(__m256);

/// Evaluates intrinsics that need nothing but their instructions.
macro_rules! enabled {
    ($value:expr) => {
        // SAFETY: this type is used only inside `Kernel::run` for AVX2, where the instructions are enabled.
        unsafe { $value }
    };
}

/// A mask whose first `count` lanes are set.
#[inline(always)]
fn first(count: usize) -> __m256i {
    enabled!(_mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
}

/// `2^power` for whole powers from -126 to 127.
#[inline(always)]
fn power_of_two(power: __m256i) -> __m256 {
    enabled!(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(power, _mm256_set1_epi32(127)))))
}

impl Vector for Lanes {
    const LANES: usize = 8;
    const TILE_ROWS: usize = 3;
    const DECODE_ROWS: usize = 13;
    type Mask = __m256;
    type Bytes = Register;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(enabled!(_mm256_set1_ps(value)))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for eight readable values.
        Self(unsafe { _mm256_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: masked lanes are not read; the caller vouches for the others.
        Self(unsafe { _mm256_maskload_ps(from, first(count)) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for eight writable values.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: masked lanes are not written; the caller vouches for the others.
        unsafe { _mm256_maskstore_ps(to, first(count), self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        Self(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) })
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn splat_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for two readable bytes.
        unsafe { Self(_mm256_cvtph_ps(_mm_set1_epi16(from.cast::<i16>().read_unaligned()))) }
    }
    #[inline(always)]
    unsafe fn load_f8_scaled(from: *const u8) -> Self {
        // SAFETY: the caller vouches for eight readable bytes.
        unsafe {
            // The sign and the exponent with seven bits of room: an f16 that counts 256 times less; then its NaN.
            let signed = _mm_cvtepi8_epi16(_mm_loadl_epi64(from.cast()));
            let half = _mm_and_si128(_mm_slli_epi16::<7>(signed), _mm_set1_epi16(0xbf80_u16 as i16));
            let largest = _mm_and_si128(half, _mm_set1_epi16(0x3f80));
            let none = _mm_cmpeq_epi16(largest, _mm_set1_epi16(0x3f80));
            Self(_mm256_cvtph_ps(_mm_or_si128(half, _mm_and_si128(none, _mm_set1_epi16(0x7e00)))))
        }
    }
    #[inline(always)]
    fn widen(bytes: Register, index: usize) -> Self {
        enabled!({
            let half = match index / 2 {
                0 => _mm256_castsi256_si128(bytes.0),
                _ => _mm256_extracti128_si256::<1>(bytes.0),
            };
            let eight = if index & 1 == 0 { half } else { _mm_srli_si128::<8>(half) };
            Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)))
        })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(enabled!(_mm256_add_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(enabled!(_mm256_sub_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(enabled!(_mm256_mul_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(enabled!(_mm256_div_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(enabled!(_mm256_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(enabled!(_mm256_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(enabled!(_mm256_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(enabled!(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(enabled!(_mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(enabled!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)))
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(enabled!(_mm256_fmadd_ps(self.0, factor.0, addend.0)))
    }
    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self::Mask {
        enabled!(_mm256_cmp_ps::<_CMP_LT_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn equal(self, other: Self) -> Self::Mask {
        enabled!(_mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(enabled!(_mm256_blendv_ps(no.0, yes.0, mask)))
    }
    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        enabled!(_mm256_movemask_ps(mask)) != 0
    }
    /// Two factors, each a normal number; only the last product can round.
    #[inline(always)]
    fn scale_by_power(self, power: Self) -> Self {
        enabled!({
            let power = _mm256_cvtps_epi32(power.0);
            let half = _mm256_srai_epi32::<1>(power);
            let rest = _mm256_sub_epi32(power, half);
            Self(_mm256_mul_ps(_mm256_mul_ps(self.0, power_of_two(half)), power_of_two(rest)))
        })
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        enabled!({
            let small = _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, _mm256_set1_ps(f32::MIN_POSITIVE));
            let scaled = _mm256_mul_ps(self.0, _mm256_set1_ps(16_777_216.0));
            let bits = _mm256_castps_si256(_mm256_blendv_ps(self.0, scaled, small));
            let mantissa = _mm256_or_si256(
                _mm256_and_si256(bits, _mm256_set1_epi32(0x007f_ffff)),
                _mm256_set1_epi32(0x3f80_0000),
            );
            let bias = _mm256_blendv_ps(_mm256_set1_ps(127.0), _mm256_set1_ps(151.0), small);
            let exponent = _mm256_sub_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32::<23>(bits)), bias);
            (Self(_mm256_castsi256_ps(mantissa)), Self(exponent))
        })
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        enabled!({
            let four = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        enabled!({
            let four = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn sum4(vectors: [Self; 4]) -> [f32; 4] {
        enabled!({
            let [a, b, c, d] = vectors.map(|vector| vector.0);
            let ab =
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(a, b), _mm256_permute2f128_ps::<0x31>(a, b));
            let cd =
                _mm256_add_ps(_mm256_permute2f128_ps::<0x20>(c, d), _mm256_permute2f128_ps::<0x31>(c, d));
            // Pairs of lanes: [a, c | b, d].
            let two = _mm256_add_ps(
                _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
                _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            );
            let one = _mm256_add_ps(two, _mm256_movehdup_ps(two));
            // [a, _, c, _] and [b, _, d, _].
            let (ac, bd) = (_mm256_castps256_ps128(one), _mm256_extractf128_ps::<1>(one));
            let acbd = _mm_shuffle_ps::<0b10_00_10_00>(ac, bd);
            std::mem::transmute::<__m128, [f32; 4]>(_mm_permute_ps::<0b11_01_10_00>(acbd))
        })
    }
    #[inline(always)]
    fn prefetch(address: *const u8) {
        enabled!(_mm_prefetch::<_MM_HINT_T0>(address.cast()))
    }
}
