//! The choice of the next token on the host.

use std::cmp::Ordering;

use super::noise::Noise;
use super::real::{ln, share_of, weight};
use super::{Chosen, PathCounts, Sampling, SamplingError};
use crate::device::{DeviceError, OutputRows, Values};

/// How many candidates are sorted at first when top-p asks for the most likely ones; more follow as needed.
const FIRST_SORTED: usize = 128;

/// How a token is chosen from a row of logits (`[vocabulary]`, f32, minus infinity rules a token out).
#[derive(Clone, Copy, Debug)]
pub struct TokenChoice<'a> {
    /// The user's parameters.
    pub sampling: Sampling,
    /// The request's seed.
    pub seed: u64,
    /// Which of a request's answers it is for.
    pub answer: u32,
    /// The absolute position on the path of the token to be chosen.
    pub position: usize,
    /// What the path holds, for penalties.
    pub path: &'a PathCounts,
}

impl TokenChoice<'_> {
    /// The noise of the candidates.
    pub fn noise(&self) -> Noise {
        Noise::at(self.seed, self.answer, self.position)
    }

    /// What min-p asks of a logit over the temperature, relative to the greatest.
    pub fn least(&self) -> f64 {
        if self.sampling.min_p > 0.0 { ln(f64::from(self.sampling.min_p)) } else { f64::NEG_INFINITY }
    }

    /// Every token that is penalised, once, with what is taken off its logit after the division or product: see
    /// [`penalised`].
    pub fn penalties(&self) -> impl Iterator<Item = (u32, f32)> + '_ {
        let Sampling { presence_penalty, frequency_penalty, .. } = self.sampling;
        let off = move |count| match count {
            0 => 0.0,
            count => presence_penalty + frequency_penalty * count as f32,
        };
        let all = self.sampling.penalises().then(|| self.path.tokens());
        all.into_iter().flatten().map(move |(token, count)| (token, off(count)))
    }
}

/// A penalised logit.
fn penalised(logit: f32, repetition: f32, off: f32) -> f32 {
    let repeated = if logit > 0.0 { logit / repetition } else { logit * repetition };
    repeated - off
}

/// Chooses tokens, one after the other. What was asked of it before changes nothing; it only keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Chooser {
    candidates: Vec<Candidate>,
    penalised: Vec<f32>,
}

/// A token that is not ruled out.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f32,
}

impl Candidate {
    /// More likely first, the lower token on ties.
    fn order(&self, other: &Candidate) -> Ordering {
        let logits = other.logit.partial_cmp(&self.logit);
        logits.unwrap_or(Ordering::Equal).then(self.token.cmp(&other.token))
    }
}

impl Chooser {
    /// The token that a choice takes from its row of logits. Penalties come first; then the temperature; then top-k,
    /// top-p and min-p, each of which leaves the first of the candidates in their order: the more likely, the lower token
    /// on ties. Of those that are left the one with the greatest sum of logit and noise is taken.
    ///
    /// # Errors
    /// [`SamplingError::NotANumber`] for NaN or plus infinity, [`SamplingError::NoCandidate`] when every token is ruled
    /// out.
    pub fn choose(&mut self, logits: &[f32], choice: &TokenChoice<'_>) -> Chosen {
        let sampling = &choice.sampling;
        let mut row = std::mem::take(&mut self.penalised);
        let logits = if sampling.penalises() {
            row.clear();
            row.extend_from_slice(logits);
            for (token, off) in choice.penalties() {
                if let Some(logit) = row.get_mut(token as usize) {
                    *logit = penalised(*logit, sampling.repetition_penalty, off);
                }
            }
            &row
        } else {
            logits
        };
        let chosen = greatest(logits, choice.position).map(|(token, greatest)| {
            if sampling.temperature == 0.0 {
                return token;
            }
            let scale = Scale { greatest: greatest.into(), temperature: sampling.temperature.into() };
            self.gather(logits);
            self.filter(sampling, scale);
            draw(&self.candidates, scale, choice.least(), choice.noise()).unwrap_or(token)
        });
        self.penalised = row;
        chosen
    }

    fn gather(&mut self, logits: &[f32]) {
        self.candidates.clear();
        let candidate = |(token, &logit): (usize, &f32)| Candidate { token: token as u32, logit };
        self.candidates
            .extend(logits.iter().enumerate().filter(|(_, logit)| logit.is_finite()).map(candidate));
    }

