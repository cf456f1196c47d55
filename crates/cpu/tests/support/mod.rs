//! What the kernel tests share: seeded numbers and comparisons.
#![allow(dead_code)]

use fiddlehead_cpu::features::{Features, Isa};

/// A small seeded generator (xorshift with a multiplier).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }

    /// Standard normal.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.uniform()).cos()) as f32
    }

    pub fn normals(&mut self, count: usize, scale: f32) -> Vec<f32> {
        (0..count).map(|_| self.normal() * scale).collect()
    }
}

/// Every family that runs on this machine.
pub fn families() -> Vec<Isa> {
    Features::detect().usable().collect()
}

/// The greatest |got - expected|, and that over the greatest |expected|. NaN anywhere gives NaN.
pub fn errors(got: &[f32], expected: &[f64]) -> (f64, f64) {
    assert_eq!(got.len(), expected.len());
    let mut worst = 0f64;
    let mut scale = 0f64;
    for (got, expected) in got.iter().zip(expected) {
        let difference = (*got as f64 - expected).abs();
        if difference.is_nan() {
            return (f64::NAN, f64::NAN);
        }
        worst = worst.max(difference);
        scale = scale.max(expected.abs());
    }
    (worst, worst / scale.max(f64::MIN_POSITIVE))
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
