//! What states and histories mean on a forest, against loops written by hand over each node's own path.

mod common;

use common::*;
use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Binary, Element, Expr, FoldKind, Graph, NodeId, Range};
use fiddlehead_oracle::random::{inputs, session};
use fiddlehead_oracle::{Array, Oracle, OracleError, OracleSession, OracleSessions, Trap, Weights};

const SESSION: SessionId = SessionId(4);

/// The tree shapes that every rule is tried on.
fn trees() -> Vec<Vec<Option<u32>>> {
    let mut random = SplitMix::new(11);
    let mut trees = vec![shapes::chain(1), shapes::chain(9), shapes::star(7), shapes::comb(12)];
    trees.extend((0..4).map(|_| shapes::random_tree(&mut random, 23)));
    trees.push(vec![None, Some(0), None, None, Some(3)]);
    trees
}

/// Runs a graph over every tree, fresh and with a stored session, and compares its first output at each node
/// with `expected(path inputs, session)`, where the path runs from the segment's root to the node.
fn check(graph: &Graph, expected: impl Fn(&[Vec<Vec<f64>>], &OracleSession<f64>) -> Vec<f64>) {
    let oracle = Oracle::<f64>::new(graph, &Weights::new()).expect("resolves");
    for (number, tree) in trees().iter().enumerate() {
        for base in [0, 5] {
            let forest = shapes::single_tree(SESSION, base, tree).expect("a valid tree");
            let stored = session::<f64>(graph, base, number as u64).expect("small");
            let given = inputs::<f64>(graph, forest.len(), number as u64).expect("small");
            let sessions = OracleSessions::from([(SESSION, stored.clone())]);
            let run = oracle.run(&forest, &given, &sessions).expect("no trap");
            for node in 0..forest.len() {
                let part = |array: &Array<f64>, row: usize| -> Vec<f64> {
                    let all = array.to_f64s();
                    let size = all.len() / forest.len();
                    all[row * size..(row + 1) * size].to_vec()
                };
                let path: Vec<Vec<Vec<f64>>> = forest
                    .ancestors(node as u32)
                    .map(|row| given.iter().map(|array| part(array, row as usize)).collect())
                    .collect();
                let found = run.output(node, 0).expect("wanted").to_f64s();
                let expected = expected(&path, &stored);
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() < 1e-12,
                        "tree {number}, node {node}: {found} {expected}"
                    );
                }
            }
        }
    }
}

/// Heads, key groups, key and value dimensions of the rules below.
const H: usize = 4;
const G: usize = 2;
const K: usize = 3;
const V: usize = 2;

#[test]
fn the_delta_rule_is_the_serial_loop_over_the_path() {
    let mut builder = GraphBuilder::new("delta");
    let b = &mut builder;
    let q = input(b, "q", &[G, K], Element::F32, true);
    let k = input(b, "k", &[G, K], Element::F32, true);
    let v = input(b, "v", &[H, V], Element::F32, true);
    let decay = input(b, "decay", &[H], Element::F32, true);
    let beta = input(b, "beta", &[H], Element::F32, true);
    let zero = each(b, &[H, K, V], Expr::Float(0.0));
    let (id, s) = b.state("s", vec![H, K, V], Element::F32, zero);
    let group = || op(Binary::Divide, axis(0), op(Binary::Divide, Expr::Int(H as i64), Expr::Int(G as i64)));
    let at = |node: NodeId, i, j| load(node, &[axis(0), i, j]);
    let faded = |i, j| mul(load(decay, &[axis(0)]), at(s, i, j));
    let memory = sum(b, &[H, V], &[K], mul(faded(axis(2), axis(1)), load(k, &[group(), axis(2)])));
    let error = sub(load(v, &[axis(0), axis(1)]), load(memory, &[axis(0), axis(1)]));
    let u = each(b, &[H, V], mul(load(beta, &[axis(0)]), error));
    let update = mul(load(k, &[group(), axis(1)]), load(u, &[axis(0), axis(2)]));
    let next = each(b, &[H, K, V], add(faded(axis(1), axis(2)), update));
    b.assign(id, next);
    let o = sum(b, &[H, V], &[K], mul(load(q, &[group(), axis(2)]), at(next, axis(2), axis(1))));
    b.output("o", o);

    check(&seal(builder), |path, stored| {
        let mut s = stored.states[0].as_ref().map_or(vec![0.0; H * K * V], |state| state.to_f64s());
        let mut o = vec![0.0; H * V];
        for node in path {
            let [q, k, v, decay, beta] = node.as_slice() else { panic!("five inputs") };
            for h in 0..H {
                let g = h / (H / G);
                for j in 0..V {
                    let old: Vec<f64> = (0..K).map(|i| decay[h] * s[(h * K + i) * V + j]).collect();
                    let memory: f64 = (0..K).map(|i| old[i] * k[g * K + i]).sum();
                    let u = beta[h] * (v[h * V + j] - memory);
                    for i in 0..K {
                        s[(h * K + i) * V + j] = old[i] + k[g * K + i] * u;
                    }
                    o[h * V + j] = (0..K).map(|i| q[g * K + i] * s[(h * K + i) * V + j]).sum();
                }
            }
        }
        o
    });
}

