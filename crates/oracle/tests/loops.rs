//! What a loop means.

mod common;

use common::*;
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Binary, Element, Expr, Graph, NodeId, NodeKind, Origin, Scan, ScanResult};
use fiddlehead_oracle::{Data, Oracle, OracleError, Trap, Weights};

/// Fibonacci's numbers modulo a captured integer; the even ones are emitted, and each turn reads the number of
/// three turns ago from a history.
fn body() -> (Graph, Vec<ScanResult>) {
    let mut builder = GraphBuilder::new("turn");
    let b = &mut builder;
    let modulus = input(b, "modulus", &[], Element::I32, false);
    let scalar = |b: &mut GraphBuilder, element, body| tensor(b, "scalar", element, vec![], None, body);
    let zero = scalar(b, Element::I32, Expr::Int(0));
    let one = scalar(b, Element::I32, Expr::Int(1));
    let (first, a) = b.state("a", vec![], Element::I32, zero);
    let (second, c) = b.state("b", vec![], Element::I32, one);
    let both = op(Binary::Remainder, add(load(a, &[]), load(c, &[])), load(modulus, &[]));
    let both = scalar(b, Element::I32, both);
    b.assign(first, c);
    b.assign(second, both);
    let seen = b.history("seen", a);
    let old = scalar(b, Element::I32, past(seen, sub(Expr::Here, Expr::Int(3)), &[]));
    let even = op(Binary::Equal, op(Binary::Remainder, load(a, &[]), Expr::Int(2)), Expr::Int(0));
    let even = scalar(b, Element::Bool, even);
    for (name, node) in [("number", a), ("even", even), ("old", old)] {
        b.output(name, node);
    }
    let results = vec![
        ScanResult::Emitted { output: 0, condition: Some(1), capacity: 6 },
        ScanResult::Length { emission: 0 },
        ScanResult::Emitted { output: 2, condition: None, capacity: 10 },
        ScanResult::Carry(second),
    ];
    (seal(builder), results)
}

fn run(body: Graph, results: Vec<ScanResult>, trips: usize) -> Result<Vec<Data<f64>>, OracleError> {
    let mut builder = GraphBuilder::new("main");
    let modulus = tensor(&mut builder, "modulus", Element::I32, vec![], None, Expr::Int(1000));
    let count = results.len();
    let scan = Scan { body, trips, captured: vec![modulus], first: 0, results };
    let kind = NodeKind::Scan(Box::new(scan));
    let scan = builder.node(kind, Element::I32, Origin { name: "the loop".into(), span: None });
    for result in 0..count {
        let kind = NodeKind::ScanResult { scan, result };
        let node: NodeId = builder.node(kind, Element::I32, Origin::default());
        builder.output(format!("{result}"), node);
    }
    let oracle = Oracle::<f64>::new(&seal(builder), &Weights::new())?;
    Ok(oracle.evaluate(&[])?.iter().map(|array| array.data().clone()).collect())
}

#[test]
fn carries_emissions_and_histories_of_a_loop() {
    let (body, results) = body();
    let found = run(body, results, 10).expect("no trap");
    // 0 1 1 2 3 5 8 13 21 34
    assert_eq!(found[0], Data::Int(vec![0, 2, 8, 34, 0, 0]));
    assert_eq!(found[1], Data::Int(vec![4]));
    assert_eq!(found[2], Data::Int(vec![0, 0, 0, 0, 1, 1, 2, 3, 5, 8]));
    assert_eq!(found[3], Data::Int(vec![89]));
}

#[test]
fn a_loop_without_turns_gives_its_first_values() {
    let (body, _) = body();
    let carry = ScanResult::Carry(fiddlehead_graph::StateId(1));
    let emitted = ScanResult::Emitted { output: 0, condition: None, capacity: 0 };
    let found = run(body, vec![carry, emitted], 0).expect("no trap");
    assert_eq!(found, [Data::Int(vec![1]), Data::Int(vec![])]);
}

#[test]
fn emitting_past_the_bound_traps() {
    let (body, _) = body();
    let results = vec![ScanResult::Emitted { output: 0, condition: Some(1), capacity: 3 }];
    let error = run(body, results, 10).expect_err("four are even");
    assert!(
        matches!(error, OracleError::Trap { trap: Trap::TooManyEmissions { capacity: 3 }, origin } if origin.name == "the loop")
    );
}
