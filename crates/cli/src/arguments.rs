//! Every command and flag, defined once.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
use fiddlehead_engine::{ByteSize, Defaults, Sampling};
use fiddlehead_plan::Numerics;
use fiddlehead_quantize::{Override, Recipe};

const EXIT_CODES: &str = "Exit codes:
  0    it worked (also when the reader of the output went away)
  1    it failed: a file, a program, a model or the system
  2    the command line or the configuration file is wrong
  130  interrupted with Ctrl-C";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "fiddlehead",
    version,
    about = "Runs language models and array programs that are written as natural loops",
    after_help = EXIT_CODES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer a prompt, or chat
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArguments>),
    /// Run `fn main` of a program on arrays
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArguments),
    /// Show the graph of a program or a model, its sites, what was refused and why, and the plan
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArguments),
    /// Show what a model's files hold, whether they can be served, and how much memory that takes
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArguments),
    /// Write a model as a GGUF file with its weights in a smaller format
    #[command(after_help = QUANTIZE_EXAMPLES)]
    Quantize(QuantizeArguments),
    /// Measure how fast a model reads prompts and generates
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(BenchArguments),
    /// Measure how surprised a model is by a text
    #[command(after_help = PERPLEXITY_EXAMPLES)]
    Perplexity(PerplexityArguments),
    /// Score given tokens: how likely each one is, and where the model would choose another
    #[command(after_help = SCORE_EXAMPLES)]
    Score(ScoreArguments),
    /// List the devices that programs and models can run on
    Devices,
    /// Compile GPU kernels without a GPU
    #[command(subcommand)]
    Kernels(KernelsCommand),
    /// Check a device against the oracle: kernels, programs, forests, real checkpoints
    #[command(after_help = GATE_EXAMPLES)]
    Gate(GateArguments),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the reference of all commands as Markdown
    #[command(hide = true)]
    Reference,
}

const RUN_EXAMPLES: &str =
    "Without PROMPT on a terminal it is a chat: Ctrl-C stops the answer, Ctrl-D leaves, /help
lists the commands. Without PROMPT elsewhere the prompt is read from standard input. Without --model
the small model that is built in answers. What no flag says comes from the configuration file, then
from the model's generation_config.json.

Examples:
  fiddlehead run \"Write a story about a brave fox named Tim who finds a lantern.\"
  fiddlehead run --model ~/models/Qwen3.5-0.8B --system \"Be brief.\" \"What is a fern?\"
  fiddlehead run --model ~/models/SmolLM2-135M-Instruct.Q4_1.gguf \"What is a fern?\"
  fiddlehead run --temperature 0 --max-tokens 64 --json \"Tell me a story.\"
  echo \"Tell me a story.\" | fiddlehead run --seed 7 --stop \"The end\"
  fiddlehead run --config quiet.toml          # temperature = 0.2, stop = [\"The end\"], ...
  fiddlehead run --raw \"<|im_start|>user\"     # the text as it stands, special tokens meant";

const EXEC_EXAMPLES: &str =
    "An input is a .npy file, a number, true or false (for a scalar), or random:SEED: f32
values of the standard normal distribution, i32 and id values from 0 to 15, bools, all decided by
SEED and the input's name. Sizes are solved from the shapes of the files; --dim gives those that no file tells.
NumPy's f64 and i64 are read as f32 and i32 when the values fit.

Examples:
  fiddlehead exec product.fh --input a=a.npy --input b=b.npy --output c.npy
  fiddlehead exec product.fh --dim M=2 --dim N=3 --dim K=4 --input a=random:1 --input b=random:2
  fiddlehead exec norm.fh --input x=x.npy --input eps=1e-6 --output y.npy

Several results go to y0.npy, y1.npy, ... in the program's order. Without --output a short summary of
each result is printed.";

