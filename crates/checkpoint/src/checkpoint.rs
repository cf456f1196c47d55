//! A model's weights and configuration, opened and checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fiddlehead_storage::{Bytes, Tensor, pack_f8_e4m3};
use serde_json::Value;

use crate::locate::{Index, Located, locate};
use crate::mapped::map;
use crate::safetensors::{self, Element};
use crate::{CheckpointError, Companions};

/// The name under which the embedded weights appear in messages.
const EMBEDDED: &str = "the embedded model.safetensors";
/// The type of eight-bit weights, served where a tensor named `…_scale_inv` holds a scale for each 128 × 128 of them.
const F8: &str = "F8_E4M3";

/// A tensor that a file holds in a type no storage format serves.
#[derive(Debug, Clone)]
pub struct Unserved {
    /// The file that holds it.
    pub path: PathBuf,
    /// Its type.
    pub element: Element,
    /// The dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The stored bytes.
    pub bytes: Bytes,
}

/// An opened model: weights by name, configuration, and the small files beside them.
///
/// The weights stay in the mapped file (or in the program, for an embedded one); nothing is copied, except eight-bit
/// weights, which are put together with their scales. Every range was checked on opening.
#[derive(Debug)]
pub struct Checkpoint {
    tensors: BTreeMap<String, Tensor>,
    unserved: BTreeMap<String, Unserved>,
    config: Value,
    generation_config: Option<Value>,
    companions: Companions,
    bytes: u64,
}

impl Checkpoint {
    /// Opens the model at `path`: the folder that holds `config.json` and either `model.safetensors` or
    /// `model.safetensors.index.json` with its shards, or one of those files itself.
    ///
    /// # Errors
    /// When files are missing, cannot be read, or contradict themselves or each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, CheckpointError> {
        let Located { folder, weights, index } = locate(path.as_ref())?;
        let mut opened = Opened::default();
        for path in weights {
            let bytes = map(&path).map_err(|source| CheckpointError::Io { path: path.clone(), source })?;
            opened.add(path, bytes)?;
        }
        if let Some(index) = index {
            opened.check_index(&index)?;
        }
        opened.finish(Companions::Folder(folder))
    }

    /// Opens a model that is embedded in the program: the bytes of its safetensors file, and its small files by name
    /// (`config.json` at least).
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn embedded(
        weights: &'static [u8],
        companions: &'static [(&'static str, &'static [u8])],
    ) -> Result<Checkpoint, CheckpointError> {
        let mut opened = Opened::default();
        opened.add(PathBuf::from(EMBEDDED), Bytes::from_static(weights))?;
        opened.finish(Companions::Embedded(companions))
    }

    /// All tensors that can be served, by name.
    pub fn tensors(&self) -> &BTreeMap<String, Tensor> {
        &self.tensors
    }

    /// The tensors that are stored in a type which no format serves, by name.
    pub fn unserved(&self) -> &BTreeMap<String, Unserved> {
        &self.unserved
    }

    /// One tensor.
    ///
    /// # Errors
    /// [`CheckpointError::NoSuchTensor`] with the nearest name, or [`CheckpointError::UnservedType`].
    pub fn tensor(&self, name: &str) -> Result<&Tensor, CheckpointError> {
        if let Some(tensor) = self.tensors.get(name) {
            return Ok(tensor);
        }
        if let Some(unserved) = self.unserved.get(name) {
            return Err(CheckpointError::UnservedType {
                path: unserved.path.clone(),
                name: name.to_owned(),
                element: unserved.element.name(),
            });
        }
        Err(CheckpointError::NoSuchTensor { name: name.to_owned(), nearest: self.nearest(name) })
    }

    /// `config.json`, a JSON object.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// `generation_config.json`, a JSON object, when there is one.
    pub fn generation_config(&self) -> Option<&Value> {
        self.generation_config.as_ref()
    }

    /// The small files beside the weights: `tokenizer.json` and others.
    pub fn companions(&self) -> &Companions {
        &self.companions
    }

    /// The model's folder; `None` for an embedded model.
    pub fn folder(&self) -> Option<&Path> {
        match &self.companions {
            Companions::Folder(folder) => Some(folder),
            Companions::Embedded(_) => None,
        }
    }

    /// Bytes of all weight files together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The name with the longest common beginning and end, when most of it is shared.
    fn nearest(&self, name: &str) -> Option<String> {
        let shared = |other: &str| {
            let start = name.bytes().zip(other.bytes()).take_while(|(left, right)| left == right).count();
            let end =
                name.bytes().rev().zip(other.bytes().rev()).take_while(|(left, right)| left == right).count();
            (start + end).min(name.len()).min(other.len())
        };
        let best = self.tensors.keys().max_by_key(|other| (shared(other), std::cmp::Reverse(other.len())))?;
        (shared(best) * 3 >= name.len() * 2).then(|| best.clone())
    }
}

