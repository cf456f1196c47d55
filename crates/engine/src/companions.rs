//! What a model brings beside its weights: tokenizer, template, ends and defaults.
//!
//! A safetensors model has files for them; a GGUF file holds them itself. A `tokenizer.json` or `chat_template.jinja`
//! that lies beside a GGUF file is used where the file holds none, or none that is known.

use fiddlehead_checkpoint::gguf::Metadata;
use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_text::{ChatTemplate, TextError, Tokenizer, end_tokens};
use serde_json::Value;

use crate::{Defaults, EngineError, gguf};

const TOKENIZER: &str = "tokenizer.json";

/// What the files say, or the one file.
pub(crate) struct Companions {
    pub tokenizer: Tokenizer,
    pub template: Option<ChatTemplate>,
    pub ends: Vec<u32>,
    pub defaults: Defaults,
}

impl Companions {
    pub(crate) fn read(checkpoint: &Checkpoint) -> Result<Companions, EngineError> {
        match checkpoint.description() {
            Description::HuggingFace { config, generation_config } => {
                Companions::of_files(checkpoint, config, generation_config.as_ref())
            }
            Description::Gguf(metadata) => Companions::of_gguf(checkpoint, metadata),
        }
    }

    fn of_files(
        checkpoint: &Checkpoint,
        config: &Value,
        generation: Option<&Value>,
    ) -> Result<Companions, EngineError> {
        let files = checkpoint.companions();
        let advice = "a model needs its tokenizer beside its weights; download the whole folder";
        let tokenizer = Tokenizer::from_json(&files.require(TOKENIZER, advice)?)?;
        let tokenizer_config = files.read_object("tokenizer_config.json")?;
        let template = template(checkpoint, tokenizer_config.as_ref().unwrap_or(&Value::Null))?;
        let ends = end_tokens(&tokenizer, generation, tokenizer_config.as_ref(), config);
        let place = format!("{}: generation_config.json", files.place());
        let defaults =
            generation.map_or(Ok(Defaults::default()), |json| Defaults::from_json(json, &place))?;
        Ok(Companions { tokenizer, template, ends, defaults })
    }

    fn of_gguf(checkpoint: &Checkpoint, metadata: &Metadata) -> Result<Companions, EngineError> {
        let files = checkpoint.companions();
        let tokenizer = match gguf::tokenizer(metadata) {
            Ok(tokenizer) => tokenizer,
            Err(why @ TextError::BadVocabulary { .. }) => match files.read(TOKENIZER)? {
                Some(json) => Tokenizer::from_json(&json)?,
                None => return Err(why.into()),
            },
            Err(other) => return Err(other.into()),
        };
        let tokenizer_config = gguf::tokenizer_config(metadata);
        let template = match &tokenizer_config["chat_template"] {
            Value::Null => template(checkpoint, &tokenizer_config)?,
            _ => ChatTemplate::from_config(&tokenizer_config, None)?,
        };
        let place = format!("{}: metadata `general.sampling`", files.place());
        let defaults = Defaults::from_json(&gguf::generation_config(metadata), &place)?;
        Ok(Companions { ends: gguf::ends(metadata, &tokenizer), tokenizer, template, defaults })
    }
}

/// The template of a configuration or of the file beside it.
fn template(checkpoint: &Checkpoint, tokenizer_config: &Value) -> Result<Option<ChatTemplate>, EngineError> {
    let file = checkpoint.companions().read("chat_template.jinja")?;
    let file = file.as_deref().map(String::from_utf8_lossy);
    Ok(ChatTemplate::from_config(tokenizer_config, file.as_deref())?)
}