const EXPLAIN_EXAMPLES: &str = "Examples:
  fiddlehead explain product.fh --dim M=64 --dim N=64 --dim K=64
  fiddlehead explain product.fh --dim M=64 --dim N=64 --dim K=64 --svg product.svg
  fiddlehead explain my_model.fh              # whether it type-checks, and what it declares
  fiddlehead explain my_model.fh --dim V=512 --dim D=64 --dim L=2 --step main
  fiddlehead explain --model ~/models/Qwen3.5-0.8B --step main
  fiddlehead explain --embedded --step main --svg stories.svg";

const INSPECT_EXAMPLES: &str =
    "Nothing is loaded: only the files are looked at. A model that cannot be served is shown with the reason.

Examples:
  fiddlehead inspect ~/models/SmolLM2-135M-Instruct.Q4_1.gguf
  fiddlehead inspect --context 32768 ~/models/Qwen3.5-0.8B
  fiddlehead inspect --json ~/models/Qwen3.5-0.8B | jq .serving.memory
  fiddlehead inspect                          # the model that is built in";

const QUANTIZE_EXAMPLES: &str =
    "A plain format is that of all matrices. The mixtures q3_k_m, q4_k_s, q4_k_m, q5_k_s and q5_k_m give a
better one to the output head, and with _m to attention's values and the feed-forward block's way out in
the layers that matter more. Norms, biases, routers and convolutions stay f32. Rows that are no whole
number of a format's blocks get the next better format that fits: q4_k q5_0, q5_k q5_1, q6_k q8_0, q2_k,
q3_k and iq4_xs iq4_nl, and f16 where none does; the summary says which.

OUT appears when it is whole; until then it has a name of its own beside it.

Examples:
  fiddlehead quantize ~/models/Qwen3.5-0.8B Qwen3.5-0.8B-Q4_K_M.gguf --format q4_k_m
  fiddlehead quantize model-f16.gguf model-q6_k.gguf --format q6_k --tensor token_embd=q8_0
  fiddlehead quantize model.gguf small.gguf --format q4_k --tensor 'blk.*.ffn_down.weight=q5_k'";

const BENCH_EXAMPLES: &str =
    "Prompts are random tokens, as llama-bench has it; a warm-up comes first, and prompts and
generation take turns. Each prompt is read into an empty session, and so is each generation.

Examples:
  fiddlehead bench --prompt 512 --generate 128 --threads 2
  fiddlehead bench --model ~/models/Qwen3.5-0.8B --repetitions 3 --json";

const PERPLEXITY_EXAMPLES: &str =
    "The negative logarithm of a token's probability, given the tokens before it, is averaged in nats; the
perplexity is the exponential of that mean. Both come with a standard error that takes tokens as
independent. A document is read from its own beginning. A longer one than --context is read in windows of
that many tokens, each --stride after the one before, and a token is scored once, in the first window that
holds it: from the second window on it has at least context - stride tokens before it. The defaults give
a token what llama-perplexity gives it, half a window to a whole one, and score every token.
Tokens that the tokenizer begins every text with stand before each window and are not scored; without
such tokens the first one of a document follows nothing and is not scored either.

Examples:
  fiddlehead perplexity --model ~/models/SmolLM2-135M-Instruct.Q4_1.gguf wiki.test.raw
  fiddlehead perplexity --separator \"<|endoftext|>\" --json stories.txt
  fiddlehead perplexity --json-lines text --context 2048 --stride 2047 documents.jsonl";

const SCORE_EXAMPLES: &str =
    "FILE holds one JSON object or more, or a list of them, with the keys of `run --json`: prompt_tokens, and
tokens, which are scored. The prompt is read as a prompt is and the tokens one by one, as an answer's are.
Where the model's most likely token is another one, it is told with its lead over the given one, in
logits. With --reference the reference interpreter measures those places too, in float64 on the same
weights: by how much its own most likely token leads over each of the two. Small leads are near-ties,
which rounding may turn; great ones are mistakes. It is slow: seconds a token for 100 M parameters.

Examples:
  fiddlehead run --temperature 0 --json \"Tell me a story.\" > answer.json
  fiddlehead score --tokens answer.json --numerics f32
  fiddlehead score --model stories-q8_0.gguf --tokens answer.json --reference --json";

