//! Motifs over the elements of vectors: chains, indices, branches, reductions, selections.

use super::sketch::{
    Sketch, Vector, add, axis, div, equal, fixed, float, greatest, int, least, less, load, mul, rem, select,
    sub, unary,
};
use fiddlehead_graph::{Element, Expr, Fold, FoldKind, NodeKind, Origin, TopPart, Unary};

/// A random expression over element `axis(0)` of vectors.
fn chain(sketch: &mut Sketch, depth: usize) -> (Expr, f64) {
    if depth == 0 {
        let vector = sketch.vector();
        return (load(vector.node, [axis(0)]), vector.bound);
    }
    let (a, a_bound) = chain(sketch, depth - 1);
    match sketch.random.below(17) {
        0 => (unary(Unary::Negate, a), a_bound),
        1 => (unary(Unary::Exp, unary(Unary::Negate, unary(Unary::Absolute, a))), 1.0),
        2 => (unary(Unary::Log, add(float(1.0), mul(a.clone(), a))), a_bound + 1.0),
        3 => (unary(Unary::Sqrt, add(unary(Unary::Absolute, a), float(0.25))), a_bound + 1.0),
        4 => (unary(Unary::Rsqrt, add(unary(Unary::Absolute, a), float(0.25))), 2.0),
        5 => (unary(Unary::Sin, a), 1.0),
        6 => (unary(Unary::Cos, a), 1.0),
        7 => (unary(Unary::Tanh, a), 1.0),
        8 => (unary(Unary::Sigmoid, a), 1.0),
        9 => (unary(Unary::Silu, a), a_bound),
        10 => (unary(Unary::Gelu, a), a_bound),
        11 => (unary(Unary::Softplus, a), a_bound + 1.0),
        operation => {
            let (b, b_bound) = chain(sketch, depth - 1);
            match operation {
                12 => (add(a, b), a_bound + b_bound),
                13 => (sub(a, b), a_bound + b_bound),
                14 => (mul(a, b), a_bound * b_bound),
                15 => (div(a, add(float(0.5), mul(b.clone(), b))), 2.0 * a_bound),
                _ => {
                    let (low, high) = (least(a.clone(), b.clone()), greatest(a, b));
                    (sub(mul(high, float(0.5)), low), 1.5 * a_bound.max(b_bound))
                }
            }
        }
    }
}

pub(super) fn elementwise(sketch: &mut Sketch) {
    let depth = 1 + sketch.random.below(3);
    let (mut body, bound) = chain(sketch, depth);
    if sketch.random.one_in(3) {
        let values: Vec<f32> = (0..sketch.width).map(|_| sketch.random.signed_unit()).collect();
        let origin = Origin { name: sketch.name("constant"), span: None };
        let constant = sketch.builder.constant(vec![sketch.width], values.into(), origin);
        body = mul(body, load(constant, [axis(0)]));
    }
    let node = sketch.each(&[sketch.width], body);
    sketch.keep(node, bound, false);
}

/// An index of `0..width` made of `axis(0)`.
fn index(sketch: &mut Sketch) -> Expr {
    let width = sketch.width;
    match sketch.random.below(6) {
        0 => sub(int(width - 1), axis(0)),
        1 => div(axis(0), int(1 + sketch.random.below(4))),
        2 => rem(axis(0), int(1 + sketch.random.below(width))),
        3 => rem(add(mul(axis(0), int(3)), int(1)), int(width)),
        // Negative before the remainder, which is the floor's.
        4 => rem(sub(axis(0), int(1 + sketch.random.below(2 * width))), int(width)),
        _ => {
            let table = sketch.table(&[width], width);
            load(table, [axis(0)])
        }
    }
}

pub(super) fn index_arithmetic(sketch: &mut Sketch) {
    let (a, b) = (sketch.exact_vector(), sketch.vector());
    let index = index(sketch);
    let (node, bound, exact) = if sketch.random.one_in(2) {
        (sketch.each(&[sketch.width], load(a.node, [index])), a.bound, true)
    } else {
        let scale = 1.0 / sketch.width as f64;
        let share = mul(unary(Unary::ToFloat, index.clone()), float(scale));
        (sketch.each(&[sketch.width], mul(load(b.node, [index]), share)), b.bound, false)
    };
    sketch.keep(node, bound, exact);
}

