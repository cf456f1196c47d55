//! The loop that reads a prompt and then its own output falls into a path and single steps by its dataflow alone.

use std::collections::HashMap;
use std::sync::Arc;

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::rewrite::{LoopPiece, PieceEmission, StateUse, optimise, split_loop};
use fiddlehead_graph::*;
use fiddlehead_oracle::{Array, Oracle, Weight, Weights};

const VOCABULARY: usize = 7;
const WIDTH: usize = 3;

fn named(name: &str) -> Origin {
    Origin { name: name.into(), span: None }
}

fn add(left: Expr, right: Expr) -> Expr {
    Expr::binary(Binary::Add, left, right)
}

fn multiply(left: Expr, right: Expr) -> Expr {
    Expr::binary(Binary::Multiply, left, right)
}

fn tensor(b: &mut GraphBuilder, name: &str, axes: &[usize], element: Element, body: Expr) -> NodeId {
    let axes = axes.iter().map(|&n| Range::Fixed(n)).collect();
    let compute = Compute { axes, fold: None, guard: None, body, permissions: Permissions::default() };
    b.compute(compute, element, named(name))
}

fn fold(b: &mut GraphBuilder, kind: FoldKind, axes: &[usize], over: Range, body: Expr) -> NodeId {
    let element = if kind == FoldKind::ArgMax { Element::Id } else { Element::F32 };
    let fold = Some(Fold { kind, axes: vec![over] });
    let axes = axes.iter().map(|&n| Range::Fixed(n)).collect();
    let permissions = Permissions::default();
    b.compute(Compute { axes, fold, guard: None, body, permissions }, element, named("fold"))
}

/// `scan[t in P + N - 1](last = prompt[0])` around a step with a decaying state and a sum over its path.
fn generate(prompt: usize, wanted: usize) -> Scan {
    let mut b = GraphBuilder::new("generate");
    let shape = vec![prompt];
    let tokens = b.input(Input { name: "prompt".into(), shape, element: Element::Id, per_node: false });
    let first = tensor(&mut b, "first", &[], Element::Id, Expr::load(tokens, vec![Expr::Int(0)]));
    let (last, last_node) = b.state("last", vec![], Element::Id, first);
    let condition = Expr::binary(Binary::Less, Expr::Here, Expr::Int(prompt as i64));
    let token = Expr::select(condition, Expr::load(tokens, vec![Expr::Here]), Expr::load(last_node, vec![]));
    let token = tensor(&mut b, "token", &[], Element::Id, token);
    let weight = Param { name: "embed".into(), shape: vec![VOCABULARY, WIDTH], element: Element::F32 };
    let embed = b.param(weight);
    let row = Expr::load(embed, vec![Expr::load(token, vec![]), Expr::Axis(0)]);
    let x = tensor(&mut b, "x", &[WIDTH], Element::F32, row);
    let zero = tensor(&mut b, "zero", &[WIDTH], Element::F32, Expr::Float(0.0));
    let (memory, memory_node) = b.state("memory", vec![WIDTH], Element::F32, zero);
    let decayed = multiply(Expr::Float(0.5), Expr::load(memory_node, vec![Expr::Axis(0)]));
    let body = add(decayed, Expr::load(x, vec![Expr::Axis(0)]));
    let next = tensor(&mut b, "memory'", &[WIDTH], Element::F32, body);
    b.assign(memory, next);
    let xs = b.history("xs", x);
    let path = Range::Between {
        start: Expr::Int(0),
        end: add(Expr::Here, Expr::Int(1)),
        inclusive: false,
        bound: None,
    };
    let read = Expr::History { history: xs, depth: Box::new(Expr::Axis(1)), indices: vec![Expr::Axis(0)] };
    let sum = fold(&mut b, FoldKind::Sum, &[WIDTH], path, read);
    let mixed = multiply(
        Expr::load(embed, vec![Expr::Axis(0), Expr::Axis(1)]),
        add(Expr::load(next, vec![Expr::Axis(1)]), Expr::load(sum, vec![Expr::Axis(1)])),
    );
    let logits = fold(&mut b, FoldKind::Sum, &[VOCABULARY], Range::Fixed(WIDTH), mixed);
    let scores = Expr::load(logits, vec![Expr::Axis(0)]);
    let best = fold(&mut b, FoldKind::ArgMax, &[], Range::Fixed(VOCABULARY), scores);
    b.assign(last, best);
    let emits = Expr::binary(Binary::LessEqual, Expr::Int(prompt as i64 - 1), Expr::Here);
    let emits = tensor(&mut b, "emit_if", &[], Element::Bool, emits);
    b.output("emit", best);
    b.output("emit_if", emits);
    let body = b.seal().expect("a legal body");
    let results = vec![ScanResult::Emitted { output: 0, condition: Some(1), capacity: wanted }];
    let trips = prompt + wanted - 1;
    Scan { body, trips, captured: vec![NodeId(0)], first: 0, results }
}

