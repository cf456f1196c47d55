//! Folds of every kind, along and across the lanes, over fixed, jagged and empty ranges.

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;
use fiddlehead_oracle::{Array, Data};

use super::harness::*;

fn kinds(element: Element) -> Vec<(FoldKind, Element)> {
    use FoldKind::*;
    match element {
        Element::Bool => vec![(Any, Element::Bool), (All, Element::Bool)],
        _ => [Sum, Product, Max, Min]
            .map(|kind| (kind, element))
            .into_iter()
            .chain([(ArgMax, Element::Id)])
            .collect(),
    }
}

/// `x[i, k]` and its transpose, so that either axis is the contiguous one.
#[test]
fn every_fold_over_either_axis() {
    for (n, k) in [(1, 1), (3, 5), (5, 3), (20, 64), (64, 33), (7, 300), (300, 7), (1, 1000)] {
        for element in [Element::F32, Element::I32, Element::Bool] {
            let mut builder = GraphBuilder::new("folds");
            let stored = if element == Element::Bool { Element::I32 } else { element };
            let x = input(&mut builder, &[n, k], stored, false);
            let bit = |value: Expr| match element {
                Element::Bool => op(Binary::Less, op(Binary::Remainder, value, int(50)), int(1)),
                _ => value,
            };
            for (kind, result) in kinds(element) {
                let fold = |axes: &[usize]| Some((kind.clone(), fixed(axes)));
                let rows = bit(load(x, &[axis(0), axis(1)]));
                output(&mut builder, result, fixed(&[n]), fold(&[k]), rows.clone());
                output(&mut builder, result, fixed(&[k]), fold(&[n]), bit(load(x, &[axis(1), axis(0)])));
                if kind != FoldKind::ArgMax {
                    output(&mut builder, result, vec![], fold(&[n, k]), rows);
                    output(&mut builder, result, vec![], fold(&[k, n]), bit(load(x, &[axis(1), axis(0)])));
                }
                output(&mut builder, result, fixed(&[n]), fold(&[k]), bit(load(x, &[axis(0), int(0)])));
                // A jagged fold: k <= i.
                let below = vec![between(int(0), op(Binary::Min, axis(0), int(k as i64)))];
                output(
                    &mut builder,
                    result,
                    fixed(&[n]),
                    Some((kind.clone(), below)),
                    bit(load(x, &[axis(0), axis(1)])),
                );
            }
            let graph = builder.seal().expect("valid");
            let mut numbers = Numbers((n * k) as u64);
            let data = match element {
                Element::F32 => {
                    let mut values = numbers.floats(n * k);
                    // Ties, and products that stay finite.
                    values.iter_mut().for_each(|value| *value = (*value * 4.0).round() / 8.0 + 1.0 / 16.0);
                    Data::Float(values)
                }
                _ => Data::Int(numbers.ints(n * k, 1000)),
            };
            let tolerance = if element == Element::F32 { 1e-4 } else { 0.0 };
            compare(&graph, &Default::default(), &[Array::new(&[n, k], data).expect("fits")], 1, tolerance);
        }
    }
}

