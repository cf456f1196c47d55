//! Any bytes as a program's text: no panic, every message points into the text, and the same answer twice. What is
//! accepted can be printed, and means the same with a comment behind it.

#![no_main]

use fiddlehead_lang::{compile, dump};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let messages = match compile("fuzz.fh", &text) {
        Ok(program) => {
            let again = format!("{text}\n// the end");
            let again = compile("fuzz.fh", &again).expect("a comment changes nothing");
            assert_eq!(dump::text(&program), dump::text(&again));
            return;
        }
        Err(messages) => messages,
    };
    assert!(!messages.items.is_empty(), "a refusal says why");
    for message in &messages.items {
        let (start, end) = (message.span.start as usize, message.span.end as usize);
        assert!(start <= end && end <= text.len(), "{start}..{end} is in the text");
        assert!(
            text.is_char_boundary(start) && text.is_char_boundary(end),
            "{start}..{end} cuts a character"
        );
    }
    assert!(!messages.render(false).is_empty());
    assert_eq!(compile("fuzz.fh", &text), Err(messages));
});
