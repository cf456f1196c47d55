//! Weights, by name.

use crate::array::{Data, Level};
use crate::{Array, OracleError, Real};
use fiddlehead_graph::{Element, Param};
use std::collections::HashMap;
use std::sync::Arc;

/// The dequantised elements of a weight, last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub enum Weight {
    /// An f32 weight, whatever format its checkpoint stores.
    Float(Arc<[f32]>),
    /// An i32 weight.
    Int(Arc<[i32]>),
}

/// Weights by the name of their [`Param`]; steps of one model share one map.
pub type Weights = HashMap<String, Weight>;

/// The value of a declared weight.
pub(crate) fn weight<R: Real>(param: &Param, weights: &Weights) -> Result<Array<R>, OracleError> {
    let weight =
        weights.get(&param.name).ok_or_else(|| OracleError::MissingWeight { name: param.name.clone() })?;
    let data: Data<R> = match weight {
        Weight::Float(values) => Data::Weight(values.clone()),
        Weight::Int(values) => Data::Int(values.to_vec()),
    };
    let size = param.shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
    let typed = matches!(param.element, Element::F32 | Element::I32) && data.element() == param.element;
    if !typed || size != Some(data.len()) {
        return Err(OracleError::Mismatch {
            name: param.name.clone(),
            expected_element: param.element,
            expected: param.shape.clone(),
            found_element: data.element(),
            found: vec![data.len()],
        });
    }
    Ok(Array { levels: param.shape.iter().map(|&extent| Level::Fixed(extent)).collect(), data })
}
