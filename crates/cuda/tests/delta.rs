//! The delta rule's kernels on emulated CUDA: right at odd sizes, and commits of every kind.

mod support;

use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_gate::case::{load, options};
use fiddlehead_gate::recurrence::{Form, RULES, Rule, commits, cuts, errors};
use fiddlehead_plan::{Device, Executor, LoadOptions, Numerics, Values, Weights, Workload};

const SERIAL: &[(&str, &str)] = &[];
const BLOCK: &[(&str, &str)] = &[("recurrence", "block")];

fn within(dispatch: &[(&str, &str)], bound: f64) {
    let Some((device, _folder)) = support::device() else { return };
    for rule in RULES {
        let found = errors(&device, &rule, dispatch).expect("runs");
        println!("{rule:?} {dispatch:?}: {:.1e} ({:.1e})", found.absolute, found.relative);
        assert!(found.relative < bound, "{rule:?}: {found:?}");
    }
}

#[test]
fn the_serial_form_equals_the_float64_run() {
    within(SERIAL, 1e-6);
}

#[test]
fn the_block_form_equals_the_float64_run() {
    within(BLOCK, 1e-6);
}

#[test]
fn any_accepted_path_goes_on_as_if_it_had_come_one_by_one() {
    let Some((device, _folder)) = support::device() else { return };
    let rule = Rule { form: Form::Exponent, heads: 2, groups: 1, keys: 17, values: 33 };
    for (base, count) in [(0, 9), (5, 12), (0, 1)] {
        commits(&device, &rule, SERIAL, base, count).expect("the same bits");
    }
    commits(&device, &RULES[4], SERIAL, 3, 6).expect("the same bits");
}

#[test]
fn prompts_cut_at_multiples_of_64_have_the_same_bits() {
    let Some((device, _folder)) = support::device() else { return };
    for dispatch in [SERIAL, BLOCK] {
        cuts(&device, &RULES[1], dispatch).expect("the same bits");
    }
}

/// A chain of rows of one class.
fn chain(session: SessionId, base: usize, count: usize, class: Class) -> Forest {
    let mut builder = ForestBuilder::new();
    builder.segment(session, base).expect("a session");
    builder.chain(count, class, Wanted::ALL, Wanted::ALL).expect("a chain");
    builder.build().expect("a forest")
}

const SMALL: Rule = Rule { form: Form::Bare, heads: 1, groups: 1, keys: 3, values: 2 };

/// Rows of `SMALL` whose every number is `of(row)`.
fn rows(count: usize, of: impl Fn(usize) -> f32) -> Vec<Values> {
    let spread = |size: usize| Values::F32((0..count * size).map(|at| of(at / size)).collect());
    vec![spread(3), spread(3), spread(2)]
}

fn small(device: &dyn Device, dispatch: &[(&str, &str)]) -> Box<dyn Executor> {
    let graph = SMALL.graph().expect("a graph");
    let mut executor = load(device, &graph, Weights::new(), options(dispatch)).expect("loads");
    executor.open(SessionId(0)).expect("a new session");
    executor
}

/// A generated row by itself is a plain step in either form.
#[test]
fn a_generated_row_has_the_bits_of_the_serial_form() {
    let Some((device, _folder)) = support::device() else { return };
    let found = [SERIAL, BLOCK].map(|dispatch| {
        let mut executor = small(&device, dispatch);
        (0..5)
            .map(|at| {
                let forest = chain(SessionId(0), at, 1, Class::Generated);
                let outputs = executor.run(0, &forest, &rows(1, |_| 0.3 + at as f32 * 0.1)).expect("runs");
                executor.commit(0, &forest.accept_all(0).expect("a node")).expect("continues");
                fiddlehead_gate::case::bits(&outputs)
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(found[0], found[1]);
}

/// What is no number on one branch of a tree is nowhere else.
#[test]
fn a_branch_sees_nothing_of_its_siblings() {
    let Some((device, _folder)) = support::device() else { return };
    let parents = [None, Some(0), Some(1), Some(0), Some(3)];
    for dispatch in [SERIAL, BLOCK] {
        let run = |bad: f32| {
            let mut executor = small(&device, dispatch);
            let forest = fiddlehead_forest::shapes::single_tree(SessionId(0), 0, &parents).expect("a tree");
            let given = rows(5, |node| if node == 1 { bad } else { 0.1 + node as f32 * 0.1 });
            let outputs = executor.run(0, &forest, &given).expect("runs");
            let Values::F32(values) = &outputs[0].values else { panic!("floats") };
            [&values[..2], &values[6..]].concat().iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        };
        let expected = run(0.2);
        for bad in [f32::NAN, f32::INFINITY, 1e30] {
            assert_eq!(run(bad), expected, "{dispatch:?}, {bad}");
        }
    }
}

#[test]
fn what_a_form_cannot_do_is_refused_with_the_reason() {
    let Some((device, _folder)) = support::device() else { return };
    let wide = Rule { form: Form::Plain, heads: 1, groups: 1, keys: 512, values: 2 };
    let graph = wide.graph().expect("a graph");
    let plan = device.explain(&graph, &options(BLOCK)).expect("explains");
    let reason = "the block form has no room for 512 keys in a block's shared memory";
    assert!(plan.refusals.iter().any(|(_, why)| why == reason), "{:?}", plan.refusals);
    let plan = device.explain(&graph, &options(SERIAL)).expect("explains");
    assert!(plan.steps.iter().any(|step| step.candidate == "serial"));
    let strict = LoadOptions { numerics: Numerics::Strict, ..options(BLOCK) };
    let why = device.explain(&graph, &strict).expect_err("strict").to_string();
    assert!(why.contains("which strict numerics forbid"), "{why}");
}

/// A long chain leaves one state and a little of each row, and the rows only until it is committed.
#[test]
fn a_session_does_not_keep_a_state_of_every_row() {
    let Some((device, _folder)) = support::device() else { return };
    let rule = Rule { form: Form::Bare, heads: 2, groups: 1, keys: 64, values: 32 };
    let graph = rule.graph().expect("a graph");
    let mut executor = load(&device, &graph, Weights::new(), options(SERIAL)).expect("loads");
    executor.open(SessionId(0)).expect("a new session");
    let (count, state, row) = (128, 2 * 64 * 32 * 4, 2 * (64 + 32 + 2) * 4);
    let input = |size: usize| Values::F32(vec![0.1; count * size]);
    let forest = chain(SessionId(0), 0, count, Class::Prompt);
    executor.run(0, &forest, &[input(64), input(64), input(2 * 32)]).expect("runs");
    // The pool hands out blocks of a power of two.
    let pending = executor.memory().sessions;
    assert!(pending <= 2 * state + 2 * row * count, "{pending} bytes");
    assert!(pending < state * count / 4, "{pending} bytes");
    executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("continues");
    assert_eq!(executor.memory().sessions, 2 * state);
    let model = fiddlehead_graph::ModelGraph { name: "rule".into(), steps: vec![graph] };
    let workload = Workload { steps: vec![0], rows: count };
    let estimate = device.estimate(&model, &Weights::new(), &options(SERIAL), &workload).expect("estimates");
    assert_eq!(estimate.sessions, 2 * state + row * count);
}
