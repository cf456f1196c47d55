#!/usr/bin/env python3
"""Writes new stories from the stories model's recipe, as it was trained on them, one document after the other.

Usage: stories_text.py COUNT SEED > stories.txt
       fiddlehead perplexity --separator "<|endoftext|>" stories.txt

The same COUNT and SEED give the same bytes. After each document stands a line with <|endoftext|>.
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "models" / "stories-11m" / "recipe"))
sys.dont_write_bytecode = True

from stories import story  # noqa: E402  (found through the path above)


def document(request, answer):
    return f"<|im_start|>user\n{request}<|im_end|>\n<|im_start|>assistant\n{answer}<|im_end|>\n"


def main():
    try:
        count, seed = (int(argument) for argument in sys.argv[1:])
    except ValueError:
        sys.exit(__doc__)
    source = random.Random(seed)
    for _ in range(count):
        sys.stdout.write(document(*story(source)) + "\n<|endoftext|>\n")


if __name__ == "__main__":
    main()
