//! What a model's files hold, whether they can be served, and how much memory that takes. Nothing is loaded.

use std::collections::BTreeSet;

use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_graph::ModelGraph;
use fiddlehead_graph::queries::{HistoryStorage, history_storage};

use crate::companions::Companions;
use crate::{EngineError, ModelSource, Prepared};

/// A model looked at.
#[derive(Debug)]
pub struct Inspection {
    /// The kind of its files: `GGUF` or `safetensors`.
    pub kind: &'static str,
    /// Bytes of all weight files together.
    pub bytes: u64,
    /// What it says about itself: keys and values, each value on one line and cut where it is long.
    pub metadata: Vec<(String, String)>,
    /// Its tensors, by name.
    pub tensors: Vec<TensorEntry>,
    /// How it would be served, or why it cannot be.
    pub serving: Result<Serving, EngineError>,
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
    /// Whether it can be talked with.
    pub has_chat_template: bool,
    /// The longest path when nothing else is asked for, in tokens.
    pub context: usize,
    /// The longest path that it was made for, in tokens; 0 when it does not say.
    pub trained_context: usize,
    /// What it takes.
    pub memory: MemoryEstimate,
}

/// Bytes that serving takes. Buffers of a device for its kernels come on top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Weights that are read where they lie in the file.
    pub mapped_weights: u64,
    /// Weights that are changed or put together on loading.
    pub copied_weights: u64,
    /// What a session keeps for each token of its path.
    pub per_token: u64,
    /// What a session keeps however long its path is.
    pub per_session: u64,
}

impl MemoryEstimate {
    /// All of it, with one session of that many tokens.
    pub fn total(&self, tokens: usize) -> u64 {
        let history = self.per_token.saturating_mul(tokens as u64);
        [self.mapped_weights, self.copied_weights, self.per_session]
            .into_iter()
            .fold(history, u64::saturating_add)
    }
}

/// Looks at a model. That it cannot be served is part of the answer.
///
/// # Errors
/// When its files cannot be read, or contradict themselves or each other.
pub fn inspect(source: ModelSource<'_>) -> Result<Inspection, EngineError> {
    let checkpoint = source.open()?;
    let (kind, metadata) = match checkpoint.description() {
        Description::HuggingFace { config, .. } => ("safetensors", json_lines(config)),
        Description::Gguf(metadata) => {
            ("GGUF", metadata.iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect())
        }
    };
    Ok(Inspection {
        kind,
        bytes: checkpoint.bytes(),
        metadata,
        tensors: tensors(&checkpoint),
        serving: serving(&checkpoint),
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

fn json_lines(config: &serde_json::Value) -> Vec<(String, String)> {
    const LONGEST: usize = 100;
    let line = |(key, value): (&String, &serde_json::Value)| {
        let value = value.to_string();
        let cut = value.char_indices().nth(LONGEST).map(|(end, _)| format!("{}…", &value[..end]));
        (key.clone(), cut.unwrap_or(value))
    };
    config.as_object().into_iter().flatten().map(line).collect()
}

fn serving(checkpoint: &Checkpoint) -> Result<Serving, EngineError> {
    let architecture = fiddlehead_models::find(&fiddlehead_models::Config::of(checkpoint))?.name;
    let prepared = Prepared::new(checkpoint)?;
    let companions = Companions::read(checkpoint)?;
    // A weight that is a tensor as it stands has its bytes; one that was changed has bytes of its own.
    let mapped: BTreeSet<_> = checkpoint.tensors().values().map(|tensor| tensor.bytes().as_ptr()).collect();
    let mut memory = MemoryEstimate::default();
    for weight in prepared.weights.values() {
        let bytes = weight.bytes();
        let is_mapped = mapped.contains(&bytes.as_ptr());
        let part = if is_mapped { &mut memory.mapped_weights } else { &mut memory.copied_weights };
        *part = part.saturating_add(bytes.len() as u64);
    }
    add_sessions(&mut memory, &prepared.graphs);
    Ok(Serving {
        architecture,
        steps: prepared.graphs.steps.iter().map(|step| step.name().to_owned()).collect(),
        has_chat_template: companions.template.is_some(),
        context: prepared.usual_context(),
        trained_context: prepared.trained_context,
        memory,
    })
}

/// What the steps keep of a path. All elements take four bytes.
fn add_sessions(memory: &mut MemoryEstimate, model: &ModelGraph) {
    let bytes = |shape: &[usize]| shape.iter().fold(4u64, |bytes, &size| bytes.saturating_mul(size as u64));
    for step in &model.steps {
        for state in step.states() {
            memory.per_session = memory.per_session.saturating_add(bytes(&state.shape));
        }
        for (history, storage) in step.histories().iter().zip(history_storage(step)) {
            let row = step.shape(history.row).map_or(0, |shape| bytes(&shape));
            match storage {
                HistoryStorage::Nothing => {}
                HistoryStorage::Whole | HistoryStorage::Both { .. } => {
                    memory.per_token = memory.per_token.saturating_add(row)
                }
                HistoryStorage::Ring { reach } => {
                    let kept = row.saturating_mul(reach as u64);
                    memory.per_session = memory.per_session.saturating_add(kept);
                }
            }
        }
    }
}
