//! What a conversion writes into, and what every architecture says in the same words.

use std::collections::BTreeSet;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_checkpoint::gguf::{Metadata, Value};
use fiddlehead_storage::Tensor;

use super::{Converted, ConvertedTensor, Order, Piece};
use crate::config::{Config, Json};
use crate::error::ModelError;
use crate::fields::{EMBEDDING, HEAD};
use crate::frame::{SILU, activation};
use crate::mapper::Mapper;
use crate::names::{Field, Names, Transform};
use crate::rope::{Kind, head_dim, head_rope};

/// Collects a file's tensors and metadata.
pub(super) struct Writing<'a> {
    pub checkpoint: &'a Checkpoint,
    pub json: Json<'a>,
    /// To ask what a mapping asks; nothing is bound.
    pub mapper: Mapper<'a>,
    /// The architecture's word in GGUF files.
    gguf: &'static str,
    metadata: Metadata,
    tensors: Vec<ConvertedTensor>,
    used: BTreeSet<String>,
    /// Beginnings of names whose tensors are left out knowingly.
    left_out: Vec<&'static str>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, json: Json<'a>, gguf: &'static str) -> Writing<'a> {
        let mut metadata = Metadata::default();
        metadata.set("general.architecture", gguf);
        metadata.set("general.type", "model");
        Writing {
            checkpoint,
            json,
            mapper: Mapper::new(checkpoint, Config::Json(json)),
            gguf,
            metadata,
            tensors: Vec::new(),
            used: BTreeSet::new(),
            left_out: Vec::new(),
        }
    }

    /// Sets a value of the architecture.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata.set(format!("{}.{key}", self.gguf), value);
    }

    /// Sets a whole number from the configuration's; gives it.
    pub(super) fn size(&mut self, key: &str, json: &str) -> Result<usize, ModelError> {
        let size = self.json.size(json)?;
        self.set(key, size as u32);
        Ok(size)
    }

    pub(super) fn names(&self) -> Names {
        self.mapper.names()
    }

    /// Says that tensors whose names begin so have no place and need none.
    pub(super) fn leave_out(&mut self, beginning: &'static str) {
        self.left_out.push(beginning);
    }

    /// Adds tensors of a table: their names behind `from` in the checkpoint and behind `to` in the file.
    pub(super) fn fields(&mut self, from: &str, to: &str, fields: &[Field]) -> Result<(), ModelError> {
        for field in fields {
            let name = format!("{to}{}", field.gguf.tensor);
            let source = format!("{from}{}", field.hugging_face.tensor);
            self.tensor(name, &source, field.hugging_face.transform)?;
        }
        Ok(())
    }

    pub(super) fn tensor(
        &mut self,
        name: String,
        source: &str,
        transform: Transform,
    ) -> Result<(), ModelError> {
        let piece = self.piece(source)?;
        let mut shape = piece.tensor.shape().to_vec();
        // The middle axis of a depthwise convolution's weight.
        if let [channels, 1, taps] = shape[..] {
            shape = vec![channels, taps];
        }
        self.push(ConvertedTensor { name, shape, pieces: vec![piece], columns: None, transform });
        Ok(())
    }

    /// A whole tensor as a piece; it counts as used.
    pub(super) fn piece(&mut self, source: &str) -> Result<Piece, ModelError> {
        let tensor = self.checkpoint.tensor(source)?.clone();
        self.used.insert(source.to_owned());
        Ok(Piece { source: source.to_owned(), tensor, rows: None })
    }

    pub(super) fn push(&mut self, tensor: ConvertedTensor) {
        self.tensors.push(tensor);
    }

    /// Puts the rows of a tensor that was added in another order.
    pub(super) fn order_rows(&mut self, name: &str, order: &Order) -> Result<(), ModelError> {
        for tensor in self.tensors.iter_mut().filter(|tensor| tensor.name == name) {
            for piece in &mut tensor.pieces {
                expect(piece, "rows", piece.tensor.rows(), order.len())?;
                piece.rows = Some(order.clone());
            }
        }
        Ok(())
    }

    /// Puts the values of each row of a tensor that was added in another order.
    pub(super) fn order_columns(&mut self, name: &str, order: &Order) -> Result<(), ModelError> {
        for tensor in self.tensors.iter_mut().filter(|tensor| tensor.name == name) {
            for piece in &tensor.pieces {
                expect(piece, "values in a row", piece.tensor.row_elements(), order.len())?;
            }
            tensor.columns = Some(order.clone());
        }
        Ok(())
    }

    /// Embedding, last norm, output head, and the sizes that every architecture has.
    pub(super) fn frame(&mut self, norm: Field, tied: bool) -> Result<(), ModelError> {
        activation(Config::Json(self.json), "hidden_act", SILU)?;
        for refused in ["attention_bias", "mlp_bias"] {
            if self.json.flag_or(refused, false)? {
                return Err(self.json.senseless(refused, "false"));
            }
        }
        let model = self.names().model();
        self.fields(model, "", &[EMBEDDING, norm])?;
        if self.json.flag_or("tie_word_embeddings", tied)? {
            self.leave_out(HEAD.hugging_face.tensor);
        } else {
            self.fields("", "", &[HEAD])?;
        }
        self.size("embedding_length", "hidden_size")?;
        if self.json.get("intermediate_size").is_some() {
            self.size("feed_forward_length", "intermediate_size")?;
        }
        let heads = self.size("attention.head_count", "num_attention_heads")?;
        let kv_heads = self.json.size_or("num_key_value_heads", heads)?;
        self.set("attention.head_count_kv", kv_heads as u32);
        let head_dim = head_dim(Config::Json(self.json))? as u32;
        self.set("attention.key_length", head_dim);
        self.set("attention.value_length", head_dim);
        self.set("context_length", self.json.size_or("max_position_embeddings", 32768)? as u32);
        let eps = self.json.number_or("rms_norm_eps", 1e-6)?;
        self.set("attention.layer_norm_rms_epsilon", eps as f32);
        self.set("vocab_size", self.json.size("vocab_size")? as u32);
        Ok(())
    }

    /// Theta and the scaling of rotary positions; `theta` is what the architecture has when nothing is said.
    pub(super) fn rope(&mut self, section: &'static str, theta: f64) -> Result<(), ModelError> {
        let places = [section, "rope_scaling"];
        let find = |name: &str| {
            let keys = places.iter().map(|place| format!("{place}.{name}"));
            keys.into_iter().find(|key| self.json.get(key).is_some())
        };
        let theta = match find("rope_theta") {
            Some(key) => self.json.number(&key)?,
            None => self.json.number_or("rope_theta", theta)?,
        };
        let number = |name: &str| find(name).map(|key| self.json.number(&key)).transpose();
        let kind = find("rope_type").or_else(|| find("type"));
        let kind = kind.map(|key| self.json.text(&key)).transpose()?.unwrap_or("default");
        let factor = number("factor")?;
        let context = number("original_max_position_embeddings")?;
        let (fast, slow) = (number("beta_fast")?, number("beta_slow")?);
        for refused in ["attention_factor", "mscale", "mscale_all_dim"] {
            if let Some(key) = find(refused) {
                return Err(self.json.senseless(&key, "none of it: GGUF files have no word for it"));
            }
        }
        // All of it is checked, and the frequencies are there for Llama 3's factors.
        let rope = head_rope(&mut self.mapper, Kind { section, ..Kind::all(theta) })?;
        self.set("rope.freq_base", theta as f32);
        match kind {
            "linear" | "yarn" => {
                self.set("rope.scaling.type", kind);
                self.set("rope.scaling.factor", factor.unwrap_or(1.0) as f32);
            }
            "llama3" => {
                let pairs = rope.inv_freq.len();
                let plain = |pair: usize| theta.powf(-2.0 * pair as f64 / (2 * pairs) as f64) as f32;
                let factors: Vec<f32> =
                    rope.inv_freq.iter().enumerate().map(|(pair, slowed)| plain(pair) / slowed).collect();
                self.values("rope_freqs.weight", factors)?;
            }
            _ => {}
        }
        if kind == "yarn" {
            let trained = context.unwrap_or(self.json.size_or("max_position_embeddings", 32768)? as f64);
            self.set("rope.scaling.original_context_length", trained as u32);
            for (key, value) in [("rope.scaling.yarn_beta_fast", fast), ("rope.scaling.yarn_beta_slow", slow)]
            {
                if let Some(value) = value {
                    self.set(key, value as f32);
                }
            }
        }
        Ok(())
    }

    /// Adds a tensor of one dimension from values.
    fn values(&mut self, name: &str, values: Vec<f32>) -> Result<(), ModelError> {
        let shape = vec![values.len()];
        let tensor = Tensor::from_f32(shape.clone(), values)
            .map_err(|why| ModelError::Values { tensor: name.to_owned(), why: why.to_string() })?;
        let pieces = vec![Piece { source: name.to_owned(), tensor, rows: None }];
        self.push(ConvertedTensor {
            name: name.to_owned(),
            shape,
            pieces,
            columns: None,
            transform: Transform::None,
        });
        Ok(())
    }

    /// Everything written, when no tensor is left over.
    pub(super) fn finish(self, architecture: &'static str) -> Result<Converted, ModelError> {
        // Other parts of multimodal models have their own files.
        const OTHER_PARTS: [&str; 6] = [
            "model.visual.",
            "visual.",
            "vision_tower.",
            "model.vision_tower.",
            "multi_modal_projector.",
            "model.multi_modal_projector.",
        ];
        let known = |name: &&String| {
            self.used.contains(*name)
                || name.ends_with(".rotary_emb.inv_freq")
                || self.left_out.iter().chain(&OTHER_PARTS).any(|beginning| name.starts_with(beginning))
        };
        let all = self.checkpoint.tensors().keys().chain(self.checkpoint.unserved().keys());
        if let Some(tensor) = all.into_iter().find(|name| !known(name)) {
            return Err(ModelError::Unused { tensor: tensor.clone(), architecture });
        }
        Ok(Converted { metadata: self.metadata, tensors: self.tensors })
    }
}

/// Refuses a tensor that has not as many as the configuration says.
pub(super) fn expect(piece: &Piece, what: &str, found: usize, wanted: usize) -> Result<(), ModelError> {
    if found == wanted {
        return Ok(());
    }
    let why = format!("it has {found} {what}; with this configuration {wanted} are wanted");
    Err(ModelError::Values { tensor: piece.source.clone(), why })
}
