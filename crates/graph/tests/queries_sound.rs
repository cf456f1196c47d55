//! What the descriptors say is what the program says: graphs written anew from their sites' descriptors alone give the
//! oracle's values, on random programs and random forests.

mod common;

use common::restate::restate;
use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::queries::*;
use fiddlehead_graph::{Graph, rewrite};
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs, session};
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Run, Weights};
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

fn run(graph: &Graph, weights: &Weights, seed: u64) -> Run<f64> {
    let (forest, sessions) = batch(graph, seed);
    let sessions = sessions.iter().map(|(name, session)| (*name, session.converted())).collect();
    let given = inputs::<f32>(graph, forest.len(), seed).expect("small");
    let given: Vec<Array<f64>> = given.iter().map(Array::converted).collect();
    Oracle::<f64>::new(graph, weights).expect("resolves").run(&forest, &given, &sessions).expect("no trap")
}

fn difference(a: &Run<f64>, b: &Run<f64>) -> f64 {
    let mut greatest: f64 = 0.0;
    let mut compare = |x: &Array<f64>, y: &Array<f64>| {
        assert_eq!(x.shape(), y.shape());
        for (x, y) in x.to_f64s().into_iter().zip(y.to_f64s()) {
            let off =
                if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() / (1.0 + x.abs()) };
            greatest = if off.is_nan() { f64::INFINITY } else { greatest.max(off) };
        }
    };
    for (a, b) in a.nodes.iter().zip(&b.nodes) {
        let outputs = a.outputs.iter().zip(&b.outputs);
        outputs.filter_map(|(x, y)| Some((x.as_deref()?, y.as_deref()?))).for_each(|(x, y)| compare(x, y));
        a.states.iter().zip(&b.states).for_each(|(x, y)| compare(x, y));
        a.rows.iter().zip(&b.rows).for_each(|(x, y)| compare(x, y));
    }
    greatest
}

fn holds(program: &RandomProgram, seed: u64) -> Sites {
    let graph = rewrite::optimise(&program.graph);
    for graph in [&program.graph, &graph] {
        let sites = assign_sites(graph);
        let again = restate(graph, &sites);
        let off = difference(&run(graph, &program.weights, seed), &run(&again, &program.weights, seed));
        assert!(off < 1e-9, "seed {seed}, {:?}: off by {off}", program.motifs);
    }
    assign_sites(&graph)
}

#[test]
fn each_motif() {
    let mut found = [0usize; 5];
    for (place, &motif) in Motif::ALL.iter().enumerate() {
        for seed in 0..24 {
            let seed = seed + 100 * place as u64;
            let program = RandomProgram::new(seed, &[motif], 2).expect("a valid program");
            for site in holds(&program, seed).sites {
                match site {
                    Site::Attention(_) => found[0] += 1,
                    Site::Recurrence(site) => {
                        found[if matches!(site.kind, RecurrenceKind::Delta(_)) { 1 } else { 2 }] += 1
                    }
                    Site::Window(_) => found[3] += 1,
                    Site::Contraction(_) => found[4] += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(found.iter().all(|&count| count > 4), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn mixed_programs(seed in 0u64..1 << 32) {
        let program = RandomProgram::new(seed, Motif::ALL, 6).expect("a valid program");
        holds(&program, seed);
    }
}
