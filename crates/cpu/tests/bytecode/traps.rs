//! Failures at run time: what, where, with which values.

use fiddlehead_cpu::bytecode::{Read, TrapKind};
use fiddlehead_cpu::features::Features;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;
use fiddlehead_oracle::Array;

use super::harness::*;

fn trap(element: Element, axes: Vec<Range>, body: impl Fn(NodeId, NodeId) -> Expr, ids: &[i32]) -> TrapKind {
    let mut builder = GraphBuilder::new("trap");
    let x = input(&mut builder, &[10], Element::F32, false);
    let given = input(&mut builder, &[ids.len()], Element::I32, false);
    let history = builder.history("xs", x);
    assert_eq!(history, HistoryId(0));
    let node = output(&mut builder, element, axes, None, body(x, given));
    let graph = builder.seal().expect("valid");
    let inputs = [Numbers(1).float_array(&[10]), Array::ints(ids)];
    assert!(expected(&graph, &Default::default(), &inputs, 1).is_err(), "the reference traps too");
    let mut found = None;
    for isa in Features::detect().usable() {
        let Err(trap) = run(&graph, &Default::default(), &inputs, 1, isa, Parts::Whole) else {
            panic!("no trap")
        };
        assert_eq!((trap.node, trap.row), (node, 0));
        assert!(found.is_none_or(|found| found == trap.kind));
        found = Some(trap.kind);
    }
    found.expect("some family runs")
}

#[test]
fn indices_out_of_range() {
    let gather = |x, ids| load(x, &[load(ids, &[axis(0)])]);
    for (bad, at) in [(10, 0), (-1, 299), (i32::MIN, 150), (i32::MAX, 7)] {
        let mut ids = vec![3; 300];
        ids[at] = bad;
        let expected =
            TrapKind::Index { what: Read::Node(NodeId(0)), axis: 0, index: bad.into(), low: 0, high: 10 };
        assert_eq!(trap(Element::F32, fixed(&[300]), gather, &ids), expected);
    }
    let scalar = |x, ids| load(x, &[load(ids, &[int(1)])]);
    let expected = TrapKind::Index { what: Read::Node(NodeId(0)), axis: 0, index: 12, low: 0, high: 10 };
    assert_eq!(trap(Element::F32, vec![], scalar, &[0, 12]), expected);
    assert_eq!(trap(Element::F32, fixed(&[20]), scalar, &[0, 12]), expected);
    // Affine, and out of range by one.
    let shifted = |x, ids| load(x, &[op(Binary::Add, axis(0), load(ids, &[int(0)]))]);
    assert!(matches!(trap(Element::F32, fixed(&[8]), shifted, &[3]), TrapKind::Index { index: 10, .. }));
    let plain = |x, _| load(x, &[op(Binary::Add, axis(0), int(1))]);
    assert!(matches!(trap(Element::F32, fixed(&[10]), plain, &[3]), TrapKind::Index { index: 10, .. }));
}

#[test]
fn divisions_ids_and_depths() {
    let divide = |_, ids| op(Binary::Divide, int(5), load(ids, &[axis(0)]));
    assert_eq!(trap(Element::I32, fixed(&[3]), divide, &[1, 0, 2]), TrapKind::DivisionByZero);
    let remainder = |_, ids| op(Binary::Remainder, int(5), load(ids, &[int(0)]));
    assert_eq!(trap(Element::I32, vec![], remainder, &[0]), TrapKind::DivisionByZero);
    let id = |_, ids| Expr::unary(Unary::IntToId, load(ids, &[axis(0)]));
    assert_eq!(trap(Element::Id, fixed(&[3]), id, &[1, -5, 2]), TrapKind::NegativeId(-5));
    let above = |_, ids| Expr::History {
        history: HistoryId(0),
        depth: Box::new(op(Binary::Add, Expr::Here, load(ids, &[int(0)]))),
        indices: vec![axis(0)],
    };
    let expected = TrapKind::AboveHere { history: HistoryId(0), depth: 2, here: 0 };
    assert_eq!(trap(Element::F32, fixed(&[4]), above, &[2]), expected);
}

/// A check that does not vary with a loop is moved out of it, but must not fail when the loop is empty.
#[test]
fn nothing_is_checked_where_nothing_is_evaluated() {
    let mut builder = GraphBuilder::new("empty");
    let x = input(&mut builder, &[4], Element::F32, false);
    let ids = input(&mut builder, &[2], Element::I32, false);
    let range = vec![between(int(0), load(ids, &[int(0)]))];
    let body = load(x, &[load(ids, &[int(1)])]);
    output(&mut builder, Element::F32, vec![], Some((FoldKind::Sum, range.clone())), body.clone());
    let nothing = fixed(&[0]);
    output(&mut builder, Element::F32, vec![], Some((FoldKind::Sum, nothing.clone())), body.clone());
    output(&mut builder, Element::F32, nothing, None, body.clone());
    let local = tensor(&mut builder, Element::F32, range.clone(), None, body);
    output(&mut builder, Element::F32, vec![], Some((FoldKind::Max, range)), load(local, &[axis(0)]));
    let empty = input(&mut builder, &[0], Element::F32, false);
    let never = op(Binary::Less, load(ids, &[int(1)]), int(0));
    let body = Expr::select(never, load(empty, &[load(ids, &[axis(0)])]), Expr::Float(2.0));
    output(&mut builder, Element::F32, fixed(&[2]), None, body);
    let graph = builder.seal().expect("valid");
    let given = [Array::floats(&[1.0; 4]), Array::ints(&[0, 99]), Array::floats(&[])];
    compare(&graph, &Default::default(), &given, 1, 0.0);
}
