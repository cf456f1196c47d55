//! Checkpoint gates: what was measured, on real checkpoints, of candidates that round operands.
//!
//! A candidate that changes rounding serves under `auto` only where a gate let it through. A gate belongs to a candidate, an
//! architecture and a storage format: the same rounding weighs differently in another model or beside coarser weights.
//! Its evidence is a checkpoint that somebody trained: texts are fed position by position, once with f32 arithmetic and
//! once with the candidate, and the two distributions over the next token are compared
//! (`cargo run --release -p fiddlehead-cli --example rounding_gate`). Gates that refused stay in the list.

use std::fmt;

use fiddlehead_storage::Format;

/// What a candidate did to a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The candidate's name.
    pub candidate: &'static str,
    /// The model's name in its program.
    pub architecture: &'static str,
    /// Formats of the weights that the candidate served in that checkpoint.
    pub formats: &'static [Format],
    /// The checkpoint.
    pub checkpoint: &'static str,
    /// Positions compared.
    pub positions: usize,
    /// Positions at which both gave the same most likely token.
    pub agreeing: usize,
    /// The mean over positions of the Kullback-Leibler divergence from the f32 distribution, in nats.
    pub mean_divergence: f64,
    /// The greatest difference, over positions that disagree, between the f32 logits of the two most likely tokens: how
    /// near a tie it was. Zero when all agree.
    pub greatest_gap: f64,
}

/// Positions that a gate needs.
const POSITIONS: usize = 500;
/// The least share of positions that agree.
const AGREEMENT: f64 = 0.99;
/// The greatest mean divergence, in nats.
const DIVERGENCE: f64 = 1e-3;
/// The greatest gap, in logits, at which a disagreement counts as a near tie.
const GAP: f64 = 0.25;

impl Gate {
    /// Whether it lets the candidate through.
    pub fn passes(&self) -> bool {
        self.positions >= POSITIONS
            && self.agreeing as f64 >= AGREEMENT * self.positions as f64
            && self.mean_divergence <= DIVERGENCE
            && self.greatest_gap <= GAP
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gate { checkpoint, positions, agreeing, mean_divergence, greatest_gap, .. } = self;
        write!(
            f,
            "{checkpoint}: {agreeing} of {positions} positions agree, mean divergence {mean_divergence:.1e} nats, \
             disagreements within {greatest_gap:.2}"
        )
    }
}

/// Every gate that was measured, with what it found.
pub const GATES: &[Gate] = &[
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q4_1, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1",
        positions: 1000,
        agreeing: 1000,
        mean_divergence: 7.2e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q8_0",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.4e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q4_0, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q4_0",
        positions: 600,
        agreeing: 600,
        mean_divergence: 8.2e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q5_0, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q5_0",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.6e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q5_1, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q5_1",
        positions: 600,
        agreeing: 600,
        mean_divergence: 8.9e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::IQ4_NL, Format::Q5_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as IQ4_NL",
        positions: 600,
        agreeing: 600,
        mean_divergence: 8.1e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q4_K, Format::Q5_0, Format::Q6_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q4_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.6e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q6_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q6_K",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.2e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q5_1, Format::Q5_K, Format::Q6_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q5_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 8.6e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::IQ4_NL, Format::IQ4_XS, Format::Q5_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as IQ4_XS",
        positions: 600,
        agreeing: 599,
        mean_divergence: 7.7e-8,
        greatest_gap: 5e-4,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q4_0, Format::Q4_K, Format::Q5_0, Format::Q5_1, Format::Q5_K, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q3_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 8.2e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "llama",
        formats: &[Format::Q3_K, Format::Q4_0, Format::Q8_0],
        checkpoint: "SmolLM2-135M-Instruct Q4_1 as Q2_K",
        positions: 600,
        agreeing: 600,
        mean_divergence: 9.7e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "gemma3",
        formats: &[Format::Q4_K, Format::Q5_0, Format::Q6_K, Format::Q8_0],
        checkpoint: "Gemma 3 270M Q4_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.4e-8,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q8_0],
        checkpoint: "stories-11m Q8_0",
        positions: 860,
        agreeing: 860,
        mean_divergence: 6.7e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q4_K, Format::Q6_K],
        checkpoint: "stories-11m Q4_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 9.8e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q5_K, Format::Q6_K],
        checkpoint: "stories-11m Q5_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 1.8e-9,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::IQ4_XS, Format::Q5_K, Format::Q6_K],
        checkpoint: "stories-11m IQ4_XS",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.1e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q3_K, Format::Q4_K, Format::Q5_K, Format::Q6_K],
        checkpoint: "stories-11m Q3_K_M",
        positions: 600,
        agreeing: 600,
        mean_divergence: 7.2e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q2_K, Format::Q3_K, Format::Q6_K],
        checkpoint: "stories-11m Q2_K",
        positions: 600,
        agreeing: 600,
        mean_divergence: 1.5e-9,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q4_0, Format::Q6_K],
        checkpoint: "stories-11m Q4_0",
        positions: 600,
        agreeing: 600,
        mean_divergence: 9.4e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q4_1, Format::Q6_K],
        checkpoint: "stories-11m Q4_1",
        positions: 600,
        agreeing: 600,
        mean_divergence: 1.0e-9,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q5_0, Format::Q6_K],
        checkpoint: "stories-11m Q5_0",
        positions: 600,
        agreeing: 600,
        mean_divergence: 5.9e-10,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::Q5_1, Format::Q6_K],
        checkpoint: "stories-11m Q5_1",
        positions: 600,
        agreeing: 600,
        mean_divergence: 1.3e-9,
        greatest_gap: 0.0,
    },
    Gate {
        candidate: "integer",
        architecture: "qwen3_5",
        formats: &[Format::IQ4_NL, Format::Q5_K, Format::Q6_K],
        checkpoint: "stories-11m IQ4_NL",
        positions: 600,
        agreeing: 600,
        mean_divergence: 5.5e-10,
        greatest_gap: 0.0,
    },
];

