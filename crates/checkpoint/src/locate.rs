//! From a path that a user gives to the files of a model.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::CheckpointError;
use crate::gguf::MAGIC;
use crate::mapped::{map, open_regular};
use crate::split::{part_of, parts};

const GGUF: &str = "gguf";
const SAFETENSORS: &str = "safetensors";
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const INDEX_SUFFIX: &str = ".safetensors.index.json";

/// The files that a model is made of.
#[derive(Debug)]
pub(crate) struct Located {
    /// The folder that holds the small files.
    pub folder: PathBuf,
    pub weights: Weights,
}

/// The weight files, each to be opened once.
#[derive(Debug)]
pub(crate) enum Weights {
    Safetensors {
        files: Vec<PathBuf>,
        /// For a sharded model.
        index: Option<Index>,
    },
    Gguf {
        /// In the order of their numbers.
        files: Vec<PathBuf>,
    },
}

impl Located {
    /// A file, or all parts of the model that it is a part of.
    fn safetensors(folder: PathBuf, file: &Path) -> Result<Located, CheckpointError> {
        let files = parts(file, SAFETENSORS)?;
        Ok(Located { folder, weights: Weights::Safetensors { files, index: None } })
    }

    fn single(folder: PathBuf, file: PathBuf) -> Located {
        Located { folder, weights: Weights::Safetensors { files: vec![file], index: None } }
    }

    fn gguf(folder: PathBuf, file: &Path) -> Result<Located, CheckpointError> {
        Ok(Located { folder, weights: Weights::Gguf { files: parts(file, GGUF)? } })
    }
}

/// Which shard holds which tensor.
#[derive(Debug)]
pub(crate) struct Index {
    pub path: PathBuf,
    /// Tensor name to shard file name.
    pub shards: BTreeMap<String, String>,
}

/// Finds the files of the model at `path`: a folder, a weight file, or an index.
pub(crate) fn locate(path: &Path) -> Result<Located, CheckpointError> {
    let metadata = path.metadata().map_err(|source| CheckpointError::Io { path: path.to_owned(), source })?;
    if metadata.is_dir() { in_folder(path) } else { at_file(path) }
}

fn in_folder(folder: &Path) -> Result<Located, CheckpointError> {
    let single = folder.join(SINGLE);
    if single.exists() {
        return Ok(Located::single(folder.to_owned(), single));
    }
    let index = folder.join(INDEX);
    if index.exists() {
        return sharded(folder, index);
    }
    let files = files_with_extension(folder, SAFETENSORS)?;
    match one_set(&files, SAFETENSORS) {
        Some(file) => Located::safetensors(folder.to_owned(), file),
        None if files.is_empty() => gguf_in_folder(folder),
        None => Err(several(
            folder,
            &files,
            &format!(
                "several .{SAFETENSORS} files and no {INDEX}; give the path of one file or add the index"
            ),
        )),
    }
}

/// The one GGUF model of a folder; the parts of a split one count as one. Projectors for pictures, which lie beside many
/// models, are none.
fn gguf_in_folder(folder: &Path) -> Result<Located, CheckpointError> {
    let mut files = files_with_extension(folder, GGUF)?;
    let is_projector = |path: &PathBuf| file_name(path).starts_with("mmproj");
    if !files.iter().all(is_projector) {
        files.retain(|path| !is_projector(path));
    }
    match one_set(&files, GGUF) {
        Some(file) => Located::gguf(folder.to_owned(), file),
        None if files.is_empty() => Err(refuse(
            folder,
            format!(
                "no {SINGLE}, no {INDEX} and no .{GGUF} file in this folder; give a GGUF file or the folder of a model"
            ),
        )),
        None => Err(several(folder, &files, &format!("several .{GGUF} files; give the path of one"))),
    }
}

/// The first of several files when there is one, or when all of them are parts of one model.
fn one_set<'a>(files: &'a [PathBuf], extension: &str) -> Option<&'a Path> {
    let set = |path: &'a PathBuf| {
        let name = file_name(path);
        part_of(name, extension).map_or((name, 0), |(stem, count)| (stem, count))
    };
    let (first, rest) = files.split_first()?;
    rest.iter().all(|file| set(file) == set(first) && set(file).1 > 0).then_some(first)
}

/// A refusal that names what there is to choose from.
fn several(folder: &Path, files: &[PathBuf], reason: &str) -> CheckpointError {
    const SHOWN: usize = 6;
    let names = files.iter().take(SHOWN).map(|path| file_name(path)).collect::<Vec<_>>().join(", ");
    let more = if files.len() > SHOWN { ", ..." } else { "" };
    refuse(folder, format!("{reason} ({names}{more})"))
}

