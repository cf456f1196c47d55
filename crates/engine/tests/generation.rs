//! Generation over a device whose logits show every mistake in a path.

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Run, VOCABULARY, logits, model, model_that_ends_at};
use fiddlehead_engine::{
    CUT, EngineError, FinishReason, Generation, Generator, Model, Request, Sampling, SamplingError,
};
use fiddlehead_forest::Class;

fn request(prompt: &[u32], max_tokens: usize) -> Request {
    Request {
        prompt: prompt.to_vec(),
        sampling: Sampling::GREEDY,
        seed: Some(3),
        max_tokens: Some(max_tokens),
        stops: Vec::new(),
    }
}

fn generate(model: &mut Model, generator: &mut Generator, request: &Request) -> Generation {
    let mut shown = String::new();
    let cancel = AtomicBool::new(false);
    let answer = generator
        .generate(model, request, &cancel, &mut |text| {
            shown += text;
            ControlFlow::Continue(())
        })
        .expect("it answers");
    assert_eq!(shown, answer.text, "what was streamed is the text");
    answer
}

/// What greedy decoding must give, without any of the engine.
fn greedy(prompt: &[u32], count: usize) -> Vec<u32> {
    let mut path = prompt.to_vec();
    for _ in 0..count {
        let row = logits(&path);
        let mut best = 0;
        for (token, value) in row.iter().enumerate() {
            if *value > row[best] {
                best = token;
            }
        }
        path.push(best as u32);
    }
    path.split_off(prompt.len())
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|at| 300 + at * 7 % 1000).collect()
}

#[test]
fn greedy_tokens_follow_the_path() {
    let (mut model, log) = model(4096, None);
    let mut generator = Generator::new(&mut model, 0).expect("opens");
    for length in [1, 63, 64, 65, 700] {
        log.lock().expect("one thread").clear();
        let prompt = prompt(length);
        let answer = generate(&mut model, &mut generator, &request(&prompt, 20));
        assert_eq!(answer.tokens, greedy(&prompt, 20));
        assert_eq!(answer.finish_reason, FinishReason::Length);
        assert_eq!((answer.timings.prefill_tokens, answer.timings.decode_tokens), (length, 19));
        let log = log.lock().expect("one thread");
        let (prompts, steps): (Vec<&Run>, Vec<&Run>) = log.iter().partition(|run| run.class == Class::Prompt);
        assert!(prompts.iter().all(|run| run.base % CUT == 0));
        assert_eq!(prompts.iter().map(|run| run.wanted).rev().position(|wanted| wanted), Some(0));
        assert_eq!(prompts.iter().filter(|run| run.wanted).count(), 1);
        assert!(steps.len() == 19 && steps.iter().all(|run| run.tokens == 1 && run.wanted));
    }
}

#[test]
fn a_later_prompt_goes_on_from_the_longest_kept_path() {
    let (mut model, _) = model(4096, None);
    let mut generator = Generator::new(&mut model, 1 << 20).expect("opens");
    let first = prompt(200);
    let answer = generate(&mut model, &mut generator, &request(&first, 10));
    // The conversation goes on after the answer, of which the last token was never run.
    let mut second = first.clone();
    second.extend(&answer.tokens);
    second.extend(prompt(90));
    let again = generate(&mut model, &mut generator, &request(&second, 10));
    assert_eq!(again.timings.reused_tokens, 209);
    assert_eq!(again.tokens, greedy(&second, 10));
    // Another conversation shares the beginning up to the last cut of the first prompt.
    let mut other = first[..195].to_vec();
    other.extend([5, 6, 7]);
    let answer = generate(&mut model, &mut generator, &request(&other, 10));
    assert_eq!(answer.timings.reused_tokens, 192);
    assert_eq!(answer.tokens, greedy(&other, 10));
    // The very same prompt must run at least one token for its logits.
    let answer = generate(&mut model, &mut generator, &request(&first, 10));
    assert_eq!(answer.timings.reused_tokens, 192);
    assert_eq!(answer.tokens, greedy(&first, 10));
    generator.forget();
    let cold = generate(&mut model, &mut generator, &request(&first, 10));
    assert_eq!((cold.timings.reused_tokens, cold.tokens), (0, answer.tokens));
}

#[test]
fn a_seed_decides_and_a_drawn_seed_is_told() {
    let (mut model, _) = model(4096, None);
    let mut generator = Generator::new(&mut model, 1 << 20).expect("opens");
    let sampling = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    let unseeded = Request { sampling, seed: None, ..request(&prompt(70), 30) };
    let first = generate(&mut model, &mut generator, &unseeded);
    let other = generate(&mut model, &mut generator, &unseeded);
    assert_ne!(first.tokens, other.tokens);
    let seeded = Request { seed: Some(first.seed), ..unseeded };
    assert_eq!(generate(&mut model, &mut generator, &seeded).tokens, first.tokens);
}

#[test]
fn stop_strings_and_end_tokens_end_the_answer() {
    let (mut model, _) = model(4096, None);
    let mut generator = Generator::new(&mut model, 0).expect("opens");
    let whole = generate(&mut model, &mut generator, &request(&prompt(9), 40));
    let middle: Vec<char> = whole.text.chars().skip(20).take(3).collect();
    let stop: String = middle.iter().collect();
    let stopped = Request { stops: vec![stop.clone()], ..request(&prompt(9), 40) };
    let answer = generate(&mut model, &mut generator, &stopped);
    assert_eq!(answer.finish_reason, FinishReason::Stop);
    assert_eq!(answer.text, whole.text[..whole.text.find(&stop).expect("it is in there")]);
    assert!(whole.tokens.starts_with(&answer.tokens));
}

