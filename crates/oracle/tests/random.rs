//! Random programs over random forests: what must hold of the oracle itself.

use fiddlehead_forest::shapes::{self, SplitMix};
use fiddlehead_forest::{Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_oracle::random::{Motif, RandomProgram, inputs, session};
use fiddlehead_oracle::{Array, Data, Oracle, OracleSessions, Real, Run};
use proptest::prelude::*;

/// One to four sessions, each fresh or with stored values, and a forest over them.
fn batch(program: &RandomProgram, seed: u64, most: usize) -> (Forest, OracleSessions<f32>) {
    let mut random = SplitMix::new(seed);
    let mut sessions = OracleSessions::new();
    let mut bases = Vec::new();
    for name in 0..1 + random.below(4) as u64 {
        let base = [0, 3, 9][random.below(3)];
        let stored = session(&program.graph, base, seed + name).expect("small");
        sessions.insert(SessionId(name), stored);
        bases.push((SessionId(name), base));
    }
    (shapes::random_forest(&mut random, &bases, most).expect("a valid forest"), sessions)
}

/// Row `row` of every per-node input, as a batch of one.
fn single(program: &RandomProgram, given: &[Array<f32>], rows: usize, row: usize) -> Vec<Array<f32>> {
    let pick = |(input, array): (&fiddlehead_graph::Input, &Array<f32>)| {
        if !input.per_node {
            return array.clone();
        }
        let size = array.data().len() / rows;
        let range = row * size..(row + 1) * size;
        let data = match array.data() {
            Data::Float(values) => Data::Float(values[range].to_vec()),
            Data::Id(values) => Data::Id(values[range].to_vec()),
            other => panic!("random programs have no input of {:?}", other.element()),
        };
        let mut shape = array.shape();
        shape[0] = 1;
        Array::new(&shape, data).expect("one row")
    };
    program.graph.inputs().iter().zip(given).map(pick).collect()
}

fn widened(sessions: &OracleSessions<f32>) -> OracleSessions<f64> {
    sessions.iter().map(|(name, session)| (*name, session.converted())).collect()
}

fn greatest_difference<A: Real, B: Real>(a: &Run<A>, b: &Run<B>) -> f64 {
    let mut greatest: f64 = 0.0;
    for (a, b) in a.nodes.iter().zip(&b.nodes) {
        let values = |x: &Array<A>, y: &Array<B>| -> f64 {
            let pairs = x.to_f64s().into_iter().zip(y.to_f64s());
            let differences = pairs.map(|(x, y)| match (x - y).abs() / (1.0 + x.abs()) {
                _ if x == y || (x.is_nan() && y.is_nan()) => 0.0,
                difference if difference.is_nan() => f64::INFINITY,
                difference => difference,
            });
            differences.fold(0.0, f64::max)
        };
        let outputs = a.outputs.iter().zip(&b.outputs);
        let outputs = outputs.filter_map(|(x, y)| Some((x.as_deref()?, y.as_deref()?)));
        let states = a.states.iter().zip(&b.states).map(|(x, y)| (&**x, &**y));
        for (x, y) in outputs.chain(states) {
            greatest = greatest.max(values(x, y));
        }
    }
    greatest
}

#[test]
fn every_motif_makes_valid_programs_that_f32_and_f64_agree_on() {
    for &motif in Motif::ALL {
        for seed in 0..24 {
            let program = RandomProgram::new(seed, &[motif], 1).expect("a valid graph");
            let (forest, sessions) = batch(&program, seed, 6);
            let given = inputs::<f32>(&program.graph, forest.len(), seed).expect("small");
            let literal = Oracle::<f32>::new(&program.graph, &program.weights).expect("resolves");
            let literal = literal.run(&forest, &given, &sessions).expect("no trap");
            let wide: Vec<Array<f64>> = given.iter().map(Array::converted).collect();
            let reference = Oracle::<f64>::new(&program.graph, &program.weights).expect("resolves");
            let reference = reference.run(&forest, &wide, &widened(&sessions)).expect("no trap");
            let difference = greatest_difference(&literal, &reference);
            assert!(difference < 1e-4, "{motif:?}, seed {seed}: {difference}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 60, ..ProptestConfig::default() })]

    /// A node of a forest is what feeding its path token by token to its session alone gives, to the bit.
    #[test]
    fn a_forest_is_its_paths_fed_one_by_one(seed: u64) {
        let program = RandomProgram::new(seed, Motif::ALL, 4).expect("a valid graph");
        let (forest, sessions) = batch(&program, seed, 8);
        let given = inputs::<f32>(&program.graph, forest.len(), seed).expect("small");
        let oracle = Oracle::<f32>::new(&program.graph, &program.weights).expect("resolves");
        let run = oracle.run(&forest, &given, &sessions).expect("no trap");
        for leaf in forest.leaves() {
            let name = forest.segment_of(leaf).session();
            let mut alone = OracleSessions::from([(name, sessions[&name].clone())]);
            for node in forest.path_rows(leaf) {
                let step = Forest::single_chain(name, alone[&name].position, 1).expect("a node");
                let own = single(&program, &given, forest.len(), node as usize);
                let result = oracle.run(&step, &own, &alone).expect("no trap");
                for (output, value) in run.nodes[node as usize].outputs.iter().enumerate() {
                    if let Some(value) = value {
                        prop_assert_eq!(result.output(0, output), Some(&**value));
                    }
                }
                let session = alone.get_mut(&name).expect("there");
                result.commit(&step.accept_all(0).expect("a chain"), session).expect("continues");
            }
            let mut committed = sessions[&name].clone();
            run.commit(&forest.accept_to(leaf).expect("a node"), &mut committed).expect("continues");
            prop_assert_eq!(&committed, &alone[&name]);
        }
    }

    /// Only wanted outputs are computed, and wanting changes nothing else.
    #[test]
    fn wanting_less_changes_nothing_else(seed: u64) {
        let program = RandomProgram::new(seed, Motif::ALL, 3).expect("a valid graph");
        let (forest, sessions) = batch(&program, seed, 5);
        let given = inputs::<f32>(&program.graph, forest.len(), seed).expect("small");
        let oracle = Oracle::<f32>::new(&program.graph, &program.weights).expect("resolves");
        let run = oracle.run(&forest, &given, &sessions).expect("no trap");
        let mut builder = ForestBuilder::new();
        for segment in forest.segments() {
            builder.segment(segment.session(), segment.base()).expect("a new session");
            for node in segment.range() {
                let class = forest.classes()[node];
                builder.node(forest.parent(node as u32), class, Wanted::ALL).expect("the same order");
            }
        }
        let all = oracle.run(&builder.build().expect("the same"), &given, &sessions).expect("no trap");
        for (node, (some, all)) in run.nodes.iter().zip(&all.nodes).enumerate() {
            prop_assert_eq!((&some.states, &some.rows), (&all.states, &all.rows));
            for (output, value) in some.outputs.iter().enumerate() {
                let wanted = forest.wanted()[node].contains(output);
                prop_assert_eq!(value.as_ref(), all.outputs[output].as_ref().filter(|_| wanted));
            }
        }
    }
}
