//! Perplexity: how surprised a model is by a text.
//!
//! The negative logarithm of a token's probability, given the tokens before it, is averaged over a text; the perplexity
//! is the exponential of that mean. It depends on how much of the text a token is given, so [`Windows`] says it.

use std::ops::Range;

use fiddlehead_text::Specials;

use crate::{EngineError, Model, ScoredPath, score};

/// The tokens of a text that is scored from its own beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its tokens, those that the tokenizer begins every text with included.
    pub tokens: Vec<u32>,
    /// How many of them the tokenizer begins every text with. They are given and never scored, and stand before each
    /// window.
    pub beginning: usize,
}

impl Document {
    /// The tokens of a text.
    ///
    /// # Errors
    /// What the tokenizer refuses.
    pub fn new(model: &Model, text: &str, specials: Specials) -> Result<Document, EngineError> {
        let tokens = model.tokenizer().encode_prompt(text, specials)?;
        let empty = model.tokenizer().encode_prompt("", specials)?;
        // Some tokenizers end a text with a token too: what the two have in common is the beginning.
        let beginning = tokens.iter().zip(&empty).take_while(|(token, begin)| token == begin).count();
        Ok(Document { tokens, beginning })
    }

    /// How many of its tokens are scored: all that a token stands before, those of the beginning left out.
    pub fn scored(&self) -> usize {
        self.tokens.len() - self.beginning.max(1).min(self.tokens.len())
    }
}

/// How a document that is longer than a path may be is read: in windows of `context` tokens, the beginning included,
/// each `stride` after the one before. A token is scored once, in the first window that holds it behind another token, so
/// that from the second window on it has at least `context - stride` tokens before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    context: usize,
    stride: usize,
}

/// What a window holds of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    /// The tokens after the beginning.
    body: Range<usize>,
    /// The first token that is scored here.
    from: usize,
}

impl Windows {
    /// Windows of `context` tokens, each `stride` after the one before.
    ///
    /// # Errors
    /// [`EngineError::Windows`] unless `1 <= stride < context`: wider apart, a token would stand first in its window and
    /// be scored nowhere.
    pub fn new(context: usize, stride: usize) -> Result<Windows, EngineError> {
        if stride == 0 || stride >= context {
            return Err(EngineError::Windows { context, stride });
        }
        Ok(Windows { context, stride })
    }

    /// The windows of a document.
    ///
    /// # Errors
    /// [`EngineError::Windows`] when the beginning of the document leaves no room for a stride.
    fn of(self, document: &Document) -> Result<impl Iterator<Item = Window>, EngineError> {
        let Windows { context, stride } = self;
        let (length, beginning) = (document.tokens.len(), document.beginning);
        // With a beginning, the first token of the body stands behind it; without one it stands behind nothing.
        let fits = context.saturating_sub(beginning);
        if stride + usize::from(beginning == 0) > fits {
            return Err(EngineError::Windows { context: fits + usize::from(beginning > 0), stride });
        }
        let mut start = beginning;
        let mut scored = beginning.max(1);
        Ok(std::iter::from_fn(move || {
            if scored >= length {
                return None;
            }
            let body = start..(start + fits).min(length);
            let window = Window { from: scored, body: body.clone() };
            scored = body.end;
            start += stride;
            Some(window)
        }))
    }
}

/// The mean negative logarithm of probabilities, as they are added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Likelihood {
    tokens: usize,
    ruled_out: usize,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Likelihood {
    /// Adds a token by the natural logarithm of its probability.
    pub fn add(&mut self, log_probability: f64) {
        self.tokens += 1;
        if log_probability == f64::NEG_INFINITY {
            self.ruled_out += 1;
            return;
        }
        // Welford's update: no sum of large squares is subtracted from another.
        let distance = -log_probability - self.mean;
        self.mean += distance / (self.tokens - self.ruled_out) as f64;
        self.squares += distance * (-log_probability - self.mean);
    }

    /// How many tokens were added.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The mean negative logarithm, in nats a token; infinite when a token was ruled out, NaN of no token.
    pub fn mean(&self) -> f64 {
        match (self.tokens, self.ruled_out) {
            (0, _) => f64::NAN,
            (_, 0) => self.mean,
            _ => f64::INFINITY,
        }
    }

    /// The standard error of the mean when tokens are taken as independent; NaN of fewer than two tokens, or when one
    /// was ruled out.
    pub fn standard_error(&self) -> f64 {
        if self.tokens < 2 || self.ruled_out > 0 {
            return f64::NAN;
        }
        let tokens = self.tokens as f64;
        (self.squares / (tokens - 1.0) / tokens).sqrt()
    }

    /// The exponential of the mean.
    pub fn perplexity(&self) -> f64 {
        self.mean().exp()
    }

    /// The standard error of the perplexity, to first order.
    pub fn perplexity_error(&self) -> f64 {
        self.perplexity() * self.standard_error()
    }
}

