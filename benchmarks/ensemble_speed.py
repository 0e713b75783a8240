"""How fast a fused ensemble encodes, against its members and the ensemble unfused.

    python benchmarks/ensemble_speed.py --texts FILE MODEL MODEL [MODEL ...]

takes batches of 50,000 lines of FILE, and encodes the first one by encoders that are new and by
ones that have seen it, the median of five turns; and the next twenty, each once and by the same
encoders, as a large file is encoded: into an array that is used again. In each turn and batch the
encoders take part one after the other, each time another one first. A MODEL is named as in a recipe
of an ensemble. The ratios are to the first of the members with the most dimensions.
"""

import collections
import functools
import itertools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import parser_of, seconds_of

from st_static.encode.encoder import Encoder
from st_static.encode.fast_encoder import FastEncoder
from st_static.ensemble.ensemble import Ensemble
from st_static.evaluate.tables import as_markdown
from st_static.model.model_name import read_named

TURNS = 5
BATCHES = 20
BATCH = 50_000

Encode = Callable[[list[str]], Any]
Makers = dict[str, Callable[[], Encoder]]


def batches_of(file: Path) -> Iterator[list[str]]:
    """Batches of 50,000 lines, as many as are needed."""
    with file.open(encoding="utf-8") as lines:
        stripped = (line.rstrip("\n") for line in lines)
        for _ in range(1 + BATCHES):
            batch = list(itertools.islice(stripped, BATCH))
            if len(batch) < BATCH:
                raise SystemExit(f"Expected {(1 + BATCHES) * BATCH} lines in {file}, but it ends.")
            yield batch


def into_one_array(encoder: Encoder) -> Encode:
    """Encoding as a stream does, if the encoder can."""
    if not isinstance(encoder, FastEncoder):
        return encoder.encode
    return functools.partial(
        encoder.encode, out=np.zeros((BATCH, encoder.dimension), encoder.dtype)
    )


def seconds_by_kind(makers: Makers, batches: Iterator[list[str]]) -> dict[str, dict[str, float]]:
    """Seconds for a batch, by kind of measurement and encoder."""
    first = next(batches)
    new: dict[str, list[float]] = {name: [] for name in makers}
    seen: dict[str, list[float]] = {name: [] for name in makers}
    stream: dict[str, list[float]] = {name: [] for name in makers}
    encoders = {name: make() for name, make in makers.items()}
    for encoder in encoders.values():
        encoder.encode(first)
    names = collections.deque(makers)
    for _ in range(TURNS):
        for name in names:
            new[name].append(seconds_of(makers[name]().encode, first))
            seen[name].append(seconds_of(encoders[name].encode, first))
        names.rotate()
    ways = {name: into_one_array(encoder) for name, encoder in encoders.items()}
    for batch in batches:
        for name in names:
            stream[name].append(seconds_of(ways[name], batch))
        names.rotate()
    return {
        "new encoder": {name: statistics.median(times) for name, times in new.items()},
        "stream": {name: statistics.mean(times) for name, times in stream.items()},
        "same texts again": {name: statistics.median(times) for name, times in seen.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--texts", type=Path, required=True)
    options = parser.parse_args()
    members = [FastEncoder(read_named(name)) for name in options.models]
    widest = max(members, key=lambda member: member.dimension).model.name
    fused = Ensemble(members).fuse()
    makers: Makers = {
        member.model.name: functools.partial(FastEncoder, member.model) for member in members
    }
    makers |= {
        "ensemble": lambda: Ensemble([FastEncoder(member.model) for member in members]),
        "fused": lambda: FastEncoder(fused.model),
        "fused, float16": lambda: FastEncoder(fused.model, dtype="float16"),
    }
    rows: dict[str, dict[str, Any]] = {name: {"encoder": name} for name in makers}
    for kind, times in seconds_by_kind(makers, batches_of(options.texts)).items():
        for name, seconds in times.items():
            rows[name][f"sentences/s, {kind}"] = round(BATCH / seconds)
            rows[name][f"time / {widest}, {kind}"] = seconds / times[widest]
    print(as_markdown(pl.DataFrame(list(rows.values()))))


if __name__ == "__main__":
    main()