fn weights() -> Weights {
    let values: Vec<f32> =
        (0..VOCABULARY * WIDTH).map(|i| ((i * 37 + 11) % 23) as f32 / 11.0 - 1.0).collect();
    HashMap::from([("embed".to_string(), Weight::Float(Arc::from(values)))])
}

/// The whole loop by the oracle.
fn whole(scan: &Scan, prompt: &[u32]) -> Vec<f64> {
    let mut b = GraphBuilder::new("main");
    let shape = vec![prompt.len()];
    b.input(Input { name: "prompt".into(), shape, element: Element::Id, per_node: false });
    let node = b.node(NodeKind::Scan(Box::new(scan.clone())), Element::Id, named("loop"));
    let result = b.node(NodeKind::ScanResult { scan: node, result: 0 }, Element::Id, named("result"));
    b.output("result", result);
    let graph = b.seal().expect("a legal graph");
    let oracle = Oracle::<f64>::new(&graph, &weights()).expect("resolves");
    oracle.evaluate(&[Array::ids(prompt)]).expect("no trap")[0].to_f64s()
}

/// The pieces one after the other by the oracle, each as one chain.
fn in_pieces(pieces: &[LoopPiece], prompt: &[u32]) -> Vec<f64> {
    let mut session = None;
    let mut emitted = Vec::new();
    for piece in pieces {
        let oracle = Oracle::<f64>::new(&piece.body, &weights()).expect("resolves");
        let mut values = session.take().unwrap_or_else(|| oracle.session());
        let chain =
            Forest::single_chain(SessionId(0), piece.turns.start, piece.turns.len()).expect("a chain");
        let sessions = HashMap::from([(SessionId(0), values.clone())]);
        let run = oracle.run(&chain, &[Array::ids(prompt)], &sessions).expect("no trap");
        for turn in 0..piece.turns.len() {
            let output = match piece.emissions[0] {
                PieceEmission::Always { output } => Some(output),
                PieceEmission::When { output, condition } => {
                    let holds = run.output(turn, condition).expect("wanted").to_f64s()[0] != 0.0;
                    holds.then_some(output)
                }
                PieceEmission::Never | PieceEmission::None => None,
            };
            if let Some(output) = output {
                emitted.extend(run.output(turn, output).expect("wanted").to_f64s());
            }
        }
        run.commit(&chain.accept_all(0).expect("the chain"), &mut values).expect("continues");
        session = Some(values);
    }
    emitted
}

