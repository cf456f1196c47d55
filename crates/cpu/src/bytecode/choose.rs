//! Which axis the lanes run along, and what that costs.

use fiddlehead_graph::{FoldKind, Unary};

use super::affine::Affine;
use super::build::Built;
use super::code::{BLOCK, Pattern};
use super::layout::{Format, Strides};
use super::value::{Extent, Kind, Type, Value, Values, for_each_part};

/// How the loops of a window are nested.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// Loop axes, outermost first.
    pub order: Vec<usize>,
    /// The axis of the lanes: the last of the result's, or the last of all.
    pub vector: Option<usize>,
    /// How many of `order` belong to the result.
    pub results: usize,
}

impl Nest {
    /// Whether the lanes run along a folded axis.
    pub fn folds_lanes(&self) -> bool {
        self.vector.is_some()
            && self.order.iter().position(|axis| Some(*axis) == self.vector) >= Some(self.results)
    }
    /// Inside how many loops a value is computed.
    pub fn level(&self, values: &Values, value: Value) -> usize {
        let facts = values.facts(value);
        if facts.accumulates {
            return self.order.len();
        }
        self.order.iter().rposition(|&axis| facts.axes >> axis & 1 == 1).map_or(0, |place| place + 1)
    }
    /// Whether a value has a word a lane. In an ordered fold along the lanes, what accumulates is scalar.
    pub fn is_vector(&self, values: &Values, value: Value) -> bool {
        let facts = values.facts(value);
        match self.vector {
            None => false,
            Some(_) if facts.accumulates => !self.folds_lanes(),
            Some(axis) => facts.axes >> axis & 1 == 1,
        }
    }
}

/// An address as sums over the source's axes.
#[derive(Clone, Debug, Default)]
pub(super) struct Address {
    /// `(axis, coefficient, atom)`: scalars; without an atom, a constant.
    pub terms: Vec<(usize, i64, Option<Value>)>,
    /// `(axis, coefficient)`: elements from lane to lane.
    pub step: Vec<(usize, i64)>,
    /// `(axis, value)`: indices that are vectors.
    pub vectors: Vec<(usize, Value)>,
}

/// The address of `indices`; `vector` says whether it is wanted for each lane.
pub(super) fn address(values: &Values, nest: &Nest, indices: &[Value], vector: bool) -> Address {
    let mut address = Address::default();
    for (axis, &index) in indices.iter().enumerate() {
        let form: Affine = values.affine(index);
        let lanes = |atom: Value| match values.facts(atom).kind {
            Kind::Axis(axis) => Some(axis) == nest.vector,
            _ => false,
        };
        let varied = form.terms.iter().any(|term| nest.is_vector(values, term.0) && !lanes(term.0));
        if vector && varied {
            address.vectors.push((axis, index));
            continue;
        }
        if form.constant != 0 {
            address.terms.push((axis, form.constant, None));
        }
        for (atom, coefficient) in form.terms {
            address.terms.push((axis, coefficient, Some(atom)));
            if vector && lanes(atom) {
                address.step.push((axis, coefficient));
            }
        }
    }
    address
}

/// How an address goes through memory.
pub(super) fn pattern(address: &Address, strides: &Strides, rank: usize, vector: bool) -> Pattern {
    if !vector {
        return Pattern::One;
    }
    if !address.vectors.is_empty() {
        return Pattern::Gathered;
    }
    let contiguous = match strides {
        Strides::Fixed(strides) => {
            address.step.iter().map(|&(axis, by)| strides[axis] as i64 * by).sum::<i64>() == 1
        }
        Strides::Local => address.step == [(rank - 1, 1)],
    };
    if contiguous { Pattern::Contiguous } else { Pattern::Strided }
}

/// The nests that keep every range before what depends on it, and an ordered fold in order.
fn candidates(built: &Built, fold: Option<&FoldKind>) -> Vec<Nest> {
    let values = &built.values;
    let (count, results) = (values.extents.len(), built.result_loops);
    if count == 0 {
        return vec![Nest { order: Vec::new(), vector: None, results: 0 }];
    }
    let depends = |axis: usize, on: usize| match values.extents[axis] {
        Extent::Fixed { .. } => false,
        Extent::Between { low, high, .. } => {
            (values.facts(low).axes | values.facts(high).axes) >> on & 1 == 1
        }
    };
    let mut nests = Vec::new();
    for vector in 0..count {
        let in_result = vector < results;
        let group_end = if in_result { results } else { count };
        let ordered = matches!(fold, Some(FoldKind::Ordered { .. }));
        let movable = (vector + 1..group_end).all(|axis| !depends(axis, vector));
        // Lanes along a result's axis share the folded ranges.
        let shared = !in_result || (results..count).all(|axis| !depends(axis, vector));
        let in_order = in_result || !ordered || vector + 1 == count;
        if !(movable && shared && in_order) {
            continue;
        }
        let place = |range: std::ops::Range<usize>| {
            let mut order: Vec<usize> = range.clone().filter(|&axis| axis != vector).collect();
            if range.contains(&vector) {
                order.push(vector);
            }
            order
        };
        let mut order = place(0..results);
        order.extend(place(results..count));
        nests.push(Nest { order, vector: Some(vector), results });
    }
    nests
}

