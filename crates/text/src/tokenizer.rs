//! Text to tokens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use tokenizers::tokenizer::PostProcessor;
use tokenizers::{Encoding, Model, OffsetType, PreTokenizedString, PreTokenizer};

use crate::decoder::TokenDecoder;
use crate::growth;
use crate::post_processor;
use crate::specials::{Joins, SpecialTexts, free_mark};
use crate::vocabulary::{Added, Vocabulary};
use crate::{ChatRequest, ChatTemplate, Detokenizer, DetokenizerOptions, TextError};

/// What special tokens in a text mean.
///
/// Only tokens that the tokenizer calls special are meant: an added token that is an ordinary word (`<think>` in many
/// models) is always found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They are the tokens, as in a rendered chat template.
    Parse,
    /// They are text like any other, as in what a user wrote.
    Literal,
}

/// A model's tokenizer. Cloning is cheap.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    pipeline: tokenizers::Tokenizer,
    specials: SpecialTexts,
    vocabulary: Vocabulary,
    leading_spaces: usize,
}

impl Tokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// When it cannot be read, its decoder cannot be undone token by token, or its ids are absurd.
    pub fn from_json(json: &[u8]) -> Result<Tokenizer, TextError> {
        let bad = |reason: String| TextError::BadTokenizer { reason };
        // The library gives up on some malformed parts with a panic; a file must not end the program.
        let pipeline = catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(json)))
            .map_err(|_| bad("a part of it is malformed".to_owned()))?
            .map_err(|error| bad(error.to_string()))?;
        let entries = pipeline.get_vocab(false);
        let entries: Vec<(&str, u32)> = entries.iter().map(|(token, &id)| (token.as_str(), id)).collect();
        Tokenizer::from_pipeline(pipeline, &entries)
    }

    /// A tokenizer around the library's own, whose model has these entries.
    ///
    /// # Errors
    /// When its decoder cannot be undone token by token, or its ids are absurd.
    pub(crate) fn from_pipeline(
        pipeline: tokenizers::Tokenizer,
        entries: &[(&str, u32)],
    ) -> Result<Tokenizer, TextError> {
        let bad = |reason: String| TextError::BadTokenizer { reason };
        let decoder = pipeline.get_decoder().map_or(Ok(Value::Null), serde_json::to_value);
        let decoder = TokenDecoder::from_json(&decoder.map_err(|error| bad(error.to_string()))?)?;
        let normaliser = pipeline.get_normalizer().map_or(Ok(Value::Null), serde_json::to_value);
        growth::check(&normaliser.map_err(|error| bad(error.to_string()))?)?;
        let added = pipeline.get_added_vocabulary().get_added_tokens_decoder();
        let specials = added.values().filter(|token| token.special).map(|token| token.content.clone());
        let specials = SpecialTexts::new(specials);
        let added = added
            .iter()
            .map(|(&id, token)| (id, Added { content: token.content.clone(), special: token.special }))
            .collect();
        let vocabulary = Vocabulary::new(entries, added, &decoder)?;
        let processor = pipeline.get_post_processor().map_or(Ok(Value::Null), serde_json::to_value);
        post_processor::check(&processor.map_err(|error| bad(error.to_string()))?, vocabulary.size())?;
        let leading_spaces = decoder.leading_spaces;
        Ok(Tokenizer { inner: Arc::new(Inner { pipeline, specials, vocabulary, leading_spaces }) })
    }

    /// The tokens of a text; nothing is put before or behind it, nothing is cut.
    ///
    /// # Errors
    /// When the tokenizer refuses the text: a vocabulary without some character and without an unknown token.
    pub fn encode(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TextError> {
        Ok(self.encoding(text, specials)?.get_ids().to_vec())
    }

    /// As [`Tokenizer::encode`], with what the tokenizer puts around a whole text, such as a token for its beginning.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str, specials: Specials) -> Result<Vec<u32>, TextError> {
        let encoding = self.encoding(text, specials)?;
        match self.inner.pipeline.get_post_processor() {
            Some(processor) => {
                let encoding = processor.process(encoding, None, true).map_err(refused)?;
                Ok(encoding.get_ids().to_vec())
            }
            None => Ok(encoding.get_ids().to_vec()),
        }
    }

    /// The tokens of a conversation: the template's own special tokens are parsed, and everything that the request
    /// brought is literal. Where the request holds nothing that looks like a special token, these are the tokens of the
    /// rendered text.
    ///
    /// # Errors
    /// When the template cannot render the request ([`ChatTemplate::render`]), or as [`Tokenizer::encode`].
    pub fn encode_chat(&self, template: &ChatTemplate, request: &ChatRequest) -> Result<Vec<u32>, TextError> {
        let specials = &self.inner.specials;
        let mut marks = false;
        request.each_text(&mut |text| marks |= specials.occur_in(text, Joins::Perhaps));
        if !marks {
            return self.encode(&template.render(request)?, Specials::Parse);
        }
        let mut used = Vec::new();
        let private = |character: &char| *character as u32 >= 0x10_0000;
        request.each_text(&mut |text| used.extend(text.chars().filter(private)));
        used.extend(template.characters().filter(private));
        let mark = free_mark(used.into_iter()).ok_or(TextError::NoFreeCharacter)?;
        let text =
            template.render_marked(request, mark, &|text| specials.mark(text, mark, Joins::Perhaps))?;
        Ok(self.marked_encoding(&text, Some(mark))?.get_ids().to_vec())
    }

    /// One more than the largest token id. A model's output may be wider.
    pub fn vocabulary(&self) -> usize {
        self.inner.vocabulary.size()
    }

    /// The bytes that a token stands for, which may be part of a character; `None` for an id without a token.
    pub fn token_bytes(&self, token: u32) -> Option<&[u8]> {
        self.inner.vocabulary.bytes(token)
    }

    /// Whether a token is special: a sign to the model, not text.
    pub fn is_special(&self, token: u32) -> bool {
        self.inner.vocabulary.is_special(token)
    }

    /// The id of a token by its entry in the vocabulary or its text as an added token.
    pub fn token_id(&self, entry: &str) -> Option<u32> {
        self.inner.pipeline.token_to_id(entry)
    }

    /// The text of tokens that begin a text of their own.
    pub fn decode(&self, tokens: &[u32], skip_special: bool) -> String {
        let options = DetokenizerOptions { skip_special, ..DetokenizerOptions::default() };
        let Ok(mut detokenizer) = self.detokenizer(options) else { return String::new() };
        let mut text: String = tokens.iter().map(|&token| detokenizer.push(token).text).collect();
        text += &detokenizer.finish();
        text
    }

    /// Begins to make tokens into text.
    ///
    /// # Errors
    /// [`TextError::EmptyStop`].
    pub fn detokenizer(&self, options: DetokenizerOptions) -> Result<Detokenizer, TextError> {
        Detokenizer::new(self.clone(), options)
    }

    pub(crate) fn leading_spaces(&self) -> usize {
        self.inner.leading_spaces
    }

    fn encoding(&self, text: &str, specials: Specials) -> Result<Encoding, TextError> {
        if specials == Specials::Parse || !self.inner.specials.occur_in(text, Joins::Never) {
            return self.marked_encoding(text, None);
        }
        let mark = free_mark(text.chars()).ok_or(TextError::NoFreeCharacter)?;
        self.marked_encoding(&self.inner.specials.mark(text, mark, Joins::Never), Some(mark))
    }

    /// The library's own steps, with the mark taken out between the split at special tokens and the words.
    fn marked_encoding(&self, text: &str, mark: Option<char>) -> Result<Encoding, TextError> {
        let pipeline = &self.inner.pipeline;
        let mut words: PreTokenizedString =
            pipeline.get_added_vocabulary().extract_and_normalize(pipeline.get_normalizer(), text);
        if let Some(mark) = mark {
            words
                .normalize(|part| {
                    part.filter(|character| character != mark);
                    Ok(())
                })
                .map_err(refused)?;
        }
        if let Some(splitter) = pipeline.get_pre_tokenizer() {
            splitter.pre_tokenize(&mut words).map_err(refused)?;
        }
        words.tokenize(|word| pipeline.get_model().tokenize(word.get())).map_err(refused)?;
        words.into_encoding(None, 0, OffsetType::None).map_err(refused)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tokenizer").field("vocabulary", &self.vocabulary()).finish_non_exhaustive()
    }
}

fn refused(error: tokenizers::Error) -> TextError {
    TextError::Encode { reason: error.to_string() }
}
