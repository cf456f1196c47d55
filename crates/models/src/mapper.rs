//! What a mapping writes into: dims, statics, constants and weights by the program's names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_graph::lower::{Known, ModelBindings};
use fiddlehead_storage::{Format, Tensor};

use crate::architecture::Architecture;
use crate::config::Config;
use crate::error::ModelError;
use crate::names::{Field, Names, Source, Transform};

/// Everything a program asks for, found in a checkpoint.
#[derive(Debug)]
pub struct Bound {
    /// The architecture.
    pub architecture: &'static Architecture,
    /// Dims, statics, constants, layer kinds, and which weights there are.
    pub bindings: ModelBindings,
    /// Weights by the program's names, in the checkpoint's shapes.
    pub weights: BTreeMap<String, Tensor>,
    /// For each weight, its tensor's name in the checkpoint.
    pub sources: BTreeMap<String, String>,
    /// The checkpoint's tensors that were looked at.
    pub used: BTreeSet<String>,
    /// The longest path that the model was made for, in tokens.
    pub context: usize,
}

/// Collects what a mapping says.
#[derive(Debug)]
pub struct Mapper<'a> {
    checkpoint: &'a Checkpoint,
    config: Config<'a>,
    bindings: ModelBindings,
    weights: BTreeMap<String, Tensor>,
    sources: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
    context: usize,
    names: Names,
}

impl<'a> Mapper<'a> {
    pub(crate) fn new(checkpoint: &'a Checkpoint, config: Config<'a>) -> Self {
        let mut mapper = Mapper {
            checkpoint,
            config,
            bindings: ModelBindings::default(),
            weights: BTreeMap::new(),
            sources: BTreeMap::new(),
            used: RefCell::default(),
            context: 0,
            names: Names::Gguf,
        };
        if matches!(config, Config::Json(_)) {
            let prefixes = ["model.", "model.language_model.", "language_model.model.", ""];
            let prefix = mapper.prefix(&prefixes, "embed_tokens.weight");
            mapper.names = Names::HuggingFace { prefix };
        }
        mapper
    }

    pub(crate) fn finish(mut self, architecture: &'static Architecture) -> Result<Bound, ModelError> {
        self.check_unused(architecture)?;
        self.bindings.params = self.weights.keys().cloned().collect();
        Ok(Bound {
            architecture,
            bindings: self.bindings,
            weights: self.weights,
            sources: self.sources,
            used: self.used.into_inner(),
            context: self.context,
        })
    }

    /// GGUF files hold the text model only, so a tensor of a layer that nothing reads (a bias, a norm of a newer
    /// member of the family) changes what the model computes.
    fn check_unused(&self, architecture: &'static Architecture) -> Result<(), ModelError> {
        const NEEDLESS: &str = "attn_rot_embd.weight";
        if self.names != Names::Gguf {
            return Ok(());
        }
        let layers = self.bindings.dims.get("L").copied().unwrap_or(0);
        let bound: BTreeSet<&str> = self.sources.values().map(String::as_str).collect();
        let in_layer = |name: &&String| {
            let (index, rest) = name.strip_prefix("blk.")?.split_once('.')?;
            (index.parse::<i64>().ok()? < layers && rest != NEEDLESS).then_some(())
        };
        let all = self.checkpoint.tensors().keys().chain(self.checkpoint.unserved().keys());
        match all.filter(|name| in_layer(name).is_some()).find(|name| !bound.contains(name.as_str())) {
            Some(tensor) => {
                Err(ModelError::Unused { tensor: tensor.clone(), architecture: architecture.name })
            }
            None => Ok(()),
        }
    }

    fn tensor(&self, name: &str) -> Result<&'a Tensor, ModelError> {
        let tensor = self.checkpoint.tensor(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Ok(tensor)
    }

