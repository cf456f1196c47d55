//! What single elements and folds mean: integers, ties, guards, dependent ranges, traps.

mod common;

use common::*;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Binary, Element, Expr, FoldKind, NodeKind, Origin, Param, TopPart, Unary};
use fiddlehead_oracle::{Array, Data, Oracle, OracleError, Trap, Weight, Weights};

#[test]
fn integers_floor_wrap_and_keep_the_divisors_sign() {
    let run = |operation, a: i32, b: i32| {
        let mut builder = GraphBuilder::new("integers");
        let x = input(&mut builder, "x", &[2], Element::I32, false);
        let body = op(operation, load(x, &[Expr::Int(0)]), load(x, &[Expr::Int(1)]));
        let y = tensor(&mut builder, "y", Element::I32, vec![], None, body);
        builder.output("y", y);
        evaluate(&seal(builder), &[Array::ints(&[a, b])]).map(|y| y.to_f64s()[0] as i64)
    };
    for a in [-7, -6, -1, 0, 1, 6, 7, i32::MIN, i32::MAX] {
        for b in [-3, -1, 1, 2, 3, i32::MIN, i32::MAX] {
            let (wide_a, wide_b) = (i64::from(a), i64::from(b));
            let floor = (a as f64 / b as f64).floor() as i64;
            assert_eq!(run(Binary::Divide, a, b), Ok(i64::from(floor as i32)), "{a} / {b}");
            assert_eq!(run(Binary::Remainder, a, b), Ok(wide_a - floor * wide_b), "{a} % {b}");
            assert_eq!(run(Binary::Add, a, b), Ok(i64::from(a.wrapping_add(b))));
            assert_eq!(run(Binary::Subtract, a, b), Ok(i64::from(a.wrapping_sub(b))));
            assert_eq!(run(Binary::Multiply, a, b), Ok(i64::from(a.wrapping_mul(b))));
        }
    }
    for operation in [Binary::Divide, Binary::Remainder] {
        let error = run(operation, 1, 0).expect_err("division by zero traps");
        assert!(matches!(error, OracleError::Trap { trap: Trap::DivisionByZero, .. }));
    }
}

#[test]
fn functions_are_the_textbooks() {
    let run = |operation, x: f64| {
        let mut builder = GraphBuilder::new("function");
        let node = input(&mut builder, "x", &[1], Element::F32, false);
        let y = each(&mut builder, &[], Expr::unary(operation, load(node, &[Expr::Int(0)])));
        builder.output("y", y);
        let x = Array::new(&[1], Data::Float(vec![x])).expect("one element");
        evaluate(&seal(builder), &[x]).expect("no trap").to_f64s()[0]
    };
    for x in [-3.0f64, -0.25, 0.0, 0.5, 4.0] {
        let sigmoid = 1.0 / (1.0 + (-x).exp());
        let gelu = 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044715 * x.powi(3))).tanh());
        for (operation, expected) in [
            (Unary::Sigmoid, sigmoid),
            (Unary::Silu, x * sigmoid),
            (Unary::Gelu, gelu),
            (Unary::Softplus, (1.0 + x.exp()).ln()),
            (Unary::Rsqrt, 1.0 / x.sqrt()),
            (Unary::Floor, x.floor()),
            (Unary::Negate, -x),
            (Unary::Absolute, x.abs()),
            (Unary::Tanh, (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())),
        ] {
            let found = run(operation, x);
            let close =
                (found - expected).abs() < 1e-12 || found == expected || found.is_nan() && expected.is_nan();
            assert!(close, "{operation:?} of {x}: {found}, not {expected}");
        }
    }
    assert_eq!((run(Unary::Softplus, 800.0), run(Unary::Softplus, -800.0)), (800.0, 0.0));
}

