//! Models in several files: `NAME-00001-of-00003.gguf`, the first with the metadata, and safetensors alike.

use std::path::{Path, PathBuf};

use crate::CheckpointError;
use crate::gguf::{Metadata, Value};

/// The most files that a model is looked for in.
const MOST_PARTS: u32 = 10_000;

/// The files of the model that `path` belongs to, in order.
pub(crate) fn parts(path: &Path, extension: &str) -> Result<Vec<PathBuf>, CheckpointError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((stem, count)) = part_of(name, extension) else { return Ok(vec![path.to_owned()]) };
    // As the name has it: a file may be called `.GGUF`.
    let ending = &name[name.len() - extension.len()..];
    let part = |number: u32| path.with_file_name(format!("{stem}-{number:05}-of-{count:05}.{ending}"));
    for number in 1..=count {
        if !part(number).exists() {
            return Err(CheckpointError::MissingFile {
                place: path.parent().map(|folder| folder.display().to_string()).unwrap_or_default(),
                name: format!("{stem}-{number:05}-of-{count:05}.{ending}"),
                advice: "the model is in several files, which belong into one folder; download all of them",
            });
        }
    }
    Ok((1..=count).map(part).collect())
}

/// Stem and count of a name that is one of several. The digits are five, so that nothing else is taken for one.
pub(crate) fn part_of<'a>(name: &'a str, extension: &str) -> Option<(&'a str, u32)> {
    let (name, ending) = name.rsplit_once('.')?;
    let (before, count) = name.rsplit_once("-of-").filter(|_| ending.eq_ignore_ascii_case(extension))?;
    let (stem, number) = before.rsplit_once('-')?;
    let digits = |text: &str| {
        let plain = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (number, count) = (digits(number)?, digits(count)?);
    (count <= MOST_PARTS && (1..=count).contains(&number)).then_some((stem, count))
}

/// Checks that a file says it is part `index` (from 0) of `count`. A file that says nothing is whole.
pub(crate) fn check(metadata: &Metadata, index: usize, count: usize) -> Result<(), String> {
    let number = |key: &str| metadata.get(key).map(|value| value.as_u64().ok_or_else(|| wrong(key, value)));
    let (said_count, said_index) =
        (number("split.count").transpose()?.unwrap_or(1), number("split.no").transpose()?.unwrap_or(0));
    if said_count != count as u64 && said_count > 1 {
        return Err(format!(
            "it says that it is one of {said_count} files and is opened with {count}; keep the files' names (NAME-00001-of-{said_count:05}.gguf) and give one of them"
        ));
    }
    if count > 1 && (said_count, said_index) != (count as u64, index as u64) {
        return Err(format!("it should be part {} of {count} and says otherwise", index + 1));
    }
    Ok(())
}

/// Checks the count of all tensors, where the first file says it.
pub(crate) fn check_total(metadata: &Metadata, tensors: usize) -> Result<(), String> {
    match metadata.get("split.tensors.count") {
        Some(value) if value.as_u64() != Some(tensors as u64) => {
            Err(format!("its parts should hold {value} tensors together and hold {tensors}"))
        }
        _ => Ok(()),
    }
}

fn wrong(key: &str, value: &Value) -> String {
    format!("metadata `{key}` is {value}; a whole number is wanted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_parts() {
        for (name, part) in [
            ("a-00001-of-00003.gguf", Some(("a", 3))),
            ("a-00001-of-00003.GGUF", Some(("a", 3))),
            ("a-b-00003-of-00003.gguf", Some(("a-b", 3))),
            ("a-00004-of-00003.gguf", None),
            ("a-00000-of-00003.gguf", None),
            ("a-00001-of-99999.gguf", None),
            ("a-+0001-of-00003.gguf", None),
            ("a-1-of-3.gguf", None),
            ("a.gguf", None),
            ("gguf", None),
            ("a-00001-of-00003.safetensors", None),
        ] {
            assert_eq!(part_of(name, "gguf"), part, "{name}");
        }
        assert_eq!(part_of("model-00002-of-00003.safetensors", "safetensors"), Some(("model", 3)));
        assert_eq!(part_of("best-of-2.safetensors", "safetensors"), None);
    }
}
