//! What rides on contractions, shares launches, or is grouped by a choice, on emulated CUDA.

mod support;

use fiddlehead_cuda::build::module_text;
use fiddlehead_gate::case::options;
use fiddlehead_gate::fused::{PROGRAMS, check, graph};
use fiddlehead_plan::{Device, placeholder_weights};

#[test]
fn fused_and_grouped_work_has_the_bits_of_work_apart() {
    let Some((device, _folder)) = support::device() else { return };
    let mut failures = Vec::new();
    for program in PROGRAMS {
        if let Err(why) = check(&device, program) {
            failures.push(format!("{}: {why}", program.name));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// What the queries allow is done: launches fused and apart, and whether picks are grouped.
#[test]
fn launches_are_shared() {
    let Some((device, _folder)) = support::device() else { return };
    let mut found = Vec::new();
    for program in PROGRAMS {
        let graph = graph(program).expect("it compiles");
        let launches = |fusion: &str| {
            device.explain(&graph, &options(&[("fusion", fusion)])).expect("it lowers").steps.len()
        };
        let weights = placeholder_weights(&graph).expect("small");
        let grouped = module_text(&graph, &weights, &options(&[])).expect("it lowers").contains("listed[");
        found.push((program.name, launches("auto"), launches("off"), grouped));
    }
    // Work for different outputs is for different rows, and shares nothing.
    let wanted = [
        ("bias, activation, residual", 3, 5, false),
        ("gate and up of one activation", 2, 5, false),
        ("two activations, and the first is read by others too", 4, 6, false),
        ("another shape, a bias of another shape, a row of a history", 4, 5, false),
        ("a consumer that broadcasts, one that turns, one that transposes", 6, 7, false),
        ("an intermediate read twice, truths and whole numbers", 3, 7, false),
        ("guards", 2, 4, false),
        ("cheap and dear activations", 4, 7, false),
        ("a norm, three products, and rows that turn", 7, 10, false),
        ("chosen parts, gate and up and down", 3, 6, true),
        ("one chosen part, by the greatest of the row", 3, 5, true),
    ];
    assert_eq!(found, wanted);
}