#[test]
fn ties_go_to_the_lower_index_and_nan_ranks_last() {
    let values = [f64::NAN, 2.0, 3.0, -1.0, 3.0, 2.0];
    let mut builder = GraphBuilder::new("ties");
    let x = input(&mut builder, "x", &[6], Element::F32, false);
    let fold = Some((FoldKind::ArgMax, fixed(&[6])));
    let best = tensor(&mut builder, "best", Element::Id, vec![], fold, load(x, &[axis(0)]));
    let empty = Some((FoldKind::ArgMax, vec![between(Expr::Int(2), Expr::Int(2))]));
    let none = tensor(&mut builder, "none", Element::Id, vec![], empty, load(x, &[axis(0)]));
    let top = |part| NodeKind::Top { operand: x, k: 6, part };
    let indices = builder.node(top(TopPart::Indices), Element::I32, Origin::default());
    let sorted = builder.node(top(TopPart::Values), Element::F32, Origin::default());
    for (name, node) in [("best", best), ("none", none), ("indices", indices), ("sorted", sorted)] {
        builder.output(name, node);
    }
    let oracle = Oracle::<f64>::new(&seal(builder), &Weights::new()).expect("resolves");
    let x = Array::new(&[6], Data::Float(values.to_vec())).expect("six");
    let outputs = oracle.evaluate(&[x]).expect("no trap");
    assert_eq!(outputs[0].data(), &Data::Id(vec![2]));
    assert_eq!(outputs[1].data(), &Data::Id(vec![0]));
    assert_eq!(outputs[2].data(), &Data::Int(vec![2, 4, 1, 5, 3, 0]));
    assert_eq!(outputs[3].to_f64s()[..5], [3.0, 3.0, 2.0, 2.0, -1.0]);
}

#[test]
fn empty_folds_have_their_neutral_element() {
    let none = || vec![between(Expr::Int(5), Expr::Int(3))];
    let run = |kind, element, body| {
        let mut builder = GraphBuilder::new("empty");
        let y = tensor(&mut builder, "y", element, vec![], Some((kind, none())), body);
        builder.output("y", y);
        evaluate(&seal(builder), &[]).expect("no trap").data().clone()
    };
    let float = |kind| run(kind, Element::F32, Expr::Float(2.0));
    assert_eq!(float(FoldKind::Sum), Data::Float(vec![0.0]));
    assert_eq!(float(FoldKind::Product), Data::Float(vec![1.0]));
    assert_eq!(float(FoldKind::Max), Data::Float(vec![f64::NEG_INFINITY]));
    assert_eq!(float(FoldKind::Min), Data::Float(vec![f64::INFINITY]));
    assert_eq!(float(FoldKind::Ordered { init: Box::new(Expr::Float(7.0)) }), Data::Float(vec![7.0]));
    assert_eq!(run(FoldKind::Max, Element::I32, Expr::Int(2)), Data::Int(vec![i32::MIN]));
    assert_eq!(run(FoldKind::Min, Element::I32, Expr::Int(2)), Data::Int(vec![i32::MAX]));
    assert_eq!(run(FoldKind::Any, Element::Bool, Expr::Bool(true)), Data::Bool(vec![false]));
    assert_eq!(run(FoldKind::All, Element::Bool, Expr::Bool(false)), Data::Bool(vec![true]));
}

#[test]
fn dependent_ranges_are_read_by_absolute_index() {
    // s[t, u, c] for t/2 ≤ u ≤ t, then y[t, c] = Σ_u s[t, u, c].
    let mut builder = GraphBuilder::new("local");
    let x = input(&mut builder, "x", &[5, 2], Element::F32, false);
    let range = || between(op(Binary::Divide, axis(0), Expr::Int(2)), add(axis(0), Expr::Int(1)));
    let mut axes = fixed(&[5]);
    axes.extend([range(), fiddlehead_graph::Range::Fixed(2)]);
    let body = mul(load(x, &[axis(0), axis(2)]), load(x, &[axis(1), Expr::Int(0)]));
    let s = tensor(&mut builder, "s", Element::F32, axes, None, body);
    let range = between(op(Binary::Divide, axis(0), Expr::Int(2)), add(axis(0), Expr::Int(1)));
    let fold = Some((FoldKind::Sum, vec![range]));
    let y =
        tensor(&mut builder, "y", Element::F32, fixed(&[5, 2]), fold, load(s, &[axis(0), axis(2), axis(1)]));
    builder.output("y", y);
    let values: Vec<f64> = (0..10).map(|value| (value as f64 * 0.7).sin()).collect();
    let found = evaluate(&seal(builder), &[Array::new(&[5, 2], Data::Float(values.clone())).expect("ten")]);
    let mut expected = Vec::new();
    for t in 0..5 {
        for c in 0..2 {
            expected.push((t / 2..=t).map(|u| values[2 * t + c] * values[2 * u]).sum::<f64>());
        }
    }
    assert_eq!(found.expect("no trap").to_f64s(), expected);
}