/// Bit-equal: sums in order, whatever the loops.
#[test]
fn ordered_folds() {
    for (n, k) in [(1, 9), (4, 300), (300, 4), (33, 65)] {
        let mut builder = GraphBuilder::new("ordered");
        let x = input(&mut builder, &[n, k], Element::F32, false);
        let ids = input(&mut builder, &[k], Element::I32, false);
        use Binary::*;
        let acc = || Expr::Accumulator;
        let at = || load(x, &[axis(0), axis(1)]);
        let ordered = |init: Expr| FoldKind::Ordered { init: Box::new(init) };
        let float = |value: f64| Expr::Float(value);
        for body in [
            op(Add, acc(), at()),
            op(Add, at(), acc()),
            op(Add, op(Multiply, acc(), float(0.5)), op(Multiply, at(), at())),
            op(Max, op(Subtract, at(), acc()), acc()),
            at(),
            acc(),
            Expr::select(op(Less, acc(), float(1.0)), op(Add, acc(), at()), op(Divide, acc(), float(3.0))),
        ] {
            let fold = Some((ordered(float(0.125)), fixed(&[k])));
            output(&mut builder, Element::F32, fixed(&[n]), fold, body.clone());
            let fold = Some((ordered(load(x, &[axis(0), int(0)])), fixed(&[k])));
            output(&mut builder, Element::F32, fixed(&[n]), fold, body);
        }
        let across = Some((ordered(float(0.0)), fixed(&[n])));
        output(&mut builder, Element::F32, fixed(&[k]), across, op(Add, acc(), load(x, &[axis(1), axis(0)])));
        let all = Some((ordered(float(0.0)), fixed(&[n, k])));
        output(&mut builder, Element::F32, vec![], all, op(Add, acc(), load(x, &[axis(0), axis(1)])));
        // The accumulator is an index: a walk along a table.
        let walk = load(ids, &[acc()]);
        let fold = Some((ordered(int(0)), fixed(&[k])));
        output(&mut builder, Element::I32, vec![], fold, walk.clone());
        let fold = Some((ordered(int(0)), fixed(&[n])));
        output(
            &mut builder,
            Element::I32,
            vec![],
            fold,
            op(Remainder, op(Add, walk, axis(0)), int(k as i64)),
        );
        let some = op(Less, load(ids, &[axis(0)]), int(2));
        let fold = Some((ordered(Expr::Bool(false)), fixed(&[k])));
        output(&mut builder, Element::Bool, vec![], fold, op(NotEqual, acc(), some));
        let graph = builder.seal().expect("valid");
        let mut numbers = Numbers(7);
        let ids: Vec<i32> = (0..k).map(|_| (numbers.next() as usize % k) as i32).collect();
        let given = [numbers.float_array(&[n, k]), Array::ints(&ids)];
        compare(&graph, &Default::default(), &given, 1, 0.0);
    }
}

/// A causal convolution, attention over the path with local tensors, and a sliding one.
#[test]
fn histories() {
    let (c, h, g, k) = (300, 4, 2, 24);
    let mut builder = GraphBuilder::new("histories");
    let x = input(&mut builder, &[c], Element::F32, true);
    let w = input(&mut builder, &[c, 4], Element::F32, false);
    let q = input(&mut builder, &[h, k], Element::F32, true);
    let kv = input(&mut builder, &[g, k], Element::F32, true);
    let xs = builder.history("xs", x);
    let ks = builder.history("ks", kv);
    use Binary::*;
    let past = |history, depth: Expr, indices: &[Expr]| Expr::History {
        history,
        depth: Box::new(depth),
        indices: indices.to_vec(),
    };
    let back = op(Add, op(Subtract, Expr::Here, int(3)), axis(1));
    let body = op(Multiply, load(w, &[axis(0), axis(1)]), past(xs, back, &[axis(0)]));
    let conv = tensor(&mut builder, Element::F32, fixed(&[c]), Some((FoldKind::Sum, fixed(&[4]))), body);
    output(&mut builder, Element::F32, fixed(&[c]), None, Expr::unary(Unary::Silu, load(conv, &[axis(0)])));
    let window = || {
        let low = op(Max, op(Subtract, Expr::Here, int(2)), int(0));
        between(low, op(Add, Expr::Here, int(1)))
    };
    for range in [path(), window()] {
        let heads = || op(Divide, axis(0), int((h / g) as i64));
        let score = op(Multiply, load(q, &[axis(0), axis(2)]), past(ks, axis(1), &[heads(), axis(2)]));
        let axes = || vec![Range::Fixed(h), range.clone()];
        let s = tensor(&mut builder, Element::F32, axes(), Some((FoldKind::Sum, fixed(&[k]))), score);
        let fold = |kind| Some((kind, vec![range.clone()]));
        let at = |node: NodeId| load(node, &[axis(0), axis(1)]);
        let m = tensor(&mut builder, Element::F32, fixed(&[h]), fold(FoldKind::Max), at(s));
        let body = Expr::unary(Unary::Exp, op(Subtract, at(s), load(m, &[axis(0)])));
        let p = tensor(&mut builder, Element::F32, axes(), None, body);
        let z = output(&mut builder, Element::F32, fixed(&[h]), fold(FoldKind::Sum), at(p));
        let value = op(Multiply, load(p, &[axis(0), axis(2)]), past(ks, axis(2), &[heads(), axis(1)]));
        let y = output(&mut builder, Element::F32, fixed(&[h, k]), fold(FoldKind::Sum), value);
        let body = op(Divide, load(y, &[axis(0), axis(1)]), load(z, &[axis(0)]));
        output(&mut builder, Element::F32, fixed(&[h, k]), None, body);
        // The lanes may run along the depths.
        output(
            &mut builder,
            Element::Id,
            fixed(&[h]),
            fold(FoldKind::ArgMax),
            past(ks, axis(1), &[heads(), int(3)]),
        );
    }
    let graph = builder.seal().expect("valid");
    let mut numbers = Numbers(3);
    let rows = 9;
    let given = [
        numbers.float_array(&[rows, c]),
        numbers.float_array(&[c, 4]),
        numbers.float_array(&[rows, h, k]),
        numbers.float_array(&[rows, g, k]),
    ];
    compare(&graph, &Default::default(), &given, rows, 1e-5);
}