/// How surprised a model is by documents, each read from its own beginning. `go_on` sees what was found so far before
/// each run; `None` comes back when it says no.
///
/// # Errors
/// A window longer than the model's context, a token that the model does not know, a logit that is no number, and what
/// the device refuses.
pub fn perplexity(
    model: &mut Model,
    documents: &[Document],
    windows: Windows,
    go_on: &mut dyn FnMut(&Likelihood) -> bool,
) -> Result<Option<Likelihood>, EngineError> {
    let mut likelihood = Likelihood::default();
    let mut path = Vec::new();
    for document in documents {
        for window in windows.of(document)? {
            path.clear();
            path.extend_from_slice(&document.tokens[..document.beginning]);
            path.extend_from_slice(&document.tokens[window.body.clone()]);
            let from = document.beginning + window.from - window.body.start;
            let scored = ScoredPath { prompt: &path, generated: &[], from };
            let before = likelihood;
            let finished = score(model, scored, &mut || go_on(&before), &mut |token| {
                likelihood.add(token.log_probability);
            })?;
            if !finished {
                return Ok(None);
            }
        }
    }
    Ok(Some(likelihood))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(length: usize, beginning: usize, context: usize, stride: usize) -> Vec<(Range<usize>, usize)> {
        let document = Document { tokens: vec![0; length], beginning };
        let windows = Windows::new(context, stride).and_then(|windows| Ok(windows.of(&document)?.collect()));
        let windows: Vec<Window> = windows.expect("windows that fit");
        windows.into_iter().map(|window| (window.body, window.from)).collect()
    }

    #[test]
    fn windows_by_example() {
        assert_eq!(windows(5, 0, 8, 4), [(0..5, 1)]);
        assert_eq!(windows(9, 0, 8, 4), [(0..8, 1), (4..9, 8)]);
        assert_eq!(windows(20, 0, 8, 7), [(0..8, 1), (7..15, 8), (14..20, 15)]);
        // The beginning takes a place of each window.
        assert_eq!(windows(5, 1, 8, 4), [(1..5, 1)]);
        assert_eq!(windows(12, 1, 4, 3), [(1..4, 1), (4..7, 4), (7..10, 7), (10..12, 10)]);
        assert_eq!(windows(9, 1, 5, 2), [(1..5, 1), (3..7, 5), (5..9, 7)]);
        for nothing in [(0, 0), (1, 0), (1, 1), (2, 2)] {
            assert_eq!(windows(nothing.0, nothing.1, 8, 4), []);
        }
    }

    #[test]
    fn every_token_is_scored_once_with_enough_before_it() {
        for (length, beginning, context) in [(2, 0, 2), (50, 0, 7), (50, 1, 7), (49, 2, 9), (1000, 1, 64)] {
            for stride in 1..context - beginning {
                let mut next = usize::max(beginning, 1);
                for (place, (body, from)) in
                    windows(length, beginning, context, stride).into_iter().enumerate()
                {
                    assert_eq!(from, next);
                    assert!(beginning + body.len() <= context && from < body.end);
                    assert!(beginning + from - body.start >= 1);
                    if place > 0 {
                        assert!(beginning + from - body.start >= context - stride);
                    }
                    next = body.end;
                }
                assert_eq!(next, length);
            }
        }
    }

    #[test]
    fn windows_that_miss_tokens_are_refused() {
        for (context, stride) in [(0, 0), (1, 1), (8, 0), (8, 8), (8, 9)] {
            assert!(matches!(Windows::new(context, stride), Err(EngineError::Windows { .. })));
        }
        let document = Document { tokens: vec![0; 9], beginning: 3 };
        assert!(Windows::new(5, 3).is_ok_and(|windows| windows.of(&document).is_err()));
        assert!(Windows::new(5, 2).is_ok_and(|windows| windows.of(&document).is_ok()));
    }

    #[test]
    fn likelihoods_by_example() {
        let mut found = Likelihood::default();
        assert!(found.mean().is_nan() && found.standard_error().is_nan());
        for probability in [0.5f64, 0.25, 0.125] {
            found.add(probability.ln());
        }
        let half = 2f64.ln();
        assert!((found.mean() - 2.0 * half).abs() < 1e-15);
        assert!((found.perplexity() - 4.0).abs() < 1e-14);
        // The sample's deviation is one halving.
        assert!((found.standard_error() - half / 3f64.sqrt()).abs() < 1e-15);
        assert!((found.perplexity_error() - 4.0 * half / 3f64.sqrt()).abs() < 1e-14);
        found.add(f64::NEG_INFINITY);
        assert_eq!((found.tokens(), found.mean(), found.perplexity()), (4, f64::INFINITY, f64::INFINITY));
        assert!(found.standard_error().is_nan());
    }
}
