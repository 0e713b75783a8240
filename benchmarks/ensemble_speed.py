"""How fast a fused ensemble encodes, against its members and the ensemble unfused.

    python benchmarks/ensemble_speed.py --texts FILE MODEL MODEL [MODEL ...]

encodes the first 50,000 lines of FILE, by encoders that have seen them and by new ones, and prints
the median of five turns in which the encoders take part one after the other. A MODEL is named as in
a recipe of an ensemble. The ratios are to the first of the members with the most dimensions.
"""

import argparse
import functools
import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from st_static.evaluate.compare import as_markdown
from st_static.model.ensemble import Ensemble, Member
from st_static.model.fast_encoder import FastEncoder
from st_static.model.named import read_named

TURNS = 5
TEXTS = 50_000


def seconds_of(encoder: Member, texts: list[str]) -> float:
    """Seconds for all texts."""
    start = time.perf_counter()
    encoder.encode(texts)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts", type=Path, required=True)
    options = parser.parse_args()
    with options.texts.open(encoding="utf-8") as lines:
        texts = [line.rstrip("\n") for line in itertools.islice(lines, TEXTS)]
    members = [FastEncoder(read_named(name)) for name in options.models]
    widest = max(members, key=lambda member: member.dimension)
    fused = Ensemble(members).fuse()
    makers: dict[str, Callable[[], Member]] = {
        member.model.name: functools.partial(FastEncoder, member.model) for member in members
    }
    makers |= {
        "ensemble": lambda: Ensemble([FastEncoder(member.model) for member in members]),
        "fused": lambda: FastEncoder(fused.model),
        "fused, float16": lambda: FastEncoder(fused.model, dtype="float16"),
    }
    warm = {name: make() for name, make in makers.items()}
    for encoder in warm.values():
        encoder.encode(texts)
    rows: dict[str, dict[str, Any]] = {name: {"encoder": name} for name in makers}
    for kind, encoder_of in {
        "seen": lambda name: warm[name],
        "new": lambda name: makers[name](),
    }.items():
        times: dict[str, list[float]] = {name: [] for name in makers}
        for _ in range(TURNS):
            for name in makers:
                times[name].append(seconds_of(encoder_of(name), texts))
        base = statistics.median(times[widest.model.name])
        for name, seconds in times.items():
            median = statistics.median(seconds)
            rows[name][f"sentences/s, texts {kind}"] = round(len(texts) / median)
            rows[name][f"time / {widest.model.name}, {kind}"] = median / base
    print(as_markdown(pl.DataFrame(list(rows.values()))))


if __name__ == "__main__":
    main()
