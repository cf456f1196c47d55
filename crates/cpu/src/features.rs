//! Which vector instructions the running *system* lets us use.
//!
//! A processor may list an instruction set that the operating system has not enabled: its registers are then not
//! saved across context switches and using it faults. The enabled state is in XCR0, read by XGETBV.
//! `std::is_x86_feature_detected!` combines CPUID with XCR0 for AVX and AVX-512 (a test below compares it with our
//! own reading), so it is the only source used here. AMX is deliberately not offered: it needs a permission request
//! on top of XCR0, and a compiler's "native" setting trusts CPUID alone and faults where the system disables it.

/// The family of vector instructions a kernel runs with.
///
/// Ordered: a later one includes the earlier ones. Each family has its own rounding; two runs agree in their bits
/// only when they use the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Portable Rust, no fused multiply-add. The reference of this device.
    Plain,
    /// AVX2, FMA and F16C: 8 lanes.
    Avx2,
    /// AVX-512 F, BW, DQ and VL: 16 lanes.
    Avx512,
}

/// What the system enables, read once by [`Features::detect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The widest family that may run.
    pub isa: Isa,
    /// AVX-512 VNNI: byte dot products with 32-bit sums.
    pub avx512_vnni: bool,
    /// AVX-512 BF16: bf16 dot products with f32 sums.
    pub avx512_bf16: bool,
}

impl Features {
    /// Asks the processor and the system.
    #[cfg(target_arch = "x86_64")]
    pub fn detect() -> Self {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let avx512 = avx2
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let isa = match (avx512, avx2) {
            (true, _) => Isa::Avx512,
            (false, true) => Isa::Avx2,
            (false, false) => Isa::Plain,
        };
        Self {
            isa,
            avx512_vnni: avx512 && is_x86_feature_detected!("avx512vnni"),
            avx512_bf16: avx512 && is_x86_feature_detected!("avx512bf16"),
        }
    }

    /// Only the portable family is known for this architecture.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn detect() -> Self {
        Self { isa: Isa::Plain, avx512_vnni: false, avx512_bf16: false }
    }

    /// The same machine restricted to at most `isa`; extras that need a wider family are dropped.
    ///
    /// ```
    /// use fiddlehead_cpu::features::{Features, Isa};
    /// let plain = Features::detect().at_most(Isa::Plain);
    /// assert_eq!(plain.isa, Isa::Plain);
    /// assert!(!plain.avx512_bf16);
    /// ```
    pub fn at_most(self, isa: Isa) -> Self {
        let isa = self.isa.min(isa);
        let wide = isa == Isa::Avx512;
        Self { isa, avx512_vnni: self.avx512_vnni && wide, avx512_bf16: self.avx512_bf16 && wide }
    }

    /// Every family that may run here, narrowest first.
    pub fn usable(self) -> impl Iterator<Item = Isa> {
        [Isa::Plain, Isa::Avx2, Isa::Avx512].into_iter().filter(move |isa| *isa <= self.isa)
    }
}

impl Isa {
    /// This family, or the widest the system enables when that is narrower. Cheap: std caches the reading.
    pub fn allowed(self) -> Self {
        self.min(Features::detect().isa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The detection must agree with XCR0 read by hand: YMM state is bits 1–2, ZMM and mask state bits 5–7.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_family_is_offered_only_if_the_system_saves_its_registers() {
        use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

        #[target_feature(enable = "xsave")]
        fn enabled_state() -> u64 {
            // SAFETY: the caller has checked OSXSAVE, so XGETBV is executable and register 0 exists.
            unsafe { _xgetbv(0) }
        }

        let leaf_1 = __cpuid(1);
        let osxsave = leaf_1.ecx >> 27 & 1 == 1;
        // SAFETY: OSXSAVE says that the system has enabled XGETBV.
        let state = if osxsave { unsafe { enabled_state() } } else { 0 };
        let leaf_7 = __cpuid_count(7, 0);
        let ymm_saved = state & 0b110 == 0b110;
        let zmm_saved = state & 0b1110_0110 == 0b1110_0110;
        let avx2 = leaf_7.ebx >> 5 & 1 == 1 && leaf_1.ecx >> 12 & 1 == 1 && leaf_1.ecx >> 29 & 1 == 1;
        let avx512 = [16, 17, 30, 31].iter().all(|bit| leaf_7.ebx >> bit & 1 == 1);
        let expected = match (avx512 && avx2 && zmm_saved, avx2 && ymm_saved) {
            (true, _) => Isa::Avx512,
            (false, true) => Isa::Avx2,
            _ => Isa::Plain,
        };
        assert_eq!(Features::detect().isa, expected);
    }

    #[test]
    fn restricting_never_widens() {
        let detected = Features::detect();
        for isa in [Isa::Plain, Isa::Avx2, Isa::Avx512] {
            let restricted = detected.at_most(isa);
            assert!(restricted.isa <= isa && restricted.isa <= detected.isa);
            assert!(isa.allowed() <= detected.isa);
        }
        assert_eq!(detected.usable().last(), Some(detected.isa));
    }
}
