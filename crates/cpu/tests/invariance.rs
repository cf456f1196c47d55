//! Same request, same bits: how prompts are cut, who shares a batch, what was rolled back and how a text arrived, as a
//! tree's path or one by one, changes no bit of any output.

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_gate::case::{bits, load, node_bits, options, stored, values};
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs};
use fiddlehead_plan::{Executor, Values};

/// Outputs of one node, as bits.
type NodeBits = Vec<Option<Vec<u32>>>;

/// A program's executor and inputs for a text, one row a token.
struct Text {
    program: RandomProgram,
    rows: Vec<Values>,
    length: usize,
}

impl Text {
    fn new(seed: u64, motifs: &[Motif], count: usize, length: usize) -> Text {
        let program = RandomProgram::new(seed, motifs, count).expect("a valid graph");
        let rows = inputs::<f32>(&program.graph, length, seed).expect("small").iter().map(values).collect();
        Text { program, rows, length }
    }

    fn executor(&self, threads: usize) -> Box<dyn Executor> {
        self.executor_with(threads, &[])
    }

    fn executor_with(&self, threads: usize, dispatch: &[(&str, &str)]) -> Box<dyn Executor> {
        load(&CpuDevice::new(threads), &self.program.graph, stored(&self.program), options(dispatch))
            .expect("loads")
    }

    /// The inputs of some tokens.
    fn inputs(&self, tokens: &[usize]) -> Vec<Values> {
        let pick = |(input, values): (&fiddlehead_graph::Input, &Values)| {
            if !input.per_node {
                return values.clone();
            }
            let size: usize = input.shape.iter().product();
            match values {
                Values::F32(all) => Values::F32(
                    tokens.iter().flat_map(|&token| all[token * size..(token + 1) * size].to_vec()).collect(),
                ),
                Values::Id(all) => Values::Id(
                    tokens.iter().flat_map(|&token| all[token * size..(token + 1) * size].to_vec()).collect(),
                ),
                other => panic!("random programs have no input of {:?}", other.element()),
            }
        };
        self.program.graph.inputs().iter().zip(&self.rows).map(pick).collect()
    }

    /// Feeds the tokens of `ranges`, each a chain, to a session that stands where the first begins; all outputs.
    fn feed(
        &self,
        executor: &mut dyn Executor,
        session: SessionId,
        cuts: &[usize],
        class: Class,
    ) -> Vec<NodeBits> {
        let mut found = Vec::new();
        for pair in cuts.windows(2) {
            let mut builder = ForestBuilder::new();
            let segment = builder.segment(session, pair[0]).expect("a new session");
            segment.chain(pair[1] - pair[0], class, Wanted::ALL, Wanted::ALL).expect("a chain");
            let forest = builder.build().expect("a forest");
            let tokens: Vec<usize> = (pair[0]..pair[1]).collect();
            let outputs = executor.run(0, &forest, &self.inputs(&tokens)).expect("runs");
            found.extend((0..forest.len() as u32).map(|node| node_bits(&outputs, node)));
            executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("continues");
        }
        found
    }

    fn one_by_one(&self, executor: &mut dyn Executor, session: SessionId) -> Vec<NodeBits> {
        let cuts: Vec<usize> = (0..=self.length).collect();
        self.feed(executor, session, &cuts, Class::Generated)
    }
}

const SESSION: SessionId = SessionId(1);

fn cuts_change_nothing(seed: u64, motifs: &[Motif], dispatch: &[(&str, &str)]) {
    let text = Text::new(seed, motifs, 4, 150);
    let mut reference = None;
    let cuts = [vec![0, 150], vec![0, 64, 150], vec![0, 128, 150], vec![0, 64, 128, 150]];
    for (cuts, threads) in cuts.into_iter().zip([2, 1, 2, 2]) {
        let mut executor = text.executor_with(threads, dispatch);
        executor.open(SESSION).expect("a new session");
        let found = text.feed(&mut *executor, SESSION, &cuts, Class::Prompt);
        let expected = reference.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "seed {seed}, cuts {cuts:?}, motifs {:?}", text.program.motifs);
    }
}

#[test]
fn prompts_cut_at_multiples_of_64_give_the_same_bits() {
    for seed in 0..16 {
        cuts_change_nothing(seed, Motif::ALL, &[]);
    }
    for seed in 0..8 {
        cuts_change_nothing(seed, &[Motif::DeltaRule, Motif::Window], &[("recurrence", "block")]);
    }
}

#[test]
fn a_batch_gives_each_session_the_bits_it_gets_alone() {
    for seed in 20..36 {
        let text = Text::new(seed, Motif::ALL, 4, 24);
        let mut alone = text.executor(2);
        let mut together = text.executor(2);
        let lengths = [5usize, 1, 11, 7];
        let mut expected = Vec::new();
        let mut builder = ForestBuilder::new();
        let mut tokens = Vec::new();
        let mut first = 0;
        for (name, &length) in lengths.iter().enumerate() {
            let session = SessionId(name as u64);
            let mut own = ForestBuilder::new();
            for (builder, executor) in [(&mut own, &mut alone), (&mut builder, &mut together)] {
                executor.open(session).expect("a new session");
                builder.segment(session, 0).expect("a new session");
                builder.chain(length, Class::Prompt, Wanted::ALL, Wanted::ALL).expect("a chain");
            }
            let own_tokens: Vec<usize> = (first..first + length).collect();
            let outputs =
                alone.run(0, &own.build().expect("a forest"), &text.inputs(&own_tokens)).expect("runs");
            expected.extend((0..length as u32).map(|node| node_bits(&outputs, node)));
            tokens.extend(own_tokens);
            first += length;
        }
        let forest = builder.build().expect("a forest");
        let outputs = together.run(0, &forest, &text.inputs(&tokens)).expect("runs");
        for (node, expected) in expected.iter().enumerate() {
            assert_eq!(&node_bits(&outputs, node as u32), expected, "seed {seed}, node {node}");
        }
    }
}