/// The tensors of the files opened so far.
#[derive(Default)]
struct Opened {
    tensors: BTreeMap<String, Tensor>,
    unserved: BTreeMap<String, Unserved>,
    /// Tensor name to position in `paths`.
    homes: BTreeMap<String, usize>,
    paths: Vec<PathBuf>,
    bytes: u64,
}

impl Opened {
    fn add(&mut self, path: PathBuf, bytes: Bytes) -> Result<(), CheckpointError> {
        let entries = safetensors::parse(&bytes)
            .map_err(|source| CheckpointError::Safetensors { path: path.clone(), source })?;
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        for entry in entries {
            let bad = |reason: String| CheckpointError::Safetensors {
                path: path.clone(),
                source: safetensors::FileError::BadTensor { name: entry.name.clone(), reason },
            };
            if let Some(&other) = self.homes.get(&entry.name) {
                let other = self.paths.get(other).map(|path| path.display().to_string()).unwrap_or_default();
                return Err(bad(format!("also in {other}; a tensor belongs to one file")));
            }
            self.homes.insert(entry.name.clone(), self.paths.len());
            let view = bytes.slice(entry.range.clone()).ok_or_else(|| bad("past the end".to_owned()))?;
            let Some(format) = entry.element.format() else {
                let unserved =
                    Unserved { path: path.clone(), element: entry.element, shape: entry.shape, bytes: view };
                self.unserved.insert(entry.name, unserved);
                continue;
            };
            let tensor =
                Tensor::new(format, entry.shape.clone(), view).map_err(|error| bad(error.to_string()))?;
            self.tensors.insert(entry.name, tensor);
        }
        self.paths.push(path);
        Ok(())
    }

    /// Every tensor that the index names lies in the shard it names.
    fn check_index(&self, index: &Index) -> Result<(), CheckpointError> {
        for (name, shard) in &index.shards {
            let home = self.homes.get(name).and_then(|&home| self.paths.get(home)?.file_name());
            if home.is_some_and(|home| home == shard.as_str()) {
                continue;
            }
            return Err(CheckpointError::Index {
                path: index.path.clone(),
                reason: format!(
                    "tensor `{name}` should be in `{shard}` and is not; download the model again"
                ),
            });
        }
        Ok(())
    }

    /// Puts each eight-bit weight together with its scales, which files keep in a tensor beside it.
    fn join_scales(&mut self) -> Result<(), CheckpointError> {
        for (name, weight) in std::mem::take(&mut self.unserved) {
            let scales_name = format!("{name}_scale_inv");
            let scales = match self.tensors.get(&scales_name) {
                Some(scales) if weight.element.name() == F8 => scales,
                _ => {
                    self.unserved.insert(name, weight);
                    continue;
                }
            };
            let joined = pack_f8_e4m3(weight.shape, &weight.bytes, scales).map_err(|error| {
                let reason = format!("with its scales `{scales_name}`: {error}");
                CheckpointError::Safetensors {
                    path: weight.path,
                    source: safetensors::FileError::BadTensor { name: name.clone(), reason },
                }
            })?;
            self.tensors.remove(&scales_name);
            self.tensors.insert(name, joined);
        }
        Ok(())
    }

    fn finish(mut self, companions: Companions) -> Result<Checkpoint, CheckpointError> {
        self.join_scales()?;
        let config = companions.read_object("config.json")?.ok_or_else(|| CheckpointError::MissingFile {
            place: companions.place(),
            name: "config.json".to_owned(),
            advice: "a safetensors model needs it beside its weights; download the whole folder",
        })?;
        let generation_config = companions.read_object("generation_config.json")?;
        Ok(Checkpoint {
            tensors: self.tensors,
            unserved: self.unserved,
            config,
            generation_config,
            companions,
            bytes: self.bytes,
        })
    }
}
