//! What the file will hold, before anything is read.

use fiddlehead_checkpoint::gguf::Metadata;
use fiddlehead_checkpoint::{Checkpoint, Description};
use fiddlehead_models::{ConvertedTensor, Piece, Transform, convert};
use fiddlehead_storage::Format;

use crate::error::values;
use crate::recipe::{Place, fitting};
use crate::{Override, QuantizeError, Recipe, tokenizer};

/// A file to be written: metadata, and tensors with their formats.
#[derive(Debug)]
pub struct Plan {
    pub(crate) metadata: Metadata,
    pub(crate) tensors: Vec<Planned>,
}

/// A tensor of the file.
#[derive(Debug)]
pub struct Planned {
    pub(crate) tensor: ConvertedTensor,
    format: Format,
    wanted: Format,
    bytes: usize,
}

impl Planned {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.tensor.name
    }

    /// Its dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    /// The format it gets.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The format it should have got and did not, because its rows are no whole number of that format's blocks.
    pub fn instead_of(&self) -> Option<Format> {
        (self.wanted != self.format).then_some(self.wanted)
    }

    /// Whether its values were quantised before, so that errors add up.
    pub fn was_quantised(&self) -> bool {
        !self.is_copied() && self.tensor.pieces.iter().any(|piece| piece.tensor.format().block_elements() > 1)
    }

    /// Its bytes in the file.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is stored as it should be already.
    pub(crate) fn is_copied(&self) -> bool {
        self.tensor.transform == Transform::None
            && self.tensor.columns.is_none()
            && self.tensor.pieces.iter().all(|piece| piece.tensor.format() == self.format)
    }
}

impl Plan {
    /// Plans the file of a checkpoint. Overrides are tried in their order; the first that fits counts.
    ///
    /// # Errors
    /// When the checkpoint cannot be described as a GGUF file, its tokenizer cannot be said there, a tensor is in a type
    /// that cannot be read, or an override fits no tensor.
    pub fn new(
        checkpoint: &Checkpoint,
        recipe: Recipe,
        overrides: &[Override],
    ) -> Result<Plan, QuantizeError> {
        let converted = convert(checkpoint)?;
        let mut metadata = converted.metadata;
        if let Description::HuggingFace { config, generation_config } = checkpoint.description() {
            let vocabulary = converted
                .tensors
                .iter()
                .find(|tensor| tensor.name == "token_embd.weight")
                .map_or(0, |tensor| tensor.pieces.iter().map(Piece::count).sum());
            if let Some(name) = checkpoint.folder().and_then(|folder| folder.file_name()?.to_str()) {
                metadata.set("general.name", name);
            }
            let files = checkpoint.companions();
            tokenizer::write(&mut metadata, files, config, generation_config.as_ref(), vocabulary)?;
        }
        let mut metadata = without_splits(&metadata);
        metadata.set("general.file_type", recipe.file_type());
        metadata.set("general.quantization_version", 2u32);
        if let Some(unused) =
            overrides.iter().find(|one| !converted.tensors.iter().any(|tensor| one.fits(&tensor.name)))
        {
            return Err(QuantizeError::UnusedOverride { pattern: unused.pattern().to_owned() });
        }
        let layers = layers(&converted.tensors);
        let tied = !converted.tensors.iter().any(|tensor| tensor.name == "output.weight");
        let planned = converted.tensors.into_iter().map(|tensor| {
            let place = Place { name: &tensor.name, shape: &tensor.shape, layers, tied };
            let over = overrides.iter().find(|one| one.fits(&tensor.name)).map(Override::format);
            let wanted = over.unwrap_or_else(|| recipe.wanted(place));
            plan_tensor(tensor, wanted)
        });
        let mut tensors = planned.collect::<Result<Vec<_>, _>>()?;
        tensors.sort_by_cached_key(|planned| order(planned.name()));
        Ok(Plan { metadata, tensors })
    }

    /// The tensors in the order of the file.
    pub fn tensors(&self) -> &[Planned] {
        &self.tensors
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|planned| planned.bytes as u64).sum()
    }
}

fn plan_tensor(tensor: ConvertedTensor, wanted: Format) -> Result<Planned, QuantizeError> {
    let row = tensor.shape.last().copied().unwrap_or(1);
    let format = fitting(wanted, row);
    let found = tensor.pieces.iter().map(Piece::count).sum();
    let rows = tensor.shape.split_last().map_or(1, |(_, outer)| outer.iter().product());
    if found != rows || tensor.pieces.iter().any(|piece| piece.tensor.row_elements() != row) {
        let (tensor, shape) = (tensor.name, tensor.shape);
        return Err(QuantizeError::Rows { tensor, found, wanted: rows, shape });
    }
    let bytes =
        format.bytes_for_shape(&tensor.shape).map_err(|source| values(&tensor.name, format, source))?;
    Ok(Planned { tensor, format, wanted, bytes })
}

/// The metadata of a whole file: that it came in parts is no longer true.
fn without_splits(metadata: &Metadata) -> Metadata {
    let mut whole = Metadata::default();
    for (key, value) in metadata.iter().filter(|(key, _)| !key.starts_with("split.")) {
        whole.set(key, value.clone());
    }
    whole
}

/// One more than the highest layer.
fn layers(tensors: &[ConvertedTensor]) -> usize {
    tensors.iter().filter_map(|tensor| order(&tensor.name).1).max().map_or(0, |last| last + 1)
}

/// Tensors of no layer come first, then the layers in their order.
fn order(name: &str) -> (bool, Option<usize>, String) {
    let layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')?.0.parse().ok());
    (layer.is_some(), layer, name.to_owned())
}
