//! Sixteen lanes in one AVX-512 register.

use super::Vector;
use super::bytes::Register;
use std::arch::x86_64::*;

/// Sixteen f32 lanes.
#[derive(Clone, Copy)]
pub(crate) struct Lanes(pub(crate) __m512);

/// Evaluates intrinsics that need nothing but their instructions.
macro_rules! enabled {
    ($value:expr) => {
        // SAFETY: this type is used only inside `Kernel::run` for AVX-512, where the instructions are enabled.
        unsafe { $value }
    };
}

#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

/// `[a.low + a.high, b.low + b.high]` by halves of eight lanes.
#[inline(always)]
fn fold_halves(a: __m512, b: __m512) -> __m512 {
    enabled!(_mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b)))
}

impl Vector for Lanes {
    const LANES: usize = 16;
    const TILE_ROWS: usize = 6;
    const DECODE_ROWS: usize = usize::MAX;
    type Mask = __mmask16;
    type Bytes = Register;

    #[inline(always)]
    fn splat(value: f32) -> Self {
        Self(enabled!(_mm512_set1_ps(value)))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for sixteen readable values.
        Self(unsafe { _mm512_loadu_ps(from) })
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: masked lanes are not read; the caller vouches for the others.
        Self(unsafe { _mm512_maskz_loadu_ps(first(count), from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for sixteen writable values.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: masked lanes are not written; the caller vouches for the others.
        unsafe { _mm512_mask_storeu_ps(to, first(count), self.0) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn load_f16_first(from: *const u8, count: usize) -> Self {
        // SAFETY: masked lanes are not read; the caller vouches for the others.
        Self(unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(count), from.cast())) })
    }
    #[inline(always)]
    unsafe fn load_bf16_first(from: *const u8, count: usize) -> Self {
        // SAFETY: masked lanes are not read; the caller vouches for the others.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(count), from.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn splat_f16(from: *const u8) -> Self {
        // SAFETY: the caller vouches for two readable bytes.
        unsafe { Self(_mm512_cvtph_ps(_mm256_set1_epi16(from.cast::<i16>().read_unaligned()))) }
    }
    #[inline(always)]
    unsafe fn load_f8_scaled(from: *const u8) -> Self {
        // SAFETY: the caller vouches for sixteen readable bytes.
        unsafe {
            // The sign and the exponent with seven bits of room: an f16 that counts 256 times less; then its NaN.
            let signed = _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast()));
            let half = _mm256_and_si256(_mm256_slli_epi16::<7>(signed), _mm256_set1_epi16(0xbf80_u16 as i16));
            let largest = _mm256_and_si256(half, _mm256_set1_epi16(0x3f80));
            let none = _mm256_cmpeq_epi16(largest, _mm256_set1_epi16(0x3f80));
            let half = _mm256_or_si256(half, _mm256_and_si256(none, _mm256_set1_epi16(0x7e00)));
            Self(_mm512_cvtph_ps(half))
        }
    }
    #[inline(always)]
    fn widen(bytes: Register, index: usize) -> Self {
        enabled!({
            let half = match index {
                0 => _mm256_castsi256_si128(bytes.0),
                _ => _mm256_extracti128_si256::<1>(bytes.0),
            };
            Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(half)))
        })
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(enabled!(_mm512_add_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(enabled!(_mm512_sub_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(enabled!(_mm512_mul_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self(enabled!(_mm512_div_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self(enabled!(_mm512_min_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self(enabled!(_mm512_max_ps(self.0, other.0)))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(enabled!(_mm512_sqrt_ps(self.0)))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(enabled!(_mm512_abs_ps(self.0)))
    }
    #[inline(always)]
    fn floor(self) -> Self {
        Self(enabled!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0)))
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(enabled!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)))
    }
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(enabled!(_mm512_fmadd_ps(self.0, factor.0, addend.0)))
    }
    #[inline(always)]
    fn fused(self, factor: Self, addend: Self) -> Self {
        self.mul_add(factor, addend)
    }
    #[inline(always)]
    fn less(self, other: Self) -> Self::Mask {
        enabled!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn equal(self, other: Self) -> Self::Mask {
        enabled!(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0))
    }
    #[inline(always)]
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self {
        Self(enabled!(_mm512_mask_blend_ps(mask, no.0, yes.0)))
    }
    #[inline(always)]
    fn any(mask: Self::Mask) -> bool {
        mask != 0
    }
    #[inline(always)]
    fn scale_by_power(self, power: Self) -> Self {
        Self(enabled!(_mm512_scalef_ps(self.0, power.0)))
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        enabled!({
            let mantissa = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(self.0);
            (Self(mantissa), Self(_mm512_getexp_ps(self.0)))
        })
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        enabled!({
            let eight = _mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        })
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        enabled!(_mm512_reduce_max_ps(self.0))
    }
    #[inline(always)]
    fn sum4(vectors: [Self; 4]) -> [f32; 4] {
        enabled!({
            let ab = fold_halves(vectors[0].0, vectors[1].0);
            let cd = fold_halves(vectors[2].0, vectors[3].0);
            // Quarters of four lanes: [a, b, c, d].
            let four =
                _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(ab, cd), _mm512_shuffle_f32x4::<0xdd>(ab, cd));
            let two = _mm512_add_ps(four, _mm512_permute_ps::<0b01_00_11_10>(four));
            let one = _mm512_add_ps(two, _mm512_permute_ps::<0b10_11_00_01>(two));
            let firsts = _mm512_permutexvar_ps(
                _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12),
                one,
            );
            std::mem::transmute::<__m128, [f32; 4]>(_mm512_castps512_ps128(firsts))
        })
    }
    #[inline(always)]
    fn prefetch(address: *const u8) {
        enabled!(_mm_prefetch::<_MM_HINT_T0>(address.cast()))
    }
}
