//! Vocabularies in the manner of SentencePiece: `▁` for spaces, `<0xE2>` for bytes, a space before the text.

use fiddlehead_text::{DetokenizerOptions, Specials, Tokenizer};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A small vocabulary: three special tokens, all bytes, some letters and words.
fn file(decoder: Value, normalizer: Value, pre_tokenizer: Value) -> String {
    let mut entries: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    entries.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    entries.extend(["▁", "a", "b", "▁a", "ab", "▁ab", "é", "<", ">", "s", "/"].map(str::to_owned));
    let vocabulary: Map<String, Value> =
        (0..).zip(&entries).map(|(id, entry)| (entry.clone(), json!(id))).collect();
    let added = |id: u32, content: &str| {
        json!({"id": id, "content": content, "special": true, "normalized": false,
            "single_word": false, "lstrip": false, "rstrip": false})
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": decoder,
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary, "merges": [["▁", "a"], ["a", "b"], ["▁a", "b"]]}
    })
    .to_string()
}

fn normalized() -> String {
    file(
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}),
        Value::Null,
    )
}

fn metaspace() -> String {
    let metaspace =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    file(metaspace.clone(), Value::Null, metaspace)
}

fn load(file: &str) -> (Tokenizer, tokenizers::Tokenizer) {
    let tokenizer = Tokenizer::from_json(file.as_bytes()).expect("loads");
    (tokenizer, file.parse().expect("loads"))
}

#[test]
fn bytes_of_tokens() {
    let (tokenizer, _) = load(&normalized());
    let bytes = |entry: &str| tokenizer.token_bytes(tokenizer.token_id(entry).expect("there"));
    assert_eq!(bytes("▁ab"), Some(b" ab".as_slice()));
    assert_eq!(bytes("<0xF0>"), Some(b"\xf0".as_slice()));
    assert_eq!(bytes("</s>"), Some(b"</s>".as_slice()));
}

#[test]
fn a_prompt_begins_as_the_tokenizer_says() {
    let (tokenizer, reference) = load(&normalized());
    let prompt = tokenizer.encode_prompt("ab", Specials::Parse).expect("encodes");
    assert_eq!(prompt, reference.encode("ab", true).expect("encodes").get_ids());
    assert_eq!(prompt[0], 1);
    assert_eq!(prompt[1..], tokenizer.encode("ab", Specials::Parse).expect("encodes"));
}

#[test]
fn the_space_before_a_text_goes_only_at_its_start() {
    let (tokenizer, _) = load(&normalized());
    let tokens = tokenizer.encode("ab  🦊 ab", Specials::Literal).expect("encodes");
    assert_eq!(tokenizer.decode(&tokens, true), "ab  🦊 ab");
    let options = DetokenizerOptions { at_start: false, ..DetokenizerOptions::default() };
    let mut detokenizer = tokenizer.detokenizer(options).expect("no stops");
    let text: String = tokens.iter().map(|&token| detokenizer.push(token).text).collect();
    assert_eq!(text, " ab  🦊 ab");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn text_encodes_and_decodes_as_the_library_does(text in "(ab|a|b|é|日|🦊| |<s>|</s>|<|s>|\n){0,16}") {
        for file in [normalized(), metaspace()] {
            let (tokenizer, mut reference) = load(&file);
            let parsed = tokenizer.encode(&text, Specials::Parse).expect("encodes");
            let expected = reference.encode(text.as_str(), false).expect("encodes");
            prop_assert_eq!(&parsed, expected.get_ids());
            for skip in [false, true] {
                // The library takes off every space that begins a text in the Metaspace case, where one was put on.
                if file == normalized() {
                    prop_assert_eq!(tokenizer.decode(&parsed, skip), reference.decode(&parsed, skip).expect("decodes"));
                }
            }
            reference.set_encode_special_tokens(true);
            let literal = tokenizer.encode(&text, Specials::Literal).expect("encodes");
            let expected = reference.encode(text.as_str(), false).expect("encodes");
            prop_assert_eq!(&literal, expected.get_ids());
            prop_assert!(literal.iter().all(|&token| !tokenizer.is_special(token)));
        }
    }
}
