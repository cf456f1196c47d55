//! From a path that a user gives to the files of a model.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::CheckpointError;
use crate::mapped::map;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const INDEX_SUFFIX: &str = ".safetensors.index.json";

/// The files that a model is made of.
#[derive(Debug)]
pub(crate) struct Located {
    /// The folder that holds the small files.
    pub folder: PathBuf,
    /// The weight files, each to be opened once.
    pub weights: Vec<PathBuf>,
    /// For a sharded model, its index.
    pub index: Option<Index>,
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
        return Ok(Located { folder: folder.to_owned(), weights: vec![single], index: None });
    }
    let index = folder.join(INDEX);
    if index.exists() {
        return sharded(folder, index);
    }
    let files = files_with_extension(folder, "safetensors")?;
    match files.as_slice() {
        [file] => Ok(Located { folder: folder.to_owned(), weights: vec![file.clone()], index: None }),
        [] if !files_with_extension(folder, "gguf")?.is_empty() => Err(refuse(
            folder,
            "the folder holds GGUF files; GGUF is not supported yet, give a safetensors model",
        )),
        [] => Err(refuse(
            folder,
            format!("no {SINGLE} and no {INDEX} in this folder; give the folder of a safetensors model"),
        )),
        _ => Err(refuse(
            folder,
            format!("several .safetensors files and no {INDEX}; give the path of one file or add the index"),
        )),
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
    if !name.ends_with(".safetensors") {
        let reason = if name.ends_with(".gguf") {
            "GGUF is not supported yet; give a .safetensors file, its index, or the folder that holds it"
        } else {
            "not a .safetensors file; give one, its index, or the folder that holds it"
        };
        return Err(refuse(path, reason));
    }
    let index = folder.join(INDEX);
    if is_shard(name) && index.exists() {
        return sharded(&folder, index);
    }
    Ok(Located { folder, weights: vec![path.to_owned()], index: None })
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
    Ok(Located { folder: folder.to_owned(), weights, index: Some(Index { path, shards }) })
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
