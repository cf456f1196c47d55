//! The names of a weight: in a program, in Hugging Face's files, in GGUF files.

/// How a tensor's values become the weight's: done once on loading, in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// They are the weight's.
    None,
    /// `1 + w`: norms that a checkpoint stores zero-centred.
    OnePlus,
    /// `-exp(a)`: a decay that a checkpoint stores as a logarithm.
    NegativeExp,
}

/// A tensor of one kind of file, and what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name behind the layer's.
    pub tensor: &'static str,
    /// The change of its values.
    pub transform: Transform,
}

/// A weight of a program and where each kind of file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its path in the program, behind the layer's.
    pub path: &'static str,
    /// In Hugging Face's files.
    pub hugging_face: Source,
    /// In GGUF files.
    pub gguf: Source,
}

impl Field {
    const fn new(path: &'static str, from: &'static str, transform: Transform, gguf: &'static str) -> Field {
        Field {
            path,
            hugging_face: Source { tensor: from, transform },
            gguf: Source { tensor: gguf, transform: Transform::None },
        }
    }

    /// Both kinds of file store the weight itself.
    pub const fn plain(path: &'static str, hugging_face: &'static str, gguf: &'static str) -> Field {
        Field::new(path, hugging_face, Transform::None, gguf)
    }

    /// Hugging Face's files store a norm zero-centred, GGUF files as it is applied.
    pub const fn centred(path: &'static str, hugging_face: &'static str, gguf: &'static str) -> Field {
        Field::new(path, hugging_face, Transform::OnePlus, gguf)
    }

    /// Hugging Face's files store a decay as a logarithm, GGUF files as it is applied.
    pub const fn logarithm(path: &'static str, hugging_face: &'static str, gguf: &'static str) -> Field {
        Field::new(path, hugging_face, Transform::NegativeExp, gguf)
    }
}

/// How a checkpoint names its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As Hugging Face's files do.
    HuggingFace {
        /// What stands before the text model's tensors: `model.`, or more in multimodal files.
        prefix: &'static str,
    },
    /// As GGUF files do.
    Gguf,
}

impl Names {
    /// What stands before the tensors of a layer.
    pub fn layer(self, index: usize) -> String {
        match self {
            Names::HuggingFace { prefix } => format!("{prefix}layers.{index}."),
            Names::Gguf => format!("blk.{index}."),
        }
    }

    /// What stands before the text model's tensors that belong to no layer.
    pub fn model(self) -> &'static str {
        match self {
            Names::HuggingFace { prefix } => prefix,
            Names::Gguf => "",
        }
    }
}
