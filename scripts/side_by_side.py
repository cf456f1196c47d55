#!/usr/bin/env python3
"""Fiddlehead and llama.cpp side by side, in turn, as a Markdown table.

    scripts/side_by_side.py --llama-bench PATH --system-info PATH \\
        [--fiddlehead target/release/fiddlehead] [--threads 2] [--prompt 512] [--generate 128] \\
        [--rounds 3] [--repetitions 3] MODEL[=OTHER] ...

Each round runs both tools once on each model, in the order A B, then B A in the next, so that a drift of the machine's
speed meets both. A figure is the mean of one run's repetitions; the ratio is that of the medians over all runs. With
MODEL=OTHER Fiddlehead reads MODEL and llama.cpp reads OTHER (the same weights in another file). `--system-info` names any
llama.cpp tool that prints its system-info line when it loads a model (llama-completion, llama-perplexity): without
that line beside it a ratio says little.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def fiddlehead(arguments, model):
    command = [
        arguments.fiddlehead, "bench", "--model", model, "--threads", str(arguments.threads),
        "--prompt", str(arguments.prompt), "--generate", str(arguments.generate),
        "--repetitions", str(arguments.repetitions), "--json",
    ]
    found = json.loads(run(command))
    return found, (found["prefill_tokens_per_second"], found["decode_tokens_per_second"])


def llama(arguments, model):
    command = [
        arguments.llama_bench, "-m", model, "-t", str(arguments.threads), "-p", str(arguments.prompt),
        "-n", str(arguments.generate), "-r", str(arguments.repetitions), "-o", "json",
    ]
    found = json.loads(run(command))
    speed = {bool(test["n_gen"]): test["avg_ts"] for test in found}
    return found[0], (speed[False], speed[True])


def system_info(tool, model):
    """The line in which a llama.cpp tool says what it was built with and uses."""
    command = [tool, "-m", model, "-p", "a", "-n", "1", "-f", os.devnull]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "system_info" in line]
    return lines[0].strip() if lines else f"{tool} printed no system_info line"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[=OTHER]")
    parser.add_argument("--fiddlehead", default="target/release/fiddlehead")
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--system-info", metavar="TOOL")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()

    pairs = [model.split("=", 1) if "=" in model else [model, model] for model in arguments.models]
    tools = [("fiddlehead", fiddlehead), ("llama.cpp", llama)]
    speeds = {}
    details = {}
    for turn in range(arguments.rounds):
        for pair in pairs:
            order = tools if turn % 2 == 0 else tools[::-1]
            for name, measure in order:
                own = pair[0] if name == "fiddlehead" else pair[1]
                details[name], found = measure(arguments, own)
                if name == "fiddlehead":
                    details[pair[0]] = details[name]
                speeds.setdefault((pair[0], name), []).append(found)
                print(f"round {turn + 1}, {name}, {own}: {found[0]:.1f}, {found[1]:.1f} tok/s", file=sys.stderr)

    ours, theirs = details["fiddlehead"], details["llama.cpp"]
    print(f"Fiddlehead {ours['version']}: {ours['device']}, numerics {ours['numerics']}, {', '.join(ours['cpu_features'])}.")
    print(f"llama.cpp {theirs['build_number']} ({theirs['build_commit']}): {theirs['cpu_info']}.")
    if arguments.system_info:
        print(f"`{system_info(arguments.system_info, pairs[0][1])}`")
    print()
    print(f"| model | tool | prefill, {arguments.prompt} tokens | decode, {arguments.generate} tokens |")
    print("|---|---|---|---|")
    for model, _ in pairs:
        name = os.path.basename(model.rstrip("/"))
        medians = {}
        for place, (tool, _) in enumerate(tools):
            runs = speeds[(model, tool)]
            medians[tool] = [statistics.median(run[test] for run in runs) for test in (0, 1)]
            cells = [" · ".join(f"{run[test]:,.0f}" for run in runs) for test in (0, 1)]
            print(f"| {name if place == 0 else ''} | {tool} | {cells[0]} | {cells[1]} |")
        ratios = [a / b for a, b in zip(medians["fiddlehead"], medians["llama.cpp"])]
        print(f"| | ratio of medians | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    for model, _ in pairs:
        found = details[model]
        peak = found["peak_memory_bytes"]
        memory = f"{peak / 2**20:.0f} MiB" if peak else "unknown"
        size = os.path.getsize(model) / 2**20 if os.path.isfile(model) else 0
        print(
            f"\n{os.path.basename(model.rstrip('/'))}: load {found['load_seconds']:.3f} s, plan "
            f"{found['plan_seconds'] * 1e3:.0f} ms, peak resident memory {memory} (a file of {size:.0f} MiB).",
            end="",
        )
    print()


if __name__ == "__main__":
    main()
