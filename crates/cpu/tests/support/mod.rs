//! What the kernel tests share: seeded numbers and comparisons.
#![allow(dead_code)]

use fiddlehead_cpu::features::{Features, Isa};
use fiddlehead_storage::Format;

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

/// Every format whose blocks hold more than one number.
pub fn block_formats() -> Vec<Format> {
    Format::ALL.iter().copied().filter(|format| format.block_elements() > 1).collect()
}

/// `blocks` random blocks of ordinary scales, at an odd address: the first byte is no part of them.
pub fn stored_blocks(format: Format, blocks: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0xff];
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| random.bits() as u8).collect();
        let mut put = |at: usize, value: f32| {
            block[at..at + 2].copy_from_slice(&half::f16::from_f32(value).to_le_bytes());
        };
        let size = random.normal();
        match format {
            Format::Q4_0 | Format::Q5_0 | Format::Q8_0 | Format::IQ4_NL | Format::IQ4_XS => {
                put(0, size * 0.01);
            }
            Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => {
                put(0, size.abs() * 0.01);
                put(2, random.normal() * 0.05);
            }
            Format::Q2_K => {
                put(80, size.abs() * 0.01);
                put(82, random.normal().abs() * 0.02);
            }
            Format::Q3_K => put(108, size * 0.01),
            Format::Q6_K => put(208, size * 0.001),
            Format::F8_E4M3_128 => {
                block[..4].copy_from_slice(&(size * 0.01).to_le_bytes());
                block[4..].iter_mut().filter(|byte| **byte & 0x7f == 0x7f).for_each(|byte| *byte ^= 1);
            }
            Format::F32 => block.copy_from_slice(&size.to_le_bytes()),
            other => unreachable!("{other}"),
        }
        bytes.extend(block);
    }
    bytes
}
