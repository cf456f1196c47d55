//! What a model's files hold, whether they can be served, and how much memory that takes. Nothing is loaded.

use fiddlehead_checkpoint::gguf::Value as GgufValue;
use fiddlehead_checkpoint::{Checkpoint, Copying, Description};
use fiddlehead_plan::Device;
use serde_json::{Value, json};

use crate::companions::Companions;
use crate::{EngineError, MemoryEstimate, ModelOptions, ModelSource, Prepared, StepInterface};

/// A model looked at.
#[derive(Debug)]
pub struct Inspection {
    /// The kind of its files: `GGUF` or `safetensors`.
    pub kind: &'static str,
    /// Bytes of all weight files together.
    pub bytes: u64,
    /// What it says about itself.
    pub metadata: Vec<MetadataEntry>,
    /// Its tensors, by name.
    pub tensors: Vec<TensorEntry>,
    /// How it would be served, or why it cannot be.
    pub serving: Result<Serving, EngineError>,
}

/// A value that a model says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct MetadataEntry {
    /// Its key.
    pub key: String,
    /// The value on one line, cut where it is long.
    pub shown: String,
    /// The value. A long list is an object of its `length` and its `first` elements.
    pub value: Value,
}

/// A tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// The dimensions, outermost first.
    pub shape: Vec<usize>,
    /// How it is stored, in the file's words.
    pub stored_as: String,
    /// Stored bytes.
    pub bytes: usize,
    /// Whether a storage format serves it.
    pub served: bool,
}

/// How a model would be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The architecture, which is also the program's name.
    pub architecture: &'static str,
    /// The steps of its program that the weights suffice for.
    pub steps: Vec<String>,
    /// Tokens that it knows.
    pub vocabulary: usize,
    /// Whether it can be talked with.
    pub has_chat_template: bool,
    /// The longest path when nothing else is asked for, in tokens.
    pub context: usize,
    /// The longest path that it was made for, in tokens; 0 when it does not say.
    pub trained_context: usize,
    /// Tensors that the program has no use for, by name.
    pub unused: Vec<String>,
    /// What it takes with the context that was asked for.
    pub memory: MemoryEstimate,
}

/// Looks at a model as if to load it on a device. That it cannot be served is part of the answer.
///
/// # Errors
/// When its files cannot be read, or contradict themselves or each other.
pub fn inspect(
    source: ModelSource<'_>,
    device: &dyn Device,
    options: &ModelOptions,
) -> Result<Inspection, EngineError> {
    let checkpoint = source.open(Copying::Planned)?;
    let (kind, metadata) = match checkpoint.description() {
        Description::HuggingFace { config, .. } => {
            let entries = config.as_object().into_iter().flatten();
            ("safetensors", entries.map(|(key, value)| json_entry(key, value)).collect())
        }
        Description::Gguf(metadata) => {
            ("GGUF", metadata.iter().map(|(key, value)| gguf_entry(key, value)).collect())
        }
    };
    Ok(Inspection {
        kind,
        bytes: checkpoint.bytes(),
        metadata,
        tensors: tensors(&checkpoint),
        serving: serving(&checkpoint, device, options),
    })
}

fn tensors(checkpoint: &Checkpoint) -> Vec<TensorEntry> {
    let served = checkpoint.tensors().iter().map(|(name, tensor)| TensorEntry {
        name: name.clone(),
        shape: tensor.shape().to_vec(),
        stored_as: tensor.format().to_string(),
        bytes: tensor.bytes().len(),
        served: true,
    });
    let unserved = checkpoint.unserved().iter().map(|(name, tensor)| TensorEntry {
        name: name.clone(),
        shape: tensor.shape.clone(),
        stored_as: tensor.stored_as.clone(),
        bytes: tensor.bytes.len(),
        served: false,
    });
    let mut all: Vec<TensorEntry> = served.chain(unserved).collect();
    all.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)));
    all
}

/// A name in parts, so that layer 10 comes after layer 9.
fn natural(name: &str) -> Vec<(u64, &str)> {
    name.split('.').map(|part| part.parse().map_or((u64::MAX, part), |number| (number, ""))).collect()
}

/// Elements of a list that are given; vocabularies have hundreds of thousands.
const GIVEN: usize = 64;

fn json_entry(key: &str, value: &Value) -> MetadataEntry {
    const LONGEST: usize = 100;
    let text = value.to_string();
    let cut = text.char_indices().nth(LONGEST).map(|(end, _)| format!("{}…", &text[..end]));
    let value = match value {
        Value::Array(list) if list.len() > GIVEN => json!({ "length": list.len(), "first": list[..GIVEN] }),
        other => other.clone(),
    };
    MetadataEntry { key: key.to_owned(), shown: cut.unwrap_or(text), value }
}

fn gguf_entry(key: &str, value: &GgufValue) -> MetadataEntry {
    let given = match value.as_array() {
        Some(array) => {
            let first: Vec<Value> = array.values().take(GIVEN).map(|value| gguf_value(&value)).collect();
            if array.len() > GIVEN { json!({ "length": array.len(), "first": first }) } else { first.into() }
        }
        None => gguf_value(value),
    };
    MetadataEntry { key: key.to_owned(), shown: value.to_string(), value: given }
}

/// A text or a number. Numbers of 32 bits keep their short decimal form; what JSON has no number for is a text.
fn gguf_value(value: &GgufValue) -> Value {
    match value {
        GgufValue::Text(text) => String::from_utf8_lossy(text).into(),
        GgufValue::Bool(value) => (*value).into(),
        other => match (other.as_u64(), other.as_i64(), other.to_string()) {
            (Some(whole), ..) => whole.into(),
            (_, Some(whole), _) => whole.into(),
            (.., text) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => number.into(),
                _ => text.into(),
            },
        },
    }
}

fn serving(
    checkpoint: &Checkpoint,
    device: &dyn Device,
    options: &ModelOptions,
) -> Result<Serving, EngineError> {
    let architecture = fiddlehead_models::find(&fiddlehead_models::Config::of(checkpoint))?.name;
    let prepared = Prepared::new(checkpoint)?;
    let companions = Companions::read(checkpoint)?;
    let memory = MemoryEstimate::new(checkpoint, &prepared, device, &options.for_device(&prepared))?;
    Ok(Serving {
        architecture,
        steps: prepared.graphs.steps.iter().map(|step| step.name().to_owned()).collect(),
        vocabulary: StepInterface::of(&prepared.graphs)?.vocabulary(),
        has_chat_template: companions.template.is_some(),
        context: prepared.usual_context(),
        trained_context: prepared.trained_context,
        unused: prepared.unused,
        memory,
    })
}