    /// Top-k and top-p.
    fn filter(&mut self, sampling: &Sampling, scale: Scale) {
        let candidates = &mut self.candidates;
        if sampling.top_k > 0 && sampling.top_k < candidates.len() {
            candidates.select_nth_unstable_by(sampling.top_k - 1, Candidate::order);
            candidates.truncate(sampling.top_k);
        }
        if sampling.top_p < 1.0 {
            keep_most_likely(candidates, scale, sampling.top_p.into());
        }
    }
}

/// What makes logits comparable with noise.
#[derive(Clone, Copy, Debug)]
struct Scale {
    greatest: f64,
    temperature: f64,
}

impl Scale {
    /// The logit relative to the greatest, over the temperature.
    fn of(self, candidate: &Candidate) -> f64 {
        (f64::from(candidate.logit) - self.greatest) / self.temperature
    }
}

/// The greatest logit, of the lowest token on ties.
///
/// # Errors
/// As [`Chooser::choose`].
pub fn greatest(logits: &[f32], position: usize) -> Result<(u32, f32), SamplingError> {
    // Apart in lanes, which the compiler makes vectors of: a model's row is long, and each answer looks at every one.
    const LANES: usize = 16;
    let is_bad = |value: f32| value.is_nan() || value == f32::INFINITY;
    let (mut most, mut bad) = ([f32::NEG_INFINITY; LANES], [false; LANES]);
    let (whole, rest) = logits.as_chunks::<LANES>();
    let mut last = [f32::NEG_INFINITY; LANES];
    last[..rest.len()].copy_from_slice(rest);
    for values in whole.iter().chain([&last]) {
        for lane in 0..LANES {
            most[lane] = if values[lane] > most[lane] { values[lane] } else { most[lane] };
            bad[lane] |= is_bad(values[lane]);
        }
    }
    if bad.contains(&true)
        && let Some(token) = logits.iter().position(|&value| is_bad(value))
    {
        return Err(SamplingError::NotANumber { token, value: logits[token], position });
    }
    let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let best = logits.iter().position(|&value| value == most && value != f32::NEG_INFINITY);
    best.map(|token| (token as u32, logits[token])).ok_or(SamplingError::NoCandidate { position })
}

/// Keeps the fewest most likely candidates whose weights sum to `share` of all. Sorts no more of them than needed.
fn keep_most_likely(candidates: &mut Vec<Candidate>, scale: Scale, share: f64) {
    let total = candidates.iter().map(|candidate| weight(scale.of(candidate))).sum();
    let wanted = share_of(share, total);
    let (mut sum, mut sorted, mut step) = (0, 0, FIRST_SORTED);
    while sorted < candidates.len() {
        let rest = &mut candidates[sorted..];
        let next = step.min(rest.len());
        if next < rest.len() {
            rest.select_nth_unstable_by(next - 1, Candidate::order);
        }
        rest[..next].sort_unstable_by(Candidate::order);
        for (index, candidate) in rest[..next].iter().enumerate() {
            sum += weight(scale.of(candidate));
            if sum >= wanted {
                candidates.truncate(sorted + index + 1);
                return;
            }
        }
        sorted += next;
        step *= 8;
    }
}

fn draw(candidates: &[Candidate], scale: Scale, least: f64, noise: Noise) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for candidate in candidates {
        let scaled = scale.of(candidate);
        if scaled < least {
            continue;
        }
        let score = scaled + noise.gumbel(candidate.token);
        let behind = |(best, token): (f64, u32)| score < best || (score == best && candidate.token > token);
        if !best.is_some_and(behind) {
            best = Some((score, candidate.token));
        }
    }
    best.map(|(_, token)| token)
}

