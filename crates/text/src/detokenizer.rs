//! Tokens back to text, as they come.

use crate::stops::StopFinder;
use crate::{TextError, Tokenizer};

/// How tokens are made into text.
#[derive(Debug, Clone)]
pub struct DetokenizerOptions {
    /// Special tokens give no text.
    pub skip_special: bool,
    /// The tokens begin a text of their own: a space that the encoding put before it is taken off. False for tokens that
    /// go on with a text.
    pub at_start: bool,
    /// Text at which to stop; none is empty.
    pub stops: Vec<String>,
}

impl Default for DetokenizerOptions {
    fn default() -> DetokenizerOptions {
        DetokenizerOptions { skip_special: true, at_start: true, stops: Vec::new() }
    }
}

/// What one token adds to the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    /// Text that can be shown now; empty while a character or a stop string may still be incomplete.
    pub text: String,
    /// The position, in [`DetokenizerOptions::stops`], of the stop string that was found. The text ends before it.
    pub stop: Option<usize>,
}

/// Makes tokens into text one at a time. A character is never split: its bytes are held until it is whole. Text is held
/// back only while it may be the beginning of a stop string.
#[derive(Debug, Clone)]
pub struct Detokenizer {
    tokenizer: Tokenizer,
    skip_special: bool,
    /// Leading spaces still to take off.
    leading_spaces: usize,
    /// The beginning of a character: at most three bytes.
    incomplete: Vec<u8>,
    stops: StopFinder,
    stopped: bool,
}

impl Detokenizer {
    pub(crate) fn new(tokenizer: Tokenizer, options: DetokenizerOptions) -> Result<Detokenizer, TextError> {
        if options.stops.iter().any(String::is_empty) {
            return Err(TextError::EmptyStop);
        }
        let leading_spaces = if options.at_start { tokenizer.leading_spaces() } else { 0 };
        Ok(Detokenizer {
            tokenizer,
            skip_special: options.skip_special,
            leading_spaces,
            incomplete: Vec::new(),
            stops: StopFinder::new(options.stops),
            stopped: false,
        })
    }

    /// Adds a token. An id outside the vocabulary (a model's output may be padded) adds nothing; after a stop string was
    /// found, nothing does.
    pub fn push(&mut self, token: u32) -> Piece {
        if self.stopped || (self.skip_special && self.tokenizer.is_special(token)) {
            return Piece::default();
        }
        let Some(mut bytes) = self.tokenizer.token_bytes(token) else { return Piece::default() };
        while self.leading_spaces > 0 && !bytes.is_empty() {
            match bytes.strip_prefix(b" ") {
                Some(rest) => (bytes, self.leading_spaces) = (rest, self.leading_spaces - 1),
                None => self.leading_spaces = 0,
            }
        }
        self.incomplete.extend_from_slice(bytes);
        let text = take_whole_characters(&mut self.incomplete);
        let (text, stop) = self.stops.push(&text);
        self.stopped = stop.is_some();
        Piece { text, stop }
    }

    /// The text still held back, once no more tokens come: a character that never became whole is shown as U+FFFD.
    pub fn finish(&mut self) -> String {
        if self.stopped {
            return String::new();
        }
        let tail = String::from_utf8_lossy(&std::mem::take(&mut self.incomplete)).into_owned();
        let (mut text, stop) = self.stops.push(&tail);
        self.stopped = true;
        if stop.is_none() {
            text += &self.stops.finish();
        }
        text
    }
}

/// Takes all whole characters; what is no character at all becomes U+FFFD; the beginning of one stays.
fn take_whole_characters(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut taken = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        taken += chunk.valid().len();
        let invalid = chunk.invalid();
        if invalid.is_empty() || (taken + invalid.len() == bytes.len() && may_become_whole(invalid)) {
            break;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        taken += invalid.len();
    }
    bytes.drain(..taken);
    text
}

/// Whether invalid bytes at the end are the beginning of a character.
fn may_become_whole(invalid: &[u8]) -> bool {
    std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_cut_anywhere_read_as_if_whole(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xf0), Just(0x9f), Just(0x8c), Just(0xe2)], 0..24),
            piece in 1usize..5,
        ) {
            let mut held = Vec::new();
            let mut text = String::new();
            for piece in bytes.chunks(piece) {
                held.extend_from_slice(piece);
                text += &take_whole_characters(&mut held);
                prop_assert!(held.len() < 4);
            }
            text += &String::from_utf8_lossy(&held);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
