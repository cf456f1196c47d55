//! Rates and timings for people and for JSON.

use fiddlehead_engine::{Generation, GenerationTimings, LoadTimings};
use serde_json::{Value, json};

/// Tokens a second; `None` when no time passed or nothing was done.
pub fn rate(tokens: usize, seconds: f64) -> Option<f64> {
    (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds)
}

/// The timings of an answer for JSON.
pub fn timings(load: LoadTimings, answer: GenerationTimings) -> Value {
    json!({
        "load_seconds": load.load_seconds,
        "plan_seconds": load.plan_seconds,
        "prefill_tokens": answer.prefill_tokens,
        "reused_tokens": answer.reused_tokens,
        "prefill_seconds": answer.prefill_seconds,
        "prefill_tokens_per_second": rate(answer.prefill_tokens, answer.prefill_seconds),
        "decode_tokens": answer.decode_tokens,
        "decode_seconds": answer.decode_seconds,
        "decode_tokens_per_second": rate(answer.decode_tokens, answer.decode_seconds),
    })
}

/// The timings of an answer in words. The first token comes out of the prompt's run, so the rate is that of the others.
pub fn line(load: Option<LoadTimings>, generation: &Generation) -> String {
    let answer = generation.timings;
    let mut parts = Vec::new();
    if let Some(load) = load {
        parts.push(format!("load {:.2} s (plan {:.0} ms)", load.load_seconds, load.plan_seconds * 1e3));
    }
    let reused = match answer.reused_tokens {
        0 => String::new(),
        reused => format!(" after {reused} reused"),
    };
    let prefill = rated(answer.prefill_tokens, answer.prefill_seconds);
    parts.push(format!("prompt {} tokens{reused}{prefill}", answer.prefill_tokens));
    let decode = rated(answer.decode_tokens, answer.decode_seconds);
    parts.push(format!("answer {} tokens{decode}", generation.tokens.len()));
    parts.push(format!("seed {}", generation.seed));
    parts.join(" | ")
}

fn rated(tokens: usize, seconds: f64) -> String {
    match rate(tokens, seconds) {
        Some(rate) => format!(" in {seconds:.2} s ({rate:.0} tok/s)"),
        None => String::new(),
    }
}

/// The mean of samples and their standard deviation (of the sample; 0 for fewer than two).
pub fn mean_and_deviation(samples: &[f64]) -> Option<(f64, f64)> {
    if samples.is_empty() {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let freedom = (samples.len() - 1).max(1) as f64;
    Some((mean, (squares / freedom).sqrt()))
}
