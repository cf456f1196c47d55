//! What a user may say about sampling.

use super::SamplingError;

/// How the next token is chosen from the logits. Applied in this order: penalties, temperature, top-k, top-p, min-p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by this; at 0 the greatest logit wins (the lowest token on ties) and the filters are moot.
    pub temperature: f32,
    /// Only this many of the most likely tokens stay; 0 keeps all.
    pub top_k: usize,
    /// Only the most likely tokens stay whose probabilities, of what top-k left, first reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Only tokens stay that are at least this fraction as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Logits of tokens on the path (the prompt's too) are divided by this where positive, multiplied where negative;
    /// 1 changes nothing (Keskar et al. 2019).
    pub repetition_penalty: f32,
    /// Taken off the logit of every token that was generated before.
    pub presence_penalty: f32,
    /// Taken off the logit of a token for each time it was generated before.
    pub frequency_penalty: f32,
}

impl Sampling {
    /// The most likely token, always.
    pub const GREEDY: Sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
    };

    /// Checks every parameter's range.
    ///
    /// # Errors
    /// [`SamplingError::Parameter`], with the first parameter that is out of its range and what it may be.
    pub fn check(&self) -> Result<(), SamplingError> {
        let rules = [
            ("temperature", self.temperature, (0.0..=100.0).contains(&self.temperature), "from 0 to 100"),
            ("top_p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0, at most 1"),
            ("min_p", self.min_p, (0.0..=1.0).contains(&self.min_p), "from 0 to 1"),
            (
                "repetition_penalty",
                self.repetition_penalty,
                self.repetition_penalty > 0.0 && self.repetition_penalty <= 100.0,
                "above 0, at most 100",
            ),
            (
                "presence_penalty",
                self.presence_penalty,
                (-2.0..=2.0).contains(&self.presence_penalty),
                "from -2 to 2",
            ),
            (
                "frequency_penalty",
                self.frequency_penalty,
                (-2.0..=2.0).contains(&self.frequency_penalty),
                "from -2 to 2",
            ),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((name, value, _, allowed)) => Err(SamplingError::Parameter { name, value, allowed }),
            None => Ok(()),
        }
    }

    /// Whether the path changes the logits.
    pub fn penalises(&self) -> bool {
        self.repetition_penalty != 1.0 || self.presence_penalty != 0.0 || self.frequency_penalty != 0.0
    }
}

impl Default for Sampling {
    /// For a model that says nothing itself: temperature 0.7 with min-p 0.05.
    fn default() -> Sampling {
        Sampling { temperature: 0.7, min_p: 0.05, ..Sampling::GREEDY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let base = Sampling::default();
        assert_eq!(base.check(), Ok(()));
        for (name, sampling) in [
            ("temperature", Sampling { temperature: -0.1, ..base }),
            ("temperature", Sampling { temperature: f32::NAN, ..base }),
            ("temperature", Sampling { temperature: f32::INFINITY, ..base }),
            ("top_p", Sampling { top_p: 0.0, ..base }),
            ("top_p", Sampling { top_p: 1.5, ..base }),
            ("min_p", Sampling { min_p: -1.0, ..base }),
            ("repetition_penalty", Sampling { repetition_penalty: 0.0, ..base }),
            ("presence_penalty", Sampling { presence_penalty: 3.0, ..base }),
            ("frequency_penalty", Sampling { frequency_penalty: f32::NAN, ..base }),
        ] {
            let Err(SamplingError::Parameter { name: found, .. }) = sampling.check() else {
                panic!("{name} was not refused");
            };
            assert_eq!(found, name);
        }
    }
}