#[test]
fn prefill_and_decode_come_out_of_the_dataflow() {
    let scan = generate(5, 4);
    let pieces = split_loop(&scan);
    let turns: Vec<_> = pieces.iter().map(|piece| piece.turns.clone()).collect();
    assert_eq!(turns, [0..4, 4..5, 5..8]);
    let parallel: Vec<bool> = pieces.iter().map(|piece| piece.parallel).collect();
    assert_eq!(parallel, [true, true, false]);

    // The prompt but its last token: no logits at all, since nobody needs what follows from them.
    assert_eq!(pieces[0].emissions, [PieceEmission::Never]);
    assert_eq!(pieces[0].states, [StateUse::Untouched, StateUse::Read]);
    let text = pieces[0].body.to_string();
    assert!(!text.contains("argmax"), "{text}");
    assert!(text.contains("embed"), "{text}");

    // Its last token: logits, and the carry's last value.
    assert_eq!(pieces[1].emissions, [PieceEmission::Always { output: 0 }]);
    assert_eq!(pieces[1].states, [StateUse::LastValue, StateUse::Read]);

    // Its own output: the carry is read, the prompt is not.
    assert_eq!(pieces[2].emissions, [PieceEmission::Always { output: 0 }]);
    assert_eq!(pieces[2].states, [StateUse::Read, StateUse::Read]);
    let text = pieces[2].body.to_string();
    assert!(text.contains("= state last") && !text.contains("<"), "{text}");
}

#[test]
fn the_pieces_in_order_are_the_loop() {
    for length in 1..5 {
        for wanted in 1..5 {
            for seed in 0..4 {
                let prompt: Vec<u32> = (0..length).map(|i| (i * 3 + seed) % VOCABULARY as u32).collect();
                let scan = generate(length as usize, wanted);
                let expected = whole(&scan, &prompt);
                assert_eq!(expected.len(), wanted);
                let pieces = split_loop(&scan);
                assert_eq!(pieces.iter().map(|piece| piece.turns.len()).sum::<usize>(), scan.trips);
                assert_eq!(in_pieces(&pieces, &prompt), expected, "{length} {wanted} {seed}");
                let mut optimised = scan.clone();
                optimised.body = optimise(&scan.body);
                assert_eq!(in_pieces(&split_loop(&optimised), &prompt), expected);
            }
        }
    }
}

#[test]
fn every_comparison_cuts_where_it_changes() {
    let comparisons = [Binary::Less, Binary::LessEqual, Binary::Equal, Binary::NotEqual];
    for op in comparisons {
        for (slope, constant) in [(1, -4), (-1, 4), (2, -7), (2, -8), (-3, 12), (-3, 11), (1, 40), (1, 2)] {
            let mut b = GraphBuilder::new("body");
            let left = add(multiply(Expr::Here, Expr::Int(slope)), Expr::Int(constant));
            let flag = Expr::binary(op, left, Expr::Int(0));
            let value = Expr::select(flag, Expr::Int(1), Expr::Int(0));
            let value = tensor(&mut b, "value", &[], Element::I32, value);
            b.output("emit", value);
            let results = vec![ScanResult::Emitted { output: 0, condition: None, capacity: 12 }];
            let body = b.seal().expect("a legal body");
            let pieces = split_loop(&Scan { body, trips: 12, captured: vec![], first: 0, results });
            let mut found = Vec::new();
            for piece in &pieces {
                // Each piece's value is decided: the condition is gone.
                let output = piece.body.outputs()[0].node;
                let NodeKind::Compute(compute) = &piece.body.node(output).kind else {
                    panic!("{}", piece.body)
                };
                let Expr::Int(value) = compute.body else { panic!("{}", piece.body) };
                found.extend(piece.turns.clone().map(|_| value));
            }
            let expected: Vec<i64> = (0..12)
                .map(|turn| {
                    let value = slope * turn + constant;
                    i64::from(match op {
                        Binary::Less => value < 0,
                        Binary::LessEqual => value <= 0,
                        Binary::Equal => value == 0,
                        _ => value != 0,
                    })
                })
                .collect();
            assert_eq!(found, expected, "{op:?} {slope} {constant}");
            let changes = expected.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(pieces.len(), changes + 1, "{op:?} {slope} {constant}");
        }
    }
}
