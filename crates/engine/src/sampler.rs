//! The choice of the next token.

use std::cmp::Ordering;
use std::hash::{BuildHasher, RandomState};

use crate::noise::Noise;
use crate::{PathCounts, Sampling, SamplingError};

/// How many candidates are sorted at first when top-p asks for the most likely ones; more follow as needed.
const FIRST_SORTED: usize = 128;

/// Chooses tokens. Two samplers of the same parameters and seed choose alike, whatever was asked of them before.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    seed: u64,
    candidates: Vec<Candidate>,
    penalised: Vec<f32>,
}

/// A token and its logit over the temperature.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f64,
}

impl Candidate {
    /// More likely first, the lower token on ties.
    fn order(&self, other: &Candidate) -> Ordering {
        other.logit.total_cmp(&self.logit).then(self.token.cmp(&other.token))
    }
}

/// A seed that nobody chose, from the system's randomness.
pub fn draw_seed() -> u64 {
    // The standard library seeds its hash maps from the system; the hash of nothing is then a random word. It is kept
    // below 2^53, so that every reader of JSON can hand it back unchanged.
    RandomState::new().hash_one(0u8) >> 11
}

impl Sampler {
    /// A sampler; without a seed it draws one.
    ///
    /// # Errors
    /// As [`Sampling::check`].
    pub fn new(sampling: Sampling, seed: Option<u64>) -> Result<Sampler, SamplingError> {
        sampling.check()?;
        let seed = seed.unwrap_or_else(draw_seed);
        Ok(Sampler { sampling, seed, candidates: Vec::new(), penalised: Vec::new() })
    }

    /// The seed in use, given or drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The token for `position` of choice `choice` of a request, from `logits` (`[vocabulary]`, f32, minus infinity
    /// rules a token out) and what its path holds.
    ///
    /// # Errors
    /// [`SamplingError::NotANumber`] for NaN or plus infinity, [`SamplingError::NoCandidate`] when every token is ruled
    /// out.
    pub fn sample(
        &mut self,
        logits: &[f32],
        path: &PathCounts,
        choice: u32,
        position: usize,
    ) -> Result<u32, SamplingError> {
        let mut penalised = std::mem::take(&mut self.penalised);
        let logits = if self.sampling.penalises() {
            penalised.clear();
            penalised.extend_from_slice(logits);
            penalise(&self.sampling, &mut penalised, path);
            &penalised
        } else {
            logits
        };
        let chosen = greatest(logits, position).map(|(token, value)| {
            if self.sampling.temperature == 0.0 {
                return token;
            }
            self.gather(logits, value);
            self.filter();
            let noise = Noise::at(self.seed, choice, position);
            draw(&self.candidates, noise).unwrap_or(token)
        });
        self.penalised = penalised;
        chosen
    }

    /// Every token that is not ruled out, its logit relative to the greatest, over the temperature.
    fn gather(&mut self, logits: &[f32], greatest: f32) {
        let temperature = f64::from(self.sampling.temperature);
        self.candidates.clear();
        self.candidates.extend(logits.iter().enumerate().filter(|(_, logit)| logit.is_finite()).map(
            |(token, &logit)| Candidate {
                token: token as u32,
                logit: (f64::from(logit) - f64::from(greatest)) / temperature,
            },
        ));
    }

    fn filter(&mut self) {
        let Sampling { top_k, top_p, min_p, .. } = self.sampling;
        let candidates = &mut self.candidates;
        if top_k > 0 && top_k < candidates.len() {
            candidates.select_nth_unstable_by(top_k - 1, Candidate::order);
            candidates.truncate(top_k);
        }
        if top_p < 1.0 {
            keep_most_likely(candidates, f64::from(top_p));
        }
        if min_p > 0.0 {
            // The greatest logit is zero and survives every filter.
            let least = f64::from(min_p).ln();
            candidates.retain(|candidate| candidate.logit >= least);
        }
    }
}

fn penalise(sampling: &Sampling, logits: &mut [f32], path: &PathCounts) {
    for token in path.seen() {
        if let Some(logit) = logits.get_mut(token as usize) {
            let penalty = sampling.repetition_penalty;
            *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
        }
    }
    for (token, count) in path.generated() {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit -= sampling.presence_penalty + sampling.frequency_penalty * count as f32;
        }
    }
}

/// The greatest logit, of the lowest token on ties.
pub(crate) fn greatest(logits: &[f32], position: usize) -> Result<(u32, f32), SamplingError> {
    let mut best: Option<(u32, f32)> = None;
    for (token, &value) in logits.iter().enumerate() {
        if value.is_nan() || value == f32::INFINITY {
            return Err(SamplingError::NotANumber { token, value, position });
        }
        if value > best.map_or(f32::NEG_INFINITY, |(_, greatest)| greatest) {
            best = Some((token as u32, value));
        }
    }
    best.ok_or(SamplingError::NoCandidate { position })
}

/// Keeps the fewest most likely candidates whose probabilities sum to `share` of all. Sorts no more of them than needed.
fn keep_most_likely(candidates: &mut Vec<Candidate>, share: f64) {
    let wanted = share * candidates.iter().map(|candidate| candidate.logit.exp()).sum::<f64>();
    let (mut sum, mut sorted, mut step) = (0.0, 0, FIRST_SORTED);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let next = step.min(rest.len());
        if next < rest.len() {
            rest.select_nth_unstable_by(next - 1, Candidate::order);
        }
        rest[..next].sort_unstable_by(Candidate::order);
        for (index, candidate) in rest[..next].iter().enumerate() {
            sum += candidate.logit.exp();
            if sum >= wanted {
                candidates.truncate(sorted + index + 1);
                return;
            }
        }
        sorted += next;
        step *= 8;
    }
}

