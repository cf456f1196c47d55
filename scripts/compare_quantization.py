#!/usr/bin/env python3
"""Squared errors of `fiddlehead quantize` beside those of llama.cpp's `llama-quantize --pure`.

usage: compare_quantization.py --fiddlehead PATH --llama-quantize PATH [--formats a,b] [--seed N] MODEL.gguf ...

Each model is written as f32 first, and both programs quantise that file. Copies of the first model with made-up values in
its matrices (normal, Laplace, normal with outliers, a scale for each channel, all positive, constant, tiny, zero)
follow. Values come out again by the `gguf` package, which belongs to neither program's code for writing. Printed is,
for each format, our mean squared error over theirs: of all tensors that both have in that format, and the worst tensor's.

Needs Python's numpy and gguf.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

FORMATS = "q8_0 q6_k q5_k q5_1 q5_0 q4_k q4_1 q4_0 iq4_nl iq4_xs q3_k q2_k".split()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def tensors(path):
    return {tensor.name: tensor for tensor in GGUFReader(path).tensors}


def values(tensor):
    return dequantize(tensor.data, tensor.tensor_type).astype(np.float64)


def made_up(random):
    """Values by the name of what they look like; each takes a shape."""
    normal = lambda shape: random.normal(0, 0.02, shape)
    return {
        "normal": normal,
        "laplace": lambda shape: random.laplace(0, 0.02, shape),
        "outliers": lambda shape: normal(shape) * np.where(random.random(shape) < 0.005, 10, 1),
        "channels": lambda shape: normal(shape) * np.exp(random.normal(0, 1, shape[-1])),
        "positive": lambda shape: random.normal(1, 0.1, shape),
        "constant": lambda shape: np.broadcast_to(random.normal(0, 0.1, (shape[0], 1)), shape),
        "tiny": lambda shape: random.normal(0, 2e-6, shape),
        "zero": np.zeros,
    }


def fill(source, target, value):
    shutil.copyfile(source, target)
    for tensor in GGUFReader(target, "r+").tensors:
        if len(tensor.shape) == 2:
            tensor.data[:] = value(tensor.data.shape)


def compare(programs, source, folder):
    """Ratio of all tensors and of the worst one, by format."""
    ratios = {}
    original = {name: values(tensor) for name, tensor in tensors(source).items() if len(tensor.shape) == 2}
    for name in programs.formats:
        ours, theirs = folder / "ours.gguf", folder / "theirs.gguf"
        run(programs.fiddlehead, "quantize", source, ours, "--format", name, "--force")
        run(programs.llama_quantize, "--pure", source, theirs, name.upper())
        ours, theirs = tensors(ours), tensors(theirs)
        sums, worst = np.zeros(2), 0.0
        for tensor, wanted in original.items():
            pair = ours[tensor], theirs[tensor]
            if any(one.tensor_type.name.lower() != name for one in pair):
                continue
            errors = np.array([((values(one) - wanted) ** 2).sum() for one in pair])
            if not np.isfinite(errors).all():
                sys.exit(f"{tensor} in {name}: not finite")
            sums += errors
            worst = max(worst, ratio(errors))
        if sums.any() or worst:
            ratios[name] = ratio(sums), worst
        elif any(one.tensor_type.name.lower() == name for one in ours.values()):
            ratios[name] = 1.0, 1.0
    return ratios


def ratio(errors):
    ours, theirs = errors
    return ours / theirs if theirs else (float("inf") if ours else 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fiddlehead", required=True)
    parser.add_argument("--llama-quantize", required=True)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=FORMATS)
    parser.add_argument("--real-only", action="store_true", help="leave the made-up values out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    programs = parser.parse_args()
    print("| values | " + " | ".join(programs.formats) + " |")
    print("|---" * (len(programs.formats) + 1) + "|")
    highest = 0.0

    def row(name, ratios):
        nonlocal highest
        cells = [f"{ratios[one][0]:.3f} ({ratios[one][1]:.3f})" if one in ratios else "" for one in programs.formats]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        highest = max([highest] + [whole for whole, _ in ratios.values()])

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for place, model in enumerate(programs.models):
            plain = folder / f"{place}.gguf"
            run(programs.fiddlehead, "quantize", model, plain, "--format", "f32")
            row(model.stem, compare(programs, plain, folder))
        made = {} if programs.real_only else made_up(np.random.default_rng(programs.seed))
        for name, value in made.items():
            filled = folder / "filled.gguf"
            fill(folder / "0.gguf", filled, value)
            row(name, compare(programs, filled, folder))
    print(f"\nhighest ratio of a whole file: {highest:.3f}")
    sys.exit(highest > 1.02)


if __name__ == "__main__":
    main()
