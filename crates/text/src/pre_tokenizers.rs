//! How byte-level vocabularies split a text into words, by the names that GGUF files have for it.

use serde_json::{Value, json};

use crate::TextError;

/// What is done to a text before the words are made into tokens, and how tokens become text, as a `tokenizer.json` says
/// it.
#[derive(Debug)]
pub(crate) struct Splitting {
    /// Changes of the whole text; `null` for none.
    pub normaliser: Value,
    /// The split into words; `null` for none.
    pub splitter: Value,
    /// From tokens to text.
    pub decoder: Value,
    /// Whether a word that is an entry is that token, whatever the merges would make of it.
    pub whole_words: bool,
    /// Whether a text begins with the vocabulary's beginning token when the file does not say.
    pub begins: bool,
}

/// A way to split.
struct Named {
    names: &'static [&'static str],
    /// Words; `None` for those of GPT-2.
    words: Option<&'static str>,
    /// Every digit is a word, whatever the words are.
    digits: bool,
    /// Characters are composed first (Unicode's NFC).
    composed: bool,
    whole_words: bool,
    begins: bool,
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const PLAIN: Named =
    Named { names: &[], words: None, digits: false, composed: false, whole_words: false, begins: false };

const KNOWN: [Named; 5] = [
    Named { names: &["smollm"], digits: true, ..PLAIN },
    Named { names: &["qwen2"], words: Some(QWEN2), composed: true, ..PLAIN },
    Named { names: &["qwen35"], words: Some(QWEN35), composed: true, ..PLAIN },
    Named {
        names: &["llama-bpe", "llama3", "llama-v3"],
        words: Some(LLAMA3),
        whole_words: true,
        begins: true,
        ..PLAIN
    },
    Named { names: &["gpt-2"], ..PLAIN },
];

/// The way to split of a name.
pub(crate) fn find(name: Option<&str>) -> Result<Splitting, TextError> {
    let known = name.and_then(|name| KNOWN.iter().find(|known| known.names.contains(&name)));
    let Some(known) = known else {
        let shown: String = name.unwrap_or("none at all").chars().take(100).collect();
        let names = KNOWN.iter().flat_map(|known| known.names).copied().collect::<Vec<_>>().join(", ");
        let reason = format!(
            "its pre-tokenizer is `{shown}`, which is not known; known are: {names}. A tokenizer.json beside the file is used instead"
        );
        return Err(TextError::BadVocabulary { reason });
    };
    let bytes = json!({
        "type": "ByteLevel",
        "add_prefix_space": false,
        "trim_offsets": true,
        "use_regex": known.words.is_none(),
    });
    let mut steps = Vec::new();
    if known.digits {
        steps.push(json!({"type": "Digits", "individual_digits": true}));
    }
    if let Some(words) = known.words {
        let pattern = json!({"Regex": words});
        steps.push(json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false}));
    }
    steps.push(bytes.clone());
    Ok(Splitting {
        normaliser: if known.composed { json!({"type": "NFC"}) } else { Value::Null },
        splitter: json!({"type": "Sequence", "pretokenizers": steps}),
        decoder: bytes,
        whole_words: known.whole_words,
        begins: known.begins,
    })
}

#[cfg(test)]
mod tests {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

    use super::*;

    #[test]
    fn words_of_each_way() {
        let text = "It's 1234 e\u{301}tudes,  I'LL go\n\n on!";
        for (name, words) in [
            ("gpt-2", "It|'s| 1234| e|\u{301}|tudes|,| | I|'|LL| go|\n\n| on|!"),
            ("smollm", "It|'s| |1|2|3|4| e|\u{301}|tudes|,| | I|'|LL| go|\n\n| on|!"),
            ("llama-bpe", "It|'s| |123|4| e|\u{301}tudes|,| | I|'LL| go|\n\n| on|!"),
            ("qwen2", "It|'s| |1|2|3|4| e|\u{301}tudes|,| | I|'LL| go|\n\n| on|!"),
            ("qwen35", "It|'s| |1|2|3|4| e\u{301}tudes|,| | I|'LL| go|\n\n| on|!"),
        ] {
            let splitting = find(Some(name)).expect("known");
            let splitter: PreTokenizerWrapper = serde_json::from_value(splitting.splitter).expect("valid");
            let mut split = PreTokenizedString::from(text);
            splitter.pre_tokenize(&mut split).expect("splits");
            let found = split
                .get_splits(OffsetReferential::Original, OffsetType::Byte)
                .into_iter()
                .map(|(_, (start, end), _)| &text[start..end])
                .collect::<Vec<_>>()
                .join("|");
            assert_eq!(found, words, "{name}");
        }
    }
}