/// The gate that lets a candidate serve weights of a format in an architecture.
///
/// # Errors
/// The reason when none does: it was never measured, or some checkpoint's gate refused it.
pub fn gate(candidate: &str, architecture: &str, format: Format) -> Result<&'static Gate, String> {
    find(GATES, candidate, architecture, format)
}

fn find<'a>(
    gates: &'a [Gate],
    candidate: &str,
    architecture: &str,
    format: Format,
) -> Result<&'a Gate, String> {
    let mut own = gates.iter().filter(|gate| {
        gate.candidate == candidate && gate.architecture == architecture && gate.formats.contains(&format)
    });
    let Some(first) = own.next() else {
        return Err(format!("no checkpoint of `{architecture}` with {format} weights has passed its gate"));
    };
    match std::iter::once(first).chain(own).find(|gate| !gate.passes()) {
        Some(refused) => Err(format!("its gate kept it off: {refused}")),
        None => Ok(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: Gate = Gate {
        candidate: "integer",
        architecture: "made_up",
        formats: &[Format::Q8_0, Format::Q4_0],
        checkpoint: "a checkpoint",
        positions: 600,
        agreeing: 597,
        mean_divergence: 1e-4,
        greatest_gap: 0.1,
    };

    #[test]
    fn a_candidate_needs_a_gate_of_its_architecture_and_format() {
        let gates = [PASSED];
        assert_eq!(find(&gates, "integer", "made_up", Format::Q4_0), Ok(&PASSED));
        for (candidate, architecture, format) in [
            ("bf16", "made_up", Format::Q4_0),
            ("integer", "another", Format::Q4_0),
            ("integer", "made_up", Format::Q5_0),
        ] {
            let why = find(&gates, candidate, architecture, format).expect_err("never measured");
            assert!(why.contains(architecture), "{why}");
        }
    }

    #[test]
    fn what_was_measured_lets_its_checkpoints_through() {
        for own in GATES {
            for &format in own.formats {
                assert!(gate(own.candidate, own.architecture, format).is_ok(), "{own:?}, {format}");
            }
        }
    }

    #[test]
    fn one_checkpoint_that_refuses_is_enough() {
        let refusals = [
            Gate { positions: 499, agreeing: 499, ..PASSED },
            Gate { agreeing: 593, ..PASSED },
            Gate { mean_divergence: 1.1e-3, ..PASSED },
            Gate { mean_divergence: f64::NAN, ..PASSED },
            Gate { greatest_gap: 0.26, ..PASSED },
        ];
        for refused in refusals {
            assert!(!refused.passes(), "{refused:?}");
            let why = find(&[PASSED, refused], "integer", "made_up", Format::Q8_0).expect_err("refused");
            assert!(why.contains("a checkpoint"), "{why}");
        }
        assert!(PASSED.passes());
    }
}
