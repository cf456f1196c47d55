//! Tokens chosen by kernels, on emulated CUDA: as the host chooses them, and with nothing but them coming to the host.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fiddlehead_cuda::build::SAMPLING;
use fiddlehead_cuda::emulator::Emulator;
use fiddlehead_cuda::runtime::{Function, KernelName, Recording, Runtime};
use fiddlehead_cuda::{CudaDevice, CudaError};
use fiddlehead_forest::shapes::SplitMix;
use fiddlehead_forest::{Forest, SessionId};
use fiddlehead_gate::case::{self, Case};
use fiddlehead_gate::sampling;
use fiddlehead_oracle::random::{Motif, RandomProgram};
use fiddlehead_plan::sampling::noise::Noise;
use fiddlehead_plan::sampling::real::{exp, ln, share_of, weight};
use fiddlehead_plan::sampling::{PathCounts, Sampling, TokenChoice};
use fiddlehead_plan::{LoadOptions, Values, Weights};

/// Every function of the choice, of many numbers.
const FUNCTIONS: &str = r#"
extern "C" __global__ void functions(const double* x, const double* less, u64* out, u64 count, u64 noise) {
    for (u64 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x) {
        u64* mine = out + 5 * at;
        mine[0] = bits_of_double(exact_ln(x[at]));
        mine[1] = bits_of_double(exact_exp(less[at]));
        mine[2] = weight_of(less[at]);
        mine[3] = bits_of_double(gumbel(noise, (u32)at));
        mine[4] = share_of(1.0 / (1.0 + x[at]), bits_of_double(x[at]) >> 3);
    }
}
"#;

#[test]
fn functions_have_the_same_bits_as_on_the_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(emulator) = Emulator::new(folder.path()) else { return };
    let kernels = [KernelName { name: "functions", arguments: 5 }];
    let functions = emulator.compile(&format!("{SAMPLING}{FUNCTIONS}"), &kernels).expect("it compiles");
    let mut random = SplitMix::new(8);
    let count = 1_000_000;
    let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    // Numbers around one, next to one, and of every magnitude.
    let x: Vec<f64> = (0..count)
        .map(|at| match at % 4 {
            0 => 0.5 + unit(),
            1 => 1.0 - f64::EPSILON * (1.0 + 1e4 * unit()).floor(),
            2 => (1 + at) as f64 * unit() + 0.25,
            _ => f64::from_bits(((1 + (2046.0 * unit()) as u64) << 52) | (unit() * 4e15) as u64),
        })
        .collect();
    let less: Vec<f64> = (0..count).map(|at| -unit() * [1e-9, 1.0, 30.0, 700.0][at % 4]).collect();
    let place = |bytes: usize| emulator.allocate(bytes).expect("memory");
    let [x_at, less_at, out_at] = [place(count * 8), place(count * 8), place(count * 40)];
    let upload = |to: u64, values: &[f64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        emulator.upload(to, &bytes).expect("uploaded");
    };
    upload(x_at, &x);
    upload(less_at, &less);
    let noise = Noise::at(5, 1, 77);
    emulator
        .launch(&functions[0], 3, 128, &[x_at, less_at, out_at, count as u64, noise.key()])
        .expect("it runs");
    let mut bytes = vec![0; count * 40];
    emulator.download(out_at, &mut bytes).expect("downloaded");
    for (at, found) in bytes.as_chunks::<40>().0.iter().enumerate() {
        let found: Vec<u64> = found.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (x, less) = (x[at], less[at]);
        let wanted = [
            ln(x).to_bits(),
            exp(less).to_bits(),
            weight(less),
            noise.gumbel(at as u32).to_bits(),
            share_of(1.0 / (1.0 + x), x.to_bits() >> 3),
        ];
        assert_eq!(found, wanted, "at {at}: x = {x:e}, less = {less:e}");
    }
}

#[test]
fn tokens_are_those_of_the_host() {
    let Some((device, _folder)) = support::device() else { return };
    let parameters = sampling::parameters();
    for (seed, vocabulary, parameters) in [
        (0, 1, &parameters[..3]),
        (1, 3, &parameters[3..9]),
        (2, 33, &parameters[..]),
        (3, 1537, &parameters[4..9]),
    ] {
        sampling::check(&device, seed, vocabulary, parameters).unwrap_or_else(|why| panic!("{why}"));
    }
}

/// Bins, lists and several blocks a row only matter in rows longer than a block.
#[test]
fn tokens_of_a_large_vocabulary_are_those_of_the_host() {
    let Some((device, _folder)) = support::device() else { return };
    let plain = Sampling { temperature: 1.0, ..Sampling::GREEDY };
    let parameters = [
        plain,
        Sampling { top_k: 3000, top_p: 0.9, ..plain },
        Sampling { top_p: 0.97, temperature: 3.0, ..plain },
        Sampling { repetition_penalty: 1.2, top_k: 40, ..plain },
    ];
    sampling::check(&device, 4, 50_257, &parameters).unwrap_or_else(|why| panic!("{why}"));
}

/// A runtime that counts what it is asked for.
struct Counted {
    inner: Emulator,
    allocated: AtomicUsize,
    /// What the host waited for.
    waited: AtomicUsize,
    downloaded: AtomicUsize,
}

