//! A short way to write graphs by hand: expressions with operators, and tensors from closures over their axes.
#![allow(dead_code)]

pub mod restate;

use std::ops::{Add, Div, Mul, Rem, Sub};
use std::sync::Arc;

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;

/// A scalar expression with operators.
#[derive(Clone, Debug)]
pub struct E(pub Expr);

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl $trait<E> for E {
            type Output = E;
            fn $method(self, right: E) -> E {
                E(Expr::binary(Binary::$op, self.0, right.0))
            }
        }
        impl $trait<i64> for E {
            type Output = E;
            fn $method(self, right: i64) -> E {
                E(Expr::binary(Binary::$op, self.0, Expr::Int(right)))
            }
        }
        impl $trait<f64> for E {
            type Output = E;
            fn $method(self, right: f64) -> E {
                E(Expr::binary(Binary::$op, self.0, Expr::Float(right)))
            }
        }
    };
}
operator!(Add, add, Add);
operator!(Sub, sub, Subtract);
operator!(Mul, mul, Multiply);
operator!(Div, div, Divide);
operator!(Rem, rem, Remainder);

pub fn unary(op: Unary, e: E) -> E {
    E(Expr::unary(op, e.0))
}
pub fn exp(e: E) -> E {
    unary(Unary::Exp, e)
}
pub fn silu(e: E) -> E {
    unary(Unary::Silu, e)
}
pub fn here() -> E {
    E(Expr::Here)
}
pub fn int(value: i64) -> E {
    E(Expr::Int(value))
}
pub fn float(value: f64) -> E {
    E(Expr::Float(value))
}
pub fn greater(a: E, b: E) -> E {
    E(Expr::binary(Binary::Max, a.0, b.0))
}
/// `node[indices]`.
pub fn at<const N: usize>(node: NodeId, indices: [E; N]) -> E {
    E(Expr::load(node, indices.into_iter().map(|e| e.0).collect()))
}
/// `history[depth][indices]`.
pub fn row<const N: usize>(history: HistoryId, depth: E, indices: [E; N]) -> E {
    E(Expr::History {
        history,
        depth: Box::new(depth.0),
        indices: indices.into_iter().map(|e| e.0).collect(),
    })
}
/// `0 ..= here`.
pub fn path() -> Range {
    between(int(0))
}
/// `start ..= here`.
pub fn between(start: E) -> Range {
    let end = Expr::binary(Binary::Add, Expr::Here, Expr::Int(1));
    Range::Between { start: start.0, end, inclusive: false, bound: None }
}

/// A graph in the making.
pub struct Draft {
    pub builder: GraphBuilder,
}

pub type Axes = Vec<E>;

impl Draft {
    pub fn new() -> Draft {
        Draft { builder: GraphBuilder::new("test") }
    }
    pub fn input(&mut self, name: &str, shape: &[usize]) -> NodeId {
        let (name, shape) = (name.to_string(), shape.to_vec());
        self.builder.input(Input { name, shape, element: Element::F32, per_node: true })
    }
    pub fn shared(&mut self, name: &str, shape: &[usize]) -> NodeId {
        let (name, shape) = (name.to_string(), shape.to_vec());
        self.builder.input(Input { name, shape, element: Element::F32, per_node: false })
    }
    pub fn weight(&mut self, name: &str, shape: &[usize]) -> NodeId {
        self.builder.param(Param { name: name.to_string(), shape: shape.to_vec(), element: Element::F32 })
    }
    pub fn zeros(&mut self, shape: &[usize]) -> NodeId {
        let axes = shape.iter().map(|&n| Range::Fixed(n)).collect();
        let compute = Compute {
            axes,
            fold: None,
            guard: None,
            body: Expr::Float(0.0),
            permissions: Permissions::default(),
        };
        self.builder.compute(compute, Element::F32, Origin::default())
    }
    pub fn constant(&mut self, shape: &[usize]) -> NodeId {
        let values: Arc<[f32]> = vec![1.0; shape.iter().product()].into();
        self.builder.node(
            NodeKind::Constant(Constant { shape: shape.to_vec(), values }),
            Element::F32,
            Origin::default(),
        )
    }
    pub fn state(&mut self, name: &str, shape: &[usize]) -> (StateId, NodeId) {
        let initial = self.zeros(shape);
        self.builder.state(name, shape.to_vec(), Element::F32, initial)
    }
    fn tensor(
        &mut self,
        axes: Vec<Range>,
        fold: Option<(FoldKind, Vec<Range>)>,
        body: impl FnOnce(Axes) -> E,
    ) -> NodeId {
        let count = axes.len() + fold.as_ref().map_or(0, |(_, axes)| axes.len());
        let element = match &fold {
            Some((FoldKind::ArgMax, _)) => Element::Id,
            _ => Element::F32,
        };
        let body = body((0..count).map(|axis| E(Expr::Axis(axis))).collect()).0;
        let fold = fold.map(|(kind, axes)| Fold { kind, axes });
        let compute = Compute { axes, fold, guard: None, body, permissions: Permissions::default() };
        self.builder.compute(compute, element, Origin::default())
    }
    /// `each[axes] body`.
    pub fn each(&mut self, axes: impl Into<Space>, body: impl FnOnce(Axes) -> E) -> NodeId {
        self.tensor(axes.into().0, None, body)
    }
    /// `each[axes] sum[folded] body`.
    pub fn sum(
        &mut self,
        axes: impl Into<Space>,
        folded: impl Into<Space>,
        body: impl FnOnce(Axes) -> E,
    ) -> NodeId {
        self.tensor(axes.into().0, Some((FoldKind::Sum, folded.into().0)), body)
    }
    /// `each[axes] max[folded] body`.
    pub fn max(
        &mut self,
        axes: impl Into<Space>,
        folded: impl Into<Space>,
        body: impl FnOnce(Axes) -> E,
    ) -> NodeId {
        self.tensor(axes.into().0, Some((FoldKind::Max, folded.into().0)), body)
    }
    pub fn seal(mut self, outputs: &[NodeId]) -> Graph {
        for (place, &node) in outputs.iter().enumerate() {
            self.builder.output(format!("out{place}"), node);
        }
        self.builder.seal().expect("the draft is a valid graph")
    }
}

/// A list of ranges.
pub struct Space(pub Vec<Range>);

impl<const N: usize> From<[usize; N]> for Space {
    fn from(shape: [usize; N]) -> Space {
        Space(shape.into_iter().map(Range::Fixed).collect())
    }
}
impl<const N: usize> From<[Range; N]> for Space {
    fn from(ranges: [Range; N]) -> Space {
        Space(ranges.into())
    }
}
impl From<Vec<Range>> for Space {
    fn from(ranges: Vec<Range>) -> Space {
        Space(ranges)
    }
}
pub fn fixed(n: usize) -> Range {
    Range::Fixed(n)
}
