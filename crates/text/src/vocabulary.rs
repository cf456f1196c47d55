//! The tokens' bytes and kinds, by id.

use std::collections::HashMap;

use crate::TextError;
use crate::decoder::TokenDecoder;

/// The largest id that is believed: a hostile file must not make a table of billions.
const MAXIMUM_ID: u32 = (1 << 22) - 1;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Missing,
    Ordinary,
    Special,
}

/// All tokens in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// By id: where the token's bytes end in `bytes`; they begin where those of the id before end.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
}

/// An added token: not of the model's own vocabulary.
pub(crate) struct Added {
    pub content: String,
    pub special: bool,
}

impl Vocabulary {
    /// Collects the model's entries and the added tokens, which win where both have an id.
    pub(crate) fn new(
        entries: &[(&str, u32)],
        added: HashMap<u32, Added>,
        decoder: &TokenDecoder,
    ) -> Result<Vocabulary, TextError> {
        let largest = entries
            .iter()
            .map(|&(token, id)| (id, token))
            .chain(added.iter().map(|(&id, token)| (id, token.content.as_str())));
        let Some((largest, token)) = largest.max() else { return Ok(Vocabulary::default()) };
        if largest > MAXIMUM_ID {
            let token = token.chars().take(100).collect();
            return Err(TextError::TokenIdTooLarge { token, id: largest, maximum: MAXIMUM_ID });
        }
        let mut by_id: Vec<Option<&str>> = vec![None; largest as usize + 1];
        for &(token, id) in entries {
            by_id[id as usize] = Some(token);
        }
        let mut vocabulary = Vocabulary::default();
        for (id, entry) in (0..).zip(by_id) {
            let kind = match (added.get(&id), entry) {
                (Some(token), _) => {
                    vocabulary.bytes.extend(decoder.added_bytes(&token.content)?);
                    if token.special { Kind::Special } else { Kind::Ordinary }
                }
                (None, Some(entry)) => {
                    vocabulary.bytes.extend(decoder.bytes(entry)?);
                    Kind::Ordinary
                }
                (None, None) => Kind::Missing,
            };
            vocabulary.kinds.push(kind);
            vocabulary.ends.push(vocabulary.bytes.len());
        }
        Ok(vocabulary)
    }

    /// One more than the largest id.
    pub(crate) fn size(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.kinds[id] != Kind::Missing).then(|| &self.bytes[start..end])
    }

    pub(crate) fn is_special(&self, id: u32) -> bool {
        self.kinds.get(id as usize) == Some(&Kind::Special)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(id: u32, content: &str, special: bool) -> (u32, Added) {
        (id, Added { content: content.to_owned(), special })
    }

    #[test]
    fn ids_may_have_gaps_and_added_tokens_win() {
        let entries = &[("a", 0), ("b", 3)];
        let added = HashMap::from([added(3, "<s>", true), added(4, "<think>", false)]);
        let vocabulary = Vocabulary::new(entries, added, &TokenDecoder::default()).expect("small ids");
        let all: Vec<_> = (0..6).map(|id| (vocabulary.bytes(id), vocabulary.is_special(id))).collect();
        assert_eq!(vocabulary.size(), 5);
        assert_eq!(
            all,
            [
                (Some(b"a".as_slice()), false),
                (None, false),
                (None, false),
                (Some(b"<s>"), true),
                (Some(b"<think>"), false),
                (None, false),
            ]
        );
    }

    #[test]
    fn a_huge_id_is_refused() {
        let entries = &[("a", 0), ("far", u32::MAX)];
        let error = Vocabulary::new(entries, HashMap::new(), &TokenDecoder::default()).expect_err("huge");
        assert!(error.to_string().contains("\"far\" the id 4294967295"), "{error}");
    }
}
