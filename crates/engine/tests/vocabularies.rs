//! Tokens of GGUF files' own tokenizers against those of others: the models' `tokenizer.json`, llama.cpp and its cases.
//!
//! The files are third parties' and are not here: `vocabularies/fetch.py` gathers them in a folder, which
//! `FIDDLEHEAD_TEST_VOCABULARIES` names. Without it this says that it is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fiddlehead_checkpoint::gguf;
use fiddlehead_engine::gguf_tokenizer;
use fiddlehead_storage::Bytes;
use fiddlehead_text::{Specials, Tokenizer};

/// The parts of a folder of one vocabulary.
struct Vocabulary {
    folder: PathBuf,
    tokenizer: Tokenizer,
}

impl Vocabulary {
    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok()
    }

    fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.read(name).map(|text| serde_json::from_str(&text).expect("JSON"))
    }
}

fn vocabularies() -> BTreeMap<String, Vocabulary> {
    let Some(folder) = std::env::var_os("FIDDLEHEAD_TEST_VOCABULARIES") else {
        eprintln!("skipped: FIDDLEHEAD_TEST_VOCABULARIES names no folder");
        return BTreeMap::new();
    };
    let folders = fs::read_dir(Path::new(&folder))
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path());
    let read = |folder: PathBuf| {
        let file = fs::read(folder.join("vocabulary.gguf")).ok()?;
        let parsed = gguf::parse(&Bytes::from(file)).expect("a GGUF file");
        let name = folder.file_name()?.to_str()?.to_owned();
        let tokenizer = gguf_tokenizer(&parsed.metadata).unwrap_or_else(|error| panic!("{name}: {error}"));
        Some((name, Vocabulary { folder, tokenizer }))
    };
    folders.filter_map(read).collect()
}

/// Compares over all texts, and names the texts that differ.
fn compare<'a>(what: &str, texts: impl Iterator<Item = (&'a str, Vec<u32>, Vec<u32>)>) -> usize {
    let mut different = 0;
    let mut count = 0;
    for (text, found, expected) in texts {
        count += 1;
        if found != expected {
            different += 1;
            eprintln!("{what}: {text:?}\n  ours   {found:?}\n  theirs {expected:?}");
        }
    }
    eprintln!("{what}: {} of {count} texts with the same tokens", count - different);
    different
}

#[test]
fn the_same_tokens_as_elsewhere() {
    let mut different = 0;
    for (name, vocabulary) in vocabularies() {
        let ours = |text: &str, specials| vocabulary.tokenizer.encode(text, specials).expect("encodes");
        if let (Some(texts), Some(tokens)) = (vocabulary.read("cases.inp"), vocabulary.read("cases.out")) {
            let tokens = tokens.lines().map(|line| {
                line.split_whitespace().map(|id| id.parse::<u32>().expect("an id")).collect::<Vec<_>>()
            });
            // llama.cpp does not compose characters where the models' own tokenizers (Qwen's) do.
            let composed = |text: &str| name.starts_with("qwen") && text.contains(['\u{300}', '\u{301}']);
            let cases =
                texts.split("\n__ggml_vocab_test__\n").zip(tokens).filter(|(text, _)| !composed(text));
            let cases = cases.map(|(text, tokens)| (text, ours(text, Specials::Literal), tokens));
            different += compare(&format!("{name}, llama.cpp's cases"), cases);
        }
        let texts: Vec<String> = vocabulary.json("texts.json").unwrap_or_default();
        // SentencePiece's sign for a space is a space to it, so a text with the sign does not come back, and is split in its
        // own way by each reader of the same pieces.
        let plain: Vec<&str> = texts.iter().map(String::as_str).filter(|text| !text.contains('▁')).collect();
        if let Some(json) = vocabulary.read("tokenizer.json") {
            let original = Tokenizer::from_json(json.as_bytes()).expect("the model's own tokenizer");
            for specials in [Specials::Literal, Specials::Parse] {
                let theirs = |text: &str| original.encode(text, specials).expect("encodes");
                let cases = plain.iter().map(|&text| (text, ours(text, specials), theirs(text)));
                different += compare(&format!("{name}, tokenizer.json, {specials:?}"), cases);
            }
        }
        if let Some(tokens) = vocabulary.json::<Vec<Vec<u32>>>("tokens.json") {
            let cases = texts.iter().zip(tokens);
            let cases = cases.map(|(text, tokens)| (text.as_str(), ours(text, Specials::Parse), tokens));
            different += compare(&format!("{name}, llama-tokenize"), cases);
        }
        for text in plain {
            let decoded = vocabulary.tokenizer.decode(&ours(text, Specials::Literal), false);
            // Qwen's vocabularies compose characters, so a text comes back composed.
            let composed = name.starts_with("qwen") && text.contains('\u{301}');
            assert!(decoded == text || composed, "{name}: {text:?} comes back as {decoded:?}");
        }
    }
    assert_eq!(different, 0, "texts with other tokens");
}
