//! Tokenizers from their parts: the same tokens as from a `tokenizer.json` of the same parts, and parts that do not fit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use fiddlehead_text::{Specials, TextError, TokenKind, Tokenizer, TokenizerParts};
use proptest::prelude::*;
use serde_json::Value;

static JSON: LazyLock<String> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/stories-11m/tokenizer.json");
    fs::read_to_string(path).expect("there")
});

/// The stories model's tokenizer as a GGUF file has it, padded with ids that mean nothing.
static PARTS: LazyLock<TokenizerParts<'static>> = LazyLock::new(|| {
    let json: &'static Value = Box::leak(Box::new(serde_json::from_str(&JSON).expect("JSON")));
    let ids = |tokens: &'static Value| {
        tokens.as_array().expect("a list").iter().map(|token| {
            (
                token["id"].as_u64().expect("an id"),
                (token["content"].as_str().expect("text"), TokenKind::Control),
            )
        })
    };
    let vocabulary = json["model"]["vocab"].as_object().expect("an object");
    let mut tokens: BTreeMap<u64, (&str, TokenKind)> = vocabulary
        .iter()
        .map(|(token, id)| (id.as_u64().expect("an id"), (token.as_str(), TokenKind::Normal)))
        .collect();
    tokens.extend(ids(&json["added_tokens"]));
    let merges = json["model"]["merges"].as_array().expect("a list").iter();
    let merges = merges.map(|merge| {
        let merge = format!("{} {}", merge[0].as_str().expect("text"), merge[1].as_str().expect("text"));
        &*merge.leak()
    });
    let (mut entries, mut kinds): (Vec<&str>, Vec<TokenKind>) = tokens.into_values().unzip();
    entries.extend(["[PAD]"; 3]);
    kinds.extend([TokenKind::Unused; 3]);
    TokenizerParts {
        model: "gpt2",
        pre_tokenizer: Some("smollm"),
        tokens: entries,
        kinds,
        merges: merges.collect(),
        ..TokenizerParts::default()
    }
});

