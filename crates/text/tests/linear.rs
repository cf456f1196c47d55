//! Any text is made into tokens and back in time that grows with its length, whatever it is made of.
//!
//! The time is this thread's own on the processor, so that a busy machine does not count; a text four times as long may
//! take ten times as long, where work that grows with the square takes sixteen times.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use fiddlehead_text::{ChatRequest, ChatTemplate, Specials, TokenKind, Tokenizer, TokenizerParts};
use serde_json::Value;

/// Characters of the shorter text; the longer one has four times as many.
const CHARACTERS: usize = 1 << 14;
/// Seconds below which the clock says little.
const LITTLE: f64 = 0.05;

static JSON: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-11m/tokenizer.json");
    serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON")
});

/// A byte-level vocabulary, split in one of the known ways.
fn byte_level(pre_tokenizer: &'static str) -> Tokenizer {
    let vocabulary = JSON["model"]["vocab"].as_object().expect("an object");
    let mut tokens = vec![""; vocabulary.len() + 3];
    let mut kinds = vec![TokenKind::Normal; tokens.len()];
    for (token, id) in vocabulary {
        tokens[id.as_u64().expect("an id") as usize] = token;
    }
    for token in JSON["added_tokens"].as_array().expect("a list") {
        let id = token["id"].as_u64().expect("an id") as usize;
        (tokens[id], kinds[id]) = (token["content"].as_str().expect("text"), TokenKind::Control);
    }
    let merges: Vec<String> = JSON["model"]["merges"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|merge| format!("{} {}", merge[0].as_str().expect("text"), merge[1].as_str().expect("text")))
        .collect();
    let parts = TokenizerParts {
        model: "gpt2",
        pre_tokenizer: Some(pre_tokenizer),
        tokens,
        kinds,
        merges: merges.iter().map(String::as_str).collect(),
        ..TokenizerParts::default()
    };
    Tokenizer::from_parts(&parts).expect("loads")
}

/// A vocabulary of scored pieces in which a long word is put together on many levels, and every control sign of many has
/// the same beginning.
fn pieces(space_prefix: bool) -> Tokenizer {
    let mut entries: Vec<(String, TokenKind, f32)> = vec![("<unk>".to_owned(), TokenKind::Unknown, 0.0)];
    entries.extend((0..6000).map(|sign| (format!("<unused{sign}>"), TokenKind::Control, 0.0)));
    entries.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), TokenKind::Byte, 0.0)));
    for letter in ["a", "b", "▁", "1", "日", "\n"] {
        for length in 1..=16 {
            entries.push((letter.repeat(length), TokenKind::Normal, -(length as f32)));
        }
    }
    for (word, score) in
        [("ab", -1.0), ("ba", -2.0), ("abab", -3.0), ("▁a", -0.5), ("a1", -7.0), ("aba", -1.5)]
    {
        entries.push((word.to_owned(), TokenKind::Normal, score));
    }
    let parts = TokenizerParts {
        model: "llama",
        tokens: entries.iter().map(|(entry, ..)| entry.as_str()).collect(),
        kinds: entries.iter().map(|&(_, kind, _)| kind).collect(),
        scores: entries.iter().map(|&(.., score)| score).collect(),
        unknown: Some(0),
        space_prefix,
        ..TokenizerParts::default()
    };
    Tokenizer::from_parts(&parts).expect("loads")
}

const PATTERNS: [&str; 30] = [
    "\n",
    "\r\n",
    "\n \n",
    " ",
    " \n",
    "\t",
    "\u{a0}",
    "\u{3000}",
    "a",
    "A",
    "ab",
    "aB",
    "a ",
    " a",
    "1",
    "1a",
    "12 ",
    "9.",
    "🦊",
    "👩‍👩‍👧 ",
    "日",
    "日本 ",
    "e\u{301}",
    "\u{301}",
    "\u{315}\u{300}",
    "<",
    "<|im_",
    "'s",
    "!?",
    "\u{100000}",
];

