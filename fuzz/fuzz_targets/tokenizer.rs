//! Any bytes as a `tokenizer.json`, or as a GGUF file with a tokenizer in its metadata: no panic, and what loads makes
//! tokens of its vocabulary of any text, and text of any tokens.

#![no_main]

use std::sync::Once;

use fiddlehead_checkpoint::gguf::parse;
use fiddlehead_storage::Bytes;
use fiddlehead_text::{DetokenizerOptions, Specials, TextError, Tokenizer};
use libfuzzer_sys::fuzz_target;

// The engine's own reading of the metadata, without the rest of the engine: executors take minutes to build with a
// sanitizer and have no part in it.
#[allow(dead_code)]
#[path = "../../crates/engine/src/gguf.rs"]
mod gguf;

const TEXTS: [&str; 5] = [
    "",
    "Once upon a time, in 1723, it's <s></s><|im_start|>a 🦊 é e\u{301} 日本\u{3000}  \n\n\t\r\n",
    "    ",
    "<0x0A>▁▁aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "\u{0}\u{fffd}\u{10ffff}\u{301}\u{301}",
];

fn load(file: &[u8]) -> Result<Tokenizer, TextError> {
    if !file.starts_with(b"GGUF") {
        return Tokenizer::from_json(file);
    }
    let Ok(parsed) = parse(&Bytes::from(file.to_vec())) else { return Err(TextError::EmptyStop) };
    let _ = (gguf::tokenizer_config(&parsed.metadata), gguf::generation_config(&parsed.metadata));
    let tokenizer = gguf::tokenizer(&parsed.metadata)?;
    for end in gguf::ends(&parsed.metadata, &tokenizer) {
        let _ = tokenizer.token_bytes(end);
    }
    Ok(tokenizer)
}

fn use_it(tokenizer: &Tokenizer, text: &str) {
    for specials in [Specials::Parse, Specials::Literal] {
        for tokens in
            [tokenizer.encode(text, specials), tokenizer.encode_prompt(text, specials)].into_iter().flatten()
        {
            let _ = tokenizer.decode(&tokens, false);
        }
    }
    // Of a literal text no special token comes, except where one stands for what no other does.
    if let Ok(tokens) = tokenizer.encode(text, Specials::Literal) {
        for &token in &tokens {
            assert!((token as usize) < tokenizer.vocabulary(), "token {token} of {}", tokenizer.vocabulary());
        }
    }
}

fuzz_target!(|file: &[u8]| {
    // The library panics over some files, which `Tokenizer` turns into errors: only what passes it counts.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));

    let tokenizer = match load(file) {
        Ok(tokenizer) => tokenizer,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for text in TEXTS {
        use_it(&tokenizer, text);
    }
    let own = String::from_utf8_lossy(&file[file.len().saturating_sub(300)..]);
    use_it(&tokenizer, &own);
    let ids: Vec<u32> = (0..tokenizer.vocabulary() as u32 + 2).take(1000).collect();
    let _ = tokenizer.decode(&ids, true);
    let options =
        DetokenizerOptions { stops: vec!["a".to_owned(), "e\u{301}".to_owned()], ..Default::default() };
    let mut detokenizer = tokenizer.detokenizer(options).expect("no stop is empty");
    ids.iter().for_each(|&id| drop(detokenizer.push(id)));
    let _ = detokenizer.finish();
});
