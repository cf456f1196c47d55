//! What a caller or a program does wrong is told, and leaves the executor as it was.

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_gate::case::{options, stored};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Compute, Element, Expr, Graph, Input, ModelGraph, Origin, Param, Permissions, Range};
use fiddlehead_oracle::random::{Motif, RandomProgram};
use fiddlehead_plan::{Device, DeviceError, Executor, LoadOptions, Numerics, Values, Weights};
use fiddlehead_storage::Tensor;
use std::sync::Arc;

const SESSION: SessionId = SessionId(5);

/// `x[d] = table[token, d] + 10 / (at - 3)`, over a table of four rows.
fn lookup() -> Graph {
    let mut builder = GraphBuilder::new("lookup");
    let input = |name: &str, element| Input { name: name.into(), shape: vec![], element, per_node: true };
    let token = builder.input(input("token", Element::Id));
    let at = builder.input(input("at", Element::I32));
    let table = builder.param(Param { name: "table".into(), shape: vec![4, 2], element: Element::F32 });
    let row = vec![Expr::load(token, vec![]), Expr::Axis(0)];
    let divisor = Expr::binary(fiddlehead_graph::Binary::Subtract, Expr::load(at, vec![]), Expr::Int(3));
    let quotient = Expr::binary(fiddlehead_graph::Binary::Divide, Expr::Int(10), divisor);
    let body = Expr::binary(
        fiddlehead_graph::Binary::Add,
        Expr::load(table, row),
        Expr::unary(fiddlehead_graph::Unary::ToFloat, quotient),
    );
    let compute = Compute {
        axes: vec![Range::Fixed(2)],
        fold: None,
        guard: None,
        body,
        permissions: Permissions::default(),
    };
    let origin = Origin { name: "main/x".into(), span: Some((3, 9)) };
    let x = builder.compute(compute, Element::F32, origin);
    builder.output("x", x);
    builder.seal().expect("a valid graph")
}

fn weights() -> Weights {
    let table = Tensor::from_f32(vec![4, 2], (0..8).map(|value| value as f32).collect()).expect("fits");
    Weights::from([("table".to_string(), table)])
}

fn executor() -> Box<dyn Executor> {
    let model = ModelGraph { name: "lookup".into(), steps: vec![lookup()] };
    let options = LoadOptions { context: 100, ..LoadOptions::default() };
    let mut executor = CpuDevice::new(2).load(Arc::new(model), weights(), options).expect("loads");
    executor.open(SESSION).expect("a new session");
    executor
}

fn run(executor: &mut dyn Executor, base: usize, ids: &[u32], at: i32) -> Result<Vec<f32>, DeviceError> {
    let forest = Forest::single_chain(SESSION, base, ids.len()).expect("a chain");
    let outputs = executor.run(0, &forest, &[Values::Id(ids.to_vec()), Values::I32(vec![at; ids.len()])])?;
    Ok(outputs[0].values.as_f32().expect("floats").to_vec())
}

#[test]
fn traps_name_the_node_and_leave_the_session() {
    let mut executor = executor();
    let error = run(&mut *executor, 0, &[0, 1, 9], 4).expect_err("no row 9");
    let DeviceError::Trap { origin, span, why } = error else { panic!("{error}") };
    assert_eq!((origin.as_str(), span), ("main/x", Some((3, 9))));
    assert!(why.contains('9') && why.contains("0..4"), "{why}");
    let error = run(&mut *executor, 0, &[0], 3).expect_err("division by zero").to_string();
    assert!(error.contains("zero"), "{error}");
    let forest = Forest::single_chain(SESSION, 0, 1).expect("a node");
    let accepted = forest.accept_all(0).expect("a node");
    assert!(matches!(executor.commit(0, &accepted), Err(DeviceError::Session { .. })), "nothing is pending");
    assert_eq!(run(&mut *executor, 0, &[2], 5).expect("runs"), [9.0, 10.0]);
    executor.commit(0, &accepted).expect("continues");
    assert_eq!(executor.position(SESSION, 0).expect("open"), 1);
}