/// Seconds of this thread on the processor.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of the type that the call fills in.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn timed(work: impl Fn()) -> f64 {
    let start = seconds();
    work();
    seconds() - start
}

/// `work` takes time that grows with the length of the text that it gets.
fn grows_with_length(what: &str, pattern: &str, work: impl Fn(&str)) {
    let text = |characters: usize| -> String { pattern.chars().cycle().take(characters).collect() };
    let (short, long) = (text(CHARACTERS), text(4 * CHARACTERS));
    // Twice before it is believed: a machine may stumble once.
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (quick, slow) = (timed(|| work(&short)), timed(|| work(&long)));
        if slow < 10.0 * quick.max(LITTLE / 4.0) {
            return;
        }
        seen.push((quick, slow));
    }
    panic!("{what} {pattern:?}: seconds {seen:?}");
}

fn check(what: &str, tokenizer: &Tokenizer) {
    for pattern in PATTERNS {
        grows_with_length(what, pattern, |text| {
            let tokens = tokenizer.encode(text, Specials::Literal).expect("encodes");
            let decoded = tokenizer.decode(&tokens, false);
            assert!(decoded == text || what.starts_with("qwen"), "{what} {pattern:?} comes back");
        });
    }
}

#[test]
fn llama_cpp_14655_split_as_smollm() {
    check("smollm", &byte_level("smollm"));
}

#[test]
fn llama_cpp_14655_split_as_qwen2() {
    check("qwen2", &byte_level("qwen2"));
}

#[test]
fn llama_cpp_14655_split_as_qwen35() {
    check("qwen35", &byte_level("qwen35"));
}

#[test]
fn llama_cpp_14655_split_as_llama3() {
    check("llama-bpe", &byte_level("llama-bpe"));
}

#[test]
fn llama_cpp_14655_split_as_gpt2() {
    check("gpt-2", &byte_level("gpt-2"));
}

#[test]
fn llama_cpp_14655_scored_pieces() {
    check("llama", &pieces(true));
}

#[test]
fn llama_cpp_14655_scored_pieces_without_a_space_before() {
    check("gemma", &pieces(false));
}

#[test]
fn llama_cpp_14655_conversations() {
    let source = "{% for m in messages %}<|im_start|>{{ m.content|trim }}<|im_end|>{% endfor %}";
    let template = ChatTemplate::new(source, None, None).expect("a template");
    for tokenizer in [byte_level("smollm"), pieces(false)] {
        for pattern in ["\n", "<", "<unused", "a ", "🦊"] {
            grows_with_length("conversation", pattern, |text| {
                let request = ChatRequest::new(vec![ChatRequest::message("user", text)]);
                tokenizer.encode_chat(&template, &request).expect("encodes");
            });
        }
    }
}

#[test]
fn llama_cpp_14655_a_million_characters() {
    for tokenizer in [byte_level("qwen2"), pieces(false)] {
        for pattern in ["a", " "] {
            let text = pattern.repeat(1_000_000);
            let tokens = tokenizer.encode(&text, Specials::Literal).expect("encodes");
            assert!(tokenizer.decode(&tokens, false) == text);
        }
    }
}

#[test]
fn stop_strings_are_looked_for_in_linear_time() {
    let tokenizer = byte_level("smollm");
    grows_with_length("stop", "a", |text| {
        let options = fiddlehead_text::DetokenizerOptions {
            stops: vec![format!("{text}b"), format!("{text}c")],
            ..Default::default()
        };
        let tokens = tokenizer.encode(text, Specials::Literal).expect("encodes");
        let mut detokenizer = tokenizer.detokenizer(options).expect("good stops");
        let held = tokens.iter().all(|&token| detokenizer.push(token).text.is_empty());
        assert!(held && detokenizer.finish() == text);
    });
}
