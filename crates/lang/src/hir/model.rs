//! Models: what a checkpoint binds, layers and steps.

use super::{FunctionId, KindId, ParamId, Scalar, Type};
use crate::size::{Size, SizeSymbol};
use crate::source::Span;

/// A model: sizes, values and weights bound from a checkpoint, and steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its sizes.
    pub dims: Vec<SizeSymbol>,
    /// Values known before planning that choose between forms.
    pub statics: Vec<Static>,
    /// Weights.
    pub params: Vec<Param>,
    /// Numbers known before planning.
    pub consts: Vec<Const>,
    /// Its list of layers.
    pub layers: Option<Layers>,
    /// Layers outside the list.
    pub single_layers: Vec<SingleLayer>,
    /// Functions declared in it, steps included.
    pub functions: Vec<FunctionId>,
    /// Its named steps, in the order of the text.
    pub steps: Vec<FunctionId>,
}

/// `static name: bool;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Static {
    /// Its name.
    pub name: String,
    /// Bool or I32.
    pub ty: Scalar,
    /// Where it is declared.
    pub span: Span,
}

/// `param name: type else other;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// A scalar or an array, of f32 or i32.
    pub ty: Type,
    /// The param of the same type that stands in when the checkpoint has none; declared before this one.
    pub default: Option<ParamId>,
    /// Where it is declared.
    pub span: Span,
}

/// `const name: type;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Const {
    /// Its name.
    pub name: String,
    /// A scalar (f32, i32 or bool) or an array of f32.
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// `layers[count] { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    /// How many.
    pub count: Size,
    /// Fields that every layer has.
    pub common: Vec<Field>,
    /// Kinds; none when every layer has the common fields alone.
    pub kinds: Vec<Kind>,
    /// Where it is declared.
    pub span: Span,
}

/// `kind name { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Its fields, besides the common ones; no name is in both.
    pub fields: Vec<Field>,
    /// Where it is declared.
    pub span: Span,
}

/// A field of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Weight, constant or static.
    pub role: FieldRole,
    /// Its type, by the rules of [`Param`], [`Const`] or [`Static`].
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// What a layer's field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldRole {
    /// A weight.
    Param,
    /// A number known before planning.
    Const,
    /// A value known before planning that chooses between forms.
    Static,
}

/// A field, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldId {
    /// In [`Layers::common`].
    Common(u32),
    /// In the fields of a kind.
    Kind(KindId, u32),
}

/// `layer name: kind;`: one more layer, outside the list.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleLayer {
    /// Its name; its weights are `name.field`.
    pub name: String,
    /// Its kind; absent when the model's layers have no kinds.
    pub kind: Option<KindId>,
    /// Where it is declared.
    pub span: Span,
}

impl Model {
    /// A field of its layers.
    pub fn field(&self, id: FieldId) -> Option<&Field> {
        let layers = self.layers.as_ref()?;
        match id {
            FieldId::Common(place) => layers.common.get(place as usize),
            FieldId::Kind(kind, place) => layers.kinds.get(kind.index())?.fields.get(place as usize),
        }
    }
}