#[test]
fn inputs_are_checked() {
    let mut executor = executor();
    let forest = Forest::single_chain(SESSION, 0, 2).expect("a chain");
    let ids = Values::Id(vec![0, 1]);
    let cases: [(&[Values], &str); 4] = [
        (std::slice::from_ref(&ids), "`at`: it is missing"),
        (&[ids.clone(), Values::F32(vec![0.0; 2])], "it is F32, declared I32"),
        (&[ids.clone(), Values::I32(vec![0; 3])], "3 elements, 2 are needed"),
        (&[ids.clone(), Values::I32(vec![0; 2]), ids.clone()], "3 inputs were given"),
    ];
    for (inputs, expected) in cases {
        let error = executor.run(0, &forest, inputs).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(executor.run(1, &forest, &[ids]).is_err(), "there is one step");
}

#[test]
fn sessions_are_checked() {
    let mut executor = executor();
    assert!(executor.open(SESSION).is_err(), "open already");
    assert!(executor.close(SessionId(6)).is_err(), "not open");
    assert!(executor.position(SESSION, 1).is_err(), "there is one step");
    assert!(run(&mut *executor, 1, &[0], 0).expect_err("stands at 0").to_string().contains("stands at 0"));
    run(&mut *executor, 0, &[0; 60], 0).expect("runs");
    let whole = Forest::single_chain(SESSION, 0, 60).expect("a chain").accept_all(0).expect("a chain");
    let longer = Forest::single_chain(SESSION, 0, 61).expect("a chain").accept_all(0).expect("a chain");
    assert!(executor.commit(0, &longer).is_err(), "more than is pending");
    executor.commit(0, &whole).expect("continues");
    let error = run(&mut *executor, 60, &[0; 41], 0).expect_err("101 nodes");
    assert!(matches!(error, DeviceError::Context { wanted: 101, context: 100 }), "{error}");
    let snapshot = executor.snapshot(SESSION).expect("open");
    let mut other = self::executor();
    assert!(other.restore(SESSION, &snapshot).is_err(), "of another executor");
    executor.close(SESSION).expect("open");
    assert!(executor.restore(SESSION, &snapshot).is_err(), "closed");
}

#[test]
fn weights_and_options_are_checked() {
    let device = CpuDevice::new(1);
    let load = |weights: Weights, dispatch: &[(&str, &str)]| {
        let model = ModelGraph { name: "lookup".into(), steps: vec![lookup()] };
        match device.load(Arc::new(model), weights, options(dispatch)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    };
    assert!(load(Weights::new(), &[]).contains("`table`: the checkpoint does not hold it"));
    let narrow = Tensor::from_f32(vec![4, 3], vec![0.0; 12]).expect("fits");
    assert!(load(Weights::from([("table".to_string(), narrow)]), &[]).contains("[4, 2]"));
    assert!(load(weights(), &[("attention", "magic")]).contains("no candidate `magic`"));
    assert!(load(weights(), &[("everything", "off")]).contains("no family"));
    let strict = LoadOptions { numerics: Numerics::Strict, ..options(&[("recurrence", "block")]) };
    let error = device.explain(&lookup(), &strict).expect_err("two roundings").to_string();
    assert!(error.contains("strict"), "{error}");
    assert_eq!(load(weights(), &[("attention", "pages"), ("recurrence", "block")]), "");
}

#[test]
fn a_step_is_no_plain_function() {
    let device = CpuDevice::new(1);
    let error = device.call(&lookup(), &[], &LoadOptions::default()).expect_err("per-node inputs");
    assert!(error.to_string().contains("`token`"), "{error}");
    let program = RandomProgram::new(1, &[Motif::DeltaRule], 1).expect("a valid graph");
    assert!(device.call(&program.graph, &[], &LoadOptions::default()).is_err());
    assert!(!stored(&program).is_empty());
}

#[test]
fn a_forest_beyond_the_largest_is_refused() {
    let model = ModelGraph { name: "lookup".into(), steps: vec![lookup()] };
    let options = LoadOptions { context: 1 << 20, ..LoadOptions::default() };
    let mut executor = CpuDevice::new(1).load(Arc::new(model), weights(), options).expect("loads");
    executor.open(SESSION).expect("a new session");
    assert_eq!(run(&mut *executor, 0, &[1; 4096], 0).expect("runs").len(), 8192);
    let error = run(&mut *executor, 0, &[1; 4097], 0).expect_err("too many").to_string();
    assert!(error.contains("cut prompts"), "{error}");
}
