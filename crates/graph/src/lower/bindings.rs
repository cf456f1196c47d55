//! What a checkpoint tells about a model before planning.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A value known before planning.
#[derive(Clone, Debug, PartialEq)]
pub enum Known {
    /// A `const` or `static` bool.
    Bool(bool),
    /// A `const` or `static` i32.
    Int(i64),
    /// A `const` f32; held in f64 so that a number of a config file keeps its digits.
    Float(f64),
    /// A `const` array of f32.
    Array {
        /// Its extents, as the program declares them.
        shape: Vec<usize>,
        /// Its elements, the last axis fastest.
        values: Arc<[f32]>,
    },
}

/// Everything that a model asks for besides its weights' bytes.
///
/// Names of fields of layers are paths: `layers.3.inv_freq` in the list, `mtp.inv_freq` in the single layer `mtp`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelBindings {
    /// The model's dims, by name.
    pub dims: BTreeMap<String, i64>,
    /// The kind of each layer of the list, first to last. Empty when the model has no kinds.
    pub layer_kinds: Vec<String>,
    /// Statics and constants, by name or path.
    pub known: BTreeMap<String, Known>,
    /// The weights that the checkpoint has, by name or path.
    pub params: BTreeSet<String>,
}
