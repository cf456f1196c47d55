//! The randomness of sampling.
//!
//! The noise of a candidate is a function of (seed, choice index, position, token) and of nothing else: not of how many
//! tokens were sampled before, nor of the rows beside it. A token sampled from a drafted node is therefore the token
//! that plain decoding samples, and batches, chunks and replays change nothing.

use super::real::ln;

/// The noise of every candidate at one position of one choice.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    key: u64,
}

impl Noise {
    /// `position` is the absolute position on the path of the token to be chosen.
    pub fn at(seed: u64, choice: u32, position: usize) -> Noise {
        Noise { key: mix(mix(mix(seed) ^ u64::from(choice)) ^ position as u64) }
    }

    /// A uniform number strictly between zero and one.
    pub fn uniform(self, token: u32) -> f64 {
        // One bit fewer than f64 holds, so that the half is exact and the greatest stays below one.
        let bits = mix(self.key ^ u64::from(token)) >> 12;
        (bits as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }

    /// A number of the standard Gumbel distribution: the greatest of `logit + gumbel` is a sample of the softmax.
    /// It is below 37.
    pub fn gumbel(self, token: u32) -> f64 {
        -ln(-ln(self.uniform(token)))
    }

    /// What the noise of each token is mixed from.
    pub fn key(self) -> u64 {
        self.key
    }
}

/// A bijection of 64-bit words that spreads every bit (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_numbers_are_uniform_along_each_key() {
        for vary in 0..4u64 {
            let mut cells = [0u32; 16];
            for n in 0..16_000u64 {
                let key = |which: u64| if which == vary { n } else { 7 };
                let noise = Noise::at(key(0), key(1) as u32, key(2) as usize);
                let value = noise.uniform(key(3) as u32);
                assert!(value > 0.0 && value < 1.0);
                cells[(value * 16.0) as usize] += 1;
            }
            // A thousand each is expected; six standard deviations are about 184.
            assert!(cells.iter().all(|&count| count.abs_diff(1000) < 184), "key {vary}: {cells:?}");
        }
    }
}
