"""Bulk encoding on a Ray cluster of two nodes with a processor each, against one process.

Run:
    python benchmarks/cluster_encode.py MODEL --corpus 'data/*.txt.xz' --lines 10000000

Both write the same lines into Parquet, with float16 vectors: FastEncoder.encode_to with two threads
into one file, and st-static encode --engine ray out of many files into as many. They run in turns;
printed is the median of the ratios. Ray's start and its check of the nodes are not counted: a
cluster runs already. Each run needs about 600 bytes of disk a line.
"""

from __future__ import annotations

import itertools
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from local_cluster import two_nodes
from measuring import parser_of, seconds_of

from st_static import FastEncoder
from st_static.texts.text_files import read_lines

FILES = 40


def corpus_lines(pattern: str) -> Iterator[str]:
    """The lines of text files, again and again."""
    files = sorted(
        Path().glob(pattern) if not pattern.startswith("/") else Path("/").glob(pattern[1:])
    )
    for file in itertools.cycle(files):
        yield from filter(None, map(str.strip, read_lines(file)))


def write_lake(folder: Path, lines: Iterator[str], n_lines: int) -> None:
    """Write lines into files of equal size."""
    folder.mkdir()
    for number in range(FILES):
        texts = pa.array(itertools.islice(lines, n_lines // FILES), pa.large_string())
        pq.write_table(pa.table({"text": texts}), folder / f"part-{number:03}.parquet")


def seconds_here(model: str, lake: Path, output: Path) -> float:
    """How long encode_to takes on two threads, once it is warm."""
    texts = pq.read_table(lake)["text"]
    encoder = FastEncoder.from_pretrained(model, dtype="float16", threads=2)
    encoder.encode(texts.slice(0, 10_000))
    return seconds_of(encoder.encode_to, output / "vectors.parquet", texts)


def seconds_on_cluster(model: str, lake: Path, output: Path) -> float:
    """How long the command says that it takes, from its rate of lines."""
    command = [
        *[sys.executable, "-m", "st_static.cli", "encode", model, "--input", str(lake)],
        *["--output", str(output / "lake"), "--dtype", "float16"],
        *["--engine", "ray"],
    ]
    start = time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    print(f"  the whole command took {time.perf_counter() - start:.1f} s")
    rows, rate = said.strip().splitlines()[-1].split(" sentences, ")
    return int(rows.replace(",", "")) / int(rate.split(" ")[0].rstrip(";").replace(",", ""))


def main() -> None:
    """Measure, and print the ratio."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory() as folder, two_nodes():
        lake = Path(folder, "lines")
        write_lake(lake, corpus_lines(options.corpus), options.lines)
        for _ in range(options.turns):
            output = Path(folder, "vectors")
            output.mkdir()
            here = seconds_here(options.model, lake, output)
            shutil.rmtree(output)
            output.mkdir()
            there = seconds_on_cluster(options.model, lake, output)
            shutil.rmtree(output)
            ratios.append(here / there)
            print(f"encode_to {here:.1f} s, cluster {there:.1f} s, share {ratios[-1]:.2f}")
    print(f"{options.lines:,} lines: the cluster has {statistics.median(ratios):.2f} of the rate")


if __name__ == "__main__":
    main()
