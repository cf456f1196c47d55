//! What must be equal in its bits: arithmetic, integers, comparisons, selections, data movement.

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;
use fiddlehead_oracle::{Array, Data};
use proptest::prelude::*;

use super::harness::*;

const ODD: [usize; 8] = [1, 3, 15, 17, 64, 255, 257, 700];

fn special(numbers: &mut Numbers, count: usize) -> Vec<f32> {
    let specials = [0.0, -0.0, 1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-42, 3.4e38, -2.5e9];
    let mut values = numbers.floats(count);
    for (at, value) in values.iter_mut().enumerate() {
        if at % 5 == 2 {
            *value = specials[numbers.next() as usize % specials.len()];
        }
    }
    values
}

#[test]
fn every_operation_of_floats() {
    for n in ODD {
        let mut builder = GraphBuilder::new("floats");
        let x = input(&mut builder, &[2, n], Element::F32, false);
        let (a, b) = (load(x, &[int(0), axis(0)]), load(x, &[int(1), axis(0)]));
        let one = load(x, &[int(0), int(n as i64 / 2)]);
        use Binary::*;
        for (left, right) in [(&a, &b), (&a, &one), (&one, &b), (&one, &one), (&a, &Expr::Float(0.3))] {
            for kind in [Add, Subtract, Multiply, Divide, Min, Max] {
                let body = op(kind, left.clone(), right.clone());
                output(&mut builder, Element::F32, fixed(&[n]), None, body);
            }
            for kind in [Equal, NotEqual, Less, LessEqual] {
                let body = op(kind, left.clone(), right.clone());
                output(&mut builder, Element::Bool, fixed(&[n]), None, body.clone());
                let body = Expr::select(Expr::unary(Unary::Not, body), a.clone(), one.clone());
                output(&mut builder, Element::F32, fixed(&[n]), None, body);
            }
        }
        for kind in [Unary::Negate, Unary::Absolute, Unary::Sqrt, Unary::Rsqrt, Unary::Floor] {
            output(&mut builder, Element::F32, fixed(&[n]), None, Expr::unary(kind, a.clone()));
        }
        output(&mut builder, Element::I32, fixed(&[n]), None, Expr::unary(Unary::ToInt, a.clone()));
        // A product whose sum must not fuse.
        let body = op(Add, op(Multiply, a.clone(), b.clone()), op(Multiply, b, a));
        output(&mut builder, Element::F32, fixed(&[n]), None, body);
        let graph = builder.seal().expect("valid");
        let values = special(&mut Numbers(n as u64), 2 * n);
        let x = Array::new(&[2, n], Data::Float(values)).expect("fits");
        compare(&graph, &Default::default(), &[x], 1, 0.0);
    }
}

#[test]
fn every_operation_of_integers_and_bools() {
    for n in ODD {
        let mut builder = GraphBuilder::new("integers");
        let x = input(&mut builder, &[2, n], Element::I32, false);
        let (a, b) = (load(x, &[int(0), axis(0)]), load(x, &[int(1), axis(0)]));
        let divisor = op(Binary::Add, op(Binary::Multiply, b.clone(), int(2)), int(1));
        use Binary::*;
        for kind in [Add, Subtract, Multiply, Min, Max, Divide, Remainder] {
            let right = if matches!(kind, Divide | Remainder) { divisor.clone() } else { b.clone() };
            output(&mut builder, Element::I32, fixed(&[n]), None, op(kind, a.clone(), right));
            output(&mut builder, Element::I32, fixed(&[n]), None, op(kind, a.clone(), int(-7)));
            output(&mut builder, Element::I32, fixed(&[n]), None, op(kind, axis(0), int(6)));
        }
        let mut conditions = Vec::new();
        for kind in [Equal, NotEqual, Less, LessEqual] {
            let body = op(kind, op(Remainder, a.clone(), int(3)), op(Remainder, b.clone(), int(3)));
            output(&mut builder, Element::Bool, fixed(&[n]), None, body.clone());
            conditions.push(body);
        }
        for kind in [And, Or, Equal, NotEqual] {
            let body = op(kind, conditions[0].clone(), conditions[2].clone());
            output(&mut builder, Element::Bool, fixed(&[n]), None, body.clone());
            output(&mut builder, Element::I32, fixed(&[n]), None, Expr::select(body, a.clone(), b.clone()));
        }
        for kind in [Unary::Negate, Unary::Absolute] {
            output(&mut builder, Element::I32, fixed(&[n]), None, Expr::unary(kind, a.clone()));
        }
        output(&mut builder, Element::F32, fixed(&[n]), None, Expr::unary(Unary::ToFloat, a.clone()));
        output(&mut builder, Element::F32, fixed(&[n]), None, Expr::unary(Unary::ToFloat, axis(0)));
        let graph = builder.seal().expect("valid");
        let mut values = Numbers(n as u64).ints(2 * n, 1 << 30);
        values[0] = i32::MIN;
        values[n] = -1;
        let x = Array::new(&[2, n], Data::Int(values)).expect("fits");
        compare(&graph, &Default::default(), &[x], 1, 0.0);
    }
}

