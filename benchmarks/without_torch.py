"""How fast many texts are encoded by numpy alone, against torch's `embedding_bag`, in one run.

    python benchmarks/without_torch.py MODEL --corpus 'corpus/*.txt.xz' [--texts 20000] [--turns 9]

MODEL is a table without a head. numpy takes the rows of the first tokens of a block's texts, adds
those of the second ones, and so on, the longest texts first: faster in most formats than text by
text, than texts of one length together, and by far than `add.reduceat`. Tokens, blocks and threads
are those of `FastEncoder`; torch has no more threads than it. Prints the median of the turns, in
which the two take turns to be first, on sentences that are new in each: texts a second, and the
largest difference between their vectors.
"""

import itertools
import statistics
from typing import Any

import numpy as np
import torch
from measuring import parser_of, print_heading, print_row, seconds_of
from numpy.typing import NDArray
from st_static.encode.torch_backend import TorchBackend

from st_static.cluster.processes import n_processors
from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.encode.fast_encoder import FastEncoder, TableFormat
from st_static.encode.scaling import Scaling, scale_to_unit
from st_static.model.table import Int8Table
from st_static.tokens.ragged import Ragged

FORMATS: tuple[TableFormat, ...] = ("float32", "float16", "int8")


class Int8Rows:
    """Rows in int8 with their scales apart, which numpy multiplies faster than packed ones."""

    dtype = np.dtype(np.float32)

    def __init__(self, table: Int8Table) -> None:
        [packed] = table.packed
        self.rows = np.ascontiguousarray(packed[:, :-8] ^ np.uint8(128)).view(np.int8)
        self.scales = np.ascontiguousarray(packed[:, -8:-4]).view(np.float32)
        self.shape = self.rows.shape

    def take(self, ids: NDArray[Any], axis: int) -> NDArray[np.float32]:
        """Take rows in float32, [n, D]."""
        rows = self.rows.take(ids, axis).astype(np.float32)
        rows *= self.scales.take(ids, axis)
        return rows


class NumpyBlocks(TorchBackend):
    """Adds up and scales the rows of many texts without torch."""

    def _sums(self, ids: Ragged) -> torch.Tensor:
        order = np.argsort(-ids.lengths, kind="stable")
        lengths, starts = ids.lengths[order], ids.offsets[:-1][order]
        sums = np.zeros((len(order), self._width), np.float32)
        for position in range(lengths.max(initial=0)):
            n = np.searchsorted(-lengths, -position)  # texts with a token there
            sums[:n] += self._rows.take(ids.values[starts[:n] + position], 0)
        in_order = np.empty_like(sums)
        in_order[order] = sums
        return torch.from_numpy(in_order)  # a view


class NumpyScaling(Scaling):
    """Scales vectors without torch."""

    def write(self, sums: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> None:
        """Scale sums to length 1, and copy them to `out`."""
        vectors = sums.numpy()
        scale_to_unit(vectors)
        np.copyto(out.numpy(), vectors[:, : out.shape[1]], casting="same_kind")


def encoders_of(model: str, dtype: TableFormat, threads: int) -> dict[str, FastEncoder]:
    """One encoder with torch, and one with numpy."""
    found = {
        name: FastEncoder.from_pretrained(model, None, None, None, dtype, threads)
        for name in ("torch", "numpy")
    }
    encoder = found["numpy"]
    rows = encoder._rows
    table: Any = Int8Rows(rows) if isinstance(rows, Int8Table) else rows
    backend = NumpyBlocks(encoder.tokenize, rows, NumpyScaling(encoder.model))
    backend._rows, encoder.__dict__["_torch"] = table, backend
    return found


def main() -> None:
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("model")
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=9)
    options = parser.parse_args()
    lines = Corpus(CorpusConfig(files=options.corpus))
    sentences = itertools.chain.from_iterable(split_sentences([line]) for line in lines)
    n_parts = 1 + options.turns  # the first is not counted
    texts = list(dict.fromkeys(itertools.islice(sentences, n_parts * options.texts)))
    print_heading(["table", "threads", "torch", "numpy", "numpy to torch", "largest difference"])
    for dtype, threads in itertools.product(FORMATS, sorted({1, n_processors()})):
        torch.set_num_threads(threads)
        encoders = encoders_of(options.model, dtype, threads)
        speeds: dict[str, list[float]] = {name: [] for name in encoders}
        for part in range(n_parts):
            some = texts[part::n_parts]
            for name in sorted(encoders, reverse=part % 2 == 0):
                speeds[name].append(len(some) / seconds_of(encoders[name].encode, some))
        vectors = [encoder.encode(texts[:2000]).astype(np.float32) for encoder in encoders.values()]
        median = {name: statistics.median(found[1:]) for name, found in speeds.items()}
        difference = f"{np.abs(vectors[0] - vectors[1]).max():.0e}"
        ratio = median["numpy"] / median["torch"]
        cells = [f"{median[name]:,.0f}" for name in encoders]
        print_row(dtype, threads, *cells, ratio, difference)


if __name__ == "__main__":
    main()
