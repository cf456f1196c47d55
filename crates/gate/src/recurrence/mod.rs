//! The delta rule at real magnitudes: unit keys of which some repeat exactly, decays of a softplus, a stored state. Against
//! a float64 run over each path, and against itself after commits of every kind.

mod rule;

use std::collections::BTreeMap;

use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Device, Executor, OutputRows, PlanReport, Values, Weights};

use crate::case::{load, node_bits, options};
use rule::{FIRST, Inputs, step};
pub use rule::{Form, RULES, Rule};

/// How far a device was from the float64 run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Errors {
    /// The greatest difference.
    pub absolute: f64,
    /// The greatest difference over the greatest magnitude of its run.
    pub relative: f64,
}

/// Whether a plan has the kernel that was asked for.
fn serves(plan: &PlanReport, dispatch: &[(&str, &str)]) -> bool {
    let wanted =
        dispatch.iter().find(|(family, _)| *family == "recurrence").map_or("serial", |&(_, name)| name);
    plan.steps.iter().any(|step| step.family == "recurrence" && step.candidate == wanted)
}

/// Whether a device's kernels serve a rule.
///
/// # Errors
/// Whatever stops it.
pub fn served(device: &dyn Device, rule: &Rule, dispatch: &[(&str, &str)]) -> Result<bool, String> {
    let plan = device.explain(&rule.graph()?, &options(dispatch)).map_err(words)?;
    Ok(serves(&plan, dispatch))
}

