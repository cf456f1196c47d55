//! Scores and perplexities over a device whose logits show every mistake in a path.

mod common;

use common::{VOCABULARY, logits, model};
use fiddlehead_engine::{
    CUT, Document, EngineError, Model, SamplingError, ScoredPath, TokenScore, Windows, perplexity, score,
};
use fiddlehead_forest::Class;
use fiddlehead_text::Specials;

fn tokens(length: usize) -> Vec<u32> {
    (0..length as u32).map(|at| 300 + at * 7 % 1000).collect()
}

/// The natural logarithm of a token's probability after a path, without any of the engine.
fn log_probability(path: &[u32], token: u32) -> f64 {
    let row: Vec<f64> = logits(path).into_iter().map(f64::from).collect();
    let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
    row[token as usize] - sum.ln()
}

fn scores(model: &mut Model, path: ScoredPath<'_>) -> Vec<TokenScore> {
    let mut scores = Vec::new();
    assert!(score(model, path, &mut || true, &mut |score| scores.push(score)).expect("it scores"));
    scores
}

#[test]
fn every_position_is_scored_by_the_path_before_it() {
    let (mut model, log) = model(4096, None);
    for (prompt, generated, from) in
        [(1, 0, 0), (2, 0, 0), (1, 1, 0), (0, 3, 0), (700, 0, 0), (700, 0, 130), (65, 20, 65), (10, 5, 3)]
    {
        log.lock().expect("one thread").clear();
        let all = tokens(prompt + generated);
        let path = ScoredPath { prompt: &all[..prompt], generated: &all[prompt..], from };
        let found = scores(&mut model, path);
        let wanted: Vec<usize> = (from.max(1)..all.len()).collect();
        assert_eq!(found.iter().map(|score| score.position).collect::<Vec<_>>(), wanted);
        for score in found {
            let (before, token) = (&all[..score.position], all[score.position]);
            assert_eq!(score.token, token);
            let row = logits(before);
            let best = (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("a row") as u32;
            assert_eq!(score.best, best);
            assert!((score.log_probability - log_probability(before, token)).abs() < 1e-9);
            assert!((score.best_log_probability - log_probability(before, best)).abs() < 1e-9);
        }
        let log = log.lock().expect("one thread");
        assert_eq!(log.iter().map(|run| run.tokens).sum::<usize>(), all.len() - 1, "the last one is not run");
        for run in log.iter() {
            assert_eq!(run.class, if run.base < prompt { Class::Prompt } else { Class::Generated });
            assert!(run.class == Class::Prompt && run.base % CUT == 0 || run.tokens == 1);
        }
    }
}

#[test]
fn paths_that_cannot_be_scored() {
    let (mut model, log) = model(70, Some(12));
    let mut refused = |prompt: &[u32], generated: &[u32]| {
        let path = ScoredPath { prompt, generated, from: 0 };
        score(&mut model, path, &mut || true, &mut |_| ()).expect_err("refused")
    };
    let beyond = VOCABULARY as u32;
    for (prompt, generated) in [(&[4, beyond][..], &[][..]), (&[beyond, 4], &[]), (&[4], &[5, beyond])] {
        let error = refused(prompt, generated);
        assert!(matches!(error, EngineError::TokenOutOfVocabulary { token: 1537, vocabulary: 1537 }));
    }
    assert!(matches!(refused(&tokens(72), &[]), EngineError::PromptTooLong { tokens: 71, context: 70 }));
    let error = refused(&tokens(20), &[]);
    assert!(matches!(error, EngineError::Sampling(SamplingError::NotANumber { token: 7, position: 12, .. })));
    log.lock().expect("one thread").clear();
    // The sessions of all of them were closed: one more opens, and can be stopped.
    let path = ScoredPath { prompt: &tokens(11), generated: &[5, 6], from: 0 };
    let mut asked = 0;
    let mut twice = || {
        asked += 1;
        asked < 2
    };
    assert!(!score(&mut model, path, &mut twice, &mut |_| ()).expect("it stops"));
    assert_eq!(log.lock().expect("one thread").len(), 1);
}

#[test]
fn a_perplexity_is_the_mean_over_all_windows() {
    let (mut model, _) = model(4096, None);
    let documents: Vec<Document> =
        [300, 1, 9, 0, 64].iter().map(|&length| Document { tokens: tokens(length), beginning: 0 }).collect();
    for (context, stride) in [(512, 256), (100, 50), (64, 63), (10, 1), (2, 1)] {
        let windows = Windows::new(context, stride).expect("windows");
        let found = perplexity(&mut model, &documents, windows, &mut |_| true).expect("it runs");
        let found = found.expect("nobody stopped it");
        let mut sum = 0.0;
        let mut count = 0;
        for document in &documents {
            let tokens = &document.tokens;
            for at in 1..tokens.len() {
                // The first window that holds the token behind another one.
                let start = (0..).map(|window| window * stride).find(|start| start + context > at);
                let start = start.expect("some window holds it");
                sum -= log_probability(&tokens[start..at], tokens[at]);
                count += 1;
            }
        }
        assert_eq!(found.tokens(), count);
        assert!((found.mean() - sum / count as f64).abs() < 1e-9, "{context}, {stride}");
    }
    let windows = Windows::new(64, 32).expect("windows");
    let mut seen = Vec::new();
    let stopped = perplexity(&mut model, &documents, windows, &mut |so_far| {
        seen.push(so_far.tokens());
        seen.len() < 3
    });
    assert!(stopped.expect("no error").is_none());
    assert_eq!(seen, [0, 63, 95]);
}

#[test]
fn the_beginning_stands_before_each_window() {
    let (mut model, _) = model(4096, None);
    let document = Document { tokens: tokens(20), beginning: 1 };
    let windows = Windows::new(8, 4).expect("windows");
    let found = perplexity(&mut model, std::slice::from_ref(&document), windows, &mut |_| true);
    let found = found.expect("it runs").expect("nobody stopped it");
    let all = &document.tokens;
    let sum: f64 = (1..20)
        .map(|at| {
            let start = (0..).map(|window| 1 + window * 4).find(|start| start + 7 > at).expect("a window");
            let path = [&all[..1], &all[start..at]].concat();
            -log_probability(&path, all[at])
        })
        .sum();
    assert_eq!(found.tokens(), 19);
    assert!((found.mean() - sum / 19.0).abs() < 1e-9);
}

#[test]
fn documents_of_texts() {
    let (model, _) = model(4096, None);
    // The stories tokenizer begins a text with nothing.
    let parsed = Document::new(&model, "<|im_end|> once", Specials::Parse).expect("tokens");
    let literal = Document::new(&model, "<|im_end|> once", Specials::Literal).expect("tokens");
    assert!(parsed.beginning == 0 && parsed.tokens[0] == 2 && !literal.tokens.contains(&2));
    assert_eq!(parsed.scored(), parsed.tokens.len() - 1);
    assert_eq!(Document::default().scored(), 0);
    assert_eq!(Document { tokens: vec![1, 2, 3], beginning: 2 }.scored(), 1);
}
