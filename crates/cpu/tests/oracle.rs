//! Random programs over random forests: the executor gives what the oracle gives.

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_gate::case::Case;
use fiddlehead_gate::forests::check;
use fiddlehead_oracle::random::Motif;

/// The general kernel alone.
const GENERAL: &[(&str, &str)] = &[("all", "off")];
/// Every kernel that can serve.
const SERVED: &[(&str, &str)] = &[];

fn every_motif(dispatch: &[(&str, &str)]) {
    let device = CpuDevice::new(2);
    let mut failures = Vec::new();
    for &motif in Motif::ALL {
        for seed in 0..12 {
            if let Err(why) = check(&device, seed, &[motif], 1, dispatch) {
                failures.push(format!("{motif:?}, seed {seed}: {why}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

fn mixed_programs(dispatch: &[(&str, &str)]) {
    let device = CpuDevice::new(2);
    for seed in 100..160 {
        check(&device, seed, Motif::ALL, 5, dispatch).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

/// The block form stays within the bound of the serial one, on chains, trees and prompts.
#[test]
fn delta_rules_run_by_blocks() {
    let device = CpuDevice::new(2);
    for seed in 200..260 {
        let motifs = [Motif::DeltaRule, Motif::Elementwise];
        check(&device, seed, &motifs, 3, &[("recurrence", "block")])
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn every_motif_runs_on_the_general_path() {
    every_motif(GENERAL);
}

#[test]
fn mixed_programs_run_on_the_general_path() {
    mixed_programs(GENERAL);
}

#[test]
fn every_motif_runs_on_kernels() {
    every_motif(SERVED);
}

#[test]
fn mixed_programs_run_on_kernels() {
    mixed_programs(SERVED);
}

/// A test of kernels that none of them served would test nothing.
#[test]
fn kernels_serve_what_the_queries_find() {
    let device = CpuDevice::new(1);
    let mut served = std::collections::BTreeMap::new();
    for (motif, family) in [
        (Motif::Contraction, "contraction"),
        (Motif::GroupedContraction, "contraction"),
        (Motif::Attention, "attention"),
        (Motif::DeltaRule, "recurrence"),
    ] {
        for seed in 0..12 {
            let case = Case::new(&device, seed, &[motif], 1, SERVED).expect("loads");
            let report = case.executor.explain(0).expect("a step");
            let found = report.steps.iter().any(|step| step.family == family);
            *served.entry(format!("{motif:?}")).or_insert(0) += usize::from(found);
            if !found {
                println!("{motif:?}, seed {seed}: {:?}", report.refusals);
            }
        }
    }
    println!("{served:?} of 12 each");
    assert!(served.values().all(|&count| count >= 3), "{served:?}");
}