fn refused(parts: &TokenizerParts<'_>, words: &str) {
    let error = Tokenizer::from_parts(parts).expect_err(words);
    assert!(matches!(error, TextError::BadVocabulary { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error} should hold {words:?}");
}

proptest! {
    #[test]
    fn parts_and_file_give_the_same_tokens(text in "(\\PC|[a-z]{1,9}| |\n|<\\|im_end\\|>|[0-9]{1,4}){0,40}") {
        static PAIR: LazyLock<[Tokenizer; 2]> = LazyLock::new(|| {
            [Tokenizer::from_json(JSON.as_bytes()).expect("loads"), Tokenizer::from_parts(&PARTS).expect("loads")]
        });
        for specials in [Specials::Parse, Specials::Literal] {
            let [file, parts] = PAIR.each_ref().map(|tokenizer| tokenizer.encode(&text, specials).expect("encodes"));
            prop_assert_eq!(&file, &parts);
            prop_assert_eq!(PAIR[1].decode(&parts, false), text.as_str());
        }
    }
}

#[test]
fn unused_ids_have_no_text() {
    let tokenizer = Tokenizer::from_parts(&PARTS).expect("loads");
    assert_eq!(tokenizer.vocabulary(), PARTS.tokens.len() - 3);
    assert!(tokenizer.is_special(1) && !tokenizer.is_special(5));
    assert_eq!(tokenizer.token_bytes(PARTS.tokens.len() as u32 - 1), None);
}

#[test]
fn a_token_for_the_beginning_is_put_where_it_is_usual_or_asked_for() {
    for (pre, begins, first) in [
        ("smollm", None, None),
        ("smollm", Some(true), Some(1)),
        ("llama-bpe", None, Some(1)),
        ("llama-bpe", Some(false), None),
    ] {
        let parts = TokenizerParts { pre_tokenizer: Some(pre), begin: Some(1), begins, ..PARTS.clone() };
        let tokenizer = Tokenizer::from_parts(&parts).expect("loads");
        let tokens = tokenizer.encode_prompt("a", Specials::Parse).expect("encodes");
        assert_eq!(tokens.first().filter(|&&token| token == 1), first.as_ref(), "{pre} {begins:?}");
    }
}

/// A vocabulary of scored pieces.
fn pieces(space_prefix: bool) -> TokenizerParts<'static> {
    let mut parts =
        TokenizerParts { model: "llama", unknown: Some(0), space_prefix, ..TokenizerParts::default() };
    let bytes = (0..=255u8).map(|byte| (&*format!("<0x{byte:02X}>").leak(), TokenKind::Byte, 0.0));
    let signs = [("<unk>", TokenKind::Unknown, 0.0), ("<s>", TokenKind::Control, 0.0)];
    let words = ["▁", "a", "b", "c", "ab", "bc", "▁a", "abc", "▁ab"].into_iter().zip(0u8..);
    let words = words.map(|(word, rank)| {
        (word, TokenKind::Normal, -f32::from(if word.chars().count() > 1 { 9 - rank } else { 100 }))
    });
    let run = [("  ", TokenKind::UserDefined, 0.0)];
    for (token, kind, score) in signs.into_iter().chain(bytes).chain(words).chain(run) {
        parts.tokens.push(token);
        parts.kinds.push(kind);
        parts.scores.push(score);
    }
    parts.begin = Some(1);
    parts
}

#[test]
fn scored_pieces_are_put_together_by_score() {
    let words = |parts: &TokenizerParts<'_>, text: &str| {
        let tokenizer = Tokenizer::from_parts(parts).expect("loads");
        let tokens = tokenizer.encode(text, Specials::Literal).expect("encodes");
        assert_eq!(tokenizer.decode(&tokens, false), text, "{text}");
        tokens.iter().map(|&id| parts.tokens[id as usize]).collect::<Vec<_>>().join(",")
    };
    let plain = pieces(false);
    // Of ab (-5) and bc (-4) the second comes first; then a and bc are abc (-2).
    for (text, found) in [
        ("abc", "abc"),
        ("ab", "ab"),
        (" ab", "▁ab"),
        ("é", "<0xC3>,<0xA9>"),
        ("a  b", "a,  ,b"),
        ("cab", "c,ab"),
    ] {
        assert_eq!(words(&plain, text), found, "{text}");
    }
    assert_eq!(words(&pieces(true), "ab"), "▁ab");
    let tokenizer = Tokenizer::from_parts(&plain).expect("loads");
    assert_eq!(tokenizer.encode_prompt("a", Specials::Parse).expect("encodes").first(), Some(&1));
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let parts = PARTS.clone();
    refused(&TokenizerParts::default(), "0 tokens");
    refused(&TokenizerParts { model: "bert", ..parts.clone() }, "`bert` are not known");
    refused(&TokenizerParts { pre_tokenizer: Some("tekken"), ..parts.clone() }, "`tekken`");
    refused(&TokenizerParts { pre_tokenizer: None, ..parts.clone() }, "none at all");
    refused(&TokenizerParts { kinds: vec![TokenKind::Normal], ..parts.clone() }, "the kinds of 1");
    refused(&TokenizerParts { begin: Some(9999), ..parts.clone() }, "beginning token");
    refused(&TokenizerParts { merges: vec!["ab"], ..parts.clone() }, "a merge");
    refused(&TokenizerParts { merges: vec!["nowhere there"], ..parts.clone() }, "nowhere");
    refused(&TokenizerParts { scores: vec![1.0], ..pieces(true) }, "and 1 scores");
}

#[test]
fn llama_cpp_14655_blank_lines_and_long_words_take_linear_time() {
    let started = Instant::now();
    for parts in ["smollm", "qwen2", "qwen35", "llama-bpe", "gpt-2"]
        .map(|pre| TokenizerParts { pre_tokenizer: Some(pre), ..PARTS.clone() })
        .into_iter()
        .chain([pieces(true)])
    {
        let tokenizer = Tokenizer::from_parts(&parts).expect("loads");
        for text in ["\n".repeat(50_000), " ".repeat(50_000), "\n \n".repeat(20_000), "abc".repeat(20_000)] {
            tokenizer.encode(&text, Specials::Literal).expect("encodes");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_piece_as_long_as_a_file_is_not_split_in_its_square() {
    let mut parts = pieces(false);
    let long: &'static str = "a".repeat(4 << 20).leak();
    parts.tokens.push(long);
    parts.kinds.push(TokenKind::Normal);
    parts.scores.push(1.0);
    let started = Instant::now();
    Tokenizer::from_parts(&parts).expect("loads");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
