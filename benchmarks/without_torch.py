"""How fast new texts are encoded without torch and with it, against Model2Vec in one run.

    python benchmarks/without_torch.py MODEL --corpus 'corpus/*.txt.xz' [--texts 100000] \
        [--turns 5] [--dimension 256]

MODEL is a folder without a head that Model2Vec loads, such as `st-static export
st-static/english-384 --output MODEL` writes. `--dimension` takes the first dimensions of a
Matryoshka model. The encoders take turns, and each turn has sentences that are new to all of them.
Prints the medians: texts a second, against Model2Vec, and without torch against with it, with the
largest difference of their vectors. Then the floor under float32: how fast one thread finds ids
alone, and adds up rows alone; an encoder that takes one step after the other is no faster than both
together.
"""

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch  # noqa: F401
from measuring import parser_of, print_heading, print_row, seconds_of
from model2vec import StaticModel

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.encode.fast_encoder import FastEncoder, TableFormat
from st_static.encode.row_sums import sum_rows

FORMATS: tuple[TableFormat, ...] = ("float32", "float16", "int8")
STEP = 512  # texts whose rows are added up at a time, as FastEncoder does in 256 dimensions


@contextmanager
def _hidden_torch() -> Iterator[None]:
    hidden = sys.modules.pop("torch")
    try:
        yield
    finally:
        sys.modules["torch"] = hidden


def without_torch(call: Callable[..., Any]) -> Callable[..., Any]:
    """Call as in a process that has not imported torch."""
    return _hidden_torch()(call)


def print_floor(model: str, texts: list[str]) -> None:
    """Print the speeds of the steps, each alone."""
    encoder = FastEncoder.from_pretrained(model, threads=1)
    encoder.tokenize.prepare()
    half = len(texts) // 2
    encoder.tokenize(texts[:half])
    seconds = {"ids": seconds_of(encoder.tokenize, texts[half:])}
    rows, ids = np.asarray(encoder.model.table), encoder.tokenize(texts[half:])
    parts = [ids.rows(start, start + STEP) for start in range(0, half, STEP)]
    for name, add in {"scipy": without_torch(sum_rows), "torch": sum_rows}.items():
        turns = [seconds_of(lambda add=add: [add(rows, part) for part in parts]) for _ in range(7)]
        seconds[f"rows, by {name}"] = statistics.median(turns)
    seconds["ids and rows, by scipy"] = seconds["ids"] + seconds["rows, by scipy"]
    print_heading(["step, one thread", "texts a second"])
    for name, value in seconds.items():
        print_row(name, f"{half / value:,.0f}")


def main() -> None:
    """Print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--dimension", type=int, help="by default all")
    options = parser.parse_args()
    n_parts = 1 + options.turns  # the first is not counted
    lines = Corpus(CorpusConfig(files=options.corpus))
    sentences = itertools.chain.from_iterable(split_sentences([line]) for line in lines)
    texts = list(dict.fromkeys(itertools.islice(sentences, n_parts * options.texts)))
    model2vec = StaticModel.from_pretrained(options.model, dimensionality=options.dimension)
    encoders = {"Model2Vec": model2vec.encode}
    for dtype in FORMATS:
        for name in ("without torch", "with torch"):
            encode = FastEncoder.from_pretrained(
                options.model, dtype=dtype, truncate_dim=options.dimension
            ).encode
            is_hidden = name == "without torch"
            encoders[f"{dtype}, {name}"] = without_torch(encode) if is_hidden else encode
    speeds: dict[str, list[float]] = {name: [] for name in encoders}
    for turn in range(n_parts):
        some = texts[turn::n_parts]
        for name, encode in sorted(encoders.items(), reverse=turn % 2 == 0):
            speeds[name].append(len(some) / seconds_of(encode, some))
    median = {name: statistics.median(found[1:]) for name, found in speeds.items()}
    print_heading(["encoder", "texts a second", "x Model2Vec", "x with torch", "difference"])
    for name, speed in median.items():
        other = name.replace("without", "with")
        cells = ["", ""]
        if other != name:
            one, two = (encoders[key](texts[:2000]).astype(np.float32) for key in (name, other))
            cells = [f"{speed / median[other]:.2f}", f"{np.abs(one - two).max():.0e}"]
        print_row(name, f"{speed:,.0f}", speed / median["Model2Vec"], *cells)
    print_floor(options.model, texts[: 2 * options.texts])


if __name__ == "__main__":
    main()
