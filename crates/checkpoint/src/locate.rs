//! From a path that a user gives to the files of a model.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::CheckpointError;
use crate::mapped::map;
use crate::split::{part_of, parts};

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
    fn single(folder: PathBuf, file: PathBuf) -> Located {
        Located { folder, weights: Weights::Safetensors { files: vec![file], index: None } }
    }

    fn gguf(folder: PathBuf, file: &Path) -> Result<Located, CheckpointError> {
        Ok(Located { folder, weights: Weights::Gguf { files: parts(file)? } })
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
    let files = files_with_extension(folder, "safetensors")?;
    match files.as_slice() {
        [file] => Ok(Located::single(folder.to_owned(), file.clone())),
        [] => gguf_in_folder(folder),
        _ => Err(refuse(
            folder,
            format!("several .safetensors files and no {INDEX}; give the path of one file or add the index"),
        )),
    }
}

/// The one GGUF model of a folder; the parts of a split one count as one.
fn gguf_in_folder(folder: &Path) -> Result<Located, CheckpointError> {
    let mut files = files_with_extension(folder, "gguf")?;
    let stem = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        part_of(name).map_or_else(|| name.to_owned(), |(stem, count)| format!("{stem} of {count}"))
    };
    files.dedup_by_key(|path| stem(path));
    match files.as_slice() {
        [file] => Located::gguf(folder.to_owned(), file),
        [] => Err(refuse(
            folder,
            format!(
                "no {SINGLE}, no {INDEX} and no .gguf file in this folder; give a GGUF file or the folder of a model"
            ),
        )),
        _ => Err(refuse(folder, "several .gguf files; give the path of one")),
    }
}

fn at_file(path: &Path) -> Result<Located, CheckpointError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    if name.ends_with(INDEX_SUFFIX) {
        return sharded(&folder, path.to_owned());
    }
    if name.ends_with(".gguf") {
        return Located::gguf(folder, path);
    }
    if !name.ends_with(".safetensors") {
        let reason = "neither a .safetensors nor a .gguf file; give one, an index, or the folder of a model";
        return Err(refuse(path, reason));
    }
    let index = folder.join(INDEX);
    if is_shard(name) && index.exists() {
        return sharded(&folder, index);
    }
    Ok(Located::single(folder, path.to_owned()))
}

/// Whether a name is one of several (`model-00001-of-00003.safetensors`).
fn is_shard(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_suffix(".safetensors")
        .and_then(|stem| stem.rsplit_once("-of-"))
        .is_some_and(|(before, count)| digits(count) && before.rsplit('-').next().is_some_and(digits))
}

fn sharded(folder: &Path, path: PathBuf) -> Result<Located, CheckpointError> {
    let bytes = map(&path).map_err(|source| CheckpointError::Io { path: path.clone(), source })?;
    let file: IndexFile = serde_json::from_slice(&bytes).map_err(|error| CheckpointError::Json {
        place: path.display().to_string(),
        reason: error.to_string(),
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
        if path.extension().is_some_and(|found| found == extension) {
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
    fn shard_names() {
        for (name, shard) in [
            ("model-00001-of-00003.safetensors", true),
            ("model.safetensors", false),
            ("best-of-2.safetensors", false),
            ("story-1-of-2.safetensors", true),
            ("-of-.safetensors", false),
        ] {
            assert_eq!(is_shard(name), shard, "{name}");
        }
    }

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