/// Rotary halves, concatenation, reversal, transposition, division of axes, padding, gathers in either order.
#[test]
fn data_movement() {
    for (h, k) in [(3, 10), (4, 64), (2, 130), (1, 600), (5, 16)] {
        let mut builder = GraphBuilder::new("movement");
        let x = input(&mut builder, &[h, k], Element::F32, true);
        let flat = input(&mut builder, &[h * k], Element::F32, false);
        let ids = input(&mut builder, &[k], Element::I32, false);
        let half = k as i64 / 2;
        use Binary::*;
        let at = |index: Expr| load(x, &[axis(0), index]);
        let rotated = Expr::select(
            op(Less, axis(1), int(half)),
            op(Subtract, at(axis(1)), at(op(Add, axis(1), int(k as i64 - half)))),
            Expr::select(
                op(LessEqual, int(k as i64 - half), axis(1)),
                op(Add, at(axis(1)), at(op(Subtract, axis(1), int(k as i64 - half)))),
                Expr::Float(-1.0),
            ),
        );
        output(&mut builder, Element::F32, fixed(&[h, k]), None, rotated);
        let n = h * k;
        let (ki, hi) = (int(k as i64), int(h as i64));
        for body in [
            load(x, &[op(Divide, axis(0), ki.clone()), op(Remainder, axis(0), ki.clone())]),
            load(x, &[op(Remainder, axis(0), hi.clone()), op(Divide, axis(0), hi.clone())]),
            load(flat, &[op(Subtract, int(n as i64 - 1), axis(0))]),
            load(flat, &[op(Max, op(Subtract, axis(0), int(2)), int(0))]),
            Expr::select(op(Equal, axis(0), int(3)), Expr::Float(9.0), load(flat, &[axis(0)])),
            Expr::select(
                op(Less, axis(0), int(half)),
                load(flat, &[op(Add, op(Multiply, axis(0), int(2)), int(1))]),
                load(flat, &[op(Subtract, axis(0), int(half))]),
            ),
        ] {
            output(&mut builder, Element::F32, fixed(&[n]), None, body);
        }
        for body in [
            load(flat, &[op(Add, op(Multiply, axis(0), ki.clone()), axis(1))]),
            load(x, &[axis(0), load(ids, &[axis(1)])]),
            load(x, &[op(Remainder, load(ids, &[axis(1)]), hi.clone()), axis(1)]),
            op(Add, load(x, &[axis(0), axis(1)]), load(flat, &[axis(1)])),
            Expr::select(op(LessEqual, axis(1), axis(0)), load(x, &[axis(0), axis(1)]), Expr::Float(0.5)),
        ] {
            output(&mut builder, Element::F32, fixed(&[h, k]), None, body);
        }
        output(&mut builder, Element::F32, fixed(&[k, h]), None, load(x, &[axis(1), axis(0)]));
        let picked = load(x, &[int(0), load(ids, &[op(Remainder, op(Add, axis(0), axis(1)), ki)])]);
        output(&mut builder, Element::F32, fixed(&[k, h]), None, picked);
        let graph = builder.seal().expect("valid");
        let mut numbers = Numbers(k as u64);
        let ids: Vec<i32> = (0..k).map(|_| (numbers.next() as usize % k) as i32).collect();
        let rows = 3;
        let given = [numbers.float_array(&[rows, h, k]), numbers.float_array(&[h * k]), Array::ints(&ids)];
        compare(&graph, &Default::default(), &given, rows, 0.0);
    }
}

