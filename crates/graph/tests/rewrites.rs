//! A rewritten graph means what the graph meant: random programs over random forests, run by the oracle.

use fiddlehead_forest::Forest;
use fiddlehead_forest::SessionId;
use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_graph::Graph;
use fiddlehead_graph::rewrite::{fold_constants, fuse_chains, merge_equal, optimise, remove_dead};
use fiddlehead_graph::validate::validate;
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs, session};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Real, Run, Weights};
use proptest::prelude::*;

fn batch(graph: &Graph, seed: u64) -> (Forest, OracleSessions<f32>) {
    let mut random = SplitMix::new(seed);
    let mut sessions = OracleSessions::new();
    let mut bases = Vec::new();
    for name in 0..1 + random.below(3) as u64 {
        let base = [0, 3, 9][random.below(3)];
        sessions.insert(SessionId(name), session(graph, base, seed + name).expect("small"));
        bases.push((SessionId(name), base));
    }
    (shapes::random_forest(&mut random, &bases, 7).expect("a valid forest"), sessions)
}

fn run<R: Real>(graph: &Graph, weights: &Weights, seed: u64) -> Run<R> {
    let (forest, sessions) = batch(graph, seed);
    let sessions = sessions.iter().map(|(name, session)| (*name, session.converted())).collect();
    let given = inputs::<f32>(graph, forest.len(), seed).expect("small");
    let given: Vec<Array<R>> = given.iter().map(Array::converted).collect();
    Oracle::<R>::new(graph, weights).expect("resolves").run(&forest, &given, &sessions).expect("no trap")
}

#[test]
fn a_scalar_doubled_over_and_over_does_not_double_its_text() {
    let text = format!("fn main(x: f32) -> f32 {{ {} x }}", "let x = x + x;".repeat(60));
    let program = fiddlehead_lang::compile("doubled.fh", &text).expect("a right program");
    let graph =
        fiddlehead_graph::lower::lower_function(&program, "main", &Default::default()).expect("lowers");
    let parts = |graph: &Graph| {
        let mut count = 0;
        for node in graph.nodes() {
            node.kind.for_each_read(&mut |_| count += 1, &mut |_| {});
        }
        count
    };
    assert!(parts(&optimise(&graph)) < 100_000);
}

/// The greatest relative difference between what two runs gave.
fn difference<R: Real>(a: &Run<R>, b: &Run<R>) -> f64 {
    let mut greatest: f64 = 0.0;
    let mut compare = |x: &Array<R>, y: &Array<R>| {
        assert_eq!(x.shape(), y.shape());
        for (x, y) in x.to_f64s().into_iter().zip(y.to_f64s()) {
            let off =
                if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() / (1.0 + x.abs()) };
            greatest = if off.is_nan() { f64::INFINITY } else { greatest.max(off) };
        }
    };
    assert_eq!(a.nodes.len(), b.nodes.len());
    for (a, b) in a.nodes.iter().zip(&b.nodes) {
        for (x, y) in a.outputs.iter().zip(&b.outputs) {
            assert_eq!(x.is_some(), y.is_some());
            if let (Some(x), Some(y)) = (x.as_deref(), y.as_deref()) {
                compare(x, y);
            }
        }
        a.states.iter().zip(&b.states).for_each(|(x, y)| compare(x, y));
        a.rows.iter().zip(&b.rows).for_each(|(x, y)| compare(x, y));
    }
    greatest
}

fn means_the_same(program: &RandomProgram, rewrite: Rewrite, name: &str, seed: u64) {
    let rewritten = rewrite(&program.graph);
    if let Err(error) = validate(&rewritten) {
        panic!("{name}, seed {seed}, {:?}: {error}\n{}\n{rewritten}", program.motifs, program.graph);
    }
    let narrow = difference(
        &run::<f32>(&program.graph, &program.weights, seed),
        &run::<f32>(&rewritten, &program.weights, seed),
    );
    let wide = difference(
        &run::<f64>(&program.graph, &program.weights, seed),
        &run::<f64>(&rewritten, &program.weights, seed),
    );
    // Only a transcendental of a literal may differ, in its last bits.
    assert!(
        narrow < 1e-5 && wide < 1e-12,
        "{name}, seed {seed}, {:?}: {narrow} {wide}\n{}\n{rewritten}",
        program.motifs,
        program.graph
    );
}

type Rewrite = fn(&Graph) -> Graph;

const REWRITES: [(&str, Rewrite); 5] = [
    ("fold_constants", fold_constants),
    ("merge_equal", merge_equal),
    ("fuse_chains", fuse_chains),
    ("remove_dead", remove_dead),
    ("optimise", optimise),
];

#[test]
fn every_rewrite_keeps_every_motif() {
    for &motif in Motif::ALL {
        for seed in 0..12 {
            let program = RandomProgram::new(seed, &[motif], 1).expect("a valid graph");
            for (name, rewrite) in REWRITES {
                means_the_same(&program, rewrite, name, seed);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_rewrite_keeps_the_meaning(seed: u64) {
        let program = RandomProgram::new(seed, Motif::ALL, 5).expect("a valid graph");
        for (name, rewrite) in REWRITES {
            means_the_same(&program, rewrite, name, seed);
        }
    }

    #[test]
    fn optimising_twice_changes_nothing_more(seed: u64) {
        let program = RandomProgram::new(seed, Motif::ALL, 5).expect("a valid graph");
        let once = optimise(&program.graph);
        prop_assert!(once.nodes().len() <= program.graph.nodes().len());
        let twice = optimise(&once);
        prop_assert!(twice.nodes().len() <= once.nodes().len());
    }
}