fn draw(candidates: &[Candidate], noise: Noise) -> Option<u32> {
    let scored = candidates.iter().map(|candidate| Candidate {
        token: candidate.token,
        logit: candidate.logit + noise.gumbel(candidate.token),
    });
    scored.min_by(Candidate::order).map(|candidate| candidate.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling { temperature: 1.0, ..Sampling::GREEDY };

    fn sampler(sampling: Sampling, seed: u64) -> Sampler {
        Sampler::new(sampling, Some(seed)).expect("valid")
    }

    /// Relative frequencies over many positions.
    fn frequencies(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut sampler = sampler(sampling, 11);
        let mut counts = vec![0.0; logits.len()];
        for position in 0..20_000 {
            let token = sampler.sample(logits, &PathCounts::default(), 0, position).expect("finite");
            counts[token as usize] += 1.0 / 20_000.0;
        }
        counts
    }

    fn close(found: &[f64], wanted: &[f64]) {
        for (found_one, wanted_one) in found.iter().zip(wanted) {
            assert!((found_one - wanted_one).abs() < 0.015, "{found:?} is not {wanted:?}");
        }
    }

    #[test]
    fn greedy_takes_the_lowest_of_ties() {
        let mut sampler = sampler(Sampling::GREEDY, 1);
        let logits = [0.5, 2.0, f32::NEG_INFINITY, 2.0, 1.0];
        assert_eq!(sampler.sample(&logits, &PathCounts::default(), 0, 0), Ok(1));
    }

    #[test]
    fn samples_follow_the_softmax() {
        let p = [0.1f32, 0.2, 0.3, 0.4];
        let logits = p.map(f32::ln);
        close(&frequencies(PLAIN, &logits), &[0.1, 0.2, 0.3, 0.4]);
        let squares = 0.01 + 0.04 + 0.09 + 0.16;
        let sharper = Sampling { temperature: 0.5, ..PLAIN };
        close(
            &frequencies(sharper, &logits),
            &[0.01 / squares, 0.04 / squares, 0.09 / squares, 0.16 / squares],
        );
        close(&frequencies(Sampling { top_k: 2, ..PLAIN }, &logits), &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]);
        close(&frequencies(Sampling { top_p: 0.65, ..PLAIN }, &logits), &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]);
        close(&frequencies(Sampling { min_p: 0.6, ..PLAIN }, &logits), &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]);
        // Of the three that top-k leaves, the first two hold 7/9.
        let both = Sampling { top_k: 3, top_p: 0.7, ..PLAIN };
        close(&frequencies(both, &logits), &[0.0, 0.0, 3.0 / 7.0, 4.0 / 7.0]);
    }

    #[test]
    fn top_p_over_many_equal_tokens_keeps_the_lowest() {
        let mut candidates: Vec<Candidate> =
            (0..5000u32).rev().map(|token| Candidate { token, logit: 0.0 }).collect();
        keep_most_likely(&mut candidates, 0.5);
        let tokens: Vec<u32> = candidates.iter().map(|candidate| candidate.token).collect();
        assert_eq!(tokens, (0..2500).collect::<Vec<_>>());
    }

    #[test]
    fn penalties_read_the_path_alone() {
        let mut path = PathCounts::of_prompt(&[0]);
        path.push(1);
        path.push(1);
        let sampling = Sampling {
            repetition_penalty: 2.0,
            presence_penalty: 0.25,
            frequency_penalty: 0.5,
            ..Sampling::GREEDY
        };
        let mut logits = [3.0, 4.0, 1.5, -1.0];
        penalise(&sampling, &mut logits, &path);
        assert_eq!(logits, [1.5, 2.0 - 0.25 - 1.0, 1.5, -1.0]);
        let mut logits = [-3.0, 4.0, 1.0, 0.0];
        penalise(&sampling, &mut logits, &path);
        assert_eq!(logits, [-6.0, 0.75, 1.0, 0.0]);
    }

    #[test]
    fn a_choice_depends_on_its_key_and_not_on_what_was_asked_before() {
        let logits: Vec<f32> = (0..50).map(|token| (token as f32 * 0.7).sin()).collect();
        let path = PathCounts::default();
        let mut forwards = sampler(PLAIN, 5);
        let there: Vec<_> = (0..40).map(|at| forwards.sample(&logits, &path, 0, at)).collect();
        let mut backwards = sampler(PLAIN, 5);
        let mut back: Vec<_> = (0..40).rev().map(|at| backwards.sample(&logits, &path, 0, at)).collect();
        back.reverse();
        assert_eq!(there, back);
        let choice: Vec<_> = (0..40).map(|at| backwards.sample(&logits, &path, 1, at)).collect();
        assert_ne!(there, choice);
    }

    #[test]
    fn logits_that_are_no_numbers_are_errors() {
        for sampling in [Sampling::GREEDY, PLAIN] {
            let mut sampler = sampler(sampling, 1);
            let path = PathCounts::default();
            for bad in [f32::NAN, f32::INFINITY] {
                let found = sampler.sample(&[0.0, bad], &path, 0, 9);
                assert!(matches!(found, Err(SamplingError::NotANumber { token: 1, position: 9, .. })));
            }
            let none = sampler.sample(&[f32::NEG_INFINITY; 3], &path, 0, 9);
            assert_eq!(none, Err(SamplingError::NoCandidate { position: 9 }));
        }
    }
}
