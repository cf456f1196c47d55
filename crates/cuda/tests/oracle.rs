//! Random programs over random forests: emulated CUDA gives what the oracle gives.

mod support;

use fiddlehead_gate::forests::check;
use fiddlehead_oracle::random::Motif;

/// Every program is compiled by the system's compiler, so there are few, and each is of many parts.
fn run(seeds: std::ops::Range<u64>, motifs: &[Motif], count: usize, dispatch: &[(&str, &str)]) {
    let Some((device, _folder)) = support::device() else { return };
    let mut failures = Vec::new();
    for seed in seeds {
        if let Err(why) = check(&device, seed, motifs, count, dispatch) {
            failures.push(format!("{motifs:?}, seed {seed}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn programs_of_every_motif_run_on_kernels() {
    run(0..4, Motif::ALL, 6, &[]);
}

#[test]
fn programs_of_every_motif_run_on_the_general_path() {
    run(4..6, Motif::ALL, 6, &[("all", "off")]);
}

#[test]
fn sites_with_kernels_run() {
    for motif in
        [Motif::Contraction, Motif::GroupedContraction, Motif::Attention, Motif::DeltaRule, Motif::Experts]
    {
        run(0..2, &[motif], 1, &[]);
    }
    run(0..3, &[Motif::DeltaRule], 1, &[("recurrence", "block")]);
}
