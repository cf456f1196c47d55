//! A random graph as it grows, and short names for its expressions.

use super::VOCABULARY;
use crate::{Weight, Weights};
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::validate::ValidationError;
use fiddlehead_graph::{
    Binary, Compute, Element, Expr, Fold, FoldKind, Graph, HistoryId, Input, NodeId, Origin, Param,
    Permissions, Range, Unary,
};

/// A vector of the sketch's width.
#[derive(Clone, Copy)]
pub(super) struct Vector {
    pub node: NodeId,
    /// No element is greater in magnitude.
    pub bound: f64,
    /// Whether f32 and f64 hold the same elements.
    pub exact: bool,
}

/// A graph under construction.
pub(super) struct Sketch {
    pub random: SplitMix,
    pub builder: GraphBuilder,
    weights: Weights,
    /// The length of every vector in the pool.
    pub width: usize,
    /// The node's own token, id.
    pub token: NodeId,
    vectors: Vec<Vector>,
    /// Whether some later node reads a vector of the pool.
    read: Vec<bool>,
    extra: Vec<NodeId>,
    names: usize,
}

impl Sketch {
    pub fn new(seed: u64) -> Sketch {
        let mut random = SplitMix::new(seed);
        let width = [4, 6, 8, 12, 16, 33][random.below(6)];
        let mut builder = GraphBuilder::new("random");
        let token = Input { name: "token".into(), shape: Vec::new(), element: Element::Id, per_node: true };
        let token = builder.input(token);
        let mut sketch = Sketch {
            random,
            builder,
            weights: Weights::new(),
            width,
            token,
            vectors: Vec::new(),
            read: Vec::new(),
            extra: Vec::new(),
            names: 0,
        };
        let embed = sketch.weight(&[VOCABULARY, width], 1.0);
        let row = sketch.each(&[width], load(embed, [load(token, []), axis(0)]));
        sketch.keep(row, 1.0, true);
        for (name, per_node) in [("own", true), ("shared", false)] {
            if sketch.random.one_in(2) {
                let input = Input { name: name.into(), shape: vec![width], element: Element::F32, per_node };
                let node = sketch.builder.input(input);
                sketch.keep(node, 1.0, true);
            }
        }
        sketch
    }

    /// Mixes everything that nothing read into the first output, and seals the graph.
    pub fn finish(mut self) -> Result<(Graph, Weights), ValidationError> {
        let unread: Vec<NodeId> = (self.vectors.iter().zip(&self.read))
            .filter(|(_, read)| !**read)
            .map(|(vector, _)| vector.node)
            .collect();
        let terms =
            unread.iter().map(|&node| mul(float(self.random.signed_unit() as f64), load(node, [axis(0)])));
        let body = terms.reduce(add).unwrap_or(float(0.0));
        let result = self.each(&[self.width], body);
        self.builder.output("result", result);
        for (index, node) in self.extra.iter().enumerate() {
            self.builder.output(format!("extra{index}"), *node);
        }
        Ok((self.builder.seal()?, self.weights))
    }