/// What is not chosen is not evaluated: out of range there is no trap, and guards give zero.
#[test]
fn unchosen_arms_do_not_trap() {
    for n in [7, 300] {
        let mut builder = GraphBuilder::new("arms");
        let x = input(&mut builder, &[n], Element::F32, true);
        let ids = input(&mut builder, &[n], Element::I32, true);
        use Binary::*;
        let id = load(ids, &[axis(0)]);
        let end = int(n as i64);
        let inside = op(And, op(LessEqual, int(0), id.clone()), op(Less, id.clone(), end.clone()));
        let chosen = Expr::select(inside.clone(), load(x, std::slice::from_ref(&id)), Expr::Float(2.0));
        output(&mut builder, Element::F32, fixed(&[n]), None, chosen);
        let nonzero = op(NotEqual, id.clone(), int(0));
        let divided = Expr::select(nonzero.clone(), op(Divide, int(1000), id.clone()), int(5));
        output(&mut builder, Element::I32, fixed(&[n]), None, divided.clone());
        let positive = op(LessEqual, int(0), id.clone());
        let made = Expr::select(positive, Expr::unary(Unary::IntToId, id.clone()), Expr::Id(3));
        output(&mut builder, Element::Id, fixed(&[n]), None, made);
        let short =
            op(Or, op(Equal, id.clone(), int(0)), op(Less, int(2), op(Remainder, int(100), id.clone())));
        output(&mut builder, Element::Bool, fixed(&[n]), None, short);
        let mut add = |axes: Vec<Range>, fold, guard, body| {
            let node = guarded(&mut builder, Element::F32, axes, fold, Some(guard), body);
            builder.output(format!("guarded{}", node.0), node);
        };
        add(fixed(&[n]), None, inside.clone(), load(x, std::slice::from_ref(&id)));
        // The guard is known before any loop, and false on every second row.
        let even = op(Equal, op(Remainder, Expr::Here, int(2)), int(0));
        let beyond = op(Add, op(Multiply, op(Remainder, Expr::Here, int(2)), end.clone()), axis(0));
        add(fixed(&[n]), None, even.clone(), load(x, std::slice::from_ref(&beyond)));
        add(fixed(&[2, n]), None, even.clone(), load(x, &[axis(1)]));
        let most = |axes: &[usize]| Some((FoldKind::Max, fixed(axes)));
        add(vec![], most(&[n]), even, Expr::select(Expr::Bool(true), load(x, &[beyond]), Expr::Float(0.0)));
        add(fixed(&[n]), most(&[1]), inside, load(x, &[id]));
        let graph = builder.seal().expect("valid");
        let mut numbers = Numbers(5);
        let rows = 4;
        let ids = numbers.ints(rows * n, n as i32 + 5);
        let ids = ids.iter().enumerate().map(|(at, &id)| if at % 3 == 0 { 0 } else { id }).collect();
        let ids = Array::new(&[rows, n], Data::Int(ids)).expect("fits");
        compare(&graph, &Default::default(), &[numbers.float_array(&[rows, n]), ids], rows, 0.0);
    }
}

#[test]
fn elementary_functions_stay_close() {
    use Unary::*;
    let n = 777;
    let mut builder = GraphBuilder::new("functions");
    let x = input(&mut builder, &[n], Element::F32, false);
    for kind in [Exp, Log, Sin, Cos, Tanh, Sigmoid, Silu, Gelu, Softplus] {
        output(&mut builder, Element::F32, fixed(&[n]), None, Expr::unary(kind, load(x, &[axis(0)])));
        output(&mut builder, Element::F32, vec![], None, Expr::unary(kind, load(x, &[int(17)])));
    }
    let graph = builder.seal().expect("valid");
    let values = Numbers(1).floats(n).iter().map(|x| x * 6.0).collect::<Vec<_>>();
    let oracle = fiddlehead_oracle::Oracle::<f64>::new(&graph, &Default::default()).expect("valid");
    let wide = Array::new(&[n], Data::Float(values.iter().map(|&x| x as f64).collect())).expect("fits");
    let expected = oracle.evaluate(&[wide]).expect("no trap");
    for isa in fiddlehead_cpu::features::Features::detect().usable() {
        let found = run(&graph, &Default::default(), &[Array::floats(&values)], 1, isa, Parts::Whole);
        let found = found.expect("no trap");
        for (output, expected) in graph.outputs().iter().zip(&expected) {
            for (found, expected) in found.row(output.node, 0).iter().zip(expected.to_f64s()) {
                let found = f32::from_bits(*found);
                let rounded = expected as f32;
                let near = (found.to_bits() as i64 - rounded.to_bits() as i64).abs() <= 4
                    // Where the reference's own form of gelu cancels.
                    || (f64::from(found) - expected).abs() < 1e-14;
                assert!(
                    near || found.is_nan() && rounded.is_nan(),
                    "{}: {found}, not {expected}",
                    output.name
                );
            }
        }
    }
}

