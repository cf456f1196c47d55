//! The reference's own random programs.

use fiddlehead_graph::NodeKind;
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs};

use super::harness::compare;

fn check(seed: u64, motifs: &[Motif], count: usize) {
    let program = RandomProgram::new(seed, motifs, count).expect("a valid graph");
    let graph = &program.graph;
    if graph.node_ids().any(|node| matches!(graph.node(node).kind, NodeKind::Scan(_))) {
        return;
    }
    let rows = 5;
    let given = inputs::<f32>(graph, rows, seed).expect("small");
    compare(graph, &program.weights, &given, rows, 2e-4);
}

#[test]
fn every_motif_of_the_reference() {
    for &motif in Motif::ALL.iter().filter(|&&motif| motif != Motif::Loop) {
        for seed in 0..12 {
            check(seed, &[motif], 1);
        }
    }
}

#[test]
fn programs_of_many_motifs() {
    for seed in 100..130 {
        check(seed, Motif::ALL, 5);
    }
}
