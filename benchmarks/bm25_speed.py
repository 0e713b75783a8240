"""How fast texts are indexed by their words and searched, against bm25s.

    python benchmarks/bm25_speed.py TEXTS.txt [--texts 200000] [--queries 50]

takes the first lines of a file of a text a line, and every n-th one's first eight words as queries.
It prints seconds of the processor, on one thread, for indexing, and milliseconds a query for the
ten best: medians of three turns, in which both take part one after the other.

It needs the package bm25s.
"""

import statistics
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import bm25s
import numpy as np
import torch
from measuring import parser_of, print_heading, print_row

from st_static.search.word_index import WordIndex, split_texts
from st_static.texts import arrow

TURNS, TOP = 3, 10
Search = Callable[[str], object]


def index_here(texts: list[str]) -> Search:
    """Index as `SearchIndex` does."""
    index = WordIndex.of([split_texts(arrow.strings(texts))])
    return lambda query: np.argpartition(index.scores(query)[0], len(texts) - TOP)


def index_there(texts: list[str]) -> Search:
    """Index with bm25s, stop words too."""

    def words(texts: str | list[str]) -> object:
        return bm25s.tokenize(texts, stopwords=None, show_progress=False)

    index = bm25s.BM25()
    index.index(words(texts), show_progress=False)
    return lambda query: index.retrieve(words(query), k=TOP, show_progress=False)


def main() -> None:
    """Measure both."""
    parser = parser_of(__doc__)
    parser.add_argument("file", type=Path, metavar="TEXTS.txt")
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with options.file.open(encoding="utf-8") as lines:
        texts = [line.rstrip("\n") for line in islice(lines, options.texts)]
    queries = [" ".join(t.split()[:8]) for t in texts[:: max(1, len(texts) // options.queries)]]
    makers = {"st_static": index_here, "bm25s": index_there}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    for _ in range(TURNS):
        for name, make in makers.items():
            start = time.process_time()
            search = make(texts)
            indexed = time.process_time()
            for query in queries:
                search(query)
            searched = (time.process_time() - indexed) / len(queries)
            times[name].append((indexed - start, 1000 * searched))
    print_heading(["library", "seconds to index", "ms a query"])
    for name, turns in times.items():
        print_row(name, *(statistics.median(column) for column in zip(*turns, strict=True)))


if __name__ == "__main__":
    main()
