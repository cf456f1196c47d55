//! Short names for building graphs by hand.
#![allow(dead_code)] // each test file uses some

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{
    Binary, Compute, Element, Expr, Fold, FoldKind, Graph, HistoryId, Input, NodeId, Origin, Permissions,
    Range, Unary,
};
use fiddlehead_oracle::{Array, Oracle, OracleError, Weights};

pub fn axis(axis: usize) -> Expr {
    Expr::Axis(axis)
}

pub fn load(node: NodeId, indices: &[Expr]) -> Expr {
    Expr::load(node, indices.to_vec())
}

pub fn past(history: HistoryId, depth: Expr, indices: &[Expr]) -> Expr {
    Expr::History { history, depth: Box::new(depth), indices: indices.to_vec() }
}

pub fn op(operation: Binary, left: Expr, right: Expr) -> Expr {
    Expr::binary(operation, left, right)
}

pub fn mul(left: Expr, right: Expr) -> Expr {
    op(Binary::Multiply, left, right)
}

pub fn add(left: Expr, right: Expr) -> Expr {
    op(Binary::Add, left, right)
}

pub fn sub(left: Expr, right: Expr) -> Expr {
    op(Binary::Subtract, left, right)
}

pub fn exp(operand: Expr) -> Expr {
    Expr::unary(Unary::Exp, operand)
}

pub fn fixed(shape: &[usize]) -> Vec<Range> {
    shape.iter().map(|&extent| Range::Fixed(extent)).collect()
}

/// `start .. end`.
pub fn between(start: Expr, end: Expr) -> Range {
    Range::Between { start, end, inclusive: false, bound: None }
}

/// `0 ..= here`.
pub fn path() -> Range {
    between(Expr::Int(0), add(Expr::Here, Expr::Int(1)))
}

pub fn input(
    builder: &mut GraphBuilder,
    name: &str,
    shape: &[usize],
    element: Element,
    per_node: bool,
) -> NodeId {
    builder.input(Input { name: name.into(), shape: shape.to_vec(), element, per_node })
}

pub fn tensor(
    builder: &mut GraphBuilder,
    name: &str,
    element: Element,
    axes: Vec<Range>,
    fold: Option<(FoldKind, Vec<Range>)>,
    body: Expr,
) -> NodeId {
    guarded(builder, name, element, axes, fold, None, body)
}

pub fn guarded(
    builder: &mut GraphBuilder,
    name: &str,
    element: Element,
    axes: Vec<Range>,
    fold: Option<(FoldKind, Vec<Range>)>,
    guard: Option<Expr>,
    body: Expr,
) -> NodeId {
    let fold = fold.map(|(kind, axes)| Fold { kind, axes });
    let compute = Compute { axes, fold, guard, body, permissions: Permissions::default() };
    builder.compute(compute, element, Origin { name: name.into(), span: Some((3, 9)) })
}

pub fn each(builder: &mut GraphBuilder, shape: &[usize], body: Expr) -> NodeId {
    tensor(builder, "each", Element::F32, fixed(shape), None, body)
}

pub fn sum(builder: &mut GraphBuilder, shape: &[usize], over: &[usize], body: Expr) -> NodeId {
    tensor(builder, "sum", Element::F32, fixed(shape), Some((FoldKind::Sum, fixed(over))), body)
}

pub fn seal(builder: GraphBuilder) -> Graph {
    builder.seal().expect("a valid graph")
}

/// The first output of a function.
pub fn evaluate(graph: &Graph, inputs: &[Array<f64>]) -> Result<Array<f64>, OracleError> {
    let oracle = Oracle::<f64>::new(graph, &Weights::new())?;
    Ok((*oracle.evaluate(inputs)?[0]).clone())
}
