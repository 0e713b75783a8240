"""How fast a fused ensemble encodes, against its members and the ensemble unfused.

    python benchmarks/ensemble_speed.py --texts FILE MODEL MODEL [MODEL ...]

encodes the first 50,000 lines of FILE, warm, and prints the median of five turns in which the
encoders take part one after the other. A MODEL is named as in a recipe of an ensemble. The ratio
is to the first of the members with the most dimensions.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path

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
    ensemble = Ensemble(members)
    fused = ensemble.fuse()
    encoders: dict[str, Member] = {member.model.name: member for member in members}
    encoders |= {
        "ensemble": ensemble,
        "fused": fused,
        "fused, float16": FastEncoder(fused.model, dtype="float16"),
    }
    times: dict[str, list[float]] = {name: [] for name in encoders}
    for turn in range(TURNS + 1):
        for name, encoder in encoders.items():
            seconds = seconds_of(encoder, texts)
            if turn:  # the first one warms up
                times[name].append(seconds)
    base = statistics.median(times[widest.model.name])
    rows = [
        {
            "encoder": name,
            "sentences/s": round(len(texts) / statistics.median(seconds)),
            f"time / {widest.model.name}": statistics.median(seconds) / base,
        }
        for name, seconds in times.items()
    ]
    print(as_markdown(pl.DataFrame(rows)))


if __name__ == "__main__":
    main()
