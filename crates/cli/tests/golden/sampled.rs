//! Sampled answers: the same tokens from kernels as from the CPU, for seeds and parameters that use every filter.

use std::sync::Arc;

use fiddlehead_cpu::executor::CpuDevice;
use fiddlehead_cuda::CudaDevice;
use fiddlehead_cuda::emulator::Emulator;
use fiddlehead_forest::{Class, Forest, ForestBuilder, SessionId, Wanted};
use fiddlehead_plan::{Device, Executor, LoadOptions, Numerics, PathCounts, Sampling, TokenChoice, Values};

use crate::{folder, prepare};

const PROMPT: [u32; 5] = [3, 17, 4, 29, 8];
const TOKENS: usize = 12;

fn load(device: &dyn Device, name: &str) -> Box<dyn Executor> {
    let prepared = prepare(&folder(name));
    let options = LoadOptions { numerics: Numerics::F32, ..LoadOptions::default() };
    device.load(Arc::new(prepared.graphs), prepared.weights, options).expect("it loads")
}

/// A chain of which only the last node's first output is wanted.
fn chain(session: SessionId, base: usize, count: usize, class: Class) -> Forest {
    let logits = Wanted::output(0).expect("the first");
    let mut builder = ForestBuilder::new();
    builder
        .segment(session, base)
        .and_then(|builder| builder.chain(count - 1, class, Wanted::NONE, Wanted::NONE))
        .and_then(|builder| builder.chain(1, class, logits, logits))
        .expect("a chain");
    builder.build().expect("a forest")
}

fn answer(executor: &mut dyn Executor, session: SessionId, sampling: Sampling, seed: u64) -> Vec<u32> {
    executor.open(session).expect("it opens");
    let mut path = PathCounts::of_prompt(&PROMPT);
    let (mut given, mut class, mut base) = (PROMPT.to_vec(), Class::Prompt, 0);
    let mut tokens = Vec::new();
    while tokens.len() < TOKENS {
        let forest = chain(session, base, given.len(), class);
        let inputs = [Values::Id(given.clone()), Values::I32(forest.depths().to_vec())];
        base += given.len();
        let choice = TokenChoice { sampling, seed, answer: 0, position: base, path: &path };
        let chosen = executor.run_and_choose(0, &forest, &inputs, 0, &[choice]).expect("it runs");
        executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("it commits");
        let token = *chosen[0].as_ref().expect("a token");
        tokens.push(token);
        path.push(token);
        (given, class) = (vec![token], Class::Generated);
    }
    tokens
}

#[test]
fn kernels_choose_the_tokens_of_the_cpu() {
    let files = tempfile::tempdir().expect("a temporary folder");
    let Some(emulator) = Emulator::new(files.path()) else {
        println!("skipped: there is no g++ for x86-64 to emulate CUDA with");
        return;
    };
    let mut cpu = load(&CpuDevice::new(1), "tiny/qwen3_5");
    let mut cuda = load(&CudaDevice::new(Arc::new(emulator)), "tiny/qwen3_5");
    let plain = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    let parameters = [
        Sampling::GREEDY,
        plain,
        Sampling::default(),
        Sampling { top_k: 12, top_p: 0.9, temperature: 1.4, ..plain },
        Sampling { repetition_penalty: 1.2, frequency_penalty: 0.4, top_p: 0.95, ..plain },
    ];
    let mut answers = std::collections::BTreeSet::new();
    for (place, &sampling) in parameters.iter().enumerate() {
        for seed in 0..3 {
            let session = SessionId(place as u64 * 10 + seed);
            let wanted = answer(cpu.as_mut(), session, sampling, seed);
            let found = answer(cuda.as_mut(), session, sampling, seed);
            assert_eq!(found, wanted, "{sampling:?}, seed {seed}");
            answers.insert(wanted);
        }
    }
    // Seeds and parameters matter: else the tokens above would agree for no reason.
    assert!(answers.len() > 8, "{answers:?}");
}
