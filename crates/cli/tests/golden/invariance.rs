//! Same request, same bits, on the stories model: cuts, batches, roll back, snapshots and trees change nothing.

use fiddlehead_forest::{Class, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Executor, Numerics, OutputRows, Values};

use crate::{executor, feed, feed_as, floats, folder, stories};

/// A prompt longer than three cuts, and tokens to go on with.
fn text() -> (Vec<u32>, Vec<u32>) {
    let stories = stories();
    let tokens = |place: usize| stories[place].0.iter().chain(&stories[place].1).copied();
    (tokens(0).chain(tokens(1)).take(210).collect(), tokens(2).take(12).collect())
}

fn last_row(outputs: &[OutputRows]) -> Vec<u32> {
    let rows = outputs[0].nodes.len();
    let logits = floats(&outputs[0]);
    logits[logits.len() / rows * (rows - 1)..].iter().map(|value| value.to_bits()).collect()
}

/// The bits of the logits after the prompt and after each token that follows.
fn plain(executor: &mut dyn Executor, session: SessionId, cuts: &[usize]) -> Vec<Vec<u32>> {
    let (prompt, more) = text();
    executor.open(session).expect("it opens");
    let mut start = 0;
    let mut bits = Vec::new();
    for &end in cuts.iter().chain([&prompt.len()]) {
        bits = vec![last_row(&feed(executor, session, &prompt[start..end]))];
        start = end;
    }
    for token in more {
        bits.push(last_row(&feed_as(executor, session, &[token], Class::Generated)));
    }
    bits
}

#[test]
fn cuts_at_multiples_of_64() {
    for numerics in [Numerics::F32, Numerics::Auto, Numerics::Strict] {
        let mut executor = executor(&folder("stories-11m"), numerics);
        let whole = plain(executor.as_mut(), SessionId(0), &[]);
        for (place, cuts) in [&[64][..], &[128], &[192], &[64, 128], &[64, 128, 192]].iter().enumerate() {
            let cut = plain(executor.as_mut(), SessionId(1 + place as u64), cuts);
            assert!(cut == whole, "{numerics}, cuts at {cuts:?}");
        }
    }
}

#[test]
fn roll_back_and_snapshots() {
    for numerics in [Numerics::F32, Numerics::Auto] {
        let mut executor = executor(&folder("stories-11m"), numerics);
        let whole = plain(executor.as_mut(), SessionId(0), &[]);
        let (prompt, more) = text();
        let session = SessionId(1);
        executor.open(session).expect("it opens");
        feed(executor.as_mut(), session, &prompt);
        let snapshot = executor.snapshot(session).expect("a snapshot");
        feed_as(executor.as_mut(), session, &[5, 6, 7], Class::Prompt);
        executor.restore(session, &snapshot).expect("it goes back");
        // A session of its own goes on from the same place while the first one does.
        let other = SessionId(2);
        executor.open(other).expect("it opens");
        executor.restore(other, &snapshot).expect("it goes there");
        for (place, &token) in more.iter().enumerate() {
            for session in [session, other] {
                let bits = last_row(&feed_as(executor.as_mut(), session, &[token], Class::Generated));
                assert!(bits == whole[place + 1], "{numerics}, session {session}, token {place}");
            }
        }
    }
}

#[test]
fn a_trees_accepted_path_and_a_batch() {
    for numerics in [Numerics::F32, Numerics::Auto] {
        let mut executor = executor(&folder("stories-11m"), numerics);
        let whole = plain(executor.as_mut(), SessionId(0), &[]);
        let (prompt, more) = text();
        let (session, neighbour) = (SessionId(1), SessionId(2));
        for session in [session, neighbour] {
            executor.open(session).expect("it opens");
            feed(executor.as_mut(), session, &prompt);
        }
        // Each node of the text has a wrong sibling before it; another session has a node in the same batch.
        let mut builder = ForestBuilder::new();
        builder.segment(session, prompt.len()).expect("a segment");
        let (mut tokens, mut path) = (Vec::new(), Vec::new());
        for &token in &more {
            let parent = path.last().copied();
            builder.node(parent, Class::Generated, Wanted::ALL).expect("a node");
            path.push(builder.node(parent, Class::Generated, Wanted::ALL).expect("a node"));
            tokens.extend([token + 1, token]);
        }
        builder.segment(neighbour, prompt.len()).expect("a segment");
        builder.node(None, Class::Generated, Wanted::ALL).expect("a node");
        tokens.push(more[0]);
        let forest = builder.build().expect("a forest");
        let inputs = [Values::Id(tokens), Values::I32(forest.depths().to_vec())];
        let outputs = executor.run(0, &forest, &inputs).expect("it runs");
        let width = floats(&outputs[0]).len() / forest.len();
        let row = |node: u32| -> Vec<u32> {
            floats(&outputs[0])[node as usize * width..][..width]
                .iter()
                .map(|value| value.to_bits())
                .collect()
        };
        for (place, &node) in path.iter().enumerate() {
            assert!(row(node) == whole[place + 1], "{numerics}, token {place} in the tree");
        }
        assert!(row(forest.len() as u32 - 1) == whole[1], "{numerics}, the neighbour");
        // Half of the path is kept; the rest follows one by one.
        let kept = more.len() / 2;
        executor.commit(0, &forest.accept(0, &path[..kept]).expect("a path")).expect("it commits");
        for (place, &token) in more.iter().enumerate().skip(kept) {
            let bits = last_row(&feed_as(executor.as_mut(), session, &[token], Class::Generated));
            assert!(bits == whole[place + 1], "{numerics}, token {place} after the tree");
        }
    }
}
