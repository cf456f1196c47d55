//! Parts of tokenizers that no honest file has: each is refused with its reason, or works as far as it can.

use fiddlehead_text::{Specials, TextError, TokenKind, Tokenizer, TokenizerParts};

const TEXT: &str = "ab <s>aba é🦊\n\n  \u{301}<a>";

/// Loads and uses; the error, where there is one, is one of these parts and says something.
fn load(parts: &TokenizerParts<'_>) -> Option<Tokenizer> {
    match Tokenizer::from_parts(parts) {
        Ok(tokenizer) => {
            for specials in [Specials::Parse, Specials::Literal] {
                for tokens in [tokenizer.encode(TEXT, specials), tokenizer.encode_prompt(TEXT, specials)] {
                    match tokens {
                        Ok(tokens) => {
                            assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.vocabulary()));
                            tokenizer.decode(&tokens, false);
                        }
                        Err(error) => assert!(matches!(error, TextError::Encode { .. }), "{error}"),
                    }
                }
            }
            let all: Vec<u32> = (0..tokenizer.vocabulary() as u32 + 9).collect();
            tokenizer.decode(&all, false);
            Some(tokenizer)
        }
        Err(error) => {
            assert!(
                matches!(error, TextError::BadVocabulary { .. } | TextError::BadTokenizer { .. }),
                "{error}"
            );
            assert!(error.to_string().len() < 500, "{error}");
            None
        }
    }
}

fn pairs(tokens: &[&'static str], merges: &[&'static str]) -> TokenizerParts<'static> {
    TokenizerParts {
        model: "gpt2",
        pre_tokenizer: Some("gpt-2"),
        tokens: tokens.to_vec(),
        merges: merges.to_vec(),
        ..TokenizerParts::default()
    }
}

fn scored(tokens: &[&'static str], scores: &[f32]) -> TokenizerParts<'static> {
    TokenizerParts {
        model: "llama",
        tokens: tokens.to_vec(),
        scores: scores.to_vec(),
        ..TokenizerParts::default()
    }
}

#[test]
fn merges_that_lead_in_a_circle_or_nowhere() {
    let tokenizer =
        load(&pairs(&["a", "b", "ab", "ba", "aba"], &["a b", "b a", "ab a", "a ba"])).expect("loads");
    assert_eq!(tokenizer.encode("aba", Specials::Parse), Ok(vec![4]));
    assert!(load(&pairs(&["a", "b"], &["a b"])).is_none(), "what is merged is no entry");
    assert!(load(&pairs(&["a", "b"], &["a"])).is_none());
    load(&pairs(&["a", "", "b", "ab"], &["a ", " a", " ", "a b"]));
    load(&pairs(&["a", "aa", "aaa"], &["a a", "a a", "a a", "aa a", "a aa"]));
}

#[test]
fn entries_that_are_missing_empty_or_there_twice() {
    assert!(load(&pairs(&[], &[])).is_none());
    load(&pairs(&[""], &[]));
    load(&pairs(&["", "", ""], &[]));
    load(&pairs(&["a", "a", "a"], &[]));
    // No entry for most bytes, and none for what is unknown.
    let tokenizer = load(&pairs(&["a", "b", "Ġ"], &[])).expect("loads");
    assert_eq!(tokenizer.encode("a b", Specials::Parse), Ok(vec![0, 2, 1]));
    load(&scored(&["a"], &[0.0]));
    load(&scored(&["<0xZZ>", "<0x0A>", "<0x", "<0x0A>", "a"], &[0.0; 5]));
    load(&TokenizerParts { unknown: Some(0), ..scored(&["", "a"], &[0.0; 2]) });
    load(&TokenizerParts {
        kinds: vec![TokenKind::Unused; 2],
        unknown: Some(1),
        ..scored(&["x", "a"], &[0.0; 2])
    });
    let unused = TokenizerParts {
        kinds: vec![TokenKind::Unused; 2],
        begin: Some(1),
        begins: Some(true),
        ..pairs(&["x", "a"], &[])
    };
    assert!(load(&unused).is_none(), "an unused token begins no text");
}

#[test]
fn scores_that_are_no_numbers() {
    let tokens = ["a", "b", "ab", "ba", "▁", "▁a", "aba"];
    for scores in [
        [f32::NAN; 7],
        [f32::INFINITY; 7],
        [f32::NEG_INFINITY; 7],
        [0.0, -0.0, f32::NAN, 1.0, f32::INFINITY, f32::MIN, -f32::NAN],
    ] {
        let tokenizer = load(&scored(&tokens, &scores)).expect("loads");
        let tokens = tokenizer.encode("ababab", Specials::Parse).expect("encodes");
        assert_eq!(tokenizer.decode(&tokens, false), "ababab");
    }
    assert!(load(&scored(&tokens, &[0.0; 6])).is_none());
}

#[test]
fn ids_past_the_end() {
    for id in [2, 99, u32::MAX] {
        assert!(load(&TokenizerParts { begin: Some(id), ..pairs(&["a", "b"], &[]) }).is_none());
        assert!(load(&TokenizerParts { unknown: Some(id), ..scored(&["a", "b"], &[0.0; 2]) }).is_none());
    }
}

#[test]
fn signs_that_are_empty_or_overlap() {
    let tokens = ["a", "<a>", "<a", "a>", "<", ">", "", "<a><a>"];
    for kind in [TokenKind::Control, TokenKind::UserDefined, TokenKind::Unknown, TokenKind::Byte] {
        let kinds =
            std::iter::once(TokenKind::Normal).chain(std::iter::repeat_n(kind, tokens.len() - 1)).collect();
        load(&TokenizerParts { kinds, ..pairs(&tokens, &[]) });
    }
    let kinds = std::iter::once(TokenKind::Normal)
        .chain(std::iter::repeat_n(TokenKind::Control, tokens.len() - 1))
        .collect();
    let tokenizer = load(&TokenizerParts { kinds, ..pairs(&tokens, &[]) }).expect("loads");
    // The longest that begins first.
    assert_eq!(tokenizer.encode("a<a><a>a<a", Specials::Parse), Ok(vec![0, 7, 0, 2]));
}

#[test]
fn many_long_entries() {
    let long: Vec<String> = (0..2000).map(|length| "a".repeat(length % 300 + 1)).collect();
    let parts = TokenizerParts {
        tokens: long.iter().map(String::as_str).collect(),
        scores: vec![0.0; 2000],
        ..scored(&[], &[])
    };
    load(&parts).expect("loads");
}
