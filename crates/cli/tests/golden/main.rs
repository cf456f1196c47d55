//! The whole system on real and on tiny checkpoints, against what other implementations computed: files, mapping,
//! program, graph, plan and kernels together.

mod emulated;
mod forced;
mod greedy;
mod invariance;
mod logits;
mod sampled;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fiddlehead_checkpoint::Checkpoint;
use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_engine::Prepared;
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Device, Executor, LoadOptions, Numerics, OutputRows, Values};

/// A folder of `models/`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name)
}

/// The folder of fixtures that are not tracked, where it is given.
pub fn fixtures() -> Option<PathBuf> {
    std::env::var_os("FIDDLEHEAD_TEST_FIXTURES").map(PathBuf::from)
}

/// A checkpoint's graphs and weights.
pub fn prepare(folder: &Path) -> Prepared {
    Prepared::new(&Checkpoint::open(folder).expect("it opens")).expect("its architecture is known")
}

/// A checkpoint on the CPU.
pub fn executor(folder: &Path, numerics: Numerics) -> Box<dyn Executor> {
    let Prepared { graphs, weights, .. } = prepare(folder);
    let options = LoadOptions { numerics, ..LoadOptions::default() };
    CpuDevice::new(2).load(Arc::new(graphs), weights, options).expect("it loads")
}

/// Runs tokens of a prompt in a session, every output wanted, and commits them.
pub fn feed(executor: &mut dyn Executor, session: SessionId, tokens: &[u32]) -> Vec<OutputRows> {
    feed_as(executor, session, tokens, Class::Prompt)
}

/// As [`feed`], with a class.
pub fn feed_as(
    executor: &mut dyn Executor,
    session: SessionId,
    tokens: &[u32],
    class: Class,
) -> Vec<OutputRows> {
    let base = executor.position(session, 0).expect("it is open");
    let forest = chain(session, base, tokens.len(), class);
    let inputs = [Values::Id(tokens.to_vec()), Values::I32(forest.depths().to_vec())];
    let outputs = executor.run(0, &forest, &inputs).expect("it runs");
    executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("it commits");
    outputs
}

/// A chain of nodes that want everything.
pub fn chain(session: SessionId, base: usize, count: usize, class: Class) -> Forest {
    let mut builder = ForestBuilder::new();
    builder
        .segment(session, base)
        .and_then(|builder| builder.chain(count, class, Wanted::ALL, Wanted::ALL))
        .expect("a chain");
    builder.build().expect("a forest")
}

/// The floats of an output.
pub fn floats(rows: &OutputRows) -> &[f32] {
    rows.values.as_f32().expect("floats")
}

/// The place of the greatest value, the first on ties.
pub fn arg_max(values: &[f32]) -> usize {
    (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).expect("not empty")
}

/// An array of an `.npz` file with its shape.
pub fn array<T: npyz::Deserialize>(file: &Path, name: &str) -> (Vec<T>, Vec<usize>) {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(file).expect("there")).expect("an archive");
    let array = archive.by_name(&format!("{name}.npy")).expect("the array is there");
    let array = npyz::NpyFile::new(array).expect("an array");
    let shape = array.shape().iter().map(|&extent| extent as usize).collect();
    (array.into_vec().expect("of that type"), shape)
}

/// The prompts of the stories model: the tokens, and the greedy tokens after them.
pub fn stories() -> Vec<(Vec<u32>, Vec<u32>)> {
    let text = std::fs::read(folder("stories-11m").join("golden.json")).expect("the goldens are here");
    let golden: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let tokens = |value: &serde_json::Value| {
        let list = value.as_array().expect("a list");
        list.iter().map(|token| token.as_u64().expect("a token") as u32).collect()
    };
    let prompts = golden.as_array().expect("a list").iter();
    prompts.map(|prompt| (tokens(&prompt["prompt_tokens"]), tokens(&prompt["greedy_tokens"]))).collect()
}