pub(super) fn branches(sketch: &mut Sketch) {
    let (a, b) = (sketch.vector(), sketch.vector());
    let width = sketch.width;
    let shift = 1 + sketch.random.below(width - 1);
    let inside = less(int(shift - 1), axis(0));
    let shifted = load(a.node, [sub(axis(0), int(shift))]);
    let node = match sketch.random.below(3) {
        // Only the chosen arm is in range.
        0 => sketch.each(&[width], select(inside, shifted, load(b.node, [axis(0)]))),
        1 => sketch.guarded(fixed(&[width]), None, Element::F32, Some(inside), shifted),
        _ => {
            let exact = sketch.exact_vector();
            let positive = less(float(0.0), load(exact.node, [axis(0)]));
            sketch.each(&[width], select(positive, load(a.node, [axis(0)]), load(b.node, [axis(0)])))
        }
    };
    sketch.keep(node, a.bound.max(b.bound), false);
}

/// A scalar over a vector, spread over the vector again.
fn spread(sketch: &mut Sketch, vector: Vector, kind: FoldKind, body: Expr, scale: f64) -> Expr {
    let width = sketch.width;
    let scalar = sketch.fold(kind, &[], &[width], body);
    mul(mul(load(scalar, []), float(scale)), load(vector.node, [axis(0)]))
}

pub(super) fn reduction(sketch: &mut Sketch) {
    let vector = sketch.vector();
    let width = sketch.width;
    let x = || load(vector.node, [axis(0)]);
    let inverse = 1.0 / width as f64;
    let (body, bound) = match sketch.random.below(6) {
        0 => (spread(sketch, vector, FoldKind::Sum, x(), inverse), vector.bound * vector.bound),
        1 => (spread(sketch, vector, FoldKind::Max, x(), 1.0), vector.bound * vector.bound),
        2 => (spread(sketch, vector, FoldKind::Min, x(), 1.0), vector.bound * vector.bound),
        3 => {
            let factor = add(float(1.0), mul(x(), float(inverse)));
            (spread(sketch, vector, FoldKind::Product, factor, 1.0), f64::INFINITY)
        }
        4 => {
            let squares = sketch.sum(&[], &[width], mul(x(), x()));
            let mean = add(mul(load(squares, []), float(inverse)), float(0.01));
            let weight = sketch.weight(&[width], 1.0);
            let scale = mul(unary(Unary::Rsqrt, mean), load(weight, [axis(0)]));
            (mul(x(), scale), f64::INFINITY)
        }
        _ => {
            let top = sketch.fold(FoldKind::Max, &[], &[width], x());
            let parts = sketch.each(&[width], unary(Unary::Exp, sub(x(), load(top, []))));
            let total = sketch.sum(&[], &[width], load(parts, [axis(0)]));
            (div(load(parts, [axis(0)]), load(total, [])), 1.0)
        }
    };
    let node = sketch.each(&[width], body);
    sketch.keep(node, bound, false);
}

pub(super) fn selection(sketch: &mut Sketch) {
    let (exact, vector) = (sketch.exact_vector(), sketch.vector());
    let width = sketch.width;
    let body = match sketch.random.below(4) {
        0 => {
            let fold = Fold { kind: FoldKind::ArgMax, axes: fixed(&[width]) };
            let best = sketch.tensor(Vec::new(), Some(fold), Element::Id, load(exact.node, [axis(0)]));
            sketch.keep_output(best);
            mul(load(vector.node, [load(best, [])]), load(vector.node, [axis(0)]))
        }
        1 => {
            // Halves and wholes only: ties are common.
            let coarse = unary(Unary::Floor, mul(load(exact.node, [axis(0)]), float(4.0)));
            let coarse = sketch.each(&[width], coarse);
            let k = 1 + sketch.random.below(width);
            let top = |part| NodeKind::Top { operand: coarse, k, part };
            let values = sketch.builder.node(top(TopPart::Values), Element::F32, Origin::default());
            let indices = sketch.builder.node(top(TopPart::Indices), Element::I32, Origin::default());
            sketch.keep_output(indices);
            let place = || rem(axis(0), int(k));
            let value = mul(load(values, [place()]), float(0.25));
            mul(value, load(vector.node, [load(indices, [place()])]))
        }
        kind => {
            let negative = less(load(exact.node, [axis(0)]), float(-0.5));
            let kind = if kind == 2 { FoldKind::Any } else { FoldKind::All };
            let fold = Fold { kind, axes: fixed(&[width]) };
            let found = sketch.tensor(Vec::new(), Some(fold), Element::Bool, negative);
            sketch.keep_output(found);
            let odd = equal(rem(axis(0), int(2)), int(1));
            let chosen = Expr::binary(fiddlehead_graph::Binary::Or, load(found, []), odd);
            select(chosen, load(vector.node, [axis(0)]), load(exact.node, [axis(0)]))
        }
    };
    let node = sketch.each(&[width], body);
    sketch.keep(node, f64::INFINITY, false);
}
