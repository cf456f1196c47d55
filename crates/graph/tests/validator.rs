//! The validator refuses each kind of illegal graph, by rule.

use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::*;

fn origin(name: &str) -> Origin {
    Origin { name: name.into(), span: None }
}

fn input(name: &str, shape: &[usize], element: Element, per_node: bool) -> Input {
    Input { name: name.into(), shape: shape.to_vec(), element, per_node }
}

fn elementwise(axes: &[usize], body: Expr) -> Compute {
    Compute {
        axes: axes.iter().map(|&n| Range::Fixed(n)).collect(),
        fold: None,
        guard: None,
        body,
        permissions: Permissions::default(),
    }
}

/// The rule that the graph built by `build` breaks, or `ok`.
fn rule(build: impl FnOnce(&mut GraphBuilder)) -> &'static str {
    let mut builder = GraphBuilder::new("test");
    build(&mut builder);
    match builder.seal() {
        Ok(_) => "ok",
        Err(error) => error.rule,
    }
}

#[test]
fn a_legal_linear_passes() {
    let found = rule(|b| {
        let x = b.input(input("x", &[3], Element::F32, true));
        let w = b.param(Param { name: "w".into(), shape: vec![2, 3], element: Element::F32 });
        let body = Expr::binary(
            Binary::Multiply,
            Expr::load(w, vec![Expr::Axis(0), Expr::Axis(1)]),
            Expr::load(x, vec![Expr::Axis(1)]),
        );
        let mut linear = elementwise(&[2], body);
        linear.fold = Some(Fold { kind: FoldKind::Sum, axes: vec![Range::Fixed(3)] });
        let y = b.compute(linear, Element::F32, origin("y"));
        b.output("y", y);
    });
    assert_eq!(found, "ok");
}

#[test]
fn reading_a_later_node_breaks_order() {
    assert_eq!(
        rule(|b| {
            b.compute(elementwise(&[], Expr::load(NodeId(1), vec![])), Element::F32, origin("a"));
            b.compute(elementwise(&[], Expr::Float(1.0)), Element::F32, origin("b"));
        }),
        "order"
    );
    assert_eq!(
        rule(|b| {
            b.compute(elementwise(&[], Expr::load(NodeId(7), vec![])), Element::F32, origin("a"));
        }),
        "reference"
    );
}

#[test]
fn types_ranks_bounds_and_scopes() {
    let with_x = |body: fn(NodeId) -> Expr, element: Element| {
        rule(move |b| {
            let x = b.input(input("x", &[3], Element::F32, true));
            b.compute(elementwise(&[2], body(x)), element, origin("y"));
        })
    };
    let f32 = Element::F32;
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Axis(0)]), f32), "ok");
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Axis(0)]), Element::I32), "type");
    assert_eq!(with_x(|x| Expr::load(x, vec![]), f32), "rank");
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Int(3)]), f32), "bounds");
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Int(-1)]), f32), "bounds");
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Axis(1)]), f32), "scope");
    assert_eq!(with_x(|x| Expr::load(x, vec![Expr::Float(0.0)]), f32), "type");
    assert_eq!(with_x(|_| Expr::Accumulator, f32), "scope");
    assert_eq!(with_x(|_| Expr::binary(Binary::Add, Expr::Int(1), Expr::Float(1.0)), f32), "type");
    assert_eq!(with_x(|_| Expr::binary(Binary::Add, Expr::Id(1), Expr::Id(1)), Element::Id), "type");
    assert_eq!(with_x(|_| Expr::binary(Binary::Equal, Expr::Id(1), Expr::Id(1)), Element::Bool), "ok");
    assert_eq!(with_x(|_| Expr::Int(1 << 40), Element::I32), "bounds");
    assert_eq!(with_x(|_| Expr::select(Expr::Int(1), Expr::Float(1.0), Expr::Float(1.0)), f32), "type");
}