#[test]
fn an_end_token_ends_the_answer_and_is_its_last_token() {
    let all = greedy(&prompt(9), 40);
    let end = all[12];
    let first = all.iter().position(|&token| token == end).expect("it is there");
    let (mut model, log) = model_that_ends_at(end, 4096, None);
    let mut generator = Generator::new(&mut model, 0).expect("opens");
    let answer = generate(&mut model, &mut generator, &request(&prompt(9), 40));
    assert_eq!((answer.finish_reason, &answer.tokens[..]), (FinishReason::Stop, &all[..=first]));
    assert_eq!(log.lock().expect("one thread").len(), 1 + first, "the end itself is not run");
}

#[test]
fn the_context_ends_an_answer() {
    let (mut model, _) = model(70, None);
    let mut generator = Generator::new(&mut model, 0).expect("opens");
    let unbounded = Request { max_tokens: None, ..request(&prompt(60), 0) };
    let answer = generate(&mut model, &mut generator, &unbounded);
    // Ten tokens still fit; the eleventh is chosen from the last one's logits and need not be run.
    assert_eq!(answer.tokens, greedy(&prompt(60), 11));
    assert_eq!(answer.finish_reason, FinishReason::Length);
    let full = generate(&mut model, &mut generator, &Request { max_tokens: None, ..request(&prompt(70), 0) });
    assert_eq!(full.tokens.len(), 1);
}

#[test]
fn no_tokens_can_be_asked_for() {
    let (mut model, _) = model(70, None);
    let mut generator = Generator::new(&mut model, 0).expect("opens");
    let answer = generate(&mut model, &mut generator, &request(&prompt(5), 0));
    assert_eq!((answer.tokens.len(), answer.finish_reason), (0, FinishReason::Length));
}

fn refused(model: &mut Model, request: &Request) -> EngineError {
    let mut generator = Generator::new(model, 0).expect("opens");
    let cancel = AtomicBool::new(false);
    let mut read = |_: &str| ControlFlow::Continue(());
    let error = generator.generate(model, request, &cancel, &mut read).expect_err("it is refused");
    // The generator answers a good request after a bad one.
    assert_eq!(
        generator.generate(model, &self::request(&prompt(3), 2), &cancel, &mut read).expect("answers").tokens,
        greedy(&prompt(3), 2)
    );
    error
}

#[test]
fn vllm_9634_out_of_vocab_prompt() {
    let (mut model, log) = model(70, None);
    let bad = request(&[4, VOCABULARY as u32], 5);
    let error = refused(&mut model, &bad);
    assert!(matches!(error, EngineError::TokenOutOfVocabulary { token: 1537, vocabulary: 1537 }));
    assert!(log.lock().expect("one thread").iter().all(|run| run.tokens != 2));
}

#[test]
fn bad_requests_are_refused() {
    let (mut model, _) = model(70, None);
    assert!(matches!(refused(&mut model, &request(&[], 5)), EngineError::EmptyPrompt));
    let long = refused(&mut model, &request(&prompt(71), 5));
    assert!(matches!(long, EngineError::PromptTooLong { tokens: 71, context: 70 }));
    let sampling = Sampling { top_p: 2.0, ..Sampling::GREEDY };
    let error = refused(&mut model, &Request { sampling, ..request(&prompt(3), 5) });
    assert!(matches!(error, EngineError::Sampling(SamplingError::Parameter { name: "top_p", .. })));
    let empty_stop = Request { stops: vec![String::new()], ..request(&prompt(3), 5) };
    assert!(matches!(refused(&mut model, &empty_stop), EngineError::Text(_)));
}

#[test]
fn a_logit_that_is_no_number_is_an_error() {
    let (mut model, _) = model(70, Some(12));
    let error = refused(&mut model, &request(&prompt(10), 5));
    assert!(matches!(error, EngineError::Sampling(SamplingError::NotANumber { token: 7, position: 12, .. })));
}

#[test]
fn cancelling_ends_the_answer_between_runs() {
    let (mut model, _) = model(4096, None);
    let mut generator = Generator::new(&mut model, 1 << 20).expect("opens");
    let cancel = AtomicBool::new(false);
    let mut pieces = 0;
    let answer = generator
        .generate(&mut model, &request(&prompt(10), 100), &cancel, &mut |_| {
            pieces += 1;
            cancel.store(pieces == 5, Ordering::Relaxed);
            ControlFlow::Continue(())
        })
        .expect("it answers");
    assert_eq!(answer.finish_reason, FinishReason::Cancelled);
    assert_eq!(answer.tokens, greedy(&prompt(10), answer.tokens.len()));
    assert!(answer.tokens.len() >= 5 && answer.tokens.len() < 100);
    // A reader that is gone ends it too, and a prompt is not even begun.
    let gone = AtomicBool::new(false);
    let answer = generator
        .generate(&mut model, &request(&prompt(10), 100), &gone, &mut |_| ControlFlow::Break(()))
        .expect("it answers");
    assert!(answer.finish_reason == FinishReason::Cancelled && answer.tokens.len() < 100);
    gone.store(true, Ordering::Relaxed);
    let answer = generator
        .generate(&mut model, &request(&prompt(1000), 5), &gone, &mut |_| ControlFlow::Continue(()))
        .expect("it answers");
    assert_eq!((answer.finish_reason, answer.tokens.len()), (FinishReason::Cancelled, 0));
    gone.store(false, Ordering::Relaxed);
    assert_eq!(
        generate(&mut model, &mut generator, &request(&prompt(1000), 5)).tokens,
        greedy(&prompt(1000), 5)
    );
}
