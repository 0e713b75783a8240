"""Encode many sentences with a static model and search them.

    python examples/semantic_search.py [MODEL] [FILE] [--sentences 1000000]

Prints the times, and the nearest sentences to three queries. Without FILE it makes sentences up.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from st_static import FastEncoder
from st_static.cli import run_command

SUBJECTS = ["A dog", "The teacher", "My neighbour", "An old sailor", "The committee", "A robot"]
VERBS = ["found", "painted", "sold", "described", "repaired", "lost", "borrowed", "dreamt of"]
OBJECTS = ["a boat", "the red house", "seven letters", "a broken clock", "the tax report", "a map"]
PLACES = ["in the harbour", "at school", "near the river", "on Monday", "after the storm"]


def made_up(n: int) -> list[str]:
    """`n` sentences, each with a number of its own."""
    parts = itertools.cycle(itertools.product(SUBJECTS, VERBS, OBJECTS, PLACES))
    return [f"{' '.join(words)}, number {i}." for i, words in zip(range(n), parts, strict=False)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "model",
        nargs="?",
        default="st-static/english-384",
        help="its name, folder or Hub id (default: the English model in the package)",
    )
    parser.add_argument("file", nargs="?", type=Path, help="one text per line")
    parser.add_argument(
        "--sentences", type=int, default=1_000_000, help="at most (default: 1000000)"
    )
    options = parser.parse_args(arguments)
    if options.sentences < 1:
        parser.error(f"--sentences must be positive, but it is {options.sentences}.")
    if options.file:
        if not options.file.is_file():
            raise ValueError(f"There is no file {options.file}. Expected one text per line.")
        sentences = options.file.read_text("utf-8").split("\n")[: options.sentences]
    else:
        sentences = made_up(options.sentences)

    encoder = FastEncoder.from_pretrained(options.model)
    start = time.perf_counter()
    vectors = encoder.encode(sentences, normalize_embeddings=True)
    seconds = time.perf_counter() - start
    n = len(sentences)
    print(f"{n:,} sentences in {seconds:.1f} s: {n / seconds:,.0f} a second")

    for query in ("a sailor lost his map", "someone fixes a clock", "money owed to the state"):
        start = time.perf_counter()
        scores = vectors @ encoder.encode(query, normalize_embeddings=True)  # cosines
        best = np.argsort(-scores)[:3]
        milliseconds = 1000 * (time.perf_counter() - start)
        print(f"\n{query} ({milliseconds:.0f} ms)")
        for i in best:
            print(f"  {scores[i]:.2f}  {sentences[i]}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main, sys.argv[1:]))