#[test]
fn folds_have_their_own_rules() {
    let fold = |kind: FoldKind, axes: Vec<Range>, body: Expr, element: Element| {
        rule(move |b| {
            let mut compute = elementwise(&[2], body);
            compute.fold = Some(Fold { kind, axes });
            b.compute(compute, element, origin("y"));
        })
    };
    let three = || vec![Range::Fixed(3)];
    assert_eq!(fold(FoldKind::Sum, three(), Expr::Axis(1), Element::I32), "ok");
    assert_eq!(fold(FoldKind::Sum, three(), Expr::Bool(true), Element::Bool), "type");
    assert_eq!(fold(FoldKind::Any, three(), Expr::Bool(true), Element::Bool), "ok");
    assert_eq!(fold(FoldKind::ArgMax, three(), Expr::Axis(1), Element::Id), "ok");
    assert_eq!(fold(FoldKind::ArgMax, three(), Expr::Axis(1), Element::I32), "type");
    let two = vec![Range::Fixed(3), Range::Fixed(3)];
    assert_eq!(fold(FoldKind::ArgMax, two, Expr::Axis(1), Element::Id), "shape");
    let ordered = |init| FoldKind::Ordered { init: Box::new(init) };
    let add = || Expr::binary(Binary::Add, Expr::Accumulator, Expr::Axis(1));
    assert_eq!(fold(ordered(Expr::Axis(0)), three(), add(), Element::I32), "ok");
    assert_eq!(fold(ordered(Expr::Axis(1)), three(), add(), Element::I32), "scope");
    assert_eq!(fold(ordered(Expr::Float(0.0)), three(), add(), Element::I32), "type");
    let later = Range::Between { start: Expr::Int(0), end: Expr::Axis(1), inclusive: false, bound: None };
    assert_eq!(fold(FoldKind::Sum, vec![later], Expr::Int(1), Element::I32), "scope");
    let unbounded =
        Range::Between { start: Expr::Int(0), end: Expr::Int(9), inclusive: false, bound: Some(3) };
    assert_eq!(fold(FoldKind::Sum, vec![unbounded], Expr::Int(1), Element::I32), "bounds");
}

#[test]
fn local_tensors_are_only_loaded() {
    let end = || Expr::binary(Binary::Add, Expr::Axis(0), Expr::Int(1));
    let local = |b: &mut GraphBuilder| {
        let mut compute = elementwise(&[4], Expr::Float(1.0));
        compute.axes.push(Range::Between {
            start: Expr::Int(0),
            end: end(),
            inclusive: false,
            bound: Some(4),
        });
        b.compute(compute, Element::F32, origin("s"))
    };
    assert_eq!(
        rule(|b| {
            let s = local(b);
            b.output("s", s);
        }),
        "local"
    );
    assert_eq!(
        rule(|b| {
            let s = local(b);
            b.history("s", s);
        }),
        "local"
    );
    assert_eq!(
        rule(|b| {
            let s = local(b);
            let kind = NodeKind::Top { operand: s, k: 1, part: TopPart::Values };
            b.node(kind, Element::F32, origin("top"));
        }),
        "local"
    );
}

#[test]
fn a_first_value_is_the_same_everywhere() {
    let state = |body: fn(NodeId) -> Expr| {
        rule(move |b| {
            let x = b.input(input("x", &[], Element::I32, true));
            let initial = b.compute(elementwise(&[2], body(x)), Element::I32, origin("initial"));
            b.state("s", vec![2], Element::I32, initial);
        })
    };
    assert_eq!(state(|_| Expr::Axis(0)), "ok");
    assert_eq!(state(|x| Expr::load(x, vec![])), "initial");
    assert_eq!(state(|_| Expr::Here), "initial");
    assert_eq!(
        rule(|b| {
            let initial = b.compute(elementwise(&[2], Expr::Float(0.0)), Element::F32, origin("i"));
            let (state, _) = b.state("s", vec![2], Element::F32, initial);
            let next = b.compute(elementwise(&[3], Expr::Float(0.0)), Element::F32, origin("n"));
            b.assign(state, next);
        }),
        "shape"
    );
}

