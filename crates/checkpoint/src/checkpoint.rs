//! A model's weights and configuration, opened and checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fiddlehead_storage::{Bytes, Format, Tensor, pack_f8_e4m3};

use crate::copies::{Copies, Copying};
use crate::locate::{Index, Located, Weights, locate};
use crate::mapped::{Mapped, map};
use crate::{CheckpointError, Companions, Description, gguf, safetensors, split};

/// The name under which the embedded weights appear in messages.
const EMBEDDED: &str = "the embedded model.safetensors";
/// The type of eight-bit weights, served where a tensor named `…_scale_inv` holds a scale for each 128 × 128 of them.
const F8: &str = "F8_E4M3";

/// A tensor that a file holds in a type no storage format serves.
#[derive(Debug, Clone)]
pub struct Unserved {
    /// The file that holds it.
    pub path: PathBuf,
    /// Its type as the file has it, with its number where types have numbers.
    pub stored_as: String,
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
    description: Description,
    companions: Companions,
    bytes: u64,
    files: Vec<Arc<Mapped>>,
    copies: Copies,
}

impl Checkpoint {
    /// Opens the model at `path`: a GGUF file (any one of several parts), or the folder that holds `config.json` and
    /// either `model.safetensors` or `model.safetensors.index.json` with its shards, or one of those files itself. A
    /// folder that holds one GGUF model and no safetensors is that model. A file with another ending is known by its
    /// first bytes.
    ///
    /// # Errors
    /// When files are missing, cannot be read, or contradict themselves or each other.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::open_with(path, Copying::Within(u64::MAX))
    }

    /// As [`Checkpoint::open`], with a say about copies of weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]; [`CheckpointError::CopiesTooLarge`].
    pub fn open_with(path: impl AsRef<Path>, copying: Copying) -> Result<Checkpoint, CheckpointError> {
        let Located { folder, weights } = locate(path.as_ref())?;
        let companions = Companions::Folder(folder);
        let mut mappings = Vec::new();
        let mut open = |path: &Path| {
            let (bytes, mapped) =
                map(path).map_err(|source| CheckpointError::Io { path: path.to_owned(), source })?;
            mappings.extend(mapped);
            refuse_stand_in(path, &bytes)?;
            Ok::<Bytes, CheckpointError>(bytes)
        };
        let mut opened = Opened::new(copying);
        match weights {
            Weights::Safetensors { files, index } => {
                for path in files {
                    let bytes = open(&path)?;
                    opened.add_safetensors(path, bytes)?;
                }
                if let Some(index) = index {
                    opened.check_index(&index)?;
                }
                opened.join_scales()?;
                let description = read_description(&companions)?;
                Ok(opened.finish(companions, description, mappings))
            }
            Weights::Gguf { files } => {
                let count = files.len();
                let mut first: Option<(PathBuf, gguf::Metadata)> = None;
                for (index, path) in files.into_iter().enumerate() {
                    let bytes = open(&path)?;
                    let metadata = opened.add_gguf(path.clone(), bytes, index, count)?;
                    first.get_or_insert((path, metadata));
                }
                let (path, metadata) = first.unwrap_or_default();
                split::check_total(&metadata, opened.homes.len())
                    .map_err(|reason| CheckpointError::Split { path, reason })?;
                Ok(opened.finish(companions, Description::Gguf(metadata), mappings))
            }
        }
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
        let mut opened = Opened::new(Copying::Within(u64::MAX));
        opened.add_safetensors(PathBuf::from(EMBEDDED), Bytes::from_static(weights))?;
        opened.join_scales()?;
        let companions = Companions::Embedded(companions);
        let description = read_description(&companions)?;
        Ok(opened.finish(companions, description, Vec::new()))
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
                stored_as: unserved.stored_as.clone(),
            });
        }
        Err(CheckpointError::NoSuchTensor { name: name.to_owned(), nearest: self.nearest(name) })
    }

    /// What the model says about itself.
    pub fn description(&self) -> &Description {
        &self.description
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

    /// Bytes of the weight files that are mapped into memory: pages that the system can drop and read again.
    pub fn mapped_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }

    /// Asks for room for a copy of a tensor, which somebody is about to make. `false` says that copies are only planned:
    /// zeros of the same length stand for it.
    ///
    /// # Errors
    /// [`CheckpointError::CopiesTooLarge`].
    pub fn room_for_copy(&self, name: &str, bytes: usize) -> Result<bool, CheckpointError> {
        self.copies.take(name, bytes)
    }

    /// Bytes of copies that were made or planned, of eight-bit weights with their scales and for whoever asked
    /// [`Checkpoint::room_for_copy`].
    pub fn copied_bytes(&self) -> u64 {
        self.copies.bytes()
    }

    /// Reads what of the weight files is not in memory yet, file after file; several times as fast as reading pages when
    /// they are first used. `go_on` hears how many of [`Checkpoint::mapped_bytes`] were gone through and says whether to
    /// go on. An embedded model has nothing to read.
    ///
    /// # Errors
    /// When a file cannot be read to its end.
    pub fn read_ahead(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<(), CheckpointError> {
        let mut done = 0;
        for file in &self.files {
            let mut next = |bytes: usize| {
                done += bytes as u64;
                go_on(done)
            };
            let failed = |source| CheckpointError::Io { path: file.path().to_owned(), source };
            if !file.read_ahead(&mut next).map_err(failed)? {
                break;
            }
        }
        Ok(())
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

/// A tensor in a file.
struct Found {
    /// Its format, or its type's name when no format serves it.
    format: Result<Format, String>,
    shape: Vec<usize>,
    /// `None` when its range is past the end.
    bytes: Option<Bytes>,
}

/// The tensors of the files opened so far.
struct Opened {
    tensors: BTreeMap<String, Tensor>,
    unserved: BTreeMap<String, Unserved>,
    /// Tensor name to position in `paths`.
    homes: BTreeMap<String, usize>,
    paths: Vec<PathBuf>,
    bytes: u64,
    copies: Copies,
}

impl Opened {
    fn new(copying: Copying) -> Opened {
        Opened {
            tensors: BTreeMap::new(),
            unserved: BTreeMap::new(),
            homes: BTreeMap::new(),
            paths: Vec::new(),
            bytes: 0,
            copies: Copies::new(copying),
        }
    }

    fn add_safetensors(&mut self, path: PathBuf, bytes: Bytes) -> Result<(), CheckpointError> {
        let entries = safetensors::parse(&bytes)
            .map_err(|source| CheckpointError::Safetensors { path: path.clone(), source })?;
        let bad = |name: &str, reason: String| CheckpointError::Safetensors {
            path: path.clone(),
            source: safetensors::FileError::BadTensor { name: name.to_owned(), reason },
        };
        for entry in entries {
            let found = Found {
                format: entry.element.format().ok_or_else(|| entry.element.name().to_owned()),
                shape: entry.shape,
                bytes: bytes.slice(entry.range),
            };
            self.add(&path, &entry.name, found).map_err(|reason| bad(&entry.name, reason))?;
        }
        self.end_file(path, bytes.len());
        Ok(())
    }

    /// Adds part `index` of `count`; gives its metadata.
    fn add_gguf(
        &mut self,
        path: PathBuf,
        bytes: Bytes,
        index: usize,
        count: usize,
    ) -> Result<gguf::Metadata, CheckpointError> {
        let file =
            gguf::parse(&bytes).map_err(|source| CheckpointError::Gguf { path: path.clone(), source })?;
        split::check(&file.metadata, index, count)
            .map_err(|reason| CheckpointError::Split { path: path.clone(), reason })?;
        for entry in file.tensors {
            let found = Found {
                format: entry.tensor_type.format().ok_or_else(|| entry.tensor_type.to_string()),
                shape: entry.shape,
                bytes: bytes.slice(entry.range),
            };
            self.add(&path, &entry.name, found).map_err(|reason| CheckpointError::Gguf {
                path: path.clone(),
                source: gguf::FileError::BadTensor { name: entry.name.clone(), reason },
            })?;
        }
        self.end_file(path, bytes.len());
        Ok(file.metadata)
    }

    /// Adds a tensor of the file at `path`, which comes next in `paths`.
    fn add(&mut self, path: &Path, name: &str, found: Found) -> Result<(), String> {
        if let Some(&other) = self.homes.get(name) {
            let other = self.paths.get(other).map(|path| path.display().to_string()).unwrap_or_default();
            return Err(format!("also in {other}; a tensor belongs to one file"));
        }
        self.homes.insert(name.to_owned(), self.paths.len());
        let bytes = found.bytes.ok_or_else(|| "past the end".to_owned())?;
        match found.format {
            Ok(format) => {
                let tensor = Tensor::new(format, found.shape, bytes).map_err(|error| error.to_string())?;
                self.tensors.insert(name.to_owned(), tensor);
            }
            Err(stored_as) => {
                let unserved = Unserved { path: path.to_owned(), stored_as, shape: found.shape, bytes };
                self.unserved.insert(name.to_owned(), unserved);
            }
        }
        Ok(())
    }

    fn end_file(&mut self, path: PathBuf, bytes: usize) {
        self.paths.push(path);
        self.bytes = self.bytes.saturating_add(bytes as u64);
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
                Some(scales) if weight.stored_as == F8 => scales,
                _ => {
                    self.unserved.insert(name, weight);
                    continue;
                }
            };
            let length = Format::F8_E4M3_128.bytes_for_shape(&weight.shape).unwrap_or(weight.bytes.len());
            let joined = match self.copies.take(&name, length)? {
                true => pack_f8_e4m3(weight.shape, &weight.bytes, scales),
                false => Tensor::new(Format::F8_E4M3_128, weight.shape, vec![0; length].into()),
            };
            let joined = joined.map_err(|error| {
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

    fn finish(self, companions: Companions, description: Description, files: Vec<Arc<Mapped>>) -> Checkpoint {
        Checkpoint {
            tensors: self.tensors,
            unserved: self.unserved,
            description,
            companions,
            bytes: self.bytes,
            files,
            copies: self.copies,
        }
    }
}

/// Refuses a small text that stands where the weights should be: people get them from downloads that went wrong.
fn refuse_stand_in(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    let reason = if bytes.starts_with(b"version https://git-lfs") {
        "a pointer of Git LFS stands in for the weights; run `git lfs pull` in its folder, or download the file itself"
    } else if bytes.starts_with(b"<!DOCTYPE")
        || bytes.starts_with(b"<!doctype")
        || bytes.starts_with(b"<html")
    {
        "a web page, not the weights; download the file itself"
    } else {
        return Ok(());
    };
    Err(CheckpointError::NotAModel { path: path.to_owned(), reason: reason.to_owned() })
}

/// The JSON files of a safetensors model.
fn read_description(companions: &Companions) -> Result<Description, CheckpointError> {
    let config = companions.read_object("config.json")?.ok_or_else(|| CheckpointError::MissingFile {
        place: companions.place(),
        name: "config.json".to_owned(),
        advice: "a safetensors model needs it beside its weights; download the whole folder",
    })?;
    let generation_config = companions.read_object("generation_config.json")?;
    Ok(Description::HuggingFace { config, generation_config })
}
