//! Motifs that contract vectors with weights, gathered ones included.

use super::VOCABULARY;
use super::sketch::{Sketch, add, axis, div, int, load, mul, rem, sub, unary};
use fiddlehead_graph::{Element, FoldKind, NodeKind, Origin, TopPart, Unary};

pub(super) fn contraction(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let width = sketch.width;
    let scale = 1.0 / (width as f32).sqrt();
    let weight = sketch.weight(&[width, width], scale);
    let x = load(vector.node, [axis(1)]);
    let body = match sketch.random.below(3) {
        0 => mul(load(weight, [axis(0), axis(1)]), x),
        1 => mul(x, load(weight, [axis(0), axis(1)])),
        _ => mul(load(weight, [axis(1), axis(0)]), x),
    };
    let node = sketch.sum(&[width], &[width], body);
    sketch.keep(node, vector.bound * (width as f64).sqrt(), false);
}

/// The group of head `axis(0)`.
pub(super) fn group(sketch: &mut Sketch, heads: usize, groups: usize) -> fiddlehead_graph::Expr {
    if sketch.random.one_in(2) { rem(axis(0), int(groups)) } else { div(axis(0), int(heads / groups)) }
}

pub(super) fn grouped(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let (heads, groups, depth) = (4, [1, 2, 4][sketch.random.below(3)], 3 + sketch.random.below(4));
    let parts = sketch.project(vector, groups, depth);
    let product = if sketch.random.one_in(2) {
        let weight = sketch.weight(&[heads, 5, depth], 1.0);
        let group = group(sketch, heads, groups);
        let body = mul(load(weight, [axis(0), axis(1), axis(2)]), load(parts, [group, axis(2)]));
        sketch.sum(&[heads, 5], &[depth], body)
    } else {
        // One axis that stands for two: k / depth and k % depth.
        let weight = sketch.weight(&[heads, 5, groups * depth], 1.0);
        let (outer, inner) = (div(axis(2), int(depth)), rem(axis(2), int(depth)));
        let body = mul(load(weight, [axis(0), axis(1), axis(2)]), load(parts, [outer, inner]));
        sketch.sum(&[heads, 5], &[groups * depth], body)
    };
    sketch.project_back(product, heads, 5);
}

pub(super) fn convolution(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let (channels, taps) = (1 + sketch.random.below(3), 1 + sketch.random.below(3));
    let (length, stride) = (4, 1 + sketch.random.below(2));
    let image = sketch.project(vector, channels, stride * (length - 1) + taps);
    let kernel = sketch.weight(&[3, channels, taps], 0.5);
    let place = add(mul(axis(1), int(stride)), axis(3));
    let body = mul(load(image, [axis(2), place]), load(kernel, [axis(0), axis(2), axis(3)]));
    let node = sketch.sum(&[3, length], &[channels, taps], body);
    sketch.project_back(node, 3, length);
}

pub(super) fn gather(sketch: &mut Sketch) {
    let width = sketch.width;
    let table = sketch.weight(&[VOCABULARY, width], 1.0);
    let row = if sketch.random.one_in(2) {
        load(sketch.token, [])
    } else {
        // Another row for every element, by the token and a table of integers.
        let steps = sketch.table(&[width], VOCABULARY);
        let token = unary(Unary::IdToInt, load(sketch.token, []));
        rem(add(token, load(steps, [axis(0)])), int(VOCABULARY))
    };
    let node = sketch.each(&[width], load(table, [row, axis(0)]));
    sketch.keep(node, 1.0, true);
}

pub(super) fn experts(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let width = sketch.width;
    let (experts, chosen, inner) = (5, 1 + sketch.random.below(3), 6);
    let router = sketch.weight(&[VOCABULARY, experts], 1.0);
    let scores = sketch.each(&[experts], load(router, [load(sketch.token, []), axis(0)]));
    let top = |part| NodeKind::Top { operand: scores, k: chosen, part };
    let values = sketch.builder.node(top(TopPart::Values), Element::F32, Origin::default());
    let indices = sketch.builder.node(top(TopPart::Indices), Element::I32, Origin::default());
    let highest = sketch.fold(FoldKind::Max, &[], &[chosen], load(values, [axis(0)]));
    let parts = unary(Unary::Exp, sub(load(values, [axis(0)]), load(highest, [])));
    let parts = sketch.each(&[chosen], parts);
    let total = sketch.sum(&[], &[chosen], load(parts, [axis(0)]));
    let up = sketch.weight(&[experts, inner, width], 1.0 / (width as f32).sqrt());
    let down = sketch.weight(&[experts, width, inner], 0.5);
    let expert = || load(indices, [axis(0)]);
    let body = mul(load(up, [expert(), axis(1), axis(2)]), load(vector.node, [axis(2)]));
    let hidden = sketch.sum(&[chosen, inner], &[width], body);
    let active = unary(Unary::Silu, load(hidden, [axis(0), axis(2)]));
    let body = mul(load(down, [expert(), axis(1), axis(2)]), active);
    let each = sketch.sum(&[chosen, width], &[inner], body);
    let share = div(load(parts, [axis(1)]), load(total, []));
    let node = sketch.sum(&[width], &[chosen], mul(share, load(each, [axis(1), axis(0)])));
    sketch.keep(node, f64::INFINITY, false);
}
