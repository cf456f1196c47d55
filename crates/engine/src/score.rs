//! How likely a model finds the tokens of a path, each given those before it.

use fiddlehead_plan::sampling::greatest;

use crate::{EngineError, Model, Session};

/// A path whose tokens are scored.
#[derive(Clone, Copy, Debug)]
pub struct ScoredPath<'a> {
    /// Tokens that are read as a prompt is, many in one run.
    pub prompt: &'a [u32],
    /// Tokens after it that are read as an answer is, one in a run.
    pub generated: &'a [u32],
    /// The first position whose token is scored. That of position 0 follows nothing and never is.
    pub from: usize,
}

/// What a model says of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenScore {
    /// Where the token stands on the path.
    pub position: usize,
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability given the tokens before it; minus infinity for a token that is ruled
    /// out.
    pub log_probability: f64,
    /// The most likely token there, the lowest on ties.
    pub best: u32,
    /// The natural logarithm of the probability of `best`.
    pub best_log_probability: f64,
}

/// Scores the tokens of a path in a session of its own. `go_on` is asked before each run; `false` comes back when it
/// says no. The last token is not run: nothing follows it.
///
/// # Errors
/// A token that the model does not know, a path beyond the context, a logit that is no number, and what the device
/// refuses.
pub fn score(
    model: &mut Model,
    path: ScoredPath<'_>,
    go_on: &mut dyn FnMut() -> bool,
    visit: &mut dyn FnMut(TokenScore),
) -> Result<bool, EngineError> {
    let mut session = Session::open(model)?;
    let scored = score_in(&mut session, model, path, go_on, visit);
    session.close(model)?;
    scored
}

fn score_in(
    session: &mut Session,
    model: &mut Model,
    path: ScoredPath<'_>,
    go_on: &mut dyn FnMut() -> bool,
    visit: &mut dyn FnMut(TokenScore),
) -> Result<bool, EngineError> {
    let token_at = |position: usize| match path.prompt.get(position) {
        Some(&token) => Some(token),
        None => path.generated.get(position - path.prompt.len()).copied(),
    };
    let mut row_after = |place: usize, row: &[f32]| {
        let position = place + 1;
        if let Some(token) = token_at(position).filter(|_| position >= path.from) {
            visit(token_score(position, token, row)?);
        }
        Ok(())
    };
    // The last token is run by nobody, so it is looked at here.
    let vocabulary = model.interface().vocabulary();
    let last = path.generated.last().or(path.prompt.last());
    if let Some(&token) = last.filter(|&&token| token as usize >= vocabulary) {
        return Err(EngineError::TokenOutOfVocabulary { token, vocabulary });
    }
    let prompt = match path.generated {
        [] => &path.prompt[..path.prompt.len().saturating_sub(1)],
        _ => path.prompt,
    };
    if !session.visit_prompt(model, prompt, path.from.saturating_sub(1), go_on, &mut row_after)? {
        return Ok(false);
    }
    for &token in &path.generated[..path.generated.len().saturating_sub(1)] {
        if !go_on() {
            return Ok(false);
        }
        let row = session.step(model, token)?;
        row_after(session.path().len() - 1, &row)?;
    }
    Ok(true)
}

/// The score of a token from the logits, `[vocabulary]`, of the row before it. Summed in f64.
fn token_score(position: usize, token: u32, logits: &[f32]) -> Result<TokenScore, EngineError> {
    let (best, greatest) = greatest(logits, position)?;
    let greatest = f64::from(greatest);
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - greatest).exp()).sum();
    let log_probability = |token: u32| f64::from(logits[token as usize]) - greatest - sum.ln();
    Ok(TokenScore {
        position,
        token,
        log_probability: log_probability(token),
        best,
        best_log_probability: log_probability(best),
    })
}
