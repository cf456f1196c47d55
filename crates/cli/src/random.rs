//! Numbers that a seed decides, for made-up inputs.

/// A generator of 64-bit words (SplitMix64, Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The generator of a seed and a name: inputs of one seed still differ.
    pub fn named(seed: u64, name: &str) -> Random {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random::new(Random::new(seed).word() ^ hash)
    }

    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A whole number from 0 to below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.word()) * u128::from(limit)) >> 64) as u32
    }

    /// A number of the standard normal distribution (Box and Muller 1958).
    pub fn normal(&mut self) -> f32 {
        let uniform = |word: u64| ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let radius = (-2.0 * uniform(self.word()).ln()).sqrt();
        let angle = std::f64::consts::TAU * uniform(self.word());
        (radius * angle.cos()) as f32
    }
}
