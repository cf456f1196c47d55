//! Tensors as plain values, the jagged ones of dependent ranges included.

use crate::{OracleError, Real};
use fiddlehead_graph::Element;
use std::sync::Arc;

/// The elements of an array, last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub enum Data<R> {
    /// f32 values, held in the oracle's arithmetic.
    Float(Vec<R>),
    /// f32 values of a weight, shared with whoever gave them.
    Weight(Arc<[f32]>),
    /// i32 values.
    Int(Vec<i32>),
    /// bool values.
    Bool(Vec<bool>),
    /// ids.
    Id(Vec<u32>),
}

impl<R: Real> Data<R> {
    /// No elements, of that type.
    pub(crate) fn empty(element: Element) -> Data<R> {
        match element {
            Element::F32 => Data::Float(Vec::new()),
            Element::I32 => Data::Int(Vec::new()),
            Element::Bool => Data::Bool(Vec::new()),
            Element::Id => Data::Id(Vec::new()),
        }
    }

    /// The type of the elements.
    pub fn element(&self) -> Element {
        match self {
            Data::Float(_) | Data::Weight(_) => Element::F32,
            Data::Int(_) => Element::I32,
            Data::Bool(_) => Element::Bool,
            Data::Id(_) => Element::Id,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::Float(values) => values.len(),
            Data::Weight(values) => values.len(),
            Data::Int(values) => values.len(),
            Data::Bool(values) => values.len(),
            Data::Id(values) => values.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index` as a float. Types are checked when expressions are resolved and inputs are taken.
    pub(crate) fn float(&self, index: usize) -> R {
        match self {
            Data::Float(values) => values[index],
            Data::Weight(values) => R::from_f32(values[index]),
            _ => unreachable!("a float is read from floats only"),
        }
    }

    /// Element `index` as an integer or id.
    pub(crate) fn int(&self, index: usize) -> i64 {
        match self {
            Data::Int(values) => values[index] as i64,
            Data::Id(values) => values[index] as i64,
            _ => unreachable!("an integer is read from integers and ids only"),
        }
    }

    /// Element `index` as a bool.
    pub(crate) fn bool(&self, index: usize) -> bool {
        match self {
            Data::Bool(values) => values[index],
            _ => unreachable!("a bool is read from bools only"),
        }
    }

    /// Appends zeros (false).
    pub(crate) fn push_zeros(&mut self, count: usize) {
        match self {
            Data::Float(values) => values.resize(values.len() + count, R::default()),
            Data::Weight(_) => unreachable!("weights do not grow"),
            Data::Int(values) => values.resize(values.len() + count, 0),
            Data::Bool(values) => values.resize(values.len() + count, false),
            Data::Id(values) => values.resize(values.len() + count, 0),
        }
    }

    /// Appends all elements of `other`, which has the same type.
    pub(crate) fn extend(&mut self, other: &Data<R>) {
        match (self, other) {
            (Data::Float(values), other) => values.extend((0..other.len()).map(|index| other.float(index))),
            (Data::Int(values), Data::Int(other)) => values.extend_from_slice(other),
            (Data::Bool(values), Data::Bool(other)) => values.extend_from_slice(other),
            (Data::Id(values), Data::Id(other)) => values.extend_from_slice(other),
            _ => unreachable!("the types agree"),
        }
    }

    /// The elements of `range`, copied.
    fn part(&self, range: std::ops::Range<usize>) -> Data<R> {
        match self {
            Data::Float(values) => Data::Float(values[range].to_vec()),
            Data::Weight(values) => Data::Weight(values[range].into()),
            Data::Int(values) => Data::Int(values[range].to_vec()),
            Data::Bool(values) => Data::Bool(values[range].to_vec()),
            Data::Id(values) => Data::Id(values[range].to_vec()),
        }
    }
}

/// The extents of one axis. A row of an axis is one point of the axes before it, in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Level {
    /// Every row runs over `0 .. n`.
    Fixed(usize),
    /// Row `r` runs over `ranges[r]` (start, end), and its elements begin at `offsets[r]`.
    Between { ranges: Vec<(i64, i64)>, offsets: Vec<usize> },
}

impl Level {
    /// The range of a row, and where its elements begin.
    pub(crate) fn row(&self, row: usize) -> (i64, i64, usize) {
        match self {
            Level::Fixed(extent) => (0, *extent as i64, row * extent),
            Level::Between { ranges, offsets } => (ranges[row].0, ranges[row].1, offsets[row]),
        }
    }

    /// Notes the range of the next row.
    pub(crate) fn note(&mut self, start: i64, end: i64) {
        if let Level::Between { ranges, offsets } = self {
            let offset = match (ranges.last(), offsets.last()) {
                (Some((start, end)), Some(offset)) => offset + (end - start) as usize,
                _ => 0,
            };
            ranges.push((start, end));
            offsets.push(offset);
        }
    }
}

/// A tensor's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<R> {
    pub(crate) levels: Vec<Level>,
    pub(crate) data: Data<R>,
}

impl<R: Real> Array<R> {
    /// An array of that shape.
    ///
    /// # Errors
    /// [`OracleError::ArraySize`] when the data does not fill the shape.
    pub fn new(shape: &[usize], data: Data<R>) -> Result<Array<R>, OracleError> {
        let expected = shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
        if expected != Some(data.len()) {
            return Err(OracleError::ArraySize { elements: data.len(), shape: shape.to_vec() });
        }
        Ok(Array { levels: shape.iter().map(|&extent| Level::Fixed(extent)).collect(), data })
    }

    /// A vector of f32 values.
    pub fn floats(values: &[f32]) -> Array<R> {
        let data = Data::Float(values.iter().map(|&value| R::from_f32(value)).collect());
        Array { levels: vec![Level::Fixed(values.len())], data }
    }

    /// A vector of i32 values.
    pub fn ints(values: &[i32]) -> Array<R> {
        Array { levels: vec![Level::Fixed(values.len())], data: Data::Int(values.to_vec()) }
    }

    /// A vector of ids.
    pub fn ids(values: &[u32]) -> Array<R> {
        Array { levels: vec![Level::Fixed(values.len())], data: Data::Id(values.to_vec()) }
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// [`OracleError::ArraySize`] when they do not fill it.
    pub fn reshaped(self, shape: &[usize]) -> Result<Array<R>, OracleError> {
        Array::new(shape, self.data)
    }

    /// The shape. Arrays that leave the oracle have fixed extents; a dependent axis would read as zero here.
    pub fn shape(&self) -> Vec<usize> {
        let extent = |level: &Level| match level {
            Level::Fixed(extent) => *extent,
            Level::Between { .. } => 0,
        };
        self.levels.iter().map(extent).collect()
    }

    /// The elements, last axis fastest.
    pub fn data(&self) -> &Data<R> {
        &self.data
    }

    /// The type of the elements.
    pub fn element(&self) -> Element {
        self.data.element()
    }

    /// Every element as an f64, exactly; a bool as zero or one.
    pub fn to_f64s(&self) -> Vec<f64> {
        let element = |index| match &self.data {
            Data::Float(values) => R::to_f64(values[index]),
            Data::Weight(values) => values[index] as f64,
            Data::Int(values) => values[index] as f64,
            Data::Bool(values) => f64::from(u8::from(values[index])),
            Data::Id(values) => values[index] as f64,
        };
        (0..self.data.len()).map(element).collect()
    }

    /// The same array in another arithmetic; floats round to it.
    pub fn converted<Other: Real>(&self) -> Array<Other> {
        let data = match &self.data {
            Data::Float(values) => {
                Data::Float(values.iter().map(|&value| Other::from_f64(value.to_f64())).collect())
            }
            Data::Weight(values) => Data::Weight(values.clone()),
            Data::Int(values) => Data::Int(values.clone()),
            Data::Bool(values) => Data::Bool(values.clone()),
            Data::Id(values) => Data::Id(values.clone()),
        };
        Array { levels: self.levels.clone(), data }
    }

    /// Row `index` of the first axis, as an array of the axes after it.
    pub(crate) fn first_axis(&self, index: usize) -> Array<R> {
        let levels = self.levels[1..].to_vec();
        let size: usize = self.shape()[1..].iter().product();
        Array { levels, data: self.data.part(index * size..(index + 1) * size) }
    }
}
