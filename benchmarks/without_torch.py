"""How fast new texts are encoded without torch, with it, and by Model2Vec, in one run.

    python benchmarks/without_torch.py MODEL --corpus 'corpus/*.txt.xz' [--texts 100000] [--turns 5]

MODEL is a folder without a head that Model2Vec loads, such as `st-static export
st-static/minilm-256 --output MODEL` writes. The encoders take turns, and each turn has sentences
that are new to all of them. Prints the medians: texts a second, what they are to Model2Vec's, and
by how much the vectors without torch differ from those with it. Then the floor under float32: how
fast are ids alone, of texts read for the first time, and the sums of their rows alone, by one
thread; no encoder that takes both steps is faster than the two together.
"""

import itertools
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import parser_of, print_heading, print_row, seconds_of

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.encode.fast_encoder import FastEncoder, TableFormat
from st_static.encode.row_sums import sum_rows
from st_static.model.table import used_rows

FORMATS: tuple[TableFormat, ...] = ("float32", "float16", "int8")
STEP = 512  # texts whose rows are added up at a time, as FastEncoder does in 256 dimensions


def without_torch(encode: Callable[[list[str]], Any]) -> Callable[[list[str]], Any]:
    """Encode as in a process that has not imported torch."""

    def call(texts: list[str]) -> Any:
        hidden = sys.modules.pop("torch")
        try:
            return encode(texts)
        finally:
            sys.modules["torch"] = hidden

    return call


def print_floor(model: str, texts: list[str]) -> None:
    """Print the speeds of the steps, each alone."""
    encoder = FastEncoder.from_pretrained(model, threads=1)
    encoder.tokenize.prepare()
    encoder.tokenize(texts[: len(texts) // 2])
    some = texts[len(texts) // 2 :]
    seconds = {"ids": seconds_of(encoder.tokenize, some)}
    rows, ids = used_rows(encoder.model.table, encoder.tokenize(some))
    parts = [ids.rows(start, start + STEP) for start in range(0, len(some), STEP)]

    def add_up(_: list[str]) -> None:
        for part in parts:
            sum_rows(rows, part)

    for name, add in {"rows, by scipy": without_torch(add_up), "rows, by torch": add_up}.items():
        seconds[name] = statistics.median(seconds_of(add, some) for _ in range(7))
    for which in ("scipy", "torch"):
        seconds[f"both, {which}"] = seconds["ids"] + seconds[f"rows, by {which}"]
    print_heading(["step, one thread", "texts a second"])
    for name, value in seconds.items():
        print_row(name, f"{len(some) / value:,.0f}")


def main() -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    import torch  # noqa: F401
    from model2vec import StaticModel

    n_parts = 1 + options.turns  # the first is not counted
    lines = Corpus(CorpusConfig(files=options.corpus))
    sentences = itertools.chain.from_iterable(split_sentences([line]) for line in lines)
    texts = list(dict.fromkeys(itertools.islice(sentences, n_parts * options.texts)))
    np.random.default_rng(0).shuffle(texts)
    encoders: dict[str, Callable[[list[str]], Any]] = {
        "Model2Vec": StaticModel.from_pretrained(options.model).encode
    }
    for dtype in FORMATS:
        for name in ("without torch", "with torch"):
            encode = FastEncoder.from_pretrained(options.model, dtype=dtype).encode
            is_without = name == "without torch"
            encoders[f"{dtype}, {name}"] = without_torch(encode) if is_without else encode
    speeds: dict[str, list[float]] = {name: [] for name in encoders}
    for turn in range(n_parts):
        some = texts[turn::n_parts]
        for name, encode in sorted(encoders.items(), reverse=turn % 2 == 0):
            speeds[name].append(len(some) / seconds_of(encode, some))
    median = {name: statistics.median(found[1:]) for name, found in speeds.items()}
    print_heading(["encoder", "texts a second", "x Model2Vec", "x with torch", "difference"])
    for name, speed in median.items():
        dtype, _, how = name.partition(", ")
        other = f"{dtype}, with torch"
        cells = ["", ""]
        if how == "without torch":
            one, two = (encoders[key](texts[:2000]).astype(np.float32) for key in (name, other))
            cells = [f"{speed / median[other]:.2f}", f"{np.abs(one - two).max():.0e}"]
        print_row(name, f"{speed:,.0f}", speed / median["Model2Vec"], *cells)
    print_floor(options.model, texts[: 2 * options.texts])


if __name__ == "__main__":
    main()
