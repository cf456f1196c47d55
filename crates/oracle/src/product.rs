//! A sum of products whose elements lie evenly spaced: the terms of the plain walk, in its order, with the steps through
//! memory worked out beforehand.
//!
//! Nearly all of a model's work is such sums, and the plain walk spends its time on finding elements. What is summed and
//! in which order stays as it is, so the result has the same bits.

use crate::Real;
use crate::array::{Array, Data, Level};
use crate::evaluate::{Frame, Point};
use crate::resolve::{Float, Int, Load, Tensor, Typed};
use fiddlehead_graph::{Binary, FoldKind};

/// An index along the fold: `start + step * place`.
#[derive(Clone, Copy)]
struct Walk {
    start: i64,
    step: i64,
}

impl Walk {
    fn at(self, place: i64) -> i64 {
        self.start + self.step * place
    }
}

/// Elements of an array along the fold.
struct Elements<'array, R> {
    data: &'array Data<R>,
    walk: Walk,
}

impl<R: Real> Frame<'_, R> {
    /// The element of a tensor at a point, where it is a sum over one axis of products of two loads whose indices are
    /// affine in it. `None` for anything else and for an index out of range: the plain walk says what is wrong.
    pub fn sum_of_products(&self, tensor: &Tensor<R>, point: &Point<R>) -> Option<R> {
        let (Some(FoldKind::Sum), [extent], Typed::Float(Float::Binary(Binary::Multiply, left, right))) =
            (&tensor.fold_kind, &tensor.fold_axes[..], &tensor.body)
        else {
            return None;
        };
        let (Float::Load(left), Float::Load(right)) = (&**left, &**right) else { return None };
        let range = self.range(extent, point);
        let axis = tensor.axes.len();
        let (left, right) =
            (self.elements(left, axis, range, point)?, self.elements(right, axis, range, point)?);
        let mut total = R::default();
        let (left_walk, right_walk) = (left.walk, right.walk);
        // One loop for each kind of data, so that the kind is not asked for at each element.
        macro_rules! sum {
            ($left:expr, $right:expr) => {
                for place in range.0..range.1 {
                    let (left, right) = (left_walk.at(place) as usize, right_walk.at(place) as usize);
                    total = total + $left(left) * $right(right);
                }
            };
        }
        match (left.data, right.data) {
            (Data::Float(a), Data::Float(b)) => sum!(|i: usize| a[i], |i: usize| b[i]),
            (Data::Weight(a), Data::Float(b)) => sum!(|i: usize| R::from_f32(a[i]), |i: usize| b[i]),
            (Data::Float(a), Data::Weight(b)) => sum!(|i: usize| a[i], |i: usize| R::from_f32(b[i])),
            (Data::Weight(a), Data::Weight(b)) => {
                sum!(|i: usize| R::from_f32(a[i]), |i: usize| R::from_f32(b[i]));
            }
            _ => return None,
        }
        Some(total)
    }

    /// Where the elements of a load lie while the fold's axis runs over a range.
    fn elements(
        &self,
        load: &Load<R>,
        axis: usize,
        range: (i64, i64),
        point: &Point<R>,
    ) -> Option<Elements<'_, R>> {
        let array: &Array<R> = self.tensor(load.node);
        let mut walk = Walk { start: 0, step: 0 };
        for (level, index) in array.levels.iter().zip(&load.indices) {
            let Level::Fixed(extent) = level else { return None };
            let extent = *extent as i64;
            let index = affine(index, axis, point)?;
            let in_range = |place: i64| (0..extent).contains(&index.at(place));
            if range.0 < range.1 && !(in_range(range.0) && in_range(range.1 - 1)) {
                return None;
            }
            walk = Walk { start: walk.start * extent + index.start, step: walk.step * extent + index.step };
        }
        Some(Elements { data: &array.data, walk })
    }
}

/// An index as an affine function of an axis, the others at their values. Sizes, offsets and axes lie far within 32 bits,
/// so what could wrap is refused.
fn affine<R>(index: &Int<R>, axis: usize, point: &Point<R>) -> Option<Walk> {
    let walk = match index {
        Int::Literal(value) => Walk { start: *value, step: 0 },
        Int::Axis(found) if *found == axis => Walk { start: 0, step: 1 },
        Int::Axis(found) => Walk { start: point.axes[*found], step: 0 },
        Int::Binary(operation, left, right) => {
            let (a, b) = (affine(left, axis, point)?, affine(right, axis, point)?);
            match operation {
                Binary::Add => Walk { start: a.start + b.start, step: a.step + b.step },
                Binary::Subtract => Walk { start: a.start - b.start, step: a.step - b.step },
                Binary::Multiply if a.step == 0 => Walk { start: a.start * b.start, step: a.start * b.step },
                Binary::Multiply if b.step == 0 => Walk { start: a.start * b.start, step: a.step * b.start },
                _ => return None,
            }
        }
        _ => return None,
    };
    let small = |value: i64| value.abs() < 1 << 30;
    (small(walk.start) && small(walk.step)).then_some(walk)
}