    /// The configuration.
    pub fn config(&self) -> Config<'a> {
        self.config
    }

    /// How the checkpoint names its tensors.
    pub fn names(&self) -> Names {
        self.names
    }

    /// The values of a small tensor in f32; `None` when there is no tensor of that name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn values(&self, tensor: &str) -> Result<Option<Vec<f32>>, ModelError> {
        if !self.has(tensor) {
            return Ok(None);
        }
        let values = self.tensor(tensor)?.to_f32();
        let values =
            values.map_err(|why| ModelError::Values { tensor: tensor.to_owned(), why: why.to_string() })?;
        Ok(Some(values))
    }

    /// The rows of a tensor: the product of all its dimensions but the last.
    ///
    /// # Errors
    /// When it is missing or of a type that cannot be served.
    pub fn rows(&self, tensor: &str) -> Result<usize, ModelError> {
        Ok(self.tensor(tensor)?.rows())
    }

    /// Binds weights, by their paths behind `path`, to tensors whose names begin with `tensors`.
    ///
    /// # Errors
    /// As [`Mapper::weight`].
    pub fn fields(&mut self, path: &str, tensors: &str, fields: &[Field]) -> Result<(), ModelError> {
        for field in fields {
            let Source { tensor, transform } = match self.names {
                Names::HuggingFace { .. } => field.hugging_face,
                Names::Gguf => field.gguf,
            };
            self.weight(format!("{path}{}", field.path), &format!("{tensors}{tensor}"), transform)?;
        }
        Ok(())
    }

    /// Whether the checkpoint holds a tensor of that name.
    pub fn has(&self, tensor: &str) -> bool {
        self.checkpoint.tensors().contains_key(tensor) || self.checkpoint.unserved().contains_key(tensor)
    }

    /// The first of several prefixes under which the checkpoint holds `tensor`; the first one of all when none does.
    pub fn prefix(&self, prefixes: &[&'static str], tensor: &str) -> &'static str {
        let found = prefixes.iter().find(|prefix| self.has(&format!("{prefix}{tensor}")));
        found.or(prefixes.first()).copied().unwrap_or("")
    }

    /// Binds a dim.
    pub fn dim(&mut self, name: &str, value: usize) {
        self.bindings.dims.insert(name.to_owned(), value as i64);
    }

    /// A dim that is bound.
    pub(crate) fn dim_of(&self, name: &str) -> Option<usize> {
        self.bindings.dims.get(name).and_then(|&value| usize::try_from(value).ok())
    }

    /// Binds a static.
    pub fn flag(&mut self, name: &str, value: bool) {
        self.bindings.known.insert(name.to_owned(), Known::Bool(value));
    }

    /// Binds a scalar constant.
    pub fn number(&mut self, name: &str, value: f64) {
        self.bindings.known.insert(name.to_owned(), Known::Float(value));
    }

    /// Binds a constant of one dimension, by its path.
    pub fn numbers(&mut self, path: impl Into<String>, values: Arc<[f32]>) {
        self.bindings.known.insert(path.into(), Known::Array { shape: vec![values.len()], values });
    }

    /// Adds the next layer of the list.
    pub fn layer(&mut self, kind: &str) {
        self.bindings.layer_kinds.push(kind.to_owned());
    }

    /// Says how long a path the model was made for.
    pub fn context(&mut self, tokens: usize) {
        self.context = tokens;
    }

    /// Binds a weight to several tensors of one shape and format, one behind the other: `[tensors, ...shape]`. Their
    /// bytes are copied, because nothing says that a file has them side by side.
    ///
    /// # Errors
    /// When a tensor is missing, or differs from the first one in shape or format.
    pub fn stack(&mut self, path: impl Into<String>, tensors: &[String]) -> Result<(), ModelError> {
        let Some(name) = tensors.first() else { return Ok(()) };
        let first = self.tensor(name)?;
        let mut found = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            let next = self.tensor(tensor)?;
            if (next.shape(), next.format()) != (first.shape(), first.format()) {
                let why = format!("its shape or format differs from that of `{name}`");
                return Err(ModelError::Values { tensor: tensor.clone(), why });
            }
            found.push(next.bytes());
        }
        let bytes = self.copy(name, found.len() * first.bytes().len(), || found.concat())?;
        let shape = [&[tensors.len()], first.shape()].concat();
        self.copied(path.into(), name, first.format(), shape, bytes)
    }

    /// Binds a weight to some of the rows of each part of a tensor `[parts, rows, columns]`. Their bytes are copied.
    ///
    /// # Errors
    /// When the tensor is missing, or has no three axes or too few rows.
    pub fn rows_of_each(
        &mut self,
        path: impl Into<String>,
        tensor: &str,
        rows: Range<usize>,
    ) -> Result<(), ModelError> {
        let found = self.tensor(tensor)?;
        let &[parts, height, columns] = found.shape() else {
            let why = format!("it has {} axes; three are wanted", found.shape().len());
            return Err(ModelError::Values { tensor: tensor.to_owned(), why });
        };
        if rows.end > height {
            let why = format!("its parts have {height} rows; {} are wanted", rows.end);
            return Err(ModelError::Values { tensor: tensor.to_owned(), why });
        }
        let row_bytes = found.row_bytes();
        let part =
            |part: usize| (part * height + rows.start) * row_bytes..(part * height + rows.end) * row_bytes;
        let length = parts * rows.len() * row_bytes;
        let rows_of = || (0..parts).flat_map(|index| &found.bytes()[part(index)]).copied().collect();
        let bytes = self.copy(tensor, length, rows_of)?;
        self.copied(path.into(), tensor, found.format(), vec![parts, rows.len(), columns], bytes)
    }

    /// The bytes of a copy, or zeros when copies are only planned.
    fn copy(
        &self,
        tensor: &str,
        length: usize,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Result<Vec<u8>, ModelError> {
        Ok(if self.checkpoint.room_for_copy(tensor, length)? { make() } else { vec![0; length] })
    }

    fn copied(
        &mut self,
        path: String,
        tensor: &str,
        format: Format,
        shape: Vec<usize>,
        bytes: Vec<u8>,
    ) -> Result<(), ModelError> {
        let value = Tensor::new(format, shape, bytes.into())
            .map_err(|why| ModelError::Values { tensor: tensor.to_owned(), why: why.to_string() })?;
        self.weights.insert(path.clone(), value);
        self.sources.insert(path, tensor.to_owned());
        Ok(())
    }

    /// Binds a weight, by its path in the program, to a tensor of the checkpoint.
    ///
    /// # Errors
    /// When the tensor is missing, or its values cannot be read for the transform.
    pub fn weight(
        &mut self,
        path: impl Into<String>,
        tensor: &str,
        transform: Transform,
    ) -> Result<(), ModelError> {
        let path = path.into();
        let found = self.tensor(tensor)?;
        let change: Option<fn(f32) -> f32> = match transform {
            Transform::None => None,
            Transform::OnePlus => Some(|w| 1.0 + w),
            Transform::NegativeExp => Some(|a| -a.exp()),
        };
        let value = match change {
            None => found.clone(),
            Some(change) => match self.checkpoint.room_for_copy(tensor, found.elements() * 4)? {
                true => changed(found, change),
                false => Tensor::from_f32(found.shape().to_vec(), vec![0.0; found.elements()]),
            }
            .map_err(|why| ModelError::Values { tensor: tensor.to_owned(), why: why.to_string() })?,
        };
        self.weights.insert(path.clone(), value);
        self.sources.insert(path, tensor.to_owned());
        Ok(())
    }
}

fn changed(tensor: &Tensor, change: fn(f32) -> f32) -> Result<Tensor, fiddlehead_storage::StorageError> {
    let mut values = tensor.to_f32()?;
    values.iter_mut().for_each(|value| *value = change(*value));
    Tensor::from_f32(tensor.shape().to_vec(), values)
}
