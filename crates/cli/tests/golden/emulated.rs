//! Whole models on emulated CUDA: how many launches a token is, and that what shares a launch has the bits of what does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use fiddlehead_cuda::CudaDevice;
use fiddlehead_cuda::emulator::Emulator;
use fiddlehead_engine::Prepared;
use fiddlehead_forest::{Class, SessionId};
use fiddlehead_graph::Graph;
use fiddlehead_plan::{Device, LoadOptions, Numerics};

use crate::logits::{BOUND, error};
use crate::{array, feed, feed_as, floats, folder, prepare};

/// Emulated CUDA with the folder of its modules; none without a C++ compiler.
fn device() -> Option<(CudaDevice, tempfile::TempDir)> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(emulator) = Emulator::new(folder.path()) else {
        println!("skipped: there is no g++ for x86-64 to emulate CUDA with");
        return None;
    };
    Some((CudaDevice::new(Arc::new(emulator)), folder))
}

fn options(fusion: &str) -> LoadOptions {
    let dispatch = BTreeMap::from([("fusion".to_string(), fusion.to_string())]);
    LoadOptions { numerics: Numerics::F32, dispatch, ..LoadOptions::default() }
}

/// Launches of a step, with fusions and without.
fn launches(device: &CudaDevice, step: &Graph) -> [usize; 2] {
    ["auto", "off"].map(|fusion| device.explain(step, &options(fusion)).expect("it lowers").steps.len())
}

/// A layer of Llama is eight launches: norm, products of queries, keys and values, rotation and rows kept, attention,
/// output with residual, norm, gate and up with their product, down with residual.
#[test]
fn few_launches_a_layer() {
    let Some((device, _folder)) = device() else { return };
    let text = include_str!("../../../models/programs/llama.fh");
    let program = fiddlehead_lang::compile("llama.fh", text).expect("it compiles");
    let step = |layers: i64| {
        let sizes =
            [("V", 49152), ("D", 576), ("L", layers), ("H", 9), ("G", 3), ("K", 64), ("F", 1536), ("R", 64)];
        let sizes = sizes.into_iter().map(|(name, size)| (name.to_string(), size)).collect();
        fiddlehead_engine::stand_in(&program, &program.models[0], &sizes).expect("it lowers").graphs.steps[0]
            .clone()
    };
    let [fused, apart] = launches(&device, &step(30));
    let [fewer, _] = launches(&device, &step(29));
    println!("Llama of 30 layers: {fused} launches, {apart} apart");
    assert_eq!(fused - fewer, 8);
    let stories = prepare(&folder("stories-11m"));
    let [fused, apart] = launches(&device, &stories.graphs.steps[0]);
    println!("stories-11m: {fused} launches, {apart} apart");
    assert!(fused * 5 < apart * 2, "{fused} of {apart}");
}

/// The tokens of a tiny checkpoint at once and one by one: logits near the golden ones, the same bits fused and apart.
fn tiny(name: &str) {
    let Some((device, _folder)) = device() else { return };
    let folder = folder("tiny").join(name);
    let golden = folder.join("golden.npz");
    let (tokens, shape) = array::<i32>(&golden, "tokens");
    let (positions, _) = array::<i64>(&golden, "positions");
    let (logits, _) = array::<f32>(&golden, "logits");
    let (rows, length) = (shape[0], shape[1]);
    let vocabulary = logits.len() / rows / positions.len();
    let tokens: Vec<u32> = tokens[..length].iter().map(|&token| token as u32).collect();
    let run = |fusion: &str| {
        let Prepared { graphs, weights, .. } = prepare(&folder);
        let mut executor = device.load(Arc::new(graphs), weights, options(fusion)).expect("it loads");
        executor.open(SessionId(0)).expect("it opens");
        executor.open(SessionId(1)).expect("it opens");
        let whole = floats(&feed(executor.as_mut(), SessionId(0), &tokens)[0]).to_vec();
        let single = tokens[..2].iter().flat_map(|&token| {
            floats(&feed_as(executor.as_mut(), SessionId(1), &[token], Class::Generated)[0]).to_vec()
        });
        let single: Vec<f32> = single.collect();
        [whole, single]
    };
    let fused = run("auto");
    let bits = |found: &[Vec<f32>; 2]| -> Vec<Vec<u32>> {
        found.iter().map(|values| values.iter().map(|value| value.to_bits()).collect()).collect()
    };
    assert_eq!(bits(&fused), bits(&run("off")), "{name}");
    for (place, &position) in positions.iter().enumerate() {
        let wanted = &logits[place * vocabulary..][..vocabulary];
        let found = &fused[0][position as usize * vocabulary..][..vocabulary];
        let error = error(found, wanted);
        assert!(error <= BOUND, "{name}, position {position}: {error}");
    }
}

#[test]
fn tiny_llama() {
    tiny("llama");
}

#[test]
fn tiny_qwen3_moe() {
    tiny("qwen3_moe");
}