#[test]
fn attention_reads_the_stored_history_and_the_ancestors() {
    let mut builder = GraphBuilder::new("attend");
    let b = &mut builder;
    let q = input(b, "q", &[H, K], Element::F32, true);
    let k = input(b, "k", &[G, K], Element::F32, true);
    let v = input(b, "v", &[G, K], Element::F32, true);
    let (ks, vs) = (b.history("ks", k), b.history("vs", v));
    let group = || op(Binary::Remainder, axis(0), Expr::Int(G as i64));
    let over_path = |kind| Some((kind, vec![path()]));
    let heads = || vec![Range::Fixed(H)];
    let product = mul(load(q, &[axis(0), axis(2)]), past(ks, axis(1), &[group(), axis(2)]));
    let axes = vec![Range::Fixed(H), path()];
    let s = tensor(b, "s", Element::F32, axes.clone(), Some((FoldKind::Sum, fixed(&[K]))), product);
    let m = tensor(b, "m", Element::F32, heads(), over_path(FoldKind::Max), load(s, &[axis(0), axis(1)]));
    let shifted = sub(load(s, &[axis(0), axis(1)]), load(m, &[axis(0)]));
    let p = tensor(b, "p", Element::F32, axes, None, exp(shifted));
    let z = tensor(b, "z", Element::F32, heads(), over_path(FoldKind::Sum), load(p, &[axis(0), axis(1)]));
    let weighted = mul(load(p, &[axis(0), axis(2)]), past(vs, axis(2), &[group(), axis(1)]));
    let axes = fixed(&[H, K]);
    let o = tensor(b, "o", Element::F32, axes, over_path(FoldKind::Sum), weighted);
    let o = each(b, &[H, K], op(Binary::Divide, load(o, &[axis(0), axis(1)]), load(z, &[axis(0)])));
    b.output("o", o);

    check(&seal(builder), |path, stored| {
        let q = &path.last().expect("the node itself")[0];
        let rows = |history: usize| {
            let stored = stored.histories[history].iter().map(|row| row.to_f64s());
            stored.chain(path.iter().map(|node| node[history + 1].clone())).collect::<Vec<_>>()
        };
        let (ks, vs) = (rows(0), rows(1));
        let mut o = Vec::new();
        for h in 0..H {
            let dot = |k: &Vec<f64>| (0..K).map(|i| q[h * K + i] * k[h % G * K + i]).sum::<f64>().exp();
            let total: f64 = ks.iter().map(dot).sum();
            for i in 0..K {
                let value: f64 = ks.iter().zip(&vs).map(|(k, v)| dot(k) * v[h % G * K + i]).sum();
                o.push(value / total);
            }
        }
        o
    });
}

#[test]
fn a_window_reads_zero_before_the_first_token() {
    let mut builder = GraphBuilder::new("window");
    let x = input(&mut builder, "x", &[K], Element::F32, true);
    let xs = builder.history("xs", x);
    let depth = add(sub(Expr::Here, Expr::Int(3)), axis(1));
    let tap = Expr::unary(fiddlehead_graph::Unary::ToFloat, add(axis(1), Expr::Int(1)));
    let y = sum(&mut builder, &[K], &[4], mul(tap, past(xs, depth, &[axis(0)])));
    builder.output("y", y);

    check(&seal(builder), |path, stored| {
        let mut rows: Vec<Vec<f64>> = vec![vec![0.0; K]; 3];
        rows.extend(stored.histories[0].iter().map(|row| row.to_f64s()));
        rows.extend(path.iter().map(|node| node[0].clone()));
        let last = &rows[rows.len() - 4..];
        (0..K).map(|i| last.iter().enumerate().map(|(tap, row)| (tap as f64 + 1.0) * row[i]).sum()).collect()
    });
}

