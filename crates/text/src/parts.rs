//! A tokenizer from its parts, as files hold them that have no `tokenizer.json`.
//!
//! Two kinds of vocabulary: byte-level pairs with a list of merges (`gpt2`), and SentencePiece's, where a piece's score
//! says how early it is put together (`llama`). A score is turned into merges: each way to split a piece into two
//! pieces is one, the best score first.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper};

use crate::pre_tokenizers::{self, Splitting};
use crate::{TextError, Tokenizer};

/// Vocabularies above this are not believed.
const MOST_TOKENS: usize = 1 << 22;
/// Pieces longer than this, in bytes, are never put together: no real piece is, and one piece as long as a file would
/// take the square of its length to split.
const LONGEST_PIECE: usize = 256;
/// SentencePiece's sign for a space.
const SPACE: &str = "▁";

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A part of words.
    Normal,
    /// Stands for what no other token does.
    Unknown,
    /// A sign to the model.
    Control,
    /// A text that is always one token.
    UserDefined,
    /// An id without a meaning.
    Unused,
    /// One byte, written `<0x0A>`.
    Byte,
}

impl TokenKind {
    /// The kind of a number in SentencePiece's and GGUF's files.
    pub fn from_id(id: i64) -> Option<TokenKind> {
        Some(match id {
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return None,
        })
    }
}

/// The parts of a tokenizer.
#[derive(Debug, Clone, Default)]
pub struct TokenizerParts<'a> {
    /// The kind of vocabulary: `gpt2` or `llama`.
    pub model: &'a str,
    /// How a text is split into words, by its name in GGUF files; only for `gpt2`.
    pub pre_tokenizer: Option<&'a str>,
    /// Every token's entry, by id.
    pub tokens: Vec<&'a str>,
    /// Every token's kind, by id; all normal when empty.
    pub kinds: Vec<TokenKind>,
    /// For `gpt2`: two entries with a space between, the earliest first.
    pub merges: Vec<&'a str>,
    /// For `llama`: every piece's score, by id.
    pub scores: Vec<f32>,
    /// The token for the beginning of a text.
    pub begin: Option<u32>,
    /// Whether it is put before a whole text; when not said, what is usual for the vocabulary.
    pub begins: Option<bool>,
    /// For `llama`: the token for what no other stands for.
    pub unknown: Option<u32>,
    /// For `llama`: whether a space is put before a text.
    pub space_prefix: bool,
}

fn bad(reason: impl Into<String>) -> TextError {
    TextError::BadVocabulary { reason: reason.into() }
}

impl TokenizerParts<'_> {
    fn kind(&self, id: usize) -> TokenKind {
        self.kinds.get(id).copied().unwrap_or(TokenKind::Normal)
    }

    fn check(&self) -> Result<(), TextError> {
        let count = self.tokens.len();
        if count == 0 || count > MOST_TOKENS {
            return Err(bad(format!("{count} tokens; from 1 to {MOST_TOKENS} are wanted")));
        }
        if !self.kinds.is_empty() && self.kinds.len() != count {
            return Err(bad(format!("{count} tokens and the kinds of {}", self.kinds.len())));
        }
        for (what, id) in [("beginning", self.begin), ("unknown", self.unknown)] {
            if id.is_some_and(|id| id as usize >= count) {
                return Err(bad(format!("its {what} token is past its {count} tokens")));
            }
        }
        Ok(())
    }

    /// Ids by entry; of two equal entries the first has it.
    fn vocabulary(&self) -> HashMap<&str, u32> {
        let mut vocabulary = HashMap::with_capacity(self.tokens.len());
        for (id, &token) in (0u32..).zip(&self.tokens) {
            if self.kind(id as usize) != TokenKind::Unused {
                vocabulary.entry(token).or_insert(id);
            }
        }
        vocabulary
    }

    fn added(&self) -> Vec<AddedToken> {
        let added = |(id, token): (usize, &&str)| {
            let special = match self.kind(id) {
                TokenKind::Control | TokenKind::Unknown => true,
                TokenKind::UserDefined => false,
                TokenKind::Normal | TokenKind::Unused | TokenKind::Byte => return None,
            };
            Some(AddedToken::from((*token).to_owned(), special).normalized(false))
        };
        self.tokens.iter().enumerate().filter_map(added).collect()
    }

    /// The listed merges.
    fn listed_merges(&self) -> Result<Vec<(String, String)>, TextError> {
        let split = |merge: &&str| {
            let (left, right) = merge.split_once(' ')?;
            Some((left.to_owned(), right.to_owned()))
        };
        let merges: Option<Vec<_>> = self.merges.iter().map(split).collect();
        merges.ok_or_else(|| bad("a merge is not two entries with a space between"))
    }

    /// The merges that the scores mean.
    fn scored_merges(&self, vocabulary: &HashMap<&str, u32>) -> Result<Vec<(String, String)>, TextError> {
        if self.scores.len() != self.tokens.len() {
            return Err(bad(format!("{} tokens and {} scores", self.tokens.len(), self.scores.len())));
        }
        let mut merges = Vec::new();
        for (id, (&token, &score)) in self.tokens.iter().zip(&self.scores).enumerate() {
            if self.kind(id) != TokenKind::Normal || token.len() > LONGEST_PIECE {
                continue;
            }
            let mut splits: Vec<(u32, u32)> = token
                .char_indices()
                .skip(1)
                .filter_map(|(at, _)| {
                    let (left, right) = token.split_at(at);
                    Some((*vocabulary.get(left)?, *vocabulary.get(right)?))
                })
                .collect();
            splits.sort_unstable();
            merges.extend(splits.into_iter().map(|split| (score, split)));
        }
        let text = |id: u32| self.tokens.get(id as usize).copied().unwrap_or_default();
        let length = |id: u32| text(id).chars().count();
        merges.sort_by(|(a, (a_left, a_right)), (b, (b_left, b_right))| {
            b.total_cmp(a)
                .then_with(|| length(*b_left).cmp(&length(*a_left)))
                .then_with(|| length(*b_right).cmp(&length(*a_right)))
        });
        Ok(merges
            .into_iter()
            .map(|(_, (left, right))| (text(left).to_owned(), text(right).to_owned()))
            .collect())
    }
}

