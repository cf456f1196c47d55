//! Writing the file: in parts, on several threads, under another name until it is whole.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;

use fiddlehead_checkpoint::gguf::{Declaration, WriteError, Writer};
use fiddlehead_storage::StorageError;
use tempfile::NamedTempFile;

use crate::error::values;
use crate::rows::{copy_rows, quantise_rows};
use crate::{Plan, Planned, QuantizeError};

/// Values that one thread takes at a time.
const PART: usize = 1 << 18;

/// Where the file goes.
#[derive(Clone, Debug)]
pub struct Target {
    path: PathBuf,
    force: bool,
}

/// How far the writing is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The tensor that is written.
    pub tensor: &'a str,
    /// Bytes of tensors that are written.
    pub written: u64,
    /// Bytes of all tensors.
    pub all: u64,
}

impl Target {
    /// A file to write, which must not be there unless `force` says that it is replaced, and never one that the model at
    /// `source` consists of. Only a regular file is ever replaced; of a link, the file it leads to.
    ///
    /// # Errors
    /// When it is, or is a folder, a device, a pipe, a socket or a link to nothing.
    pub fn new(path: &Path, source: &Path, force: bool) -> Result<Target, QuantizeError> {
        let mut path = path.to_owned();
        if path.is_symlink() {
            let leads_to = path.canonicalize();
            path = leads_to.map_err(|source| QuantizeError::Write {
                path,
                source,
                advice: "; it is a link".to_owned(),
            })?;
        }
        if let (Ok(there), Ok(source)) = (path.canonicalize(), source.canonicalize()) {
            let folder = if source.is_dir() { Some(source.as_path()) } else { source.parent() };
            let beside = there.parent() == folder && (source.is_dir() || is_split(&source));
            // Of several files in a folder any may be a part of the model, if it is of the model's kind.
            let part = beside && is_weights(&there, &source);
            if there == source || part {
                return Err(QuantizeError::Same { path });
            }
        }
        if let Ok(there) = path.metadata() {
            let refused = match there.file_type() {
                kind if kind.is_file() => None,
                kind if kind.is_dir() => Some((ErrorKind::IsADirectory, "it is a folder")),
                _ => Some((
                    ErrorKind::InvalidInput,
                    "it is a device, a pipe or a socket, which a file must not replace",
                )),
            };
            if let Some((kind, why)) = refused {
                let source = std::io::Error::new(kind, why);
                return Err(QuantizeError::Write { path, source, advice: "; name the file".to_owned() });
            }
            if !force {
                return Err(QuantizeError::Exists { path });
            }
        }
        Ok(Target { path, force })
    }

    fn failed(&self, source: std::io::Error, plan: &Plan) -> QuantizeError {
        let advice = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                format!("; it takes {} bytes, nothing of it was left", plan.bytes())
            }
            ErrorKind::NotFound => "; its folder must be there".to_owned(),
            _ => String::new(),
        };
        QuantizeError::Write { path: self.path.clone(), source, advice }
    }
}

/// Whether a file is of the kind that holds the weights of the model at `source`: a folder with safetensors is such a
/// model, whatever else lies in it.
fn is_weights(path: &Path, source: &Path) -> bool {
    let is = |path: &Path, kind: &str| path.extension().is_some_and(|extension| extension == kind);
    let safetensors = match std::fs::read_dir(source) {
        Ok(entries) => entries.flatten().any(|entry| is(&entry.path(), "safetensors")),
        Err(_) => !is(source, "gguf"),
    };
    is(path, if safetensors { "safetensors" } else { "gguf" })
}

/// Whether a file is one of several.
fn is_split(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.contains("-of-") || name.ends_with(".index.json")
}

impl Plan {
    /// Writes the file. `progress` is told of every part and may end it all.
    ///
    /// Memory holds a few parts at a time, never a tensor or more.
    ///
    /// # Errors
    /// When a value does not fit its tensor's format, the system refuses to write, or `progress` ends it. Nothing is left
    /// then; a file that was there before still is.
    pub fn write(
        &self,
        target: &Target,
        threads: usize,
        progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<(), QuantizeError> {
        let failed = |source| target.failed(source, self);
        let folder = target.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut file = part_file(folder).map_err(failed)?;
        self.write_to(BufWriter::with_capacity(1 << 20, file.as_file_mut()), threads, progress).map_err(
            |error| match error {
                QuantizeError::Gguf(WriteError::Io(source)) => failed(source),
                other => other,
            },
        )?;
        file.as_file().sync_all().map_err(failed)?;
        keep(file, target).map_err(failed)
    }

    fn write_to(
        &self,
        out: BufWriter<&mut File>,
        threads: usize,
        progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<(), QuantizeError> {
        let declarations: Vec<Declaration> = self
            .tensors
            .iter()
            .map(|planned| Declaration {
                name: planned.name().to_owned(),
                format: planned.format(),
                shape: planned.shape().to_vec(),
            })
            .collect();
        let all = self.bytes();
        let mut written = 0;
        let mut writer = Writer::new(out, &self.metadata, &declarations)?;
        for planned in &self.tensors {
            let tensor = planned.name();
            let rows = planned.shape().split_last().map_or(1, |(_, outer)| outer.iter().product::<usize>());
            let length = planned.shape().last().copied().unwrap_or(1);
            if planned.bytes() == 0 {
                writer.end_tensor()?;
                continue;
            }
            let step = (PART / length).max(1);
            let starts: Vec<usize> = (0..rows).step_by(step).collect();
            for batch in starts.chunks(threads.max(1)) {
                if progress(Progress { tensor, written, all }).is_break() {
                    return Err(QuantizeError::Stopped);
                }
                for part in parts(planned, batch, step, rows) {
                    let part = part.map_err(|source| values(tensor, planned.format(), source))?;
                    writer.part(&part)?;
                    written += part.len() as u64;
                }
            }
        }
        // The last report may still say that it should end.
        if let Some(last) = self.tensors.last()
            && progress(Progress { tensor: last.name(), written, all }).is_break()
        {
            return Err(QuantizeError::Stopped);
        }
        writer.finish()?.flush().map_err(WriteError::Io)?;
        Ok(())
    }
}

/// The bytes of some parts of a tensor, one thread each.
fn parts(
    planned: &Planned,
    starts: &[usize],
    step: usize,
    rows: usize,
) -> Vec<Result<Vec<u8>, StorageError>> {
    let part = |start: usize| {
        let rows = start..(start + step).min(rows);
        if planned.is_copied() {
            copy_rows(&planned.tensor, rows)
        } else {
            quantise_rows(&planned.tensor, planned.format(), rows)
        }
    };
    if let &[start] = starts {
        return vec![part(start)];
    }
    thread::scope(|scope| {
        let running: Vec<_> = starts.iter().map(|&start| scope.spawn(move || part(start))).collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Gives the file its name.
fn keep(file: NamedTempFile, target: &Target) -> std::io::Result<()> {
    let kept = if target.force { file.persist(&target.path) } else { file.persist_noclobber(&target.path) };
    kept.map(drop).map_err(|error| error.error)
}

/// A file beside the target, with the rights of any new file: a model is no secret of its owner.
fn part_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fiddlehead-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}