#[test]
fn a_tree_gives_each_path_the_bits_of_one_by_one() {
    for seed in 40..64 {
        let mut random = SplitMix::new(seed);
        let count = 10;
        let text = Text::new(seed, Motif::ALL, 4, 6 + count);
        let mut tree = text.executor(2);
        tree.open(SESSION).expect("a new session");
        let mut prefix: Vec<usize> = (0..6).collect();
        text.feed(&mut *tree, SESSION, &[0, 6], Class::Generated);
        let mut builder = ForestBuilder::new();
        builder.segment(SESSION, 6).expect("a new session");
        let parents = shapes::random_shape(&mut random, count);
        builder.tree(&parents, Class::Generated, Wanted::ALL).expect("a tree");
        let forest = builder.build().expect("a forest");
        let tokens: Vec<usize> = (6..6 + count).collect();
        let outputs = tree.run(0, &forest, &text.inputs(&tokens)).expect("runs");
        let leaves: Vec<u32> = forest.leaves().collect();
        let accepted = leaves[random.below(leaves.len())];
        for leaf in leaves {
            let path: Vec<usize> = forest.path_rows(leaf).iter().map(|&node| node as usize).collect();
            let mut single = text.executor(1);
            single.open(SESSION).expect("a new session");
            prefix.truncate(6);
            prefix.extend(path.iter().map(|node| node + 6));
            for (depth, &token) in prefix.iter().enumerate() {
                let forest = Forest::single_chain(SESSION, depth, 1).expect("a node");
                let found = single.run(0, &forest, &text.inputs(&[token])).expect("runs");
                single.commit(0, &forest.accept_all(0).expect("a node")).expect("continues");
                if let Some(node) = depth.checked_sub(6).map(|at| path[at] as u32) {
                    let expected = node_bits(&outputs, node);
                    assert_eq!(
                        node_bits(&found, 0),
                        expected,
                        "seed {seed}, node {node}, {:?}",
                        text.program.motifs
                    );
                }
            }
            if leaf == accepted {
                // What a commit of the path leaves is what feeding it left.
                tree.commit(0, &forest.accept_to(leaf).expect("a node")).expect("continues");
                let next = Forest::single_chain(SESSION, prefix.len(), 1).expect("a node");
                let found = [&mut tree, &mut single]
                    .map(|executor| bits(&executor.run(0, &next, &text.inputs(&[0])).expect("runs")));
                assert_eq!(found[0], found[1], "seed {seed}, after the commit, {:?}", text.program.motifs);
                break;
            }
        }
    }
}

#[test]
fn what_was_rolled_back_leaves_no_trace() {
    for seed in 70..86 {
        let text = Text::new(seed, Motif::ALL, 4, 20);
        let mut plain = text.executor(1);
        plain.open(SESSION).expect("a new session");
        let expected = text.one_by_one(&mut *plain, SESSION);
        let mut executor = text.executor(2);
        executor.open(SESSION).expect("a new session");
        let mut found = text.feed(&mut *executor, SESSION, &(0..=10).collect::<Vec<_>>(), Class::Generated);
        let kept = executor.snapshot(SESSION).expect("open");
        // A draft of which nothing, then a part, is accepted; then everything is undone.
        let draft = Forest::single_chain(SESSION, 10, 6).expect("a chain");
        let nonsense: Vec<usize> = (0..6).collect();
        executor.run(0, &draft, &text.inputs(&nonsense)).expect("runs");
        executor.discard(0, SESSION).expect("open");
        executor.run(0, &draft, &text.inputs(&nonsense)).expect("runs");
        executor.commit(0, &draft.accept(0, &[0, 1, 2]).expect("a path")).expect("continues");
        assert_eq!(executor.position(SESSION, 0).expect("open"), 13);
        executor.restore(SESSION, &kept).expect("of this executor");
        // Into another session too, while the first goes on.
        executor.open(SessionId(2)).expect("a new session");
        executor.restore(SessionId(2), &kept).expect("of this executor");
        let rest: Vec<usize> = (10..=20).collect();
        let other = text.feed(&mut *executor, SessionId(2), &rest, Class::Generated);
        found.extend(text.feed(&mut *executor, SESSION, &rest, Class::Generated));
        assert!(found == expected, "seed {seed}, motifs {:?}", text.program.motifs);
        assert!(found[10..] == other, "seed {seed}, in another session");
    }
}

#[test]
fn a_partly_accepted_draft_goes_on_like_its_accepted_part() {
    for seed in 90..106 {
        let text = Text::new(seed, Motif::ALL, 4, 20);
        let mut plain = text.executor(2);
        plain.open(SESSION).expect("a new session");
        let expected = text.one_by_one(&mut *plain, SESSION);
        let mut executor = text.executor(2);
        executor.open(SESSION).expect("a new session");
        let draft = Forest::single_chain(SESSION, 0, 9).expect("a chain");
        let tokens: Vec<usize> = (0..5).chain([19, 18, 17, 16]).collect();
        executor.run(0, &draft, &text.inputs(&tokens)).expect("runs");
        executor.commit(0, &draft.accept(0, &[0, 1, 2, 3, 4]).expect("a path")).expect("continues");
        let found = text.feed(&mut *executor, SESSION, &(5..=20).collect::<Vec<_>>(), Class::Generated);
        assert!(found == expected[5..], "seed {seed}, motifs {:?}", text.program.motifs);
    }
}
