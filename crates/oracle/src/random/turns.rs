//! Motifs with an order or a dependent range inside one node.

use super::sketch::{
    Ending, Sketch, add, axis, between, div, equal, fixed, float, int, load, mul, past, rem, sub, unary,
};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{
    Compute, Element, Expr, Fold, FoldKind, Graph, Input, NodeId, NodeKind, Origin, Permissions, Range, Scan,
    ScanResult, StateId, Unary,
};

pub(super) fn triangle(sketch: &mut Sketch) {
    let (a, b) = (sketch.vector(), sketch.vector());
    let width = sketch.width;
    let ending = Ending::inclusive_once_in(2, &mut sketch.random);
    let upto = || between(int(0), axis(0), ending, Some(width));
    let product = mul(load(a.node, [axis(0)]), load(b.node, [axis(1)]));
    let local = sketch.tensor(vec![Range::Fixed(width), upto()], None, Element::F32, product);
    let kind = if sketch.random.one_in(2) { FoldKind::Sum } else { FoldKind::Max };
    let fold = Fold { kind, axes: vec![upto()] };
    let body = load(local, [axis(0), axis(1)]);
    let node = sketch.tensor(fixed(&[width]), Some(fold), Element::F32, body);
    sketch.keep(node, a.bound * b.bound * width as f64, false);
}

pub(super) fn ordered_fold(sketch: &mut Sketch) {
    let (a, b) = (sketch.vector(), sketch.vector());
    let width = sketch.width;
    // Horner's rule with a factor below one, another start for every element.
    let factor = mul(load(b.node, [axis(0)]), float(0.9 / b.bound.max(1.0)));
    let body = add(mul(Expr::Accumulator, factor), load(a.node, [axis(1)]));
    let init = Box::new(load(b.node, [axis(0)]));
    let fold = Fold { kind: FoldKind::Ordered { init }, axes: fixed(&[width]) };
    let node = sketch.tensor(fixed(&[width]), Some(fold), Element::F32, body);
    sketch.keep(node, f64::INFINITY, false);
}

/// A loop over a captured vector: a decaying carry that also reads what was two turns ago.
fn body(width: usize, first: usize) -> (Graph, StateId, usize, usize, usize) {
    let mut builder = GraphBuilder::new("turn");
    let captured = Input { name: "xs".into(), shape: vec![width], element: Element::F32, per_node: false };
    let xs = builder.input(captured);
    let compute = |builder: &mut GraphBuilder, element, body| {
        let compute =
            Compute { axes: Vec::new(), fold: None, guard: None, body, permissions: Permissions::default() };
        builder.compute(compute, element, Origin::default())
    };
    let index = || rem(add(Expr::Here, int(first)), int(width));
    // The carry begins as a captured value.
    let initial = compute(&mut builder, Element::F32, load(xs, [int(0)]));
    let (id, carry) = builder.state("carry", Vec::new(), Element::F32, initial);
    let x = compute(&mut builder, Element::F32, load(xs, [index()]));
    let row = builder.history("seen", x);
    let earlier = past(row, sub(Expr::Here, int(2)), []);
    let mixed = add(mul(load(carry, []), float(0.5)), add(load(x, []), mul(earlier, float(0.25))));
    let next = compute(&mut builder, Element::F32, unary(Unary::Tanh, mixed));
    builder.assign(id, next);
    let odd = compute(&mut builder, Element::Bool, equal(rem(Expr::Here, int(2)), int(1)));
    builder.output("value", next);
    builder.output("odd", odd);
    builder.output("before", carry);
    let graph = builder.seal().expect("the turn's graph is valid");
    (graph, id, 0, 1, 2)
}

pub(super) fn inner_loop(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let width = sketch.width;
    let (trips, first) = (2 + sketch.random.below(8), sketch.random.below(3));
    let (body, carry, value, odd, before) = body(width, first);
    let results = vec![
        ScanResult::Emitted { output: value, condition: None, capacity: trips },
        ScanResult::Emitted { output: before, condition: Some(odd), capacity: trips },
        ScanResult::Length { emission: 1 },
        ScanResult::Carry(carry),
    ];
    let scan = Scan { body, trips, captured: vec![vector.node], first: first as i64, results };
    let kind = NodeKind::Scan(Box::new(scan));
    let scan = sketch.builder.node(kind, Element::F32, Origin::default());
    let result = |sketch: &mut Sketch, result, element| -> NodeId {
        sketch.builder.node(NodeKind::ScanResult { scan, result }, element, Origin::default())
    };
    let all = result(sketch, 0, Element::F32);
    let some = result(sketch, 1, Element::F32);
    let length = result(sketch, 2, Element::I32);
    let last = result(sketch, 3, Element::F32);
    sketch.keep_output(length);
    sketch.keep_output(some);
    let place = || rem(axis(0), int(trips));
    let sum = add(load(all, [place()]), add(load(some, [place()]), load(last, [])));
    let count = unary(Unary::ToFloat, load(length, []));
    let node = sketch.each(&[width], div(sum, add(count, float(1.0))));
    sketch.keep(node, 3.0, false);
}
