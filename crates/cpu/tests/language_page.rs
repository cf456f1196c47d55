//! Every program of `docs/language.md` runs, on the CPU as in the oracle.

use std::collections::BTreeSet;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_gate::language::run_page;

#[test]
fn every_example_runs_as_in_the_oracle() {
    let ran = run_page(&CpuDevice::new(2), include_str!("../../../docs/language.md")).expect("marks");
    let failures: Vec<&String> = ran.iter().filter_map(|ran| ran.result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let kinds: BTreeSet<&str> = ran.iter().map(|ran| ran.kind).collect();
    assert_eq!(kinds, BTreeSet::from(["function", "model", "step"]));
}