/// The cheapest nest and its rough cost for a row in nanoseconds.
pub(super) fn choose(built: &Built, fold: Option<&FoldKind>, output: &Strides) -> (Nest, f64) {
    let live = live(built);
    let mut best: Option<(Nest, f64)> = None;
    for nest in candidates(built, fold) {
        let cost = cost(built, fold, output, &nest, &live);
        // On a tie the inner axis, which comes later.
        if best.as_ref().is_none_or(|(_, least)| cost <= *least) {
            best = Some((nest, cost));
        }
    }
    // The last folded axis, or the last one, is always a candidate.
    best.unwrap_or((Nest { order: Vec::new(), vector: None, results: 0 }, 0.0))
}

/// All values that the program needs.
pub(super) fn live(built: &Built) -> Vec<Value> {
    let values = &built.values;
    let mut marks = vec![false; values.all.len()];
    let mut stack = vec![built.body];
    stack.extend(built.guard.iter().chain(&built.initial));
    for extent in &values.extents {
        if let Extent::Between { low, high, .. } = *extent {
            stack.extend([low, high]);
        }
    }
    while let Some(value) = stack.pop() {
        if !std::mem::replace(&mut marks[value.0 as usize], true) {
            for_each_part(&values.facts(value).kind, &mut |part| stack.push(part));
        }
    }
    (0..values.all.len() as u32).map(Value).filter(|value| marks[value.0 as usize]).collect()
}

fn turns(extent: Extent, values: &Values) -> f64 {
    match extent {
        Extent::Fixed { low, high } => high.saturating_sub(low) as f64,
        Extent::Between { low, high, .. } => {
            let most = values.facts(high).range.1 - values.facts(low).range.0;
            if (0..4096).contains(&most) { most as f64 } else { 256.0 }
        }
    }
    .max(1.0)
}

/// Nanoseconds of dispatching one instruction.
const DISPATCH: f64 = 4.0;
/// Nanoseconds of one turn of a loop that is no block's.
const TURN: f64 = 3.0;

fn cost(built: &Built, fold: Option<&FoldKind>, output: &Strides, nest: &Nest, live: &[Value]) -> f64 {
    let values = &built.values;
    let lengths: Vec<f64> = nest.order.iter().map(|&axis| turns(values.extents[axis], values)).collect();
    let lanes = nest.vector.map_or(1.0, |axis| turns(values.extents[axis], values).min(BLOCK as f64));
    let points = |level: usize| lengths[..level].iter().product::<f64>();
    let at = |level: usize, vector: bool, lane: f64| {
        let inside = nest.vector.and_then(|axis| nest.order[..level].iter().position(|known| *known == axis));
        let blocks = if inside.is_some() { points(level) / lanes } else { points(level) };
        blocks * (DISPATCH + if vector { lanes * lane } else { 0.0 })
    };
    let mut total = 0.0;
    for level in 1..=nest.order.len() {
        total += at(level, false, 0.0) * TURN / DISPATCH;
    }
    for &value in live {
        let vector = nest.is_vector(values, value);
        let lane = match &values.facts(value).kind {
            Kind::Constant(_) | Kind::Axis(_) | Kind::Here | Kind::Accumulator => continue,
            Kind::Unary(op, _) => match op {
                Unary::Negate | Unary::Absolute | Unary::Floor | Unary::Not => 0.05,
                Unary::ToFloat | Unary::ToInt | Unary::IdToInt | Unary::IntToId => 0.05,
                Unary::Sqrt => 0.15,
                Unary::Rsqrt => 0.3,
                _ => 0.4,
            },
            Kind::Binary(..) => 0.06,
            Kind::Select(..) => 0.08,
            Kind::Check { .. } => 0.5,
            Kind::Load { source, indices, depth } => {
                let source = &built.sources[*source];
                let address = address(values, nest, indices, vector);
                let rank = source.ranges.len();
                let deep = depth.is_some_and(|depth| nest.is_vector(values, depth));
                match (pattern(&address, &source.layout.strides, rank, vector), source.layout.format) {
                    _ if deep => 4.0,
                    (Pattern::One, _) => 0.0,
                    (Pattern::Contiguous, Format::Words) => 0.02,
                    (Pattern::Contiguous, _) => 0.1,
                    (_, Format::Blocks) => 30.0,
                    (Pattern::Strided, _) => 0.5,
                    (Pattern::Gathered, _) => 1.0,
                }
            }
        };
        let level = nest.level(values, value);
        total += if values.facts(value).accumulates && nest.folds_lanes() {
            points(level) * DISPATCH
        } else {
            at(level, vector, lane)
        };
    }
    let stores_vector = nest.vector.is_some() && !nest.folds_lanes();
    let result = &built.axes[..built.rank];
    let stored = pattern(&address(values, nest, result, stores_vector), output, built.rank, stores_vector);
    let strided = matches!(stored, Pattern::Strided | Pattern::Gathered);
    total += at(nest.results, stores_vector, if strided { 0.5 } else { 0.05 });
    if fold.is_some() {
        total += at(nest.order.len(), true, 0.06);
        if nest.folds_lanes() {
            total += points(nest.results) * 25.0;
        }
    }
    total
}

impl Values {
    /// Whether words of this type are floats.
    pub fn is_float(&self, value: Value) -> bool {
        self.ty(value) == Type::Float
    }
}
