//! Any bytes as a program's text: no panic, and every message points into the text.

#![no_main]

use fiddlehead_lang::compile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let Err(messages) = compile("fuzz.fh", &text) else { return };
    assert!(!messages.items.is_empty(), "a refusal says why");
    for message in &messages.items {
        let (start, end) = (message.span.start as usize, message.span.end as usize);
        assert!(start <= end && end <= text.len(), "{start}..{end} is in the text");
        assert!(text.is_char_boundary(start) && text.is_char_boundary(end), "{start}..{end} cuts a character");
    }
    assert!(!messages.render(false).is_empty());
});