#[test]
fn only_what_is_chosen_is_evaluated() {
    // Every branch not taken would read x[-1] or x[4].
    let mut builder = GraphBuilder::new("branches");
    let x = input(&mut builder, "x", &[4], Element::F32, false);
    let first = op(Binary::Equal, axis(0), Expr::Int(0));
    let before = || load(x, &[sub(axis(0), Expr::Int(1))]);
    let chosen = each(&mut builder, &[4], Expr::select(first.clone(), Expr::Float(9.0), before()));
    let guard = Some(Expr::unary(Unary::Not, first.clone()));
    let skipped = guarded(&mut builder, "skipped", Element::F32, fixed(&[4]), None, guard, before());
    let lazy = op(Binary::Or, first, op(Binary::Less, Expr::Float(0.0), before()));
    let lazy = tensor(&mut builder, "lazy", Element::Bool, fixed(&[4]), None, lazy);
    for (name, node) in [("chosen", chosen), ("skipped", skipped), ("lazy", lazy)] {
        builder.output(name, node);
    }
    let oracle = Oracle::<f64>::new(&seal(builder), &Weights::new()).expect("resolves");
    let outputs = oracle.evaluate(&[Array::floats(&[1.0, -2.0, 3.0, 4.0])]).expect("no trap");
    assert_eq!(outputs[0].to_f64s(), [9.0, 1.0, -2.0, 3.0]);
    assert_eq!(outputs[1].to_f64s(), [0.0, 1.0, -2.0, 3.0]);
    assert_eq!(outputs[2].data(), &Data::Bool(vec![true, true, false, true]));
}

#[test]
fn traps_name_the_tensor_and_its_place_in_the_source() {
    let trap = |index: i32| {
        let mut builder = GraphBuilder::new("trap");
        let ids = input(&mut builder, "ids", &[1], Element::I32, false);
        let table = input(&mut builder, "table", &[3], Element::F32, false);
        let row = load(ids, &[Expr::Int(0)]);
        let y = tensor(&mut builder, "looked_up", Element::F32, vec![], None, load(table, &[row]));
        builder.output("y", y);
        evaluate(&seal(builder), &[Array::ints(&[index]), Array::floats(&[1.0, 2.0, 3.0])])
    };
    assert_eq!(trap(2).expect("in range").to_f64s(), [3.0]);
    for index in [-1, 3] {
        let error = trap(index).expect_err("out of range");
        let message = format!("in `looked_up`: index {index} is outside 0..3, axis 0 of `table`");
        assert_eq!(error.to_string(), message);
        assert!(matches!(error, OracleError::Trap { origin, .. } if origin.span == Some((3, 9))));
    }
    let mut builder = GraphBuilder::new("trap");
    let x = input(&mut builder, "x", &[1], Element::I32, false);
    let body = Expr::unary(Unary::IntToId, load(x, &[Expr::Int(0)]));
    let y = tensor(&mut builder, "y", Element::Id, vec![], None, body);
    builder.output("y", y);
    let error = evaluate(&seal(builder), &[Array::ints(&[-4])]).expect_err("negative");
    assert!(matches!(error, OracleError::Trap { trap: Trap::NegativeId { value: -4 }, .. }));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut builder = GraphBuilder::new("inputs");
    let x = input(&mut builder, "x", &[2], Element::F32, false);
    builder.output("y", x);
    let graph = seal(builder);
    let error = evaluate(&graph, &[]).expect_err("no input");
    assert_eq!(error, OracleError::InputCount { expected: 1, found: 0 });
    let error = evaluate(&graph, &[Array::ints(&[1, 2])]).expect_err("integers");
    assert_eq!(error.to_string(), "`x` should be F32[2] and is I32[2]");
    assert!(Array::<f64>::floats(&[1.0; 6]).reshaped(&[2, 2]).is_err());
}

