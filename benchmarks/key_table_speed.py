"""How long look-ups take in a `KeyTable`, in a dict and with `pyarrow.compute.index_in`.

    python benchmarks/key_table_speed.py

A table holds 200,000 made-up words, 100,000 of which are looked up at once, as the chunks of a
batch of texts are: they stand as bytes in one buffer. So a dict has to be given strings first, and
`index_in` an Arrow array, which needs no copy. Prints the median time of each way, and its ratio to
that of the `KeyTable`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.tokens import arrow
from st_static.tokens.chunks import Spans
from st_static.tokens.key_table import LONGEST, KeyTable, keys_of

Rows = NDArray[np.int64]


def words(n: int) -> list[str]:
    """Different words of 3 to 12 letters."""
    rng = np.random.default_rng(0)
    found: dict[str, None] = {}
    while len(found) < n:
        letters = rng.integers(ord("a"), ord("z") + 1, rng.integers(3, 13), dtype=np.uint8)
        found[letters.tobytes().decode()] = None
    assert max(map(len, found)) <= LONGEST
    return list(found)


def ways(table: list[str], chunks: pa.Array) -> dict[str, Callable[[], Rows]]:
    """Each way to find the rows of chunks [C] in a table, which is made beforehand."""
    every = arrow.strings(table)
    key_table = KeyTable()
    key_table.insert(keys_of(Spans.of(every)), np.arange(len(table)))
    spans = Spans.of(chunks)
    rows = {word: row for row, word in enumerate(table)}

    def with_dict() -> Rows:
        found = [rows.get(chunk, -1) for chunk in chunks.to_pylist()]
        return np.array(found, np.int64)

    def with_index_in() -> Rows:
        return arrow.numbers(pc.index_in(chunks, value_set=every).fill_null(-1)).astype(np.int64)

    return {
        "KeyTable": lambda: key_table.find(keys_of(spans)),
        "dict": with_dict,
        "index_in": with_index_in,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Look-ups in a KeyTable, a dict and by index_in.")
    parser.add_argument("--table", type=int, default=200_000, help="words in the table")
    parser.add_argument("--chunks", type=int, default=100_000, help="different words to look up")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    table = words(options.table)
    chosen = np.random.default_rng(1).permutation(options.table)[: options.chunks]
    functions = ways(table, arrow.strings([table[i] for i in chosen]))
    for find in functions.values():  # warms up, and must agree
        assert np.array_equal(find(), chosen)
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(options.repeats):  # by turns: a busy machine slows all of them
        for name, find in functions.items():
            start = time.perf_counter()
            find()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:9} {1000 * median:7.2f} ms  {median / medians['KeyTable']:5.2f}")


if __name__ == "__main__":
    main()