    /// A name that was not used before.
    pub fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    /// A weight with elements of `[-scale, scale)`.
    pub fn weight(&mut self, shape: &[usize], scale: f32) -> NodeId {
        let name = self.name("weight");
        let count = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|_| scale * self.random.signed_unit()).collect();
        self.weights.insert(name.clone(), Weight::Float(values.into()));
        self.builder.param(Param { name, shape: shape.to_vec(), element: Element::F32 })
    }

    /// An i32 weight with elements of `0..below`.
    pub fn table(&mut self, shape: &[usize], below: usize) -> NodeId {
        let name = self.name("table");
        let count = shape.iter().product();
        let values: Vec<i32> = (0..count).map(|_| self.random.below(below) as i32).collect();
        self.weights.insert(name.clone(), Weight::Int(values.into()));
        self.builder.param(Param { name, shape: shape.to_vec(), element: Element::I32 })
    }

    /// A vector of the pool, the newest half of the time.
    pub fn vector(&mut self) -> Vector {
        let count = self.vectors.len();
        let place = if self.random.one_in(2) { count - 1 } else { self.random.below(count) };
        self.read[place] = true;
        self.vectors[place]
    }

    /// A vector of the pool that f32 and f64 hold alike.
    pub fn exact_vector(&mut self) -> Vector {
        let exact: Vec<usize> = (0..self.vectors.len()).filter(|&place| self.vectors[place].exact).collect();
        // The embedded token is always there.
        let place = exact[self.random.below(exact.len())];
        self.read[place] = true;
        self.vectors[place]
    }

    /// Adds a vector to the pool; one that might be large is squashed first.
    pub fn keep(&mut self, node: NodeId, bound: f64, exact: bool) {
        let vector = if bound <= 3.0 {
            Vector { node, bound, exact }
        } else {
            let squashed = match self.random.below(3) {
                0 => unary(Unary::Tanh, load(node, [axis(0)])),
                1 => {
                    let size = unary(Unary::Absolute, load(node, [axis(0)]));
                    div(load(node, [axis(0)]), add(float(1.0), size))
                }
                _ => sub(unary(Unary::Sigmoid, load(node, [axis(0)])), float(0.5)),
            };
            Vector { node: self.each(&[self.width], squashed), bound: 1.0, exact: false }
        };
        self.vectors.push(vector);
        self.read.push(false);
    }

    /// Makes a tensor an output of its own; a program keeps four such.
    pub fn keep_output(&mut self, node: NodeId) {
        if self.extra.len() < 4 {
            self.extra.push(node);
        }
    }

    /// A tensor of that shape, f32.
    pub fn each(&mut self, shape: &[usize], body: Expr) -> NodeId {
        self.tensor(fixed(shape), None, Element::F32, body)
    }

    /// A sum over axes of that extent, f32; they are numbered after those of `shape`.
    pub fn sum(&mut self, shape: &[usize], over: &[usize], body: Expr) -> NodeId {
        self.fold(FoldKind::Sum, shape, over, body)
    }

    /// A fold over axes of that extent, f32.
    pub fn fold(&mut self, kind: FoldKind, shape: &[usize], over: &[usize], body: Expr) -> NodeId {
        self.tensor(fixed(shape), Some(Fold { kind, axes: fixed(over) }), Element::F32, body)
    }

    /// Any tensor without a guard.
    pub fn tensor(&mut self, axes: Vec<Range>, fold: Option<Fold>, element: Element, body: Expr) -> NodeId {
        self.guarded(axes, fold, element, None, body)
    }

    /// Any tensor.
    pub fn guarded(
        &mut self,
        axes: Vec<Range>,
        fold: Option<Fold>,
        element: Element,
        guard: Option<Expr>,
        body: Expr,
    ) -> NodeId {
        let origin = Origin { name: self.name("tensor"), span: None };
        let compute = Compute { axes, fold, guard, body, permissions: Permissions::default() };
        self.builder.compute(compute, element, origin)
    }

    /// `[rows, columns]` from a vector through a weight: a projection, elements bounded by the vector's bound.
    pub fn project(&mut self, vector: Vector, rows: usize, columns: usize) -> NodeId {
        let width = self.width;
        let scale = 1.0 / (width as f32).sqrt();
        let weight = self.weight(&[rows * columns, width], scale);
        let row = add(mul(axis(0), int(columns)), axis(1));
        let body = mul(load(weight, [row, axis(2)]), load(vector.node, [axis(2)]));
        self.sum(&[rows, columns], &[width], body)
    }

    /// A vector from `[rows, columns]` through a weight, kept in the pool.
    pub fn project_back(&mut self, matrix: NodeId, rows: usize, columns: usize) {
        let count = (rows * columns) as f32;
        let weight = self.weight(&[self.width, rows, columns], 1.0 / count.sqrt());
        let body = mul(load(weight, [axis(0), axis(1), axis(2)]), load(matrix, [axis(1), axis(2)]));
        let node = self.sum(&[self.width], &[rows, columns], body);
        self.keep(node, f64::INFINITY, false);
    }
}

pub(super) fn fixed(shape: &[usize]) -> Vec<Range> {
    shape.iter().map(|&extent| Range::Fixed(extent)).collect()
}

/// The two ways to write a range by its last value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ending {
    /// `start .. last + 1`, which is what lowering makes of most ranges.
    Open,
    /// `start ..= last`.
    Inclusive,
}

impl Ending {
    /// One of the two, the second once in `count` times.
    pub fn inclusive_once_in(count: usize, random: &mut SplitMix) -> Ending {
        if random.one_in(count) { Ending::Inclusive } else { Ending::Open }
    }
}

/// The values from `start` to `last`.
pub(super) fn between(start: Expr, last: Expr, ending: Ending, bound: Option<usize>) -> Range {
    let inclusive = ending == Ending::Inclusive;
    let end = if inclusive { last } else { add(last, int(1)) };
    Range::Between { start, end, inclusive, bound }
}

pub(super) fn axis(axis: usize) -> Expr {
    Expr::Axis(axis)
}

pub(super) fn int(value: usize) -> Expr {
    Expr::Int(value as i64)
}

pub(super) fn float(value: f64) -> Expr {
    // What f32 cannot hold would make the oracles differ for no reason.
    Expr::Float(f64::from(value as f32))
}

pub(super) fn load<const RANK: usize>(node: NodeId, indices: [Expr; RANK]) -> Expr {
    Expr::load(node, indices.into())
}

/// The row of a history `back` nodes before this one.
pub(super) fn past<const RANK: usize>(history: HistoryId, depth: Expr, indices: [Expr; RANK]) -> Expr {
    Expr::History { history, depth: Box::new(depth), indices: indices.into() }
}

pub(super) fn unary(operation: Unary, operand: Expr) -> Expr {
    Expr::unary(operation, operand)
}

pub(super) fn select(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::select(condition, then, otherwise)
}

macro_rules! binary {
    ($($name:ident $operation:ident),*) => {$(
        pub(super) fn $name(left: Expr, right: Expr) -> Expr {
            Expr::binary(Binary::$operation, left, right)
        }
    )*};
}
binary!(
    add Add, sub Subtract, mul Multiply, div Divide, rem Remainder, less Less, least Min, greatest Max, equal Equal
);
