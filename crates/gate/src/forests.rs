//! Random programs over random forests: a device gives what the oracle gives.

use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_oracle::random::Motif;
use fiddlehead_plan::{Device, Values};

use crate::case::{Case, bits, node_bits, random_path, values};

/// Feeds a few sessions, runs random forests over them, commits random paths, and runs on.
///
/// # Errors
/// The first difference from the oracle, or whatever stops either.
pub fn check(
    device: &dyn Device,
    seed: u64,
    motifs: &[Motif],
    count: usize,
    dispatch: &[(&str, &str)],
) -> Result<(), String> {
    let mut random = SplitMix::new(seed);
    let mut case = Case::new(device, seed, motifs, count, dispatch)?;
    let sessions = 1 + random.below(4) as u64;
    for name in 0..sessions {
        case.feed(SessionId(name), [0, 3, 9, 70][random.below(4)])?;
    }
    for _ in 0..3 {
        let bases: Vec<(SessionId, usize)> =
            (0..sessions).map(|name| (SessionId(name), case.sessions[&SessionId(name)].position)).collect();
        let forest = shapes::random_forest(&mut random, &bases, 9).map_err(|error| error.to_string())?;
        let run = case.run(&forest)?;
        for segment in 0..forest.segments().len() {
            let accepted = random_path(&mut random, &forest, segment).map_err(|error| error.to_string())?;
            case.commit(&run, &accepted)?;
        }
    }
    Ok(())
}

/// Runs the same random programs over the same forests on two devices, or one device used in two ways: the bits are the
/// same.
///
/// # Errors
/// The first difference, or whatever stops either.
pub fn same_bits(
    one: &dyn Device,
    other: &dyn Device,
    seed: u64,
    motifs: &[Motif],
    count: usize,
) -> Result<(), String> {
    let mut cases = [Case::new(one, seed, motifs, count, &[])?, Case::new(other, seed, motifs, count, &[])?];
    let session = SessionId(0);
    cases.iter_mut().try_for_each(|case| case.open(session))?;
    // One regime comes several times, so that a device that records what it does replays it.
    for round in 0..5 {
        let forest = Forest::single_chain(session, round * 3, 3).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for case in &mut cases {
            let inputs: Vec<_> = case.inputs(forest.len())?.iter().map(values).collect();
            let outputs = case.executor.run(0, &forest, &inputs).map_err(|error| error.to_string())?;
            found.push(bits(&outputs));
            let accepted = forest.accept_all(0).map_err(|error| error.to_string())?;
            case.executor.commit(0, &accepted).map_err(|error| error.to_string())?;
        }
        if found[0] != found[1] {
            return Err(format!("round {round}: other bits"));
        }
    }
    Ok(())
}

/// A prompt cut at multiples of 64, and sessions together: the bits are those of each alone and whole.
///
/// # Errors
/// The first difference, or whatever stops it.
pub fn invariance(device: &dyn Device, seed: u64, motifs: &[Motif], count: usize) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let mut case = Case::new(device, seed, motifs, count, &[])?;
    let length = 150;
    let inputs: Vec<Values> = case.inputs(length)?.iter().map(values).collect();
    let part = |range: std::ops::Range<usize>| -> Vec<Values> {
        let per_node = case.program.graph.inputs().iter().map(|input| input.per_node);
        let cut = |(values, per_node): (&Values, bool)| {
            if per_node { rows(values, length, range.clone()) } else { values.clone() }
        };
        inputs.iter().zip(per_node).map(cut).collect()
    };
    let mut found = Vec::new();
    for (session, cuts) in [
        (SessionId(0), vec![0, length]),
        (SessionId(1), vec![0, 64, 128, length]),
        (SessionId(2), vec![0, 128, length]),
    ] {
        case.executor.open(session).map_err(|error| words(&error))?;
        let mut last = Vec::new();
        for cut in cuts.windows(2) {
            let forest =
                Forest::single_chain(session, cut[0], cut[1] - cut[0]).map_err(|error| words(&error))?;
            let outputs =
                case.executor.run(0, &forest, &part(cut[0]..cut[1])).map_err(|error| words(&error))?;
            case.executor
                .commit(0, &forest.accept_all(0).map_err(|error| words(&error))?)
                .map_err(|error| words(&error))?;
            last = node_bits(&outputs, forest.len() as u32 - 1);
        }
        found.push(last);
    }
    if found.iter().any(|bits| *bits != found[0]) {
        return Err("a prompt cut elsewhere has other bits".into());
    }
    // All three go on together and apart.
    let step = |session: u64| (SessionId(session), length);
    let next: Vec<Values> = part(0..1);
    let mut builder = ForestBuilder::new();
    for session in 0..3 {
        let (id, base) = step(session);
        builder
            .segment(id, base)
            .and_then(|builder| builder.chain(1, Class::Generated, Wanted::ALL, Wanted::ALL))
            .map_err(|error| words(&error))?;
    }
    let together = builder.build().map_err(|error| words(&error))?;
    let tripled: Vec<Values> = {
        let per_node = case.program.graph.inputs().iter().map(|input| input.per_node);
        next.iter()
            .zip(per_node)
            .map(|(values, per_node)| if per_node { repeat(values, 3) } else { values.clone() })
            .collect()
    };
    let all = case.executor.run(0, &together, &tripled).map_err(|error| words(&error))?;
    let mut builder = ForestBuilder::new();
    builder
        .segment(SessionId(0), length)
        .and_then(|builder| builder.chain(1, Class::Generated, Wanted::ALL, Wanted::ALL))
        .map_err(|error| words(&error))?;
    let alone = builder.build().map_err(|error| words(&error))?;
    let one = case.executor.run(0, &alone, &next).map_err(|error| words(&error))?;
    for node in 0..3 {
        if node_bits(&all, node) != node_bits(&one, 0) {
            return Err(format!("session {node} has other bits in a batch than alone"));
        }
    }
    Ok(())
}

/// Some rows of values that have so many.
fn rows(values: &Values, count: usize, range: std::ops::Range<usize>) -> Values {
    let size = values.len() / count.max(1);
    let range = range.start * size..range.end * size;
    match values {
        Values::F32(values) => Values::F32(values[range].to_vec()),
        Values::I32(values) => Values::I32(values[range].to_vec()),
        Values::Bool(values) => Values::Bool(values[range].to_vec()),
        Values::Id(values) => Values::Id(values[range].to_vec()),
    }
}

fn repeat(values: &Values, times: usize) -> Values {
    match values {
        Values::F32(values) => Values::F32(values.repeat(times)),
        Values::I32(values) => Values::I32(values.repeat(times)),
        Values::Bool(values) => Values::Bool(values.repeat(times)),
        Values::Id(values) => Values::Id(values.repeat(times)),
    }
}
