//! `fiddlehead score`: what a model says of tokens that somebody else chose.

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, Result, anyhow};
use fiddlehead_engine::{EngineError, Model, Reference, ScoredPath, TokenScore, score as score_path};
use serde_json::{Value, json};

use crate::arguments::ScoreArguments;
use crate::failure::INTERRUPTED;
use crate::token_files::{Sequence, sequences};
use crate::{device, files, interrupt, output};

/// How far the reference interpreter's most likely token leads over two others, in logits.
#[derive(Clone, Copy, Debug)]
struct Leads {
    over_given: f64,
    over_best: f64,
}

/// What was found of a sequence.
struct Scored {
    sequence: Sequence,
    scores: Vec<TokenScore>,
    /// One for each disagreement, in order, where they were asked for.
    leads: Vec<Leads>,
}

impl Scored {
    fn disagreements(&self) -> impl Iterator<Item = &TokenScore> {
        self.scores.iter().filter(|score| score.best != score.token)
    }

    /// The token's place among those after the prompt.
    fn place(&self, score: &TokenScore) -> usize {
        score.position - self.sequence.prompt.len()
    }
}

/// Scores the tokens of a file.
///
/// # Errors
/// A file that cannot be read or holds no tokens, and whatever keeps the model from loading or running.
pub fn score(arguments: &ScoreArguments) -> Result<ExitCode> {
    let name = arguments.tokens.display();
    let sequences = read(arguments).with_context(|| name.to_string())?;
    let cancel = interrupt::catch()?;
    let load = if arguments.json { device::load_quietly } else { device::load };
    let mut model = load(&arguments.model, &arguments.device)?;
    let mut scored = Vec::new();
    for sequence in sequences {
        let found = score_sequence(&mut model, sequence, &cancel)?;
        let Some(found) = found else { return Ok(ExitCode::from(INTERRUPTED)) };
        scored.push(found);
    }
    if scored.iter().all(|sequence| sequence.scores.is_empty()) {
        return Err(anyhow!("{name}: no token of it follows another one, so there is nothing to score"));
    }
    let disagrees = |sequence: &Scored| sequence.disagreements().next().is_some();
    if arguments.reference && scored.iter().any(disagrees) {
        let reference = Reference::load(device::source(arguments.model.model.as_deref()))?;
        measure_leads(&reference, &mut scored, device::threads(&arguments.device), &cancel)?;
        if cancel.load(Ordering::Relaxed) {
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
    match arguments.json {
        true => output::print_line(&json(arguments, &scored).to_string())?,
        false => output::print(&words(&model, &scored))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(arguments: &ScoreArguments) -> Result<Vec<Sequence>> {
    let bytes = files::read_text(&arguments.tokens)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| anyhow!("byte {} is no UTF-8 text", error.utf8_error().valid_up_to()))?;
    sequences(&text)
}

/// `None` when it was interrupted.
fn score_sequence(model: &mut Model, sequence: Sequence, cancel: &AtomicBool) -> Result<Option<Scored>> {
    let mut scores = Vec::with_capacity(sequence.tokens.len());
    let path = ScoredPath {
        prompt: &sequence.prompt,
        generated: &sequence.tokens,
        from: sequence.prompt.len().max(1),
    };
    let go_on = &mut || !cancel.load(Ordering::Relaxed);
    let finished = score_path(model, path, go_on, &mut |score| scores.push(score))?;
    Ok(finished.then_some(Scored { sequence, scores, leads: Vec::new() }))
}

/// Measures the disagreements of each sequence, a sequence a thread: the interpreter uses one.
fn measure_leads(
    reference: &Reference,
    scored: &mut [Scored],
    threads: usize,
    cancel: &AtomicBool,
) -> Result<(), EngineError> {
    let next = AtomicUsize::new(0);
    let work: Vec<Mutex<&mut Scored>> = scored.iter_mut().map(Mutex::new).collect();
    let worker = || -> Result<(), EngineError> {
        while let Some(sequence) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            // Each is taken once, so nobody waits and nothing is poisoned.
            let mut sequence = sequence.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            sequence.leads = leads(reference, &sequence)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(work.len())).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn leads(reference: &Reference, scored: &Scored) -> Result<Vec<Leads>, EngineError> {
    let tokens: Vec<u32> = scored.sequence.prompt.iter().chain(&scored.sequence.tokens).copied().collect();
    let places: Vec<usize> = scored.disagreements().map(|score| score.position - 1).collect();
    let rows = reference.logits(&tokens, &places)?;
    let lead = |(row, score): (&Vec<f64>, &TokenScore)| {
        let greatest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Leads {
            over_given: greatest - row[score.token as usize],
            over_best: greatest - row[score.best as usize],
        }
    };
    Ok(rows.iter().zip(scored.disagreements()).map(lead).collect())
}

fn totals(scored: &[Scored]) -> (usize, usize) {
    let positions = scored.iter().map(|sequence| sequence.scores.len()).sum();
    let disagreeing: usize = scored.iter().map(|sequence| sequence.disagreements().count()).sum();
    (positions, positions - disagreeing)
}

fn json(arguments: &ScoreArguments, scored: &[Scored]) -> Value {
    let (positions, agreeing) = totals(scored);
    let sequence = |scored: &Scored| {
        let disagreement = |(number, score): (usize, &TokenScore)| {
            let leads = scored.leads.get(number);
            json!({
                "place": scored.place(score),
                "token": score.token,
                "best": score.best,
                "lead": score.best_log_probability - score.log_probability,
                "reference_lead_over_token": leads.map(|leads| leads.over_given),
                "reference_lead_over_best": leads.map(|leads| leads.over_best),
            })
        };
        json!({
            "positions": scored.scores.len(),
            "log_probabilities": scored.scores.iter().map(|score| score.log_probability).collect::<Vec<_>>(),
            "best": scored.scores.iter().map(|score| score.best).collect::<Vec<_>>(),
            "disagreements": scored.disagreements().enumerate().map(disagreement).collect::<Vec<_>>(),
        })
    };
    json!({
        "model": device::name(arguments.model.model.as_deref()),
        "numerics": arguments.device.numerics.to_string(),
        "positions": positions,
        "agreeing": agreeing,
        "agreement": agreeing as f64 / positions as f64,
        "sequences": scored.iter().map(sequence).collect::<Vec<_>>(),
    })
}

fn words(model: &Model, scored: &[Scored]) -> String {
    let mut text = String::new();
    for (place, sequence) in scored.iter().enumerate() {
        let count = sequence.scores.len();
        let mean = sequence.scores.iter().map(|score| score.log_probability).sum::<f64>() / count as f64;
        let agreeing = count - sequence.disagreements().count();
        let number = place + 1;
        let mean = if count == 0 { String::new() } else { format!(", mean log-probability {mean:.4}") };
        let _ =
            writeln!(text, "sequence {number}: the most likely token at {agreeing} of {count} places{mean}");
        for (number, score) in sequence.disagreements().enumerate() {
            let shown = |token: u32| format!("{token} {:?}", model.tokenizer().decode(&[token], false));
            let reference = sequence.leads.get(number).map(|leads| {
                let (best, given) = (leads.over_best, leads.over_given);
                format!("; the reference's best leads by {best:.4} over it, by {given:.4} over the given one")
            });
            let _ = writeln!(
                text,
                "  place {}: {} is given, {} leads by {:.4}{}",
                sequence.place(score),
                shown(score.token),
                shown(score.best),
                score.best_log_probability - score.log_probability,
                reference.unwrap_or_default(),
            );
        }
    }
    let (positions, agreeing) = totals(scored);
    let percent = 100.0 * agreeing as f64 / positions as f64;
    let _ = writeln!(text, "\nall: {agreeing} of {positions} places ({percent:.2}%)");
    text
}