/// Chooses a token from each row of an output.
///
/// # Errors
/// [`DeviceError::Input`] when there are not as many choices as rows, [`DeviceError::Unsupported`] when there is no such
/// output or it holds no f32.
pub fn choose_rows(
    outputs: &[OutputRows],
    output: usize,
    choices: &[TokenChoice<'_>],
) -> Result<Vec<Chosen>, DeviceError> {
    let rows = outputs.get(output).map(|rows| (rows.nodes.len(), &rows.values));
    let Some((count, Values::F32(values))) = rows else {
        return Err(no_logits(output));
    };
    check_choices(count, choices)?;
    let mut chooser = Chooser::default();
    let width = values.len() / count.max(1);
    Ok(values.chunks(width.max(1)).zip(choices).map(|(row, choice)| chooser.choose(row, choice)).collect())
}

/// The error of an output from which no token can be chosen.
pub(crate) fn no_logits(output: usize) -> DeviceError {
    let why = "tokens are chosen from an output of f32".into();
    DeviceError::Unsupported { what: format!("a choice from output {output}"), why }
}

/// Refuses another number of choices than of rows.
pub(crate) fn check_choices(rows: usize, choices: &[TokenChoice<'_>]) -> Result<(), DeviceError> {
    if rows != choices.len() {
        let why = format!("{} were given for {rows} wanted rows", choices.len());
        return Err(DeviceError::Input { name: "(the choices of tokens)".into(), why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Sampling = Sampling { temperature: 1.0, ..Sampling::GREEDY };

    /// The choice of answer 0 with a seed.
    fn choose(sampling: Sampling, seed: u64, logits: &[f32], path: &PathCounts, position: usize) -> Chosen {
        let choice = TokenChoice { sampling, seed, answer: 0, position, path };
        Chooser::default().choose(logits, &choice)
    }

    /// Relative frequencies over many positions.
    fn frequencies(sampling: Sampling, logits: &[f32]) -> Vec<f64> {
        let mut chooser = Chooser::default();
        let path = &PathCounts::default();
        let mut counts = vec![0.0; logits.len()];
        for position in 0..20_000 {
            let choice = TokenChoice { sampling, seed: 11, answer: 0, position, path };
            let token = chooser.choose(logits, &choice).expect("finite");
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
        let logits = [0.5, 2.0, f32::NEG_INFINITY, 2.0, 1.0];
        assert_eq!(choose(Sampling::GREEDY, 1, &logits, &PathCounts::default(), 0), Ok(1));
    }

    #[test]
    fn the_greatest_of_rows_of_any_length() {
        for length in [1, 2, 15, 16, 17, 33, 100] {
            let mut row: Vec<f32> = (0..length).map(|token| -(token as f32) / 3.0).collect();
            for place in 0..length {
                let before = std::mem::replace(&mut row[place], 5.0);
                assert_eq!(greatest(&row, 0), Ok((place as u32, 5.0)));
                row[place] = f32::NAN;
                let found = greatest(&row, 0);
                assert!(matches!(found, Err(SamplingError::NotANumber { token, .. }) if token == place));
                row[place] = before;
            }
        }
        assert_eq!(greatest(&[-0.0, 0.0], 0), Ok((0, -0.0)));
        assert_eq!(greatest(&[], 4), Err(SamplingError::NoCandidate { position: 4 }));
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
        keep_most_likely(&mut candidates, Scale { greatest: 0.0, temperature: 1.0 }, 0.5);
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
        let choice = TokenChoice { sampling, seed: 0, answer: 0, position: 0, path: &path };
        let penalise = |mut logits: [f32; 4]| {
            for (token, off) in choice.penalties() {
                logits[token as usize] = penalised(logits[token as usize], 2.0, off);
            }
            logits
        };
        assert_eq!(penalise([3.0, 4.0, 1.5, -1.0]), [1.5, 2.0 - 0.25 - 1.0, 1.5, -1.0]);
        assert_eq!(penalise([-3.0, 4.0, 1.0, 0.0]), [-6.0, 0.75, 1.0, 0.0]);
        assert_eq!(choose(sampling, 0, &[3.0, 4.0, 1.4, -1.0], &path, 0), Ok(0));
    }

    #[test]
    fn a_choice_depends_on_its_key_and_not_on_what_was_asked_before() {
        let logits: Vec<f32> = (0..50).map(|token| (token as f32 * 0.7).sin()).collect();
        let path = PathCounts::default();
        let mut chooser = Chooser::default();
        let mut at = |answer: u32, position: usize| {
            chooser.choose(&logits, &TokenChoice { sampling: PLAIN, seed: 5, answer, position, path: &path })
        };
        let there: Vec<_> = (0..40).map(|position| at(0, position)).collect();
        let mut back: Vec<_> = (0..40).rev().map(|position| at(0, position)).collect();
        back.reverse();
        assert_eq!(there, back);
        let other: Vec<_> = (0..40).map(|position| at(1, position)).collect();
        assert_ne!(there, other);
    }

    #[test]
    fn logits_that_are_no_numbers_are_errors() {
        for sampling in [Sampling::GREEDY, PLAIN] {
            let path = PathCounts::default();
            for bad in [f32::NAN, f32::INFINITY] {
                let found = choose(sampling, 1, &[0.0, bad], &path, 9);
                assert!(matches!(found, Err(SamplingError::NotANumber { token: 1, position: 9, .. })));
            }
            let none = choose(sampling, 1, &[f32::NEG_INFINITY; 3], &path, 9);
            assert_eq!(none, Err(SamplingError::NoCandidate { position: 9 }));
        }
    }
}
