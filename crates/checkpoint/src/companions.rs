//! The small files beside the weights: configuration, tokenizer, templates.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::CheckpointError;
use crate::mapped::open_regular;

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
    /// a tree of JSON takes many times its text. A byte order mark before UTF-8 is passed over.
    ///
    /// # Errors
    /// [`CheckpointError::Json`] when it is too large, not JSON, or not an object; else as [`Companions::read`].
    pub fn read_object(&self, name: &str) -> Result<Option<Value>, CheckpointError> {
        const MAXIMUM_BYTES: u64 = 4 << 20;
        let refuse = |reason: String| CheckpointError::Json { place: self.place_of(name), reason };
        if let Companions::Folder(folder) = self
            && let Ok(metadata) = folder.join(name).metadata()
            && metadata.len() > MAXIMUM_BYTES
        {
            let length = metadata.len();
            return Err(refuse(format!("{length} bytes of configuration; at most {MAXIMUM_BYTES} are read")));
        }
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        if text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
            return Err(refuse("it is UTF-16; save it as UTF-8".to_owned()));
        }
        match serde_json::from_slice(text) {
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

/// Companions larger than this are refused before memory fills up; the largest vocabularies take a twentieth of it.
const LARGEST: u64 = 1 << 30;

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    let failed = |source| CheckpointError::Io { path: path.to_owned(), source };
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.map_err(failed)?,
    };
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        let why = format!("more than {LARGEST} bytes, which no file beside a model's weights needs");
        return Err(failed(std::io::Error::new(ErrorKind::FileTooLarge, why)));
    }
    Ok(Some(bytes))
}
