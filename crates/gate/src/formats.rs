//! Weights in every storage format: looked up, and multiplied, as their values say.

use std::sync::Arc;

use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_graph::Graph;
use fiddlehead_oracle::{Array, Oracle, OracleSessions, Weight};
use fiddlehead_plan::{Device, Values, Weights};
use fiddlehead_storage::{Format, Tensor};

use crate::case::{load, options};
use crate::step::step;

const WIDTH: usize = 512;
const ROWS: usize = 9;
const OUTPUTS: usize = 21;

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A row of a table, through a matrix.
fn graph() -> Result<Graph, String> {
    let text = "step fn main[V, N, D](token: id, table: f32[V, D], matrix: f32[N, D]) -> f32[N] {
        let x = table[token];
        let scale = max[d in D] abs(x[d]);
        let y = each[d in D] x[d] / (1.0 + scale);
        each[n in N] sum[d in D] matrix[n, d] * y[d]
    }";
    step(text, &[("V", ROWS), ("N", OUTPUTS), ("D", WIDTH)], &["token"])
}

fn tensor(format: Format, rows: usize, seed: usize) -> Result<Tensor, String> {
    let bytes = format.bytes_for_shape(&[rows, WIDTH]).map_err(words)?;
    let bytes: Vec<u8> = match format {
        // Any bytes are numbers in the other formats, of small scales when no byte is large.
        Format::F32 => (0..bytes / 4).flat_map(|at| ((at * 7 % 13) as f32 - 6.0).to_le_bytes()).collect(),
        _ => (0..bytes).map(|index| ((index + seed) * 37 % 56) as u8).collect(),
    };
    Tensor::new(format, vec![rows, WIDTH], bytes.into()).map_err(words)
}

/// The program of the check with weights in a format.
///
/// # Errors
/// Never for a format whose blocks divide 512.
pub fn program(format: Format) -> Result<(Graph, Weights), String> {
    let weights = [("table", tensor(format, ROWS, 1)?), ("matrix", tensor(format, OUTPUTS, 5)?)];
    Ok((graph()?, weights.map(|(name, tensor)| (name.to_string(), tensor)).into()))
}

/// Compares a device with the oracle on weights of a format, for one row and for `nodes`.
///
/// # Errors
/// The first difference, or whatever stops either.
pub fn check(
    device: &dyn Device,
    format: Format,
    nodes: usize,
    dispatch: &[(&str, &str)],
) -> Result<(), String> {
    let (graph, weights) = program(format)?;
    let values =
        |tensor: &Tensor| tensor.to_f32().map(|values| Weight::Float(Arc::from(values))).map_err(words);
    let known = weights
        .iter()
        .map(|(name, tensor)| Ok((name.clone(), values(tensor)?)))
        .collect::<Result<_, String>>()?;
    let oracle = Oracle::<f64>::new(&graph, &known).map_err(words)?;
    let mut executor = load(device, &graph, weights, options(dispatch)).map_err(words)?;
    for (session, count) in [(SessionId(0), 1), (SessionId(1), nodes)] {
        let tokens: Vec<u32> = (0..count).map(|node| (node * 5 % ROWS) as u32).collect();
        let forest = Forest::single_chain(session, 0, tokens.len()).map_err(words)?;
        let mut sessions = OracleSessions::default();
        sessions.insert(session, oracle.session());
        let expected = oracle.run(&forest, &[Array::ids(&tokens)], &sessions).map_err(words)?;
        executor.open(session).map_err(words)?;
        let found = executor.run(0, &forest, &[Values::Id(tokens)]).map_err(words)?;
        let found = found[0].values.as_f32().ok_or("the output is no float")?;
        for node in 0..count {
            let expected = expected.output(node, 0).ok_or("the oracle has no such row")?.to_f64s();
            let scale = expected.iter().fold(1e-30, |most: f64, value| most.max(value.abs()));
            for (found, expected) in found[node * OUTPUTS..].iter().zip(&expected) {
                let error = (*found as f64 - expected).abs();
                if error.is_nan() || error > 1e-4 * scale {
                    return Err(format!("{format}, node {node} of {count}: {found} instead of {expected}"));
                }
            }
        }
    }
    Ok(())
}
