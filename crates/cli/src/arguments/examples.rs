//! What help texts say behind the flags: exit codes, and examples of each command.

pub(super) const EXIT_CODES: &str = "Exit codes:
  0    it worked (also when the reader of the output went away)
  1    it failed: a file, a program, a model or the system
  2    the command line or the configuration file is wrong
  130  interrupted with Ctrl-C";

pub(super) const RUN_EXAMPLES: &str =
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

pub(super) const EXEC_EXAMPLES: &str =
    "An input is a .npy file, a number, true or false (for a scalar), or random:SEED: f32
values of the standard normal distribution, i32 and id values from 0 to 15, bools, all decided by
SEED and the input's name. Sizes are solved from the shapes of the files; --dim gives those that no file tells.
NumPy's f64 and i64 are read as f32 and i32 when the values fit.

Examples:
  fiddlehead exec product.fh --input a=a.npy --input b=b.npy --output c.npy
  fiddlehead exec product.fh --dim M=2 --dim N=3 --dim K=4 --input a=random:1 --input b=random:2
  fiddlehead exec norm.fh --input x=x.npy --input eps=1e-6 --output y.npy

Several results go to y0.npy, y1.npy, ... in the program's order. Without --output a short
summary of each result is printed.";

pub(super) const EXPLAIN_EXAMPLES: &str = "Examples:
  fiddlehead explain product.fh --dim M=64 --dim N=64 --dim K=64
  fiddlehead explain product.fh --dim M=64 --dim N=64 --dim K=64 --svg product.svg
  fiddlehead explain my_model.fh              # whether it type-checks, and what it declares
  fiddlehead explain my_model.fh --dim V=512 --dim D=64 --dim L=2 --step main
  fiddlehead explain --model ~/models/Qwen3.5-0.8B --step main
  fiddlehead explain --embedded --step main --svg stories.svg";

pub(super) const INSPECT_EXAMPLES: &str =
    "Nothing is loaded: only the files are looked at. A model that cannot be served is shown with the reason.

Examples:
  fiddlehead inspect ~/models/SmolLM2-135M-Instruct.Q4_1.gguf
  fiddlehead inspect --context 32768 ~/models/Qwen3.5-0.8B
  fiddlehead inspect --json ~/models/Qwen3.5-0.8B | jq .serving.memory
  fiddlehead inspect                          # the model that is built in";

pub(super) const QUANTIZE_EXAMPLES: &str =
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

pub(super) const BENCH_EXAMPLES: &str =
    "Prompts are random tokens, as llama-bench has it; a warm-up comes first, and prompts and
generation take turns. Each prompt is read into an empty session, and so is each generation.

Examples:
  fiddlehead bench --prompt 512 --generate 128 --threads 2
  fiddlehead bench --model ~/models/Qwen3.5-0.8B --repetitions 3 --json";

pub(super) const PERPLEXITY_EXAMPLES: &str =
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

pub(super) const SCORE_EXAMPLES: &str =
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

pub(super) const GATE_EXAMPLES: &str = "A row that needs files that were not given says that it was skipped.

Examples:
  fiddlehead gate --device cpu
  fiddlehead gate --device cuda --models models --output gate.json";

pub(super) const KERNELS_EXAMPLES: &str = "Examples:
  fiddlehead kernels build --arch sm_90a
  fiddlehead kernels build --arch sm_80,sm_90a,sm_120a --nvrtc ~/.venv/lib/python3.12/site-packages";

pub(super) const COMPLETIONS_EXAMPLES: &str = "Examples:
  fiddlehead completions bash > ~/.local/share/bash-completion/completions/fiddlehead
  fiddlehead completions zsh > ~/.zfunc/_fiddlehead
  fiddlehead completions fish > ~/.config/fish/completions/fiddlehead.fish";
