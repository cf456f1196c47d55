//! Tokenizers in the metadata of GGUF files, as no honest file has them: one clear error each, or as good as can be.

use fiddlehead_checkpoint::gguf::{self, Metadata, Value};
use fiddlehead_engine::gguf_tokenizer;
use fiddlehead_storage::Bytes;
use fiddlehead_text::Specials;

fn small() -> Metadata {
    let mut metadata = Metadata::default();
    let mut set = |key: &str, value: Value| metadata.set(format!("tokenizer.ggml.{key}"), value);
    set("model", "gpt2".into());
    set("pre", "gpt-2".into());
    set("tokens", ["a", "b", "ab", "<s>"].as_slice().into());
    set("token_type", [1i32, 1, 1, 3].as_slice().into());
    set("merges", ["a b"].as_slice().into());
    set("bos_token_id", 3u32.into());
    metadata
}

fn with(key: &str, value: impl Into<Value>) -> Metadata {
    let mut metadata = small();
    metadata.set(format!("tokenizer.ggml.{key}"), value);
    metadata
}

#[test]
fn a_small_one_works() {
    let tokenizer = gguf_tokenizer(&small()).expect("loads");
    assert_eq!(tokenizer.encode("ab<s>a", Specials::Parse), Ok(vec![2, 3, 0]));
}

#[test]
fn what_does_not_fit_is_refused_with_its_reason() {
    for (metadata, reason) in [
        (Metadata::default(), "there is none"),
        (with("model", "bert"), "`bert`"),
        (with("model", 7u32), "there is none"),
        (with("pre", "no-such-way"), "`no-such-way`"),
        (with("tokens", "a b ab"), "tokens"),
        (with("tokens", [1u32, 2].as_slice()), "tokens"),
        (with("tokens", [].as_slice() as &[&str]), "0 tokens"),
        (with("tokens", ["a"].as_slice()), "kinds of 4"),
        (with("token_type", [1i32, 1, 1, 99].as_slice()), "unknown type"),
        (with("token_type", ["1"; 4].as_slice()), "unknown type"),
        (with("token_type", [1i32].as_slice()), "kinds of 1"),
        (with("merges", ["ab"].as_slice()), "merge"),
        (with("merges", ["a nowhere"].as_slice()), "nowhere"),
        (with("merges", [1u32].as_slice()), "merges"),
        (with("bos_token_id", 4u32), "beginning token"),
        (with("bos_token_id", u32::MAX), "beginning token"),
        (with("model", "llama"), "scores"),
    ] {
        let error = gguf_tokenizer(&metadata).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error} should hold {reason:?}");
    }
}

/// A file of one key, whose value is written byte by byte.
fn file(value: &[u8]) -> Vec<u8> {
    let key = b"tokenizer.ggml.tokens";
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    for number in [0, 1, key.len() as u64] {
        file.extend(number.to_le_bytes());
    }
    file.extend(key);
    file.extend(value);
    file
}

#[test]
fn lists_that_are_not_as_long_as_they_say() {
    let list = |element: u32, count: u64, rest: &[u8]| {
        let mut value = 9u32.to_le_bytes().to_vec();
        value.extend(element.to_le_bytes());
        value.extend(count.to_le_bytes());
        value.extend(rest);
        file(&value)
    };
    for file in [
        list(8, u64::MAX, b""),
        list(8, 1 << 60, b"\x01\0\0\0\0\0\0\0a"),
        list(8, 2, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        list(6, 1 << 62, b""),
    ] {
        assert!(gguf::parse(&Bytes::from(file)).is_err());
    }
}

#[test]
fn entries_that_are_no_text() {
    let mut value = 9u32.to_le_bytes().to_vec();
    value.extend(8u32.to_le_bytes());
    value.extend(2u64.to_le_bytes());
    for text in [b"a".as_slice(), b"\xff\xfe"] {
        value.extend((text.len() as u64).to_le_bytes());
        value.extend(text);
    }
    let parsed = gguf::parse(&Bytes::from(file(&value))).expect("a file as such");
    let tokens = parsed.metadata.get("tokenizer.ggml.tokens").expect("there").clone();
    let error = gguf_tokenizer(&with("tokens", tokens)).expect_err("refused").to_string();
    assert!(error.contains("entry 1 of its tokens is not UTF-8"), "{error}");
}

#[test]
fn scores_that_are_no_numbers() {
    let mut metadata = small();
    metadata.set("tokenizer.ggml.model", "llama");
    metadata.set("tokenizer.ggml.scores", [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0].as_slice());
    let tokenizer = gguf_tokenizer(&metadata).expect("loads");
    assert!(tokenizer.encode("ab", Specials::Literal).is_ok_and(|tokens| !tokens.is_empty()));
}
