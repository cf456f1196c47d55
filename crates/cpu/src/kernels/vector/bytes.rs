//! Thirty-two bytes side by side: the stored numbers of a weight's blocks while they are unpacked.

/// Thirty-two bytes. Shifts stay inside each byte.
pub(crate) trait Bytes32: Copy {
    /// # Safety
    /// 32 bytes are readable at `from`.
    unsafe fn load(from: *const u8) -> Self;
    /// The low nibbles of sixteen bytes, then their high ones.
    /// # Safety
    /// 16 bytes are readable at `from`.
    unsafe fn load_nibbles(from: *const u8) -> Self;
    /// Four groups of eight bytes, each least significant byte first.
    fn of_words(words: [u64; 4]) -> Self;
    fn splat(value: u8) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// The wrapping difference.
    fn sub(self, other: Self) -> Self;
    /// Zeros come in; `count < 8`.
    fn shift_right(self, count: usize) -> Self;
    /// Zeros come in; `count < 8`.
    fn shift_left(self, count: usize) -> Self;
    /// `table[byte]` for bytes below 16.
    fn look_up(self, table: &[i8; 16]) -> Self;
    /// Byte `i` is 255 where bit `i` is set, else 0.
    fn spread(bits: u32) -> Self;
}

/// The portable form.
#[derive(Clone, Copy)]
pub(crate) struct Array([u8; 32]);

impl Array {
    /// Byte `index`, signed.
    #[inline(always)]
    pub(crate) fn signed(self, index: usize) -> i8 {
        self.0[index] as i8
    }

    #[inline(always)]
    fn zip(self, other: Self, operation: impl Fn(u8, u8) -> u8) -> Self {
        Self(std::array::from_fn(|at| operation(self.0[at], other.0[at])))
    }
}

impl Bytes32 for Array {
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 32 readable bytes.
        Self(unsafe { from.cast::<[u8; 32]>().read() })
    }
    #[inline(always)]
    unsafe fn load_nibbles(from: *const u8) -> Self {
        // SAFETY: the caller vouches for 16 readable bytes.
        let packed = unsafe { from.cast::<[u8; 16]>().read() };
        Self(std::array::from_fn(|at| if at < 16 { packed[at] & 15 } else { packed[at - 16] >> 4 }))
    }
    #[inline(always)]
    fn of_words(words: [u64; 4]) -> Self {
        Self(std::array::from_fn(|at| (words[at / 8] >> (at % 8 * 8)) as u8))
    }
    #[inline(always)]
    fn splat(value: u8) -> Self {
        Self([value; 32])
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, u8::wrapping_sub)
    }
    #[inline(always)]
    fn shift_right(self, count: usize) -> Self {
        Self(self.0.map(|byte| byte >> count))
    }
    #[inline(always)]
    fn shift_left(self, count: usize) -> Self {
        Self(self.0.map(|byte| byte << count))
    }
    #[inline(always)]
    fn look_up(self, table: &[i8; 16]) -> Self {
        Self(self.0.map(|byte| table[usize::from(byte & 15)] as u8))
    }
    #[inline(always)]
    fn spread(bits: u32) -> Self {
        Self(std::array::from_fn(|at| if bits >> at & 1 == 1 { 255 } else { 0 }))
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use register::Register;

#[cfg(target_arch = "x86_64")]
mod register {
    use super::Bytes32;
    use std::arch::x86_64::*;

    /// One AVX2 register, which the AVX-512 family uses too.
    #[derive(Clone, Copy)]
    pub(crate) struct Register(pub(crate) __m256i);

    /// Evaluates intrinsics that need nothing but their instructions.
    macro_rules! enabled {
        ($value:expr) => {
            // SAFETY: this type is used only inside `Kernel::run` for AVX2 or AVX-512, where AVX2 is enabled.
            unsafe { $value }
        };
    }

    impl Bytes32 for Register {
        #[inline(always)]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller vouches for 32 readable bytes.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }
        #[inline(always)]
        unsafe fn load_nibbles(from: *const u8) -> Self {
            // SAFETY: the caller vouches for 16 readable bytes.
            unsafe {
                let packed = _mm_loadu_si128(from.cast());
                let both = _mm256_set_m128i(_mm_srli_epi16::<4>(packed), packed);
                Self(_mm256_and_si256(both, _mm256_set1_epi8(15)))
            }
        }
        #[inline(always)]
        fn of_words(words: [u64; 4]) -> Self {
            let [a, b, c, d] = words.map(|word| word as i64);
            Self(enabled!(_mm256_set_epi64x(d, c, b, a)))
        }
        #[inline(always)]
        fn splat(value: u8) -> Self {
            Self(enabled!(_mm256_set1_epi8(value as i8)))
        }
        #[inline(always)]
        fn and(self, other: Self) -> Self {
            Self(enabled!(_mm256_and_si256(self.0, other.0)))
        }
        #[inline(always)]
        fn or(self, other: Self) -> Self {
            Self(enabled!(_mm256_or_si256(self.0, other.0)))
        }
        #[inline(always)]
        fn sub(self, other: Self) -> Self {
            Self(enabled!(_mm256_sub_epi8(self.0, other.0)))
        }
        #[inline(always)]
        fn shift_right(self, count: usize) -> Self {
            enabled!({
                let shifted = _mm256_srl_epi16(self.0, _mm_cvtsi32_si128(count as i32));
                Self(_mm256_and_si256(shifted, _mm256_set1_epi8((255u8 >> count) as i8)))
            })
        }
        #[inline(always)]
        fn shift_left(self, count: usize) -> Self {
            enabled!({
                let shifted = _mm256_sll_epi16(self.0, _mm_cvtsi32_si128(count as i32));
                Self(_mm256_and_si256(shifted, _mm256_set1_epi8((255u8 << count) as i8)))
            })
        }
        #[inline(always)]
        fn look_up(self, table: &[i8; 16]) -> Self {
            enabled!({
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                Self(_mm256_shuffle_epi8(table, self.0))
            })
        }
        #[inline(always)]
        fn spread(bits: u32) -> Self {
            enabled!({
                let bytes =
                    _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
                let own = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), bytes);
                let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
                Self(_mm256_cmpeq_epi8(_mm256_and_si256(own, bit), bit))
            })
        }
    }
}
