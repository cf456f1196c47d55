//! Tokens chosen on a device: the same as the host's from the same logits, to the last of them.

use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::builder::GraphBuilder;
use fiddlehead_graph::{Compute, Element, Expr, Graph, Input, Origin, Permissions, Range};
use fiddlehead_plan::sampling::{Chooser, PathCounts, Sampling, TokenChoice};
use fiddlehead_plan::{Device, LoadOptions, Values, Weights};

use crate::case::load;

/// A step whose logits are its input.
///
/// # Errors
/// Never.
pub fn program(vocabulary: usize) -> Result<Graph, String> {
    let mut builder = GraphBuilder::new("main");
    let shape = vec![vocabulary];
    let row = builder.input(Input { name: "row".into(), shape, element: Element::F32, per_node: true });
    let logits = Compute {
        axes: vec![Range::Fixed(vocabulary)],
        fold: None,
        guard: None,
        body: Expr::load(row, vec![Expr::Axis(0)]),
        permissions: Permissions::default(),
    };
    let logits = builder.compute(logits, Element::F32, Origin { name: "logits".into(), span: None });
    builder.output("logits", logits);
    builder.seal().map_err(|error| error.to_string())
}

/// Rows of every kind: like a model's, with many ties, all alike, with tokens ruled out, of great and of tiny magnitude,
/// with both zeros, and rows from which nothing can be chosen.
pub fn rows(random: &mut SplitMix, vocabulary: usize) -> Vec<Vec<f32>> {
    let mut row = |value: &dyn Fn(&mut SplitMix) -> f32| -> Vec<f32> {
        (0..vocabulary).map(|_| value(random)).collect()
    };
    let usual = |random: &mut SplitMix| (0..4).map(|_| 6.0 * random.signed_unit()).sum::<f32>();
    let mut rows = vec![
        row(&usual),
        row(&|random| (3.0 * random.signed_unit()).floor() / 2.0),
        row(&|_| 1.5),
        row(&|random| if random.one_in(3) { f32::NEG_INFINITY } else { usual(random) }),
        row(&|random| usual(random) * 1e37),
        row(&|random| usual(random) * 1e-41),
        row(&|random| if random.one_in(2) { 0.0 } else { -0.0 }),
        row(&|_| f32::NEG_INFINITY),
    ];
    for bad in [f32::NAN, f32::INFINITY] {
        let mut broken = row(&usual);
        broken[vocabulary / 2] = bad;
        broken[vocabulary - 1] = bad;
        rows.push(broken);
    }
    rows
}

/// Parameters at their edges and between.
pub fn parameters() -> Vec<Sampling> {
    let plain = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    vec![
        Sampling::GREEDY,
        plain,
        Sampling { temperature: 0.7, min_p: 0.05, ..plain },
        Sampling { top_k: 1, ..plain },
        Sampling { top_k: 20, top_p: 0.8, ..plain },
        Sampling { top_k: 700, temperature: 1.3, ..plain },
        Sampling { top_p: 0.9, ..plain },
        Sampling { top_p: 1e-6, temperature: 2.0, ..plain },
        Sampling { top_k: 50, top_p: 0.95, min_p: 0.02, temperature: 0.6, ..plain },
        Sampling { min_p: 1.0, ..plain },
        Sampling { temperature: 1e-30, top_p: 0.5, ..plain },
        Sampling { temperature: 100.0, top_p: 0.999_999_9, ..plain },
        Sampling { repetition_penalty: 1.3, presence_penalty: 0.5, frequency_penalty: 0.25, ..plain },
        Sampling { repetition_penalty: 1e-3, ..Sampling::GREEDY },
        Sampling { frequency_penalty: -2.0, top_k: 9, ..plain },
    ]
}

/// Lets a device choose from rows with each of the parameters, and compares.
///
/// # Errors
/// The first token that differs, or whatever stops the device.
pub fn check(
    device: &dyn Device,
    seed: u64,
    vocabulary: usize,
    parameters: &[Sampling],
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let mut random = SplitMix::new(seed);
    let rows = rows(&mut random, vocabulary);
    let graph = program(vocabulary)?;
    let mut executor =
        load(device, &graph, Weights::new(), LoadOptions::default()).map_err(|error| words(&error))?;
    let session = SessionId(0);
    executor.open(session).map_err(|error| words(&error))?;
    let mut chooser = Chooser::default();
    // Tokens that the model does not know are no reason to fail.
    let mut token = || random.below(vocabulary + 2) as u32;
    let mut path = PathCounts::of_prompt(&(0..40).map(|_| token()).collect::<Vec<_>>());
    (0..40).for_each(|_| path.push(token()));
    for (place, &sampling) in parameters.iter().enumerate() {
        // Parameters of one batch differ: each row has those of another place.
        let sampling =
            |row: usize| if row % 3 == 2 { parameters[(place + row) % parameters.len()] } else { sampling };
        let choice = |row: usize| TokenChoice {
            sampling: sampling(row),
            seed: seed.wrapping_mul(7),
            answer: row as u32 % 2,
            position: place * 100 + row,
            path: &path,
        };
        let choices: Vec<TokenChoice<'_>> = (0..rows.len()).map(choice).collect();
        let forest = Forest::single_chain(session, 0, rows.len()).map_err(|error| words(&error))?;
        let found = executor
            .run_and_choose(0, &forest, &[Values::F32(rows.concat())], 0, &choices)
            .map_err(|error| words(&error))?;
        if found.len() != rows.len() {
            return Err(format!("{} tokens for {} rows", found.len(), rows.len()));
        }
        for ((row, choice), found) in rows.iter().zip(&choices).zip(&found) {
            let wanted = chooser.choose(row, choice);
            // As text, since a NaN is not equal to itself.
            if format!("{wanted:?}") != format!("{found:?}") {
                let (sampling, row) = (choice.sampling, choice.position % 100);
                return Err(format!(
                    "vocabulary {vocabulary}, row {row}, {sampling:?}: {found:?} instead of {wanted:?}"
                ));
            }
        }
    }
    Ok(())
}
