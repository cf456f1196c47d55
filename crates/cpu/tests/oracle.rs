//! Random programs over random forests: the executor gives what the oracle gives.

mod common;

use common::{Case, random_path};
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::SessionId;
use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_oracle::random::Motif;

/// Feeds a few sessions, runs random forests over them, commits random paths, and runs on.
fn check(
    device: &CpuDevice,
    seed: u64,
    motifs: &[Motif],
    count: usize,
    dispatch: &[(&str, &str)],
) -> Result<(), String> {
    let mut random = SplitMix::new(seed);
    let mut case = Case::new(device, seed, motifs, count, dispatch);
    let sessions = 1 + random.below(4) as u64;
    for name in 0..sessions {
        case.feed(SessionId(name), [0, 3, 9, 70][random.below(4)])?;
    }
    for _ in 0..3 {
        let bases: Vec<(SessionId, usize)> =
            (0..sessions).map(|name| (SessionId(name), case.sessions[&SessionId(name)].position)).collect();
        let forest = shapes::random_forest(&mut random, &bases, 9).expect("a valid forest");
        let run = case.run(&forest)?;
        for segment in 0..forest.segments().len() {
            let accepted = random_path(&mut random, &forest, segment);
            case.commit(&run, &accepted);
        }
    }
    Ok(())
}

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
            let case = Case::new(&device, seed, &[motif], 1, SERVED);
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
