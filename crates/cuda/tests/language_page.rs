//! Every program of `docs/language.md` runs on emulated CUDA as in the oracle.

mod support;

use fiddlehead_gate::language::run_page;

#[test]
fn every_example_runs_as_in_the_oracle() {
    let Some((device, _folder)) = support::device() else { return };
    let ran = run_page(&device, include_str!("../../../docs/language.md")).expect("marks");
    let failures: Vec<String> = ran
        .iter()
        .filter_map(|ran| ran.result.as_ref().err().map(|why| format!("line {}: {why}", ran.line)))
        .collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
