//! The small files beside the weights: configuration, tokenizer, templates.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::CheckpointError;

/// Where a model's small files are: a folder, or bytes embedded in the program.
#[derive(Debug, Clone)]
pub enum Companions {
    /// Files of a folder, read when asked for.
    Folder(PathBuf),
    /// Embedded files by name.
    Embedded(&'static [(&'static str, &'static [u8])]),
}

impl Companions {
    /// A file's bytes; `None` when there is no such file. `name` is a plain file name.
    ///
    /// # Errors
    /// When the file is there and cannot be read, or is no regular file.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, CheckpointError> {
        match self {
            Companions::Folder(folder) => read_file(&folder.join(name)),
            Companions::Embedded(files) => {
                Ok(files.iter().find(|(known, _)| *known == name).map(|(_, bytes)| bytes.to_vec()))
            }
        }
    }

    /// As [`Companions::read`]; a missing file is an error that says so.
    ///
    /// # Errors
    /// [`CheckpointError::MissingFile`] with `advice`; else as [`Companions::read`].
    pub fn require(&self, name: &str, advice: &'static str) -> Result<Vec<u8>, CheckpointError> {
        self.read(name)?.ok_or_else(|| CheckpointError::MissingFile {
            place: self.place(),
            name: name.to_owned(),
            advice,
        })
    }

    /// A JSON object; `None` when there is no such file. Meant for configuration: at most 4 MiB are accepted, because
    /// a tree of JSON takes many times its text.
    ///
    /// # Errors
    /// [`CheckpointError::Json`] when it is too large, not JSON, or not an object; else as [`Companions::read`].
    pub fn read_object(&self, name: &str) -> Result<Option<Value>, CheckpointError> {
        const MAXIMUM_BYTES: usize = 4 << 20;
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let refuse = |reason: String| CheckpointError::Json { place: self.place_of(name), reason };
        if bytes.len() > MAXIMUM_BYTES {
            return Err(refuse(format!(
                "{} bytes of configuration; at most {MAXIMUM_BYTES} are read",
                bytes.len()
            )));
        }
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok(Some(Value::Object(object))),
            Ok(_) => Err(refuse("the file is not a JSON object".to_owned())),
            Err(error) => Err(refuse(format!("not valid JSON: {error}"))),
        }
    }

    /// The folder or a word for the embedded model, for messages.
    pub fn place(&self) -> String {
        match self {
            Companions::Folder(folder) => folder.display().to_string(),
            Companions::Embedded(_) => "the embedded model".to_owned(),
        }
    }

    fn place_of(&self, name: &str) -> String {
        match self {
            Companions::Folder(folder) => folder.join(name).display().to_string(),
            Companions::Embedded(_) => format!("the embedded {name}"),
        }
    }
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
    // A pipe blocks on being opened, so what it is must be known before.
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.is_file() => {
            return Err(failed(std::io::Error::new(ErrorKind::InvalidInput, "not a regular file")));
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(failed)?;
    Ok(Some(bytes))
}