#[test]
fn a_history_is_read_at_or_below_here() {
    let read = |depth: Expr, taps: usize| {
        rule(move |b| {
            let x = b.input(input("x", &[], Element::F32, true));
            let xs = b.history("xs", x);
            let body = Expr::History { history: xs, depth: Box::new(depth), indices: vec![] };
            let mut compute = elementwise(&[], body);
            compute.fold = Some(Fold { kind: FoldKind::Sum, axes: vec![Range::Fixed(taps)] });
            b.compute(compute, Element::F32, origin("y"));
        })
    };
    let tap = || {
        let start = Expr::binary(Binary::Subtract, Expr::Here, Expr::Int(3));
        Expr::binary(Binary::Add, start, Expr::Axis(0))
    };
    assert_eq!(read(tap(), 4), "ok");
    assert_eq!(read(tap(), 5), "depth");
    assert_eq!(read(Expr::binary(Binary::Add, Expr::Here, Expr::Int(1)), 1), "depth");
    assert_eq!(read(Expr::Float(0.0), 1), "type");
}

#[test]
fn keys_are_unique_and_rows_come_first() {
    assert_eq!(
        rule(|b| {
            let x = b.input(input("x", &[], Element::F32, true));
            b.history("xs", x);
            b.history("xs", x);
        }),
        "name"
    );
    assert_eq!(
        rule(|b| {
            b.input(input("x", &[], Element::F32, true));
            b.input(input("x", &[], Element::F32, true));
        }),
        "name"
    );
    assert_eq!(
        rule(|b| {
            let body = Expr::History { history: HistoryId(0), depth: Box::new(Expr::Here), indices: vec![] };
            b.compute(elementwise(&[], body), Element::F32, origin("y"));
            let x = b.input(input("x", &[], Element::F32, true));
            b.history("xs", x);
        }),
        "order"
    );
}

#[test]
fn loops_fit_their_bodies() {
    let body = |per_node: bool| {
        let mut b = GraphBuilder::new("body");
        let x = b.input(input("x", &[2], Element::F32, per_node));
        let first = b.compute(elementwise(&[], Expr::Float(0.0)), Element::F32, origin("first"));
        let (carry, _) = b.state("carry", vec![], Element::F32, first);
        let next = b.compute(elementwise(&[], Expr::load(x, vec![Expr::Int(0)])), Element::F32, origin("n"));
        b.assign(carry, next);
        b.output("emit", next);
        b.seal().unwrap()
    };
    let scan = |per_node: bool, shape: usize, capacity: usize, result: usize| {
        let body = body(per_node);
        rule(move |b| {
            let x = b.input(input("x", &[shape], Element::F32, true));
            let results = vec![
                ScanResult::Emitted { output: 0, condition: None, capacity },
                ScanResult::Length { emission: 0 },
                ScanResult::Carry(StateId(0)),
            ];
            let scan = Scan { body, trips: 5, captured: vec![x], first: 0, results };
            let scan = b.node(NodeKind::Scan(Box::new(scan)), Element::F32, origin("loop"));
            let element = if result == 1 { Element::I32 } else { Element::F32 };
            let y = b.node(NodeKind::ScanResult { scan, result }, element, origin("y"));
            b.output("y", y);
        })
    };
    assert_eq!(scan(false, 2, 5, 0), "ok");
    assert_eq!(scan(false, 2, 5, 1), "ok");
    assert_eq!(scan(false, 2, 5, 2), "ok");
    assert_eq!(scan(true, 2, 5, 0), "scan");
    assert_eq!(scan(false, 3, 5, 0), "scan");
    assert_eq!(scan(false, 2, 6, 0), "scan");
    assert_eq!(scan(false, 2, 5, 3), "reference");
}

#[test]
fn an_error_names_the_node_and_its_origin() {
    let mut builder = GraphBuilder::new("test");
    let bad = Origin { name: "layers.3/u".into(), span: Some((10, 12)) };
    builder.compute(elementwise(&[], Expr::Axis(0)), Element::I32, bad.clone());
    let error = builder.seal().unwrap_err();
    assert_eq!(error.to_string(), "node %0 (layers.3/u) breaks the rule `scope`: axis 0 where 0 exist");
    assert_eq!(error.origin, bad);
}
