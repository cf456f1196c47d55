//! The value of a tensor: every point of its axes, one after the other.

use crate::array::{Data, Level};
use crate::evaluate::{Frame, Point, wrap};
use crate::resolve::{Bool, Extent, Float, Int, Tensor, Typed};
use crate::{Array, Real, Trap};
use fiddlehead_graph::{FoldKind, TopPart};

impl<R: Real> Frame<'_, R> {
    /// Computes a tensor that is defined element by element.
    ///
    /// # Errors
    /// The first rule that the program broke.
    pub fn compute(&self, tensor: &Tensor<R>) -> Result<Array<R>, Trap> {
        let level = |extent: &Extent<R>| match extent {
            Extent::Fixed(extent) => Level::Fixed(*extent),
            Extent::Between { .. } => Level::Between { ranges: Vec::new(), offsets: Vec::new() },
        };
        let mut array =
            Array { levels: tensor.axes.iter().map(level).collect(), data: Data::empty(tensor.element) };
        let axes = vec![0; tensor.axes.len() + tensor.fold_axes.len()];
        let mut point = Point { axes, float: R::default(), int: 0, bool: false };
        self.fill(tensor, 0, &mut point, &mut array)?;
        Ok(array)
    }

    /// Appends all elements below a point of the first `axis` axes.
    fn fill(
        &self,
        tensor: &Tensor<R>,
        axis: usize,
        point: &mut Point<R>,
        array: &mut Array<R>,
    ) -> Result<(), Trap> {
        if axis == tensor.axes.len() {
            self.append(tensor, point, &mut array.data);
            return self.trap.get().cloned().map_or(Ok(()), Err);
        }
        let (start, end) = self.range(&tensor.axes[axis], point);
        array.levels[axis].note(start, end);
        for value in start..end {
            point.axes[axis] = value;
            self.fill(tensor, axis + 1, point, array)?;
        }
        self.trap.get().cloned().map_or(Ok(()), Err)
    }

    pub(crate) fn range(&self, extent: &Extent<R>, point: &Point<R>) -> (i64, i64) {
        match extent {
            Extent::Fixed(extent) => (0, *extent as i64),
            Extent::Between { start, end, inclusive } => {
                let start = self.int(start, point);
                (start, (self.int(end, point) + i64::from(*inclusive)).max(start))
            }
        }
    }

    /// Appends the element at a point.
    fn append(&self, tensor: &Tensor<R>, point: &mut Point<R>, data: &mut Data<R>) {
        if tensor.guard.as_ref().is_some_and(|guard| !self.bool(guard, point)) {
            return data.push_zeros(1);
        }
        match (data, &tensor.body) {
            (Data::Float(data), Typed::Float(body)) => data.push(self.float_element(tensor, body, point)),
            (Data::Int(data), Typed::Int(body)) => data.push(self.int_element(tensor, body, point) as i32),
            (Data::Id(data), Typed::Id(body)) => data.push(self.int_element(tensor, body, point) as u32),
            (Data::Bool(data), Typed::Bool(body)) => data.push(self.bool_element(tensor, body, point)),
            (Data::Id(data), Typed::Float(body)) => {
                data.push(self.greatest(tensor, point, R::outranks, |point| self.float(body, point)));
            }
            (Data::Id(data), Typed::Int(body)) => {
                data.push(self.greatest(tensor, point, |a, b| a > b, |point| self.int(body, point)));
            }
            _ => unreachable!("the body's type was resolved"),
        }
    }

    /// Visits every point of the fold's axes, in order.
    fn each(
        &self,
        tensor: &Tensor<R>,
        fold_axis: usize,
        point: &mut Point<R>,
        visit: &mut impl FnMut(&mut Point<R>),
    ) {
        let Some(extent) = tensor.fold_axes.get(fold_axis) else {
            return visit(point);
        };
        let (start, end) = self.range(extent, point);
        let last = fold_axis + 1 == tensor.fold_axes.len();
        for value in start..end {
            point.axes[tensor.axes.len() + fold_axis] = value;
            if last { visit(point) } else { self.each(tensor, fold_axis + 1, point, visit) }
        }
    }

    fn float_element(&self, tensor: &Tensor<R>, body: &Float<R>, point: &mut Point<R>) -> R {
        if let Some(total) = self.sum_of_products(tensor, point) {
            return total;
        }
        let mut fold = |initial: R, combine: fn(R, R) -> R| {
            let mut total = initial;
            self.each(tensor, 0, point, &mut |point| total = combine(total, self.float(body, point)));
            total
        };
        match &tensor.fold_kind {
            None => self.float(body, point),
            Some(FoldKind::Sum) => fold(R::default(), |a, b| a + b),
            Some(FoldKind::Product) => fold(R::ONE, |a, b| a * b),
            Some(FoldKind::Max) => fold(-R::INFINITY, R::max),
            Some(FoldKind::Min) => fold(R::INFINITY, R::min),
            Some(FoldKind::Ordered { .. }) => {
                if let Some(Typed::Float(initial)) = &tensor.initial {
                    point.float = self.float(initial, point);
                }
                self.each(tensor, 0, point, &mut |point| point.float = self.float(body, point));
                point.float
            }
            Some(FoldKind::Any | FoldKind::All | FoldKind::ArgMax) => unreachable!("resolved to f32 folds"),
        }
    }

    fn int_element(&self, tensor: &Tensor<R>, body: &Int<R>, point: &mut Point<R>) -> i64 {
        let mut fold = |initial: i64, combine: fn(i64, i64) -> i64| {
            let mut total = initial;
            self.each(tensor, 0, point, &mut |point| total = combine(total, self.int(body, point)));
            total
        };
        match &tensor.fold_kind {
            None => self.int(body, point),
            Some(FoldKind::Sum) => fold(0, |a, b| wrap(a + b)),
            Some(FoldKind::Product) => fold(1, |a, b| wrap(a.wrapping_mul(b))),
            Some(FoldKind::Max) => fold(i64::from(i32::MIN), i64::max),
            Some(FoldKind::Min) => fold(i64::from(i32::MAX), i64::min),
            Some(FoldKind::Ordered { .. }) => {
                if let Some(Typed::Int(initial) | Typed::Id(initial)) = &tensor.initial {
                    point.int = self.int(initial, point);
                }
                self.each(tensor, 0, point, &mut |point| point.int = self.int(body, point));
                point.int
            }
            Some(FoldKind::Any | FoldKind::All | FoldKind::ArgMax) => unreachable!("resolved to i32 folds"),
        }
    }

    fn bool_element(&self, tensor: &Tensor<R>, body: &Bool<R>, point: &mut Point<R>) -> bool {
        let mut fold = |initial: bool, combine: fn(bool, bool) -> bool| {
            let mut total = initial;
            self.each(tensor, 0, point, &mut |point| total = combine(total, self.bool(body, point)));
            total
        };
        match &tensor.fold_kind {
            None => self.bool(body, point),
            Some(FoldKind::Any) => fold(false, |a, b| a || b),
            Some(FoldKind::All) => fold(true, |a, b| a && b),
            Some(FoldKind::Ordered { .. }) => {
                if let Some(Typed::Bool(initial)) = &tensor.initial {
                    point.bool = self.bool(initial, point);
                }
                self.each(tensor, 0, point, &mut |point| point.bool = self.bool(body, point));
                point.bool
            }
            _ => unreachable!("resolved to bool folds"),
        }
    }

    /// The value of the fold's one axis where the body is greatest, the lowest on ties; zero when empty.
    fn greatest<T: Copy>(
        &self,
        tensor: &Tensor<R>,
        point: &mut Point<R>,
        outranks: fn(T, T) -> bool,
        body: impl Fn(&Point<R>) -> T,
    ) -> u32 {
        let axis = tensor.axes.len();
        let mut best: Option<(i64, T)> = None;
        self.each(tensor, 0, point, &mut |point| {
            let value = body(point);
            if best.is_none_or(|(_, greatest)| outranks(value, greatest)) {
                best = Some((point.axes[axis], value));
            }
        });
        best.map_or(0, |(index, _)| index as u32)
    }
}

/// The `k` greatest elements of each row of the last axis, greatest first, ties to the lower index.
pub(crate) fn top<R: Real>(operand: &Array<R>, k: usize, part: TopPart) -> Array<R> {
    let mut shape = operand.shape();
    let width = shape.pop().unwrap_or(1);
    let rows: usize = shape.iter().product();
    shape.push(k);
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let value = |index: usize| operand.data.float(row * width + index);
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|&a, &b| {
            let (a_first, b_first) = (value(a).outranks(value(b)), value(b).outranks(value(a)));
            b_first.cmp(&a_first).then(a.cmp(&b))
        });
        values.extend(order[..k].iter().map(|&index| value(index)));
        indices.extend(order[..k].iter().map(|&index| index as i32));
    }
    let data = match part {
        TopPart::Values => Data::Float(values),
        TopPart::Indices => Data::Int(indices),
    };
    Array { levels: shape.into_iter().map(Level::Fixed).collect(), data }
}