/// An integer expression over two axes, two inputs and `here`.
fn integers(depth: u32) -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        (-20i64..20).prop_map(Expr::Int),
        (0usize..2).prop_map(Expr::Axis),
        Just(Expr::Here),
        Just(Expr::load(NodeId(1), vec![Expr::Axis(1)])),
        Just(Expr::load(NodeId(1), vec![Expr::Int(2)])),
    ];
    leaf.prop_recursive(depth, 24, 3, |inner| {
        use Binary::*;
        let pair = (inner.clone(), inner.clone());
        let kind = prop_oneof![Just(Add), Just(Subtract), Just(Multiply), Just(Min), Just(Max)];
        let compare = prop_oneof![Just(Equal), Just(NotEqual), Just(Less), Just(LessEqual)];
        prop_oneof![
            (kind, pair.clone()).prop_map(|(kind, (a, b))| Expr::binary(kind, a, b)),
            (inner.clone(), prop_oneof![1i64..9, -4i64..-1]).prop_map(|(a, by)| Expr::binary(
                Divide,
                a,
                Expr::Int(by)
            )),
            (inner.clone(), prop_oneof![1i64..70, -4i64..-1]).prop_map(|(a, by)| Expr::binary(
                Remainder,
                a,
                Expr::Int(by)
            )),
            (compare, pair, inner.clone(), inner.clone()).prop_map(|(kind, (a, b), c, d)| Expr::select(
                Expr::binary(kind, a, b),
                c,
                d
            )),
            inner.prop_map(|a| Expr::unary(Unary::Negate, a)),
        ]
    })
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Random index arithmetic, as a value and as an index kept in range by a remainder or a condition.
    #[test]
    fn random_integers_and_indices(body in integers(4), n in 1usize..140, m in 1usize..5, seed in any::<u64>()) {
        use Binary::*;
        let mut builder = GraphBuilder::new("random");
        let x = input(&mut builder, &[n], Element::F32, false);
        let ids = input(&mut builder, &[n.max(3)], Element::I32, false);
        prop_assert_eq!(ids, NodeId(1));
        let end = int(n as i64);
        output(&mut builder, Element::I32, fixed(&[m, n]), None, body.clone());
        let wrapped = load(x, &[op(Remainder, body.clone(), end.clone())]);
        output(&mut builder, Element::F32, fixed(&[m, n]), None, wrapped.clone());
        let inside = op(And, op(LessEqual, int(0), body.clone()), op(Less, body.clone(), end));
        let chosen = Expr::select(inside, op(Add, load(x, std::slice::from_ref(&body)), Expr::Float(1.0)), wrapped);
        output(&mut builder, Element::F32, fixed(&[m, n]), None, chosen.clone());
        output(&mut builder, Element::F32, fixed(&[m]), Some((FoldKind::Max, fixed(&[n]))), chosen.clone());
        output(&mut builder, Element::I32, fixed(&[m]), Some((FoldKind::Sum, fixed(&[n]))), body.clone());
        output(&mut builder, Element::Id, fixed(&[m]), Some((FoldKind::ArgMax, fixed(&[n]))), body.clone());
        let kind = FoldKind::Ordered { init: Box::new(Expr::Float(0.25)) };
        let folded = op(Subtract, op(Multiply, Expr::Accumulator, Expr::Float(0.5)), chosen);
        output(&mut builder, Element::F32, fixed(&[m]), Some((kind, fixed(&[n]))), folded);
        let Ok(graph) = builder.seal() else { return Ok(()) };
        let mut numbers = Numbers(seed);
        let given = [numbers.float_array(&[n]), Array::ints(&numbers.ints(n.max(3), 50))];
        compare(&graph, &Default::default(), &given, 2, 0.0);
    }
}
