//! Motifs that carry a state.

use super::contract::group;
use super::sketch::{
    Sketch, add, axis, div, equal, fixed, float, greatest, int, load, mul, rem, select, sub, unary,
};
use fiddlehead_graph::{Binary, Element, Expr, NodeId, StateId, Unary};

/// A state of f32 that begins as one number everywhere.
fn state(sketch: &mut Sketch, shape: &[usize]) -> (StateId, NodeId) {
    let start = if sketch.random.one_in(3) { 0.25 } else { 0.0 };
    let initial = sketch.each(shape, float(start));
    let key = sketch.name("state");
    sketch.builder.state(key, shape.to_vec(), Element::F32, initial)
}

pub(super) fn diagonal(sketch: &mut Sketch) {
    let (x, gate) = (sketch.vector(), sketch.vector());
    let width = sketch.width;
    let (id, s) = state(sketch, &[width]);
    let decay = unary(Unary::Sigmoid, load(gate.node, [axis(0)]));
    let old = mul(decay.clone(), load(s, [axis(0)]));
    let new = mul(sub(float(1.0), decay), load(x.node, [axis(0)]));
    let next = sketch.each(&[width], add(old, new));
    sketch.builder.assign(id, next);
    let read = if sketch.random.one_in(2) { next } else { s };
    let node = sketch.each(&[width], mul(load(read, [axis(0)]), float(1.5)));
    sketch.keep(node, 1.5 * x.bound.max(0.25), false);
}

/// Key rows of unit length.
fn normalised(sketch: &mut Sketch, rows: NodeId, count: usize, depth: usize) -> NodeId {
    let element = |inner| load(rows, [axis(0), inner]);
    let squares = sketch.sum(&[count], &[depth], mul(element(axis(1)), element(axis(1))));
    let length = unary(Unary::Rsqrt, add(load(squares, [axis(0)]), float(1e-6)));
    sketch.each(&[count, depth], mul(element(axis(1)), length))
}

pub(super) fn delta_rule(sketch: &mut Sketch) {
    let (x, y) = (sketch.vector(), sketch.vector());
    let (heads, groups) = (4, [1, 2, 4][sketch.random.below(3)]);
    let (depth, values) = ([2, 4, 8][sketch.random.below(3)], [2, 4, 5][sketch.random.below(3)]);
    let (q, k) = (sketch.project(x, groups, depth), sketch.project(y, groups, depth));
    let k = normalised(sketch, k, groups, depth);
    let v = sketch.project(x, heads, values);
    let gates = sketch.project(y, heads, 2);
    let rate = unary(Unary::Softplus, load(gates, [axis(0), int(0)]));
    let decay = sketch.each(&[heads], unary(Unary::Exp, unary(Unary::Negate, rate)));
    let beta = sketch.each(&[heads], unary(Unary::Sigmoid, load(gates, [axis(0), int(1)])));
    let decays = !sketch.random.one_in(4);
    let transposed = sketch.random.one_in(2);
    let shape = if transposed { [heads, values, depth] } else { [heads, depth, values] };
    let (id, s) = state(sketch, &shape);
    let at = |node, i: Expr, j: Expr| {
        if transposed { load(node, [axis(0), j, i]) } else { load(node, [axis(0), i, j]) }
    };
    let fade = |element: Expr| if decays { mul(load(decay, [axis(0)]), element) } else { element };
    let group = group(sketch, heads, groups);
    // The decayed state is a tensor of its own in some programs.
    let (read, faded) = if decays && sketch.random.one_in(2) {
        let node = sketch.each(&shape, mul(load(decay, [axis(0)]), load(s, [axis(0), axis(1), axis(2)])));
        (node, true)
    } else {
        (s, false)
    };
    let old = |i, j| if faded { at(read, i, j) } else { fade(at(read, i, j)) };
    let body = mul(old(axis(2), axis(1)), load(k, [group.clone(), axis(2)]));
    let memory = sketch.sum(&[heads, values], &[depth], body);
    let error = sub(load(v, [axis(0), axis(1)]), load(memory, [axis(0), axis(1)]));
    let u = sketch.each(&[heads, values], mul(load(beta, [axis(0)]), error));
    let (i, j) = if transposed { (axis(2), axis(1)) } else { (axis(1), axis(2)) };
    let update = mul(load(k, [group.clone(), i.clone()]), load(u, [axis(0), j.clone()]));
    let next = sketch.each(&shape, add(old(i, j), update));
    sketch.builder.assign(id, next);
    let body = mul(load(q, [group, axis(2)]), at(next, axis(2), axis(1)));
    let node = sketch.sum(&[heads, values], &[depth], body);
    sketch.project_back(node, heads, values);
}

pub(super) fn general(sketch: &mut Sketch) {
    let x = sketch.vector();
    let width = sketch.width;
    let (id, s) = state(sketch, &[width]);
    let weight = sketch.weight(&[width, width], 1.0 / (width as f32).sqrt());
    let body = mul(load(weight, [axis(0), axis(1)]), load(s, [axis(1)]));
    let mixed = sketch.sum(&[width], &[width], body);
    let body = unary(Unary::Tanh, add(load(mixed, [axis(0)]), load(x.node, [axis(0)])));
    let next = sketch.each(&[width], body);
    sketch.builder.assign(id, next);
    sketch.keep(next, 1.0, false);
}

pub(super) fn registers(sketch: &mut Sketch) {
    let x = sketch.exact_vector();
    let width = sketch.width;
    let element = load(x.node, [axis(0)]);
    match sketch.random.below(4) {
        0 => {
            let (id, s) = state(sketch, &[width]);
            let next = sketch.each(&[width], greatest(load(s, [axis(0)]), element));
            sketch.builder.assign(id, next);
            sketch.keep(next, x.bound.max(0.25), true);
        }
        1 => {
            let initial = sketch.tensor(Vec::new(), None, Element::I32, int(3));
            let key = sketch.name("counter");
            let (id, s) = sketch.builder.state(key, Vec::new(), Element::I32, initial);
            let next = sketch.tensor(Vec::new(), None, Element::I32, add(load(s, []), int(2)));
            sketch.builder.assign(id, next);
            sketch.keep_output(next);
            let index = rem(add(axis(0), load(s, [])), int(width));
            let node = sketch.each(&[width], load(x.node, [index]));
            sketch.keep(node, x.bound, true);
        }
        2 => {
            let initial = sketch.tensor(Vec::new(), None, Element::Id, Expr::Id(1));
            let key = sketch.name("last");
            let (id, s) = sketch.builder.state(key, Vec::new(), Element::Id, initial);
            sketch.builder.assign(id, sketch.token);
            let index = rem(unary(Unary::IdToInt, load(s, [])), int(width));
            let node = sketch.each(&[width], select(equal(axis(0), index), float(1.0), element));
            sketch.keep(node, x.bound.max(1.0), true);
        }
        _ => {
            let initial = sketch.tensor(fixed(&[width]), None, Element::Bool, Expr::Bool(false));
            let key = sketch.name("seen");
            let (id, s) = sketch.builder.state(key, vec![width], Element::Bool, initial);
            let half = Expr::binary(Binary::LessEqual, float(0.5), element.clone());
            let seen = Expr::binary(Binary::Or, load(s, [axis(0)]), half);
            let next = sketch.tensor(fixed(&[width]), None, Element::Bool, seen);
            sketch.builder.assign(id, next);
            let body = select(load(next, [axis(0)]), element.clone(), div(element, float(2.0)));
            let node = sketch.each(&[width], body);
            sketch.keep(node, x.bound, true);
        }
    }
}