#[test]
fn commits_follow_the_accepted_path_only() {
    let mut builder = GraphBuilder::new("count");
    let x = input(&mut builder, "x", &[1], Element::F32, true);
    let xs = builder.history("xs", x);
    let zero = each(&mut builder, &[1], Expr::Float(0.0));
    let (id, s) = builder.state("total", vec![1], Element::F32, zero);
    let next = each(&mut builder, &[1], add(load(s, &[axis(0)]), load(x, &[axis(0)])));
    builder.assign(id, next);
    let fold = Some((FoldKind::Sum, vec![path()]));
    let y = tensor(&mut builder, "y", Element::F32, fixed(&[1]), fold, past(xs, axis(1), &[axis(0)]));
    builder.output("sum of rows", y);
    builder.output("state", next);
    let graph = seal(builder);
    let oracle = Oracle::<f64>::new(&graph, &Weights::new()).expect("resolves");
    let mut sessions = OracleSessions::from([(SESSION, oracle.session())]);
    let given = |values: &[f32]| vec![Array::floats(values).reshaped(&[values.len(), 1]).expect("a column")];

    let forest = shapes::single_tree(SESSION, 0, &shapes::comb(5)).expect("a comb");
    let run = oracle.run(&forest, &given(&[1.0, 10.0, 100.0, 1000.0, 10000.0]), &sessions).expect("no trap");
    let accepted = forest.accept_to(3).expect("a node");
    assert_eq!(accepted.nodes(), [0, 2, 3]);
    run.commit(&accepted, sessions.get_mut(&SESSION).expect("there")).expect("continues");
    assert_eq!(sessions[&SESSION].position, 3);
    let again = run.commit(&accepted, sessions.get_mut(&SESSION).expect("there"));
    assert!(matches!(again, Err(OracleError::Forest(_))));

    let forest = Forest::single_chain(SESSION, 3, 1).expect("a node");
    let run = oracle.run(&forest, &given(&[0.5]), &sessions).expect("no trap");
    for output in 0..2 {
        assert_eq!(run.output(0, output).expect("wanted").to_f64s(), [1101.5]);
    }
    let elsewhere = Forest::single_chain(SESSION, 2, 1).expect("a node");
    assert!(oracle.run(&elsewhere, &given(&[0.5]), &sessions).is_err());
    let stranger = Forest::single_chain(SessionId(9), 3, 1).expect("a node");
    let error = oracle.run(&stranger, &given(&[0.5]), &sessions).expect_err("unknown");
    assert_eq!(error, OracleError::UnknownSession { session: SessionId(9), base: 3 });
}

#[test]
fn a_row_below_the_node_traps() {
    let mut builder = GraphBuilder::new("future");
    let x = input(&mut builder, "x", &[1], Element::I32, true);
    let xs = builder.history("xs", x);
    let depth = add(Expr::Here, load(x, &[Expr::Int(0)]));
    let y = tensor(&mut builder, "y", Element::I32, vec![], None, past(xs, depth, &[Expr::Int(0)]));
    builder.output("y", y);
    let graph = seal(builder);
    let oracle = Oracle::<f64>::new(&graph, &Weights::new()).expect("resolves");
    let forest = Forest::single_chain(SESSION, 0, 1).expect("a node");
    let run = |value| {
        let given = [Array::ints(&[value]).reshaped(&[1, 1]).expect("one")];
        oracle.run(&forest, &given, &OracleSessions::new())
    };
    assert_eq!(run(0).expect("its own row").output(0, 0).expect("wanted").to_f64s(), [0.0]);
    assert_eq!(run(-5).expect("before the root").output(0, 0).expect("wanted").to_f64s(), [0.0]);
    let error = run(1).expect_err("the future");
    assert!(matches!(error, OracleError::Trap { trap: Trap::FutureRow { depth: 1, here: 0, .. }, .. }));
}