const GATE_EXAMPLES: &str = "A row that needs files that were not given says that it was skipped.

Examples:
  fiddlehead gate --device cpu
  fiddlehead gate --device cuda --models models --output gate.json";

const KERNELS_EXAMPLES: &str = "Examples:
  fiddlehead kernels build --arch sm_90a
  fiddlehead kernels build --arch sm_80,sm_90a,sm_120a --nvrtc ~/.venv/lib/python3.12/site-packages";

/// What is done with kernels.
#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// Compile the kernels of the programs that come with this binary, and report what they take
    #[command(after_help = KERNELS_EXAMPLES)]
    Build(KernelsBuildArguments),
}

#[derive(Debug, Args)]
pub struct KernelsBuildArguments {
    /// What to compile for
    #[arg(long, value_name = "ARCHITECTURE", value_delimiter = ',', required = true)]
    pub arch: Vec<String>,
    /// Bytes a thread may spill before the kernel counts as failed
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub spill_limit: usize,
    /// A folder with NVIDIA's runtime compiler, when it is not where the system looks
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub nvrtc: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct GateArguments {
    #[command(flatten)]
    pub device: DeviceArguments,
    /// The folder of checkpoints with golden outputs: stories-11m, tiny
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub models: Option<PathBuf>,
    /// Random programs of each kind
    #[arg(long, value_name = "COUNT", default_value_t = 6)]
    pub programs: u64,
    /// Where the results go, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A GPU when there is one that can be used.
    Auto,
    /// The processor.
    Cpu,
    /// The GPU of that number.
    Cuda(usize),
}

fn device_name(text: &str) -> Result<DeviceName, String> {
    match text {
        "auto" => Ok(DeviceName::Auto),
        "cpu" => Ok(DeviceName::Cpu),
        "cuda" => Ok(DeviceName::Cuda(0)),
        text => text
            .strip_prefix("cuda:")
            .and_then(|number| number.parse().ok())
            .map(DeviceName::Cuda)
            .ok_or_else(|| "it is cpu, cuda, cuda:N or auto".to_string()),
    }
}

const COMPLETIONS_EXAMPLES: &str = "Examples:
  fiddlehead completions bash > ~/.local/share/bash-completion/completions/fiddlehead
  fiddlehead completions zsh > ~/.zfunc/_fiddlehead
  fiddlehead completions fish > ~/.config/fish/completions/fiddlehead.fish";

#[derive(Debug, Args)]
pub struct RunArguments {
    /// What to answer
    pub prompt: Option<String>,
    #[command(flatten)]
    pub model: ModelArguments,
    #[command(flatten)]
    pub sampling: SamplingArguments,
    /// A system message for the model
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    pub system: Option<String>,
    /// No chat template: the model goes on from the prompt as it stands
    #[arg(long)]
    pub raw: bool,
    /// Print one JSON object at the end: prompt_tokens, tokens, text, finish_reason, seed, timings
    #[arg(long)]
    pub json: bool,
    /// Print how long things took, on standard error
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ModelArguments {
    /// A GGUF file, or a safetensors model: its folder, its file, or its index. Of a model in several
    /// files any one. The built-in model when absent
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The longest path of a session in tokens, prompt and answer together [default: what the model was
    /// made for, at most 8192]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB: one that is estimated to take more is refused; `any` does not ask
    /// [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
}

/// How much memory a model may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChoice {
    /// As much as it wants.
    Any,
    /// No more than this.
    AtMost(ByteSize),
}

/// How the next token is chosen. What is absent is the model's own.
#[derive(Clone, Debug, Default, Args)]
pub struct SamplingArguments {
    /// Logits are divided by it; 0 takes the most likely token always
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Only this many of the most likely tokens stay; 0 keeps all
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub top_k: Option<usize>,
    /// Only the most likely tokens stay whose probabilities first reach this sum; 1 keeps all
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Only tokens stay that are at least this fraction as likely as the most likely one; 0 keeps all
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Makes every token less likely that is in the prompt or the answer already; 1 changes nothing
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f32>,
    /// Taken off the logit of every token that is in the answer already
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub presence_penalty: Option<f32>,
    /// Taken off the logit of a token for each time it is in the answer already
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub frequency_penalty: Option<f32>,
    /// The same seed gives the same answer; drawn and told (--stats, --json) when absent
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub seed: Option<u64>,
    /// The most tokens to generate [default: until the context is full]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub max_tokens: Option<usize>,
    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub stop: Vec<String>,
}

#[derive(Debug, Args)]
pub struct DeviceArguments {
    /// Where to compute: cpu, cuda, cuda:N for the GPU of that number, or auto: a GPU when there is one
    /// that can be used
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device_name)]
    pub device: DeviceName,
    /// A folder with NVIDIA's runtime compiler, when it is not where the system looks
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub nvrtc: Option<PathBuf>,
    /// Where compiled GPU kernels are kept [default: .cache/fiddlehead/kernels in the home folder]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub kernel_cache: Option<PathBuf>,
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Which roundings of operands are allowed: f32 and strict none, auto what the program permits and a
    /// checkpoint of its kind has passed a gate for; strict computes prompts and answers alike
    #[arg(long, value_name = "CONTRACT", default_value = "auto", value_parser = numerics())]
    pub numerics: Numerics,
    /// Choose the kernels of a family of sites: FAMILY=off, auto, or a candidate's name
    #[arg(long, value_name = "FAMILY=CHOICE", value_parser = pair)]
    pub dispatch: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub struct ConfigurationArguments {
    /// A TOML file of flags by their names: temperature = 0.5, stop = ["The end"]. Flags win over it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ExecArguments {
    /// The program
    #[arg(value_hint = ValueHint::FilePath)]
    pub program: PathBuf,
    /// The value of a size
    #[arg(long, value_name = "NAME=NUMBER", value_parser = dim)]
    pub dim: Vec<(String, i64)>,
    /// An input: NAME=file.npy, NAME=NUMBER, NAME=true, NAME=false or NAME=random:SEED
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub input: Vec<(String, String)>,
    /// Where the result goes, as .npy
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print the time of each GPU kernel instead of the result
    #[arg(long)]
    pub profile: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// The program: its `fn main` or `step fn main`, or what its model declares and, with all sizes given,
    /// the model's steps
    #[arg(value_hint = ValueHint::FilePath, required_unless_present_any = ["model", "embedded"])]
    pub program: Option<PathBuf>,
    /// A GGUF file or a safetensors model
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, conflicts_with = "program")]
    pub model: Option<PathBuf>,
    /// The model that is built in
    #[arg(long, conflicts_with_all = ["program", "model"])]
    pub embedded: bool,
    /// Only this step of a model
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
    /// The value of a size
    #[arg(long, value_name = "NAME=NUMBER", value_parser = dim, conflicts_with_all = ["model", "embedded"])]
    pub dim: Vec<(String, i64)>,
    /// Draw the graph (of the first step) into this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct InspectArguments {
    /// A GGUF file, a safetensors file, its index, or the folder of a model. The built-in model when absent
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The tokens of a session that the memory is told for [default: what the model was made for, at
    /// most 8192]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
    /// List every tensor, where one line stands for those of all layers otherwise
    #[arg(long)]
    pub tensors: bool,
    /// Print one JSON object: metadata, every tensor, and how it would be served or why not
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct QuantizeArguments {
    /// The model: a GGUF file, a safetensors file, its index, or its folder
    #[arg(value_name = "IN", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    /// The GGUF file to write
    #[arg(value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub target: PathBuf,
    /// The format of the weights, or a mixture of formats
    #[arg(long, value_name = "FORMAT", value_parser = recipe())]
    pub format: Recipe,
    /// Another format for the tensors whose names hold PATTERN, or fit it where it has a *; may be given
    /// several times, the first that fits counts
    #[arg(long, value_name = "PATTERN=FORMAT", value_parser = Override::parse)]
    pub tensor: Vec<Override>,
    /// Threads to compute with [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Replace OUT when it exists
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// Tokens of a prompt; 0 measures no prompts
    #[arg(long, value_name = "TOKENS", default_value_t = 512, allow_negative_numbers = true)]
    pub prompt: usize,
    /// Tokens to generate; 0 measures no generation
    #[arg(long, value_name = "TOKENS", default_value_t = 128, allow_negative_numbers = true)]
    pub generate: usize,
    /// How often each is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print the time of each GPU kernel of one generated token instead
    #[arg(long)]
    pub profile: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct PerplexityArguments {
    /// A text, UTF-8
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A GGUF file, or a safetensors model: its folder, its file, or its index. The built-in model when
    /// absent
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub model: Option<PathBuf>,
    /// The tokens of a window [default: 512, or what the model was made for when that is less]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..=1 << 30))]
    pub context: Option<u32>,
    /// Memory that the model may take, such as 6GiB: one that is estimated to take more is refused; `any` does not ask
    /// [default: what is available, pages of files counted]
    #[arg(long, allow_negative_numbers = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<MemoryChoice>,
    /// How far apart windows begin, less than --context [default: half of it]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub stride: Option<u32>,
    /// The file holds several documents with this text between them; a line end before it and one after it
    /// belong to it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "json_lines")]
    pub separator: Option<String>,
    /// Each line of the file is a JSON object, and a document is its text under this key
    #[arg(long, value_name = "KEY")]
    pub json_lines: Option<String>,
    /// Special tokens that the text spells are text like any other
    #[arg(long)]
    pub literal: bool,
    /// Print one JSON object instead of words
    #[arg(long)]
    pub json: bool,
    /// Print how long things took, on standard error
    #[arg(long)]
    pub stats: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

#[derive(Debug, Args)]
pub struct ScoreArguments {
    #[command(flatten)]
    pub model: ModelArguments,
    /// The tokens, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub tokens: PathBuf,
    /// Measure the places where the model would choose another token with the reference interpreter
    #[arg(long)]
    pub reference: bool,
    /// Print one JSON object instead of words
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub device: DeviceArguments,
    #[command(flatten)]
    pub configuration: ConfigurationArguments,
}

impl SamplingArguments {
    /// The sampling asked for, on top of what the model says.
    pub fn over(&self, defaults: &Defaults) -> Sampling {
        let model = defaults.sampling();
        Sampling {
            temperature: self.temperature.unwrap_or(model.temperature),
            top_k: self.top_k.unwrap_or(model.top_k),
            top_p: self.top_p.unwrap_or(model.top_p),
            min_p: self.min_p.unwrap_or(model.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(model.repetition_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(model.presence_penalty),
            frequency_penalty: self.frequency_penalty.unwrap_or(model.frequency_penalty),
        }
    }
}

impl DeviceArguments {
    /// The dispatch policy by family; of a family given twice the last one counts.
    pub fn dispatch(&self) -> BTreeMap<String, String> {
        self.dispatch.iter().cloned().collect()
    }
}

fn numerics() -> impl TypedValueParser<Value = Numerics> {
    PossibleValuesParser::new(["f32", "auto", "strict"]).try_map(|text| text.parse::<Numerics>())
}

fn recipe() -> impl TypedValueParser<Value = Recipe> {
    let names = Recipe::names().collect::<Vec<_>>();
    PossibleValuesParser::new(names).try_map(|text| Recipe::from_name(&text))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE is wanted".into()),
    }
}

fn memory(text: &str) -> Result<MemoryChoice, String> {
    match text {
        "any" => Ok(MemoryChoice::Any),
        size => size.parse().map(MemoryChoice::AtMost),
    }
}

fn dim(text: &str) -> Result<(String, i64), String> {
    let (name, value) = pair(text).map_err(|_| "NAME=NUMBER is wanted")?;
    match value.parse::<i64>() {
        Ok(number) if (1..=i64::from(i32::MAX)).contains(&number) => Ok((name, number)),
        _ => Err(format!("`{value}` is no size: a whole number from 1 to {} is wanted", i32::MAX)),
    }
}
