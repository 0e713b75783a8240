"""How fast texts are indexed and searched, and how much memory that takes.

    python benchmarks/search_speed.py MODEL TEXTS.txt [--turns 3] [--queries 100]

runs `st-static encode`, into npy and Parquet, and `st-static search --index` on a file of a text a
line, one after the other in each turn, and prints the medians: seconds of the whole command, texts
a second, and the peak of its resident memory; then the seconds of a processor that a new process
takes to open the index and find its first hits, median of five. Then it opens the index, takes
every n-th text's first eight words as queries, and prints the median milliseconds of one, in each
ranking, after a warm-up; that of `both` with filters that half, a hundredth and a ten-thousandth of
the texts pass, as a mask, and what it takes once to make the mask of a pyarrow expression and of
SQL; and how many of the ten texts with the highest cosines in float32 are found, and how wrong
cosines are. Linux only.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from measuring import parser_of, print_heading, print_row, seconds_of

from st_static import FastEncoder, SearchIndex
from st_static.model.vectors import unit_rows
from st_static.search.filters import passing, passing_sql


def seconds_and_megabytes(*arguments: object) -> tuple[float, float]:
    """How long a command of st-static takes, and its peak memory."""
    command = [sys.executable, "-m", "st_static.cli", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed.")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def first_search(model: str, index: Path) -> float:
    """How many seconds of a processor a new process takes to its first hits."""
    program = """
import sys, time
from st_static import FastEncoder, SearchIndex
encoder = FastEncoder.from_pretrained(sys.argv[1])
SearchIndex.open(sys.argv[2], encoder).search("how do I open a file")
print(time.process_time())
"""
    command = [sys.executable, "-c", program, model, str(index)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_filters(index: SearchIndex, queries: list[str]) -> None:
    """Print what filters take that leave a share of the texts, spread at random."""
    number = np.random.default_rng(0).permutation(len(index))
    rows = index.rows.append_column("number", pa.array(number))
    print_heading(["share that passes", "ms a query", "ms of expression", "ms of SQL"])
    for share in (0.5, 0.01, 0.0001):
        end = int(share * len(index))
        expression, sql = pc.field("number") < end, f"number < {end}"
        mask = passing(expression, rows)
        passing_sql(sql, rows)
        index.search(queries[:5], where=mask)
        seconds = [
            [seconds_of(index.search, query, where=mask) for query in queries],
            [seconds_of(passing, expression, rows) for _ in range(9)],
            [seconds_of(passing_sql, sql, rows) for _ in range(9)],
        ]
        print_row(f"{share:.2%}", *(1000 * statistics.median(some) for some in seconds))
    print()


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--queries", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        vectors, index = Path(folder) / "vectors", Path(folder) / "index"
        source = arguments.model, "--input", arguments.texts
        commands = {
            "encode": ("encode", *source, "--output", vectors.with_suffix(".npy")),
            "encode, Parquet": ("encode", *source, "--output", vectors.with_suffix(".parquet")),
            "search": ("search", *source, "--index", index, "--top", 1, "query"),
        }
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(arguments.turns):
            for name, command in commands.items():
                measured[name].append(seconds_and_megabytes(*command))
        # Only now: a child's peak counts the memory that this process had when it was forked.
        lines = arguments.texts.read_text("utf-8").splitlines()
        print_heading(["command", "seconds", "texts/s", "MB"])
        for name, runs in measured.items():
            seconds, megabytes = (statistics.median(column) for column in zip(*runs, strict=True))
            print_row(f"st-static {name}", seconds, f"{len(lines) / seconds:,.0f}", megabytes)
        both = zip(measured["encode"], measured["search"], strict=True)
        ratios = [encoded / indexed for (encoded, _), (indexed, _) in both]
        print(f"\nIndexing has {statistics.median(ratios):.2f} of the rate of encoding.\n")

        first = [first_search(arguments.model, index) for _ in range(5)]
        print(f"The first search of a process takes {statistics.median(first):.2f} s of it.\n")

        encoder = FastEncoder.from_pretrained(arguments.model)
        opened = SearchIndex.open(index, encoder)
        some = lines[:: max(1, len(lines) // arguments.queries)]
        queries = [" ".join(line.split()[:8]) for line in some]
        print_heading(["ranking", "ms a query"])
        for by in ("both", "meaning", "words"):
            opened.search(queries[:5], by=by)
            print_row(
                by, 1000 * statistics.median(seconds_of(opened.search, q, 10, by) for q in queries)
            )
        print()
        print_filters(opened, queries)
        found, errors = [], []
        vectors = unit_rows(encoder.encode_document(lines))
        for query in queries:
            exact = vectors @ unit_rows(encoder.encode_query([query]))[0]
            hits = opened.search(query, 10, "meaning")
            found.append(len({*np.argsort(-exact)[:10]} & {hit.position for hit in hits}))
            errors += [abs((hit.meaning or 0) - exact[hit.position]) for hit in hits]
        print(f"Of the ten nearest in float32, {statistics.mean(found):.2f} are found.")
        print(f"Cosines of hits are wrong by at most {max(errors):.4f}.")


if __name__ == "__main__":
    main()