impl Counted {
    /// Blocks taken, waits, and bytes that came to the host since the last time.
    fn since(&self) -> [usize; 3] {
        [&self.allocated, &self.waited, &self.downloaded].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

impl Runtime for Counted {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn most_blocks(&self) -> usize {
        self.inner.most_blocks()
    }
    fn allocate(&self, bytes: usize) -> Result<u64, CudaError> {
        self.allocated.fetch_add(1, Ordering::Relaxed);
        self.inner.allocate(bytes)
    }
    fn free(&self, address: u64) {
        self.inner.free(address);
    }
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CudaError> {
        self.inner.upload(to, bytes)
    }
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), CudaError> {
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.downloaded.fetch_add(bytes.len(), Ordering::Relaxed);
        self.inner.download(from, bytes)
    }
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        self.inner.copy(to, from, bytes)
    }
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), CudaError> {
        self.inner.fill(to, byte, bytes)
    }
    fn compile(&self, source: &str, kernels: &[KernelName<'_>]) -> Result<Vec<Function>, CudaError> {
        self.inner.compile(source, kernels)
    }
    fn launch(&self, function: &Function, grid: u32, block: u32, arguments: &[u64]) -> Result<(), CudaError> {
        self.inner.launch(function, grid, block, arguments)
    }
    fn synchronise(&self) -> Result<(), CudaError> {
        self.waited.fetch_add(1, Ordering::Relaxed);
        self.inner.synchronise()
    }
    fn record(&self) -> Result<bool, CudaError> {
        self.inner.record()
    }
    fn recorded(&self) -> Result<Recording, CudaError> {
        self.inner.recorded()
    }
    fn replay(&self, recording: &Recording) -> Result<(), CudaError> {
        self.inner.replay(recording)
    }
}

/// A node of which only the first output is wanted.
fn one_wanted(session: SessionId, position: usize) -> Forest {
    use fiddlehead_forest::{Class, ForestBuilder, Wanted};
    let first = Wanted::output(0).expect("the first");
    let mut builder = ForestBuilder::new();
    builder.segment(session, position).expect("a segment");
    builder.node(None, Class::Generated, first).expect("a node");
    builder.build().expect("a forest")
}

/// From the second tick of a regime on, no memory is taken; each tick waits once, for the trap's place and the token alone.
#[test]
fn a_steady_tick_waits_once_and_takes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(inner) = Emulator::new(folder.path()) else { return };
    let counts = || AtomicUsize::new(0);
    let runtime = Arc::new(Counted { inner, allocated: counts(), waited: counts(), downloaded: counts() });
    let device = CudaDevice::new(runtime.clone());
    let motifs = [Motif::Window, Motif::Attention, Motif::DeltaRule, Motif::Registers];
    let whole = |seed: &u64| {
        let graph = RandomProgram::new(*seed, &motifs, 4).expect("a valid program").graph;
        !graph.states().is_empty() && !graph.histories().is_empty() && graph.outputs().len() > 1
    };
    let seed = (0..1000).find(whole).expect("a program with everything");
    let mut case = Case::new(&device, seed, &motifs, 4, &[]).expect("it loads");
    let all = Sampling { temperature: 0.8, top_k: 5, top_p: 0.9, frequency_penalty: 0.1, ..Sampling::GREEDY };
    for (session, sampling, others_wanted) in [(0, Sampling::GREEDY, false), (1, all, false), (2, all, true)]
    {
        let session = SessionId(session);
        case.open(session).expect("opened");
        let mut path = PathCounts::of_prompt(&[1, 2, 3]);
        for position in 0..6 {
            let forest = match others_wanted {
                true => Forest::single_chain(session, position, 1).expect("a node"),
                false => one_wanted(session, position),
            };
            let inputs: Vec<Values> = case.inputs(1).expect("inputs").iter().map(case::values).collect();
            runtime.since();
            let choice = TokenChoice { sampling, seed: 1, answer: 0, position: position + 1, path: &path };
            let chosen = case.executor.run_and_choose(0, &forest, &inputs, 0, &[choice]).expect("it runs");
            case.executor.commit(0, &forest.accept_all(0).expect("a chain")).expect("committed");
            let [allocated, waited, downloaded] = runtime.since();
            assert_eq!((waited, downloaded), (1, 64), "{session:?}, tick {position}");
            assert!(position == 0 || allocated == 0, "{session:?}, tick {position} took {allocated} blocks");
            path.push(*chosen[0].as_ref().expect("a token"));
        }
    }
}

#[test]
fn what_cannot_be_chosen_from_is_refused() {
    let Some((device, _folder)) = support::device() else { return };
    let graph = sampling::program(4).expect("valid");
    let mut executor = case::load(&device, &graph, Weights::new(), LoadOptions::default()).expect("it loads");
    let session = SessionId(0);
    executor.open(session).expect("opened");
    let forest = Forest::single_chain(session, 0, 2).expect("a chain");
    let path = PathCounts::default();
    let choice = TokenChoice { sampling: Sampling::GREEDY, seed: 0, answer: 0, position: 0, path: &path };
    let inputs = [Values::F32(vec![0.0; 8])];
    let mut why = |output, choices: &[TokenChoice<'_>]| {
        executor.run_and_choose(0, &forest, &inputs, output, choices).expect_err("refused").to_string()
    };
    assert!(why(0, &[choice]).contains("1 were given for 2 wanted rows"));
    assert!(why(1, &[choice, choice]).contains("output 1"));
    assert_eq!(executor.run_and_choose(0, &forest, &inputs, 0, &[choice; 2]).expect("runs"), [Ok(0), Ok(0)]);
}
