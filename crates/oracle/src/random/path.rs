//! Motifs that read histories.

use super::VOCABULARY;
use super::contract::group;
use super::sketch::{
    Ending, Sketch, add, axis, between, div, float, greatest, int, less, load, mul, past, select, sub, unary,
};
use fiddlehead_graph::{Element, Expr, Fold, FoldKind, Range, Unary};

pub(super) fn window(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let width = sketch.width;
    let key = sketch.name("window");
    let rows = sketch.builder.history(key, vector.node);
    let taps = 2 + sketch.random.below(4);
    let depth = |tap: Expr| add(sub(Expr::Here, int(taps - 1)), tap);
    let (node, bound) = match sketch.random.below(5) {
        0 => (sketch.each(&[width], past(rows, sub(Expr::Here, int(taps)), [axis(0)])), vector.bound),
        1 => {
            let kind = FoldKind::Max;
            (sketch.fold(kind, &[width], &[taps], past(rows, depth(axis(1)), [axis(0)])), vector.bound)
        }
        2 => {
            // Before the root another value than zero.
            let early = less(depth(axis(1)), int(0));
            let body = select(early, float(0.125), past(rows, depth(axis(1)), [axis(0)]));
            (sketch.sum(&[width], &[taps], body), vector.bound * taps as f64)
        }
        3 => {
            // The same window by absolute depth.
            let start = greatest(int(0), sub(Expr::Here, int(taps - 1)));
            let ending = Ending::inclusive_once_in(3, &mut sketch.random);
            let range = between(start, Expr::Here, ending, Some(taps));
            let fold = Fold { kind: FoldKind::Sum, axes: vec![range] };
            let body = past(rows, axis(1), [axis(0)]);
            let axes = vec![Range::Fixed(width)];
            (sketch.tensor(axes, Some(fold), Element::F32, body), vector.bound * taps as f64)
        }
        _ => {
            let weight = sketch.weight(&[width, taps], 0.7);
            let body = mul(load(weight, [axis(0), axis(1)]), past(rows, depth(axis(1)), [axis(0)]));
            (sketch.sum(&[width], &[taps], body), vector.bound * taps as f64)
        }
    };
    let node = if sketch.random.one_in(2) {
        sketch.each(&[width], unary(Unary::Silu, load(node, [axis(0)])))
    } else {
        node
    };
    sketch.keep(node, bound, false);
}

pub(super) fn attention(sketch: &mut Sketch) {
    let (x, y) = (sketch.vector(), sketch.vector());
    let (heads, groups, depth) = (4, [1, 2, 4][sketch.random.below(3)], [2, 4, 8][sketch.random.below(3)]);
    let (q, k, v) =
        (sketch.project(x, heads, depth), sketch.project(y, groups, depth), sketch.project(y, groups, depth));
    let (keys, values) = (sketch.name("keys"), sketch.name("values"));
    let (keys, values) = (sketch.builder.history(keys, k), sketch.builder.history(values, v));
    let group = group(sketch, heads, groups);
    // Of one program all ranges of a path end alike, as those that a text names once do.
    let ending = Ending::inclusive_once_in(4, &mut sketch.random);
    let sliding = sketch.random.one_in(3).then(|| 1 + sketch.random.below(6));
    let path = || match sliding {
        Some(most) => {
            between(greatest(int(0), sub(Expr::Here, int(most - 1))), Expr::Here, ending, Some(most))
        }
        None => between(int(0), Expr::Here, ending, None),
    };
    let product = mul(load(q, [axis(0), axis(2)]), past(keys, axis(1), [group.clone(), axis(2)]));
    let dots = Fold { kind: FoldKind::Sum, axes: vec![Range::Fixed(depth)] };
    let scores = sketch.tensor(vec![Range::Fixed(heads), path()], Some(dots), Element::F32, product);
    let scaled = mul(load(scores, [axis(0), axis(1)]), float(1.0 / (depth as f64).sqrt()));
    let scaled = match sketch.random.below(3) {
        0 => mul(float(2.0), unary(Unary::Tanh, mul(scaled, float(0.5)))),
        _ => scaled,
    };
    // A constant sink takes part of the weight in some programs, and the greatest score is left in in others:
    // scores are small here.
    let sink = sketch.random.one_in(3);
    let exponent = if sketch.random.one_in(3) {
        scaled
    } else {
        let kind = FoldKind::Max;
        let top = sketch.tensor(
            vec![Range::Fixed(heads)],
            Some(Fold { kind, axes: vec![path()] }),
            Element::F32,
            scaled.clone(),
        );
        sub(scaled, load(top, [axis(0)]))
    };
    let parts =
        sketch.tensor(vec![Range::Fixed(heads), path()], None, Element::F32, unary(Unary::Exp, exponent));
    let over = |axes| Some(Fold { kind: FoldKind::Sum, axes });
    let total = sketch.tensor(
        vec![Range::Fixed(heads)],
        over(vec![path()]),
        Element::F32,
        load(parts, [axis(0), axis(1)]),
    );
    let weighted = mul(load(parts, [axis(0), axis(2)]), past(values, axis(2), [group, axis(1)]));
    let axes = vec![Range::Fixed(heads), Range::Fixed(depth)];
    let gathered = sketch.tensor(axes, over(vec![path()]), Element::F32, weighted);
    let total = if sink { add(load(total, [axis(0)]), float(0.75)) } else { load(total, [axis(0)]) };
    let node = sketch.each(&[heads, depth], div(load(gathered, [axis(0), axis(1)]), total));
    sketch.project_back(node, heads, depth);
}

pub(super) fn past_tokens(sketch: &mut Sketch) {
    let width = sketch.width;
    let key = sketch.name("tokens");
    let tokens = sketch.builder.history(key, sketch.token);
    let table = sketch.weight(&[VOCABULARY, width], 1.0);
    let back = 1 + sketch.random.below(3);
    let row = past(tokens, sub(Expr::Here, int(back)), []);
    let node = sketch.each(&[width], load(table, [row, axis(0)]));
    sketch.keep(node, 1.0, true);
}