/// A triangle whose rows begin and end elsewhere, read by absolute index, partly through an index from data.
#[test]
fn local_tensors() {
    let n = 70;
    let mut builder = GraphBuilder::new("local");
    let x = input(&mut builder, &[n, n], Element::F32, false);
    let ids = input(&mut builder, &[n], Element::I32, false);
    use Binary::*;
    let range = || between(op(Divide, axis(0), int(2)), op(Add, axis(0), int(1)));
    let axes = || vec![Range::Fixed(n), range()];
    let body = op(Add, load(x, &[axis(0), axis(1)]), load(x, &[axis(1), axis(0)]));
    let s = tensor(&mut builder, Element::F32, axes(), None, body);
    let doubled = tensor(
        &mut builder,
        Element::F32,
        axes(),
        None,
        op(Add, load(s, &[axis(0), axis(1)]), Expr::Float(1.0)),
    );
    let fold = |kind| Some((kind, vec![range()]));
    output(&mut builder, Element::F32, fixed(&[n]), fold(FoldKind::Max), load(doubled, &[axis(0), axis(1)]));
    output(&mut builder, Element::F32, fixed(&[n]), None, load(s, &[axis(0), axis(0)]));
    let picked = op(Max, op(Divide, axis(0), int(2)), op(Min, load(ids, &[axis(0)]), axis(0)));
    output(&mut builder, Element::F32, fixed(&[n]), None, load(doubled, &[axis(0), picked]));
    // A range from data.
    let low = load(ids, &[int(1)]);
    let wide = vec![between(low.clone(), op(Add, low, int(5)))];
    let t = tensor(&mut builder, Element::I32, wide.clone(), None, op(Multiply, axis(0), int(3)));
    output(&mut builder, Element::I32, vec![], Some((FoldKind::Sum, wide)), load(t, &[axis(0)]));
    let graph = builder.seal().expect("valid");
    let mut numbers = Numbers(11);
    let ids: Vec<i32> = (0..n).map(|_| (numbers.next() as usize % n) as i32).collect();
    compare(&graph, &Default::default(), &[numbers.float_array(&[n, n]), Array::ints(&ids)], 1, 0.0);
}

#[test]
fn top_of_every_row() {
    for (n, v, k) in [(1, 1, 1), (3, 40, 8), (2, 500, 3), (4, 6, 6)] {
        let mut builder = GraphBuilder::new("top");
        let x = input(&mut builder, &[n, v], Element::F32, true);
        for (part, element) in [(TopPart::Values, Element::F32), (TopPart::Indices, Element::I32)] {
            let node = builder.node(NodeKind::Top { operand: x, k, part }, element, Origin::default());
            builder.output(format!("{part:?}"), node);
        }
        let graph = builder.seal().expect("valid");
        let mut values = Numbers(v as u64).floats(2 * n * v);
        values.iter_mut().for_each(|value| *value = (*value * 8.0).round());
        values[0] = f32::NAN;
        let x = Array::new(&[2, n, v], Data::Float(values)).expect("fits");
        compare(&graph, &Default::default(), &[x], 2, 0.0);
    }
}
