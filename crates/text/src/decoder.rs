//! From a token's entry in the vocabulary to the bytes it stands for.

use serde_json::Value;

use crate::TextError;

/// How many times as long as its entry a token's text may be; a file could ask for more than any memory holds.
const MOST_TIMES: usize = 64;

/// What a tokenizer's decoder does to one token, and to the beginning of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TokenDecoder {
    /// Each character of an entry stands for one byte.
    byte_level: bool,
    /// Texts to replace within an entry, in order.
    replacements: Vec<(String, String)>,
    /// Entries of the form `<0x0A>` stand for that byte.
    byte_fallback: bool,
    /// Spaces that the encoding put before a text, to take off again.
    pub(crate) leading_spaces: usize,
}

impl TokenDecoder {
    /// Reads the decoder's part of a `tokenizer.json`; `null` means that an entry is its text.
    pub(crate) fn from_json(decoder: &Value) -> Result<TokenDecoder, TextError> {
        let mut read = TokenDecoder::default();
        let mut fused = false;
        match decoder["type"].as_str() {
            Some("Sequence") => {
                for step in decoder["decoders"].as_array().into_iter().flatten() {
                    read.add(step, &mut fused)?;
                }
            }
            _ if decoder.is_null() => {}
            _ => read.add(decoder, &mut fused)?,
        }
        Ok(read)
    }

    fn add(&mut self, step: &Value, fused: &mut bool) -> Result<(), TextError> {
        let unsupported = || TextError::UnsupportedDecoder { decoder: step.to_string() };
        match step["type"].as_str().ok_or_else(unsupported)? {
            "ByteLevel" => self.byte_level = true,
            "ByteFallback" => self.byte_fallback = true,
            "Fuse" => *fused = true,
            "Replace" => {
                let pattern = step["pattern"]["String"].as_str().ok_or_else(unsupported)?;
                let content = step["content"].as_str().ok_or_else(unsupported)?;
                self.replacements.push((pattern.to_owned(), content.to_owned()));
            }
            "Strip" => {
                let count = |key: &str| step[key].as_u64();
                match (count("start"), count("stop"), step["content"].as_str()) {
                    (Some(0), Some(0), _) => {}
                    (Some(start), Some(0), Some(" ")) if *fused => self.leading_spaces = start as usize,
                    _ => return Err(unsupported()),
                }
            }
            "Metaspace" => {
                let replacement = step["replacement"].as_str().ok_or_else(unsupported)?;
                self.replacements.push((replacement.to_owned(), " ".to_owned()));
                if step["prepend_scheme"] != "never" {
                    self.leading_spaces = 1;
                }
            }
            _ => return Err(unsupported()),
        }
        Ok(())
    }

    /// The bytes of an entry of the model's own vocabulary.
    pub(crate) fn bytes(&self, entry: &str) -> Result<Vec<u8>, TextError> {
        if self.byte_level {
            let bytes = entry.chars().map(byte_of_character).collect::<Option<Vec<u8>>>();
            return Ok(bytes.unwrap_or_else(|| entry.as_bytes().to_vec()));
        }
        if self.byte_fallback
            && let Some(byte) = byte_of_name(entry)
        {
            return Ok(vec![byte]);
        }
        self.added_bytes(entry)
    }

    /// The bytes of an added token: its text is found in the input as it is, so no character stands for a byte.
    pub(crate) fn added_bytes(&self, entry: &str) -> Result<Vec<u8>, TextError> {
        let most = entry.len().saturating_mul(MOST_TIMES).saturating_add(MOST_TIMES);
        let mut text = entry.to_owned();
        for (pattern, content) in &self.replacements {
            let found = text.matches(pattern.as_str()).count();
            if found.saturating_mul(content.len()) > most {
                let token: String = entry.chars().take(100).collect();
                let reason =
                    format!("its decoder makes the token {token:?} more than {MOST_TIMES} times as long");
                return Err(TextError::BadTokenizer { reason });
            }
            text = text.replace(pattern.as_str(), content);
        }
        Ok(text.into_bytes())
    }
}

/// The byte of a name like `<0x0A>`.
fn byte_of_name(entry: &str) -> Option<u8> {
    let digits = entry.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .then(|| u8::from_str_radix(digits, 16).ok())?
}

/// Byte-level vocabularies write a printable Latin-1 byte as itself, and the others, in order, from U+0100 on.
fn byte_of_character(character: char) -> Option<u8> {
    let code = character as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121) as u8 + 0x7f),
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> =
            (0..0x200).filter_map(char::from_u32).filter_map(byte_of_character).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        for (character, byte) in
            [('Ġ', b' '), ('Ċ', b'\n'), ('ĉ', b'\t'), ('a', b'a'), ('Ń', 0xad), ('ł', 0xa0)]
        {
            assert_eq!(byte_of_character(character), Some(byte), "{character}");
        }
    }

    #[test]
    fn decoders_of_files() {
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}
        ]});
        let llama = TokenDecoder::from_json(&llama).expect("supported");
        assert_eq!(
            (llama.bytes("▁a"), llama.bytes("<0xE2>"), llama.leading_spaces),
            (Ok(b" a".to_vec()), Ok(vec![0xe2]), 1)
        );
        assert_eq!(
            (llama.added_bytes("<0xE2>"), llama.bytes("<0x+1>")),
            (Ok(b"<0xE2>".to_vec()), Ok(b"<0x+1>".to_vec()))
        );

        let metaspace =
            json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never", "split": true});
        let metaspace = TokenDecoder::from_json(&metaspace).expect("supported");
        assert_eq!((metaspace.bytes("_a"), metaspace.leading_spaces), (Ok(b" a".to_vec()), 0));

        let byte_level = TokenDecoder::from_json(&json!({"type": "ByteLevel"})).expect("supported");
        assert_eq!(byte_level.bytes("Ġé"), Ok(vec![b' ', 0xe9]));
        assert_eq!(byte_level.added_bytes("é"), Ok("é".as_bytes().to_vec()));
        assert_eq!(
            TokenDecoder::from_json(&Value::Null).expect("supported").bytes("a b"),
            Ok(b"a b".to_vec())
        );
    }

    #[test]
    fn a_token_is_not_made_endless() {
        let double = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"});
        let decoder = json!({"type": "Sequence", "decoders": vec![double; 60]});
        let decoder = TokenDecoder::from_json(&decoder).expect("supported");
        assert_eq!(decoder.bytes("b"), Ok(b"b".to_vec()));
        let error = decoder.bytes("a").expect_err("refused").to_string();
        assert!(error.contains("64 times as long"), "{error}");
    }

    #[test]
    fn decoders_that_cannot_be_undone_are_named() {
        for decoder in [
            json!({"type": "CTC"}),
            json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}),
            json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 0, "stop": 2}]}),
            json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}),
            json!({"kind": "ByteLevel"}),
        ] {
            assert!(
                matches!(TokenDecoder::from_json(&decoder), Err(TextError::UnsupportedDecoder { .. })),
                "{decoder}"
            );
        }
    }
}