/// A rule on a device, and in f64.
struct Pair {
    rule: Rule,
    executor: Box<dyn Executor>,
    random: SplitMix,
    /// By session: nodes committed, and the state.
    states: BTreeMap<SessionId, (usize, Vec<f64>)>,
    errors: Errors,
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Pair {
    fn new(device: &dyn Device, rule: &Rule, dispatch: &[(&str, &str)]) -> Result<Pair, String> {
        let graph = rule.graph()?;
        let executor = load(device, &graph, Weights::new(), options(dispatch)).map_err(words)?;
        let plan = executor.explain(0).map_err(words)?;
        if !serves(&plan, dispatch) {
            return Err(format!("no kernel serves it: {:?}", plan.refusals));
        }
        let random = SplitMix::new((rule.keys * 1000 + rule.values) as u64);
        Ok(Pair { rule: *rule, executor, random, states: BTreeMap::new(), errors: Errors::default() })
    }

    fn open(&mut self, name: u64) -> Result<SessionId, String> {
        let session = SessionId(name);
        self.executor.open(session).map_err(words)?;
        let size = self.rule.heads * self.rule.keys * self.rule.values;
        self.states.insert(session, (0, vec![FIRST; size]));
        Ok(session)
    }

    /// Runs a forest of fresh inputs on both, and commits a path of each segment: all of a chain, or any.
    fn run(&mut self, forest: &Forest, whole: bool) -> Result<(), String> {
        let inputs = Inputs::new(&self.rule, &mut self.random, forest.len());
        let found = self.executor.run(0, forest, &inputs.values(&self.rule)).map_err(words)?;
        let mut states: Vec<Vec<f64>> = Vec::new();
        let (mut worst, mut scale) = (0.0f64, 0.0f64);
        for node in 0..forest.len() {
            let mut state = match forest.parent(node as u32) {
                Some(parent) => states[parent as usize].clone(),
                None => self.states[&forest.segment_of(node as u32).session()].1.clone(),
            };
            for (output, expected) in found.iter().zip(step(&self.rule, &inputs, node, &mut state)) {
                let Values::F32(values) = &output.values else { return Err("outputs are no floats".into()) };
                for (found, expected) in values[node * expected.len()..].iter().zip(&expected) {
                    let difference = (*found as f64 - expected).abs();
                    if difference.is_nan() {
                        return Err(format!("node {node}: {found} instead of {expected}"));
                    }
                    (worst, scale) = (worst.max(difference), scale.max(expected.abs()));
                }
            }
            states.push(state);
        }
        self.errors.absolute = self.errors.absolute.max(worst);
        self.errors.relative = self.errors.relative.max(worst / scale);
        for (index, segment) in forest.segments().iter().enumerate() {
            let range = segment.range();
            let last = if whole { range.end - 1 } else { range.start + self.random.below(range.len()) };
            let path = forest.path_rows(last as u32);
            let accepted = forest.accept(index, &path).map_err(words)?;
            self.executor.commit(0, &accepted).map_err(words)?;
            if let Some(&last) = path.last() {
                let position = segment.base() + path.len();
                self.states.insert(segment.session(), (position, states[last as usize].clone()));
            }
        }
        Ok(())
    }
}

/// Chains of prompts and of drafts, stars, combs and random trees, all sessions at once, from fresh and from stored states;
/// paths of them are committed, and everything goes on. Gives the greatest differences from the float64 run.
///
/// # Errors
/// Whatever stops it, a number that is none, or a rule that the named kernel does not serve.
pub fn errors(device: &dyn Device, rule: &Rule, dispatch: &[(&str, &str)]) -> Result<Errors, String> {
    let mut pair = Pair::new(device, rule, dispatch)?;
    let lengths = [200, 1, 15, 16, 17, 33, 64, 65, 97];
    let mut builder = ForestBuilder::new();
    for (name, &length) in lengths.iter().enumerate() {
        let session = pair.open(name as u64)?;
        builder.segment(session, 0).map_err(words)?;
        builder.chain(length, Class::Prompt, Wanted::ALL, Wanted::ALL).map_err(words)?;
    }
    pair.run(&builder.build().map_err(words)?, true)?;
    let fresh = pair.open(lengths.len() as u64)?;
    for round in 0..3 {
        let mut builder = ForestBuilder::new();
        let sessions: Vec<(SessionId, usize)> =
            pair.states.iter().map(|(session, (position, _))| (*session, *position)).collect();
        for (place, (session, base)) in sessions.into_iter().enumerate() {
            builder.segment(session, base).map_err(words)?;
            let tree = match (place + round) % 10 {
                _ if session == fresh && round == 0 => Some(shapes::random_tree(&mut pair.random, 40)),
                0 => Some(shapes::random_tree(&mut pair.random, 64)),
                1 => Some(shapes::comb(31)),
                2 => Some(shapes::star(17)),
                3 => Some(shapes::random_tree(&mut pair.random, 70)),
                4 => Some(shapes::comb(9)),
                _ => None,
            };
            match tree {
                Some(parents) => {
                    let first = builder.len() as u32;
                    for parent in parents {
                        let parent = parent.map(|parent| first + parent);
                        builder.node(parent, Class::Generated, Wanted::ALL).map_err(words)?;
                    }
                }
                None => {
                    let (count, class) = match (place + round) % 10 {
                        5 => (1, Class::Generated),
                        6 => (5, Class::Generated),
                        7 => (70, Class::Generated),
                        8 => (40, Class::Prompt),
                        _ => (1, Class::Prompt),
                    };
                    builder.chain(count, class, Wanted::ALL, Wanted::ALL).map_err(words)?;
                }
            }
        }
        pair.run(&builder.build().map_err(words)?, false)?;
    }
    Ok(pair.errors)
}

/// What of a segment is committed leaves no trace of the rest: prefixes of a chain of `count` drafts and every path of a
/// comb, after `base` nodes; the nodes that follow have the bits of a run one by one. A part of what was pending is also
/// undone with a snapshot on the way.
///
/// # Errors
/// The first difference, or whatever stops it.
pub fn commits(
    device: &dyn Device,
    rule: &Rule,
    dispatch: &[(&str, &str)],
    base: usize,
    count: usize,
) -> Result<(), String> {
    let mut pair = Pair::new(device, rule, dispatch)?;
    let inputs = Inputs::new(rule, &mut pair.random, base + count + 2);
    let before: Vec<usize> = (0..base).collect();
    let after = [base + count, base + count + 1];
    let comb = shapes::comb(count);
    let mut name = 0;
    for (shape, parents) in [("chain", shapes::chain(count)), ("comb", comb)] {
        for last in 0..=count {
            let session = pair.open(name)?;
            let plain = pair.open(name + 1)?;
            name += 2;
            let mut run = |session: SessionId, at: usize, nodes: &[usize], forest: Forest, path: &[u32]| {
                let given = inputs.pick(nodes).values(rule);
                let outputs = pair.executor.run(0, &forest, &given).map_err(words)?;
                if at == base && nodes.len() == count && count > 1 {
                    // Another segment between takes nothing away, nor does a run that comes to nothing.
                    let kept = pair.executor.snapshot(session).map_err(words)?;
                    pair.executor.discard(0, session).map_err(words)?;
                    pair.executor.restore(session, &kept).map_err(words)?;
                    pair.executor.run(0, &forest, &given).map_err(words)?;
                }
                let accepted = forest.accept(0, path).map_err(words)?;
                pair.executor.commit(0, &accepted).map_err(words)?;
                Ok::<Vec<OutputRows>, String>(outputs)
            };
            let chain = |session, at, count| Forest::single_chain(session, at, count).map_err(words);
            if base > 0 {
                let path: Vec<u32> = (0..base as u32).collect();
                run(session, 0, &before, chain(session, 0, base)?, &path)?;
            }
            let pending: Vec<usize> = (base..base + count).collect();
            let forest = shapes::single_tree(session, base, &parents).map_err(words)?;
            let path = if last == 0 { vec![] } else { forest.path_rows(last as u32 - 1) };
            run(session, base, &pending, forest, &path)?;
            let taken: Vec<usize> = path.iter().map(|&node| base + node as usize).collect();
            for (at, &node) in before.iter().chain(&taken).enumerate() {
                run(plain, at, &[node], chain(plain, at, 1)?, &[0])?;
            }
            let at = base + path.len();
            let found = run(session, at, &after, chain(session, at, 2)?, &[0, 1])?;
            for (index, &node) in after.iter().enumerate() {
                let expected = run(plain, at + index, &[node], chain(plain, at + index, 1)?, &[0])?;
                if node_bits(&found, index as u32) != node_bits(&expected, 0) {
                    return Err(format!(
                        "{shape} of {count} after {base}, committed up to node {last}: node {index} after it has other \
                         bits than one by one"
                    ));
                }
            }
            for session in [session, plain] {
                pair.executor.close(session).map_err(words)?;
            }
        }
    }
    Ok(())
}

/// A prompt cut at multiples of 64 has the same bits, alone and beside others.
///
/// # Errors
/// The first difference, or whatever stops it.
pub fn cuts(device: &dyn Device, rule: &Rule, dispatch: &[(&str, &str)]) -> Result<(), String> {
    let mut pair = Pair::new(device, rule, dispatch)?;
    let length = 150;
    let inputs = Inputs::new(rule, &mut pair.random, length);
    let mut expected = None;
    for (name, cuts) in [vec![0, length], vec![0, 64, length], vec![0, 128, length]].into_iter().enumerate() {
        let session = pair.open(name as u64)?;
        let mut found = Vec::new();
        for pair_of in cuts.windows(2) {
            let nodes: Vec<usize> = (pair_of[0]..pair_of[1]).collect();
            let mut builder = ForestBuilder::new();
            builder.segment(session, pair_of[0]).map_err(words)?;
            builder.chain(nodes.len(), Class::Prompt, Wanted::ALL, Wanted::ALL).map_err(words)?;
            let forest = builder.build().map_err(words)?;
            let outputs = pair.executor.run(0, &forest, &inputs.pick(&nodes).values(rule)).map_err(words)?;
            found.extend((0..nodes.len() as u32).map(|node| node_bits(&outputs, node)));
            pair.executor.commit(0, &forest.accept_all(0).map_err(words)?).map_err(words)?;
        }
        if *expected.get_or_insert_with(|| found.clone()) != found {
            return Err(format!("a prompt cut at {cuts:?} has other bits"));
        }
    }
    Ok(())
}