/// Sums of products are walked through faster than other folds. An ordered fold of the same terms is not, and must have
/// the same bits.
#[test]
fn sums_of_products_have_the_bits_of_the_plain_walk() {
    let (rows, width) = (3usize, 37usize);
    let two = |index: Expr| mul(Expr::Int(2), index);
    // Each pair of indices reads a[rows, width] and b[width, 2 * width] with the fold's axis, 1, in other places.
    let cases: Vec<(usize, [Expr; 2], [Expr; 2])> = vec![
        (width, [axis(0), axis(1)], [axis(1), Expr::Int(5)]),
        (width, [axis(0), sub(Expr::Int(36), axis(1))], [axis(1), axis(1)]),
        (18, [Expr::Int(1), add(two(axis(1)), Expr::Int(1))], [add(axis(0), axis(1)), two(axis(1))]),
        (rows, [axis(1), axis(0)], [axis(1), mul(axis(0), Expr::Int(7))]),
        (0, [axis(0), axis(1)], [axis(1), axis(1)]),
    ];
    let value = |at: usize| ((at * 7919 + 13) % 1009) as f64 / 1009.0 - 0.31;
    let left_values: Vec<f64> = (0..rows * width).map(value).collect();
    let count = 2 * width * width;
    let weights: Vec<f32> = (0..count).map(|at| value(at + 1) as f32).collect();
    for (over, left, right) in cases {
        let mut found = Vec::new();
        for ordered in [false, true] {
            for stored in [false, true] {
                let mut builder = GraphBuilder::new("products");
                let a = input(&mut builder, "a", &[rows, width], Element::F32, false);
                let b = if stored {
                    let shape = vec![width, 2 * width];
                    builder.param(Param { name: "b".into(), shape, element: Element::F32 })
                } else {
                    input(&mut builder, "b", &[width, 2 * width], Element::F32, false)
                };
                let product = mul(load(a, &left), load(b, &right));
                let (kind, body) = match ordered {
                    true => {
                        let init = Expr::Float(0.0);
                        (FoldKind::Ordered { init: init.into() }, add(Expr::Accumulator, product))
                    }
                    false => (FoldKind::Sum, product),
                };
                let fold = Some((kind, fixed(&[over])));
                let y = tensor(&mut builder, "y", Element::F32, fixed(&[rows]), fold, body);
                builder.output("y", y);
                let b = Array::floats(&weights).reshaped(&[width, 2 * width]).expect("full");
                let shared = Weights::from([("b".into(), Weight::Float(weights.clone().into()))]);
                let oracle = Oracle::<f64>::new(&seal(builder), &shared).expect("resolves");
                let a = Array::new(&[rows, width], Data::Float(left_values.clone())).expect("full");
                let inputs = if stored { vec![a] } else { vec![a, b] };
                found.push(oracle.evaluate(&inputs).expect("no trap")[0].to_f64s());
            }
        }
        assert!(found.iter().all(|bits| *bits == found[0]), "{found:?}");
    }
}

#[test]
fn sums_of_products_trap_like_any_other_load() {
    for (over, start, end) in [(5usize, 0, 4), (4, -1, 4)] {
        let mut builder = GraphBuilder::new("products");
        let a = input(&mut builder, "a", &[4], Element::F32, false);
        let b = input(&mut builder, "b", &[8], Element::F32, false);
        let shifted = add(axis(0), Expr::Int(if start < 0 { start } else { 0 }));
        let y = sum(&mut builder, &[], &[over], mul(load(b, &[axis(0)]), load(a, &[shifted])));
        builder.output("y", y);
        let inputs = [Array::floats(&[1.0; 4]), Array::floats(&[1.0; 8])];
        let error = evaluate(&seal(builder), &inputs).expect_err("an index out of range");
        let wanted = if start < 0 { -1 } else { end };
        let OracleError::Trap { trap: Trap::OutOfRange { index, start: 0, end: 4, .. }, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(index, wanted);
    }
}