fn at_file(path: &Path) -> Result<Located, CheckpointError> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    if file_name(path).ends_with(INDEX_SUFFIX) {
        return sharded(&folder, path.to_owned());
    }
    match kind(path)? {
        Kind::Gguf => Located::gguf(folder, path),
        Kind::Safetensors => {
            let index = folder.join(INDEX);
            if part_of(file_name(path), SAFETENSORS).is_some() && index.exists() {
                return sharded(&folder, index);
            }
            Located::safetensors(folder, path)
        }
    }
}

enum Kind {
    Gguf,
    Safetensors,
}

/// What a file is: by its name, or by its first bytes where the name says nothing.
fn kind(path: &Path) -> Result<Kind, CheckpointError> {
    let extension = path.extension().and_then(|found| found.to_str()).unwrap_or_default();
    if extension.eq_ignore_ascii_case(GGUF) {
        return Ok(Kind::Gguf);
    }
    if extension.eq_ignore_ascii_case(SAFETENSORS) {
        return Ok(Kind::Safetensors);
    }
    let start = first_bytes(path).map_err(|source| CheckpointError::Io { path: path.to_owned(), source })?;
    let other = match start.as_slice() {
        start if start.starts_with(MAGIC) => return Ok(Kind::Gguf),
        // The header's length in eight bytes, then an object.
        [.., b'{'] if start.len() == START => return Ok(Kind::Safetensors),
        [b'P', b'K', 3, 4, ..] | [0x80, 2..=5, ..] => {
            "a file of PyTorch, which may run code on being read; convert the model to safetensors or GGUF"
        }
        [b'l' | b'f', b'm' | b'j', b'g', b'g', ..] | [b't' | b'a', b'j' | b'l', b'g', b'g', ..] => {
            "a file from before GGUF; convert the model to GGUF again"
        }
        _ => "neither a .safetensors nor a .gguf file; give one, an index, or the folder of a model",
    };
    Err(refuse(path, other))
}

/// How many bytes tell what a file is.
const START: usize = 9;

/// The beginning of a regular file; less of one that is shorter.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    open_regular(path)?.take(START as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn sharded(folder: &Path, path: PathBuf) -> Result<Located, CheckpointError> {
    let (bytes, _) = map(&path).map_err(|source| CheckpointError::Io { path: path.clone(), source })?;
    let file: IndexFile = serde_json::from_slice(&bytes).map_err(|error| CheckpointError::Json {
        place: path.display().to_string(),
        reason: format!("not an index of shards: {error}"),
    })?;
    let shards = file.weight_map.0;
    let mut names: Vec<&String> = shards.values().collect();
    names.sort_unstable();
    names.dedup();
    let mut weights = Vec::with_capacity(names.len());
    for name in names {
        if !is_plain_name(name) {
            return Err(CheckpointError::Index {
                path,
                reason: format!("the shard `{name}` is not a plain file name; shards lie beside their index"),
            });
        }
        let shard = folder.join(name);
        if !shard.exists() {
            return Err(CheckpointError::MissingFile {
                place: folder.display().to_string(),
                name: name.clone(),
                advice: "the index names it as a shard; download the model again",
            });
        }
        weights.push(shard);
    }
    if weights.is_empty() {
        return Err(CheckpointError::Index { path, reason: "the index names no tensors".to_owned() });
    }
    let weights = Weights::Safetensors { files: weights, index: Some(Index { path, shards }) };
    Ok(Located { folder: folder.to_owned(), weights })
}

/// A name that stays in its folder: no separator, no parent, no root.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name)
}

fn files_with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, CheckpointError> {
    let failed = |source| CheckpointError::Io { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn refuse(path: &Path, reason: impl Into<String>) -> CheckpointError {
    CheckpointError::NotAModel { path: path.to_owned(), reason: reason.into() }
}

#[derive(Deserialize)]
struct IndexFile {
    weight_map: WeightMap,
}

struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WeightMap, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of tensor names and shard names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut shards = BTreeMap::new();
        while let Some((name, shard)) = map.next_entry::<String, String>()? {
            if let Some(other) = shards.get(&name) {
                return Err(de::Error::custom(format_args!(
                    "tensor `{name}` is in `{other}` and in `{shard}`"
                )));
            }
            shards.insert(name, shard);
        }
        Ok(WeightMap(shards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_shards() {
        for (name, plain) in [
            ("a.safetensors", true),
            ("../a", false),
            ("/a", false),
            ("b/a", false),
            ("", false),
            ("..", false),
            ("a/", false),
        ] {
            assert_eq!(is_plain_name(name), plain, "{name}");
        }
    }
}
