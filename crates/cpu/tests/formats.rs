//! Weights stay as they are stored, in any format: looked up by the general kernel, multiplied by the row kernel.

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_gate::case::{load, options};
use fiddlehead_gate::formats::{check, program};
use fiddlehead_storage::Format;

#[test]
fn every_format_gives_what_its_values_give() {
    let device = CpuDevice::new(2);
    for &format in Format::ALL {
        for family in ["auto", "off"] {
            let dispatch = [("all", family)];
            check(&device, format, 20, &dispatch).unwrap_or_else(|why| panic!("{family}: {why}"));
            let (graph, weights) = program(format).expect("whole blocks");
            let stored: usize = weights.values().map(|tensor| tensor.bytes().len()).sum();
            let executor = load(&device, &graph, weights, options(&dispatch)).expect("loads");
            assert_eq!((executor.memory().weights, executor.memory().mirrors), (stored, 0), "{format}");
            let report = executor.explain(0).expect("a step");
            let kernel = report.steps.iter().any(|step| step.family == "contraction");
            assert_eq!(kernel, family == "auto", "{format}: {:?}", report.refusals);
        }
    }
}