impl Tokenizer {
    /// A tokenizer from its parts.
    ///
    /// # Errors
    /// [`TextError::BadVocabulary`] when the parts do not fit each other, or the kind of vocabulary or the way a text is
    /// split is not known.
    pub fn from_parts(parts: &TokenizerParts<'_>) -> Result<Tokenizer, TextError> {
        parts.check()?;
        // As with a file of its own format, a malformed part must not end the program.
        let vocabulary = parts.vocabulary();
        let pipeline = catch_unwind(AssertUnwindSafe(|| pipeline(parts, &vocabulary)))
            .map_err(|_| bad("a part of it is malformed"))??;
        let entries: Vec<(&str, u32)> = vocabulary.into_iter().collect();
        Tokenizer::from_pipeline(pipeline, &entries)
    }
}

fn pipeline(
    parts: &TokenizerParts<'_>,
    vocabulary: &HashMap<&str, u32>,
) -> Result<tokenizers::Tokenizer, TextError> {
    let builder = BPE::builder();
    let (builder, splitting) = match parts.model {
        "gpt2" => {
            let splitting = pre_tokenizers::find(parts.pre_tokenizer)?;
            (builder.ignore_merges(splitting.whole_words), splitting)
        }
        "llama" => {
            let unknown = parts.unknown.and_then(|id| parts.tokens.get(id as usize).copied());
            let builder = match unknown {
                Some(unknown) => builder.unk_token(unknown.to_owned()),
                None => builder,
            };
            (builder.fuse_unk(true).byte_fallback(true), sentence_piece(parts.space_prefix))
        }
        other => {
            let other: String = other.chars().take(100).collect();
            return Err(bad(format!(
                "vocabularies of kind `{other}` are not known; known are gpt2 and llama"
            )));
        }
    };
    let merges = match parts.model {
        "gpt2" => parts.listed_merges()?,
        _ => parts.scored_merges(vocabulary)?,
    };
    let vocabulary: Vocab = vocabulary.iter().map(|(&token, &id)| (token.to_owned(), id)).collect();
    let model =
        builder.vocab_and_merges(vocabulary, merges).build().map_err(|error| bad(error.to_string()))?;
    let mut pipeline = tokenizers::Tokenizer::new(model);
    let Splitting { normaliser, splitter, decoder, begins, .. } = splitting;
    pipeline.with_normalizer(part::<NormalizerWrapper>(normaliser)?);
    pipeline.with_pre_tokenizer(part::<PreTokenizerWrapper>(splitter)?);
    pipeline.with_decoder(part::<DecoderWrapper>(decoder)?);
    let begin = parts.begin.filter(|_| parts.begins.unwrap_or(begins));
    if begin.is_some_and(|id| parts.kind(id as usize) == TokenKind::Unused) {
        return Err(bad("its beginning token is marked as unused"));
    }
    let begin = begin.and_then(|id| Some((id, *parts.tokens.get(id as usize)?)));
    pipeline.with_post_processor(part::<PostProcessorWrapper>(begin.map_or(Value::Null, put_before))?);
    pipeline.add_tokens(&parts.added());
    Ok(pipeline)
}

/// A step of the pipeline, from what a `tokenizer.json` would say about it.
fn part<Part: DeserializeOwned>(json: Value) -> Result<Option<Part>, TextError> {
    serde_json::from_value(json).map_err(|error| bad(error.to_string()))
}

/// What a SentencePiece vocabulary does to a text, and undoes.
fn sentence_piece(space_prefix: bool) -> Splitting {
    let mut before = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})];
    let mut after = vec![
        json!({"type": "Replace", "pattern": {"String": SPACE}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if space_prefix {
        before.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
        after.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Splitting {
        normaliser: json!({"type": "Sequence", "normalizers": before}),
        splitter: Value::Null,
        decoder: json!({"type": "Sequence", "decoders": after}),
        whole_words: false,
        begins: true,
    }
}

/// The step that puts a token before a whole text.
fn put_before((id, token): (u32, &str)) -> Value {
    let token_step = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |name: &str, kind: u32| json!({"Sequence": {"id": name, "type_id": kind}});
    let mut special = serde_json::Map::new();
    special.insert(token.to_owned(), json!({"id": token, "ids": [id], "tokens": [token]}));
    json!({
        "type": "TemplateProcessing",
        "single": [token_step, text("A", 0)],
        "pair": [token_step, text("A", 0), token_step, text("B", 1)],
        "special_tokens": special,
    })
}
