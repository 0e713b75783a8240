"""Many texts to the vectors of a static model, with torch: in blocks, for several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from st_static.encode.head_scaling import scaling_of
from st_static.model.int8_table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.tokens import arrow
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

# A thread encodes this many texts at a time, of about so many bytes, into at most so many numbers:
# 24 MB of float32.
_BLOCK_TEXTS = 8_192
_BLOCK_BYTES = 4_000_000
_BLOCK_NUMBERS = 6_000_000
# Longer texts are added up piece by piece.
_LONG_BYTES = 8_000_000
# More rows than any text has.
_ANY_NUMBER = 2**31


class Block(NamedTuple):
    """Neighbouring texts, of which the first is text number `start`."""

    start: int
    texts: pa.Array


class TableEncoder:
    """Adds up and scales the rows of texts' tokens; it may be used by several threads at a time.

    Args:
        model: Prompt and scaling.
        rows: Its table [V, D], in the number format of the vectors, or in int8.
        tokenize: Its tokenizer.
    """

    def __init__(self, model: StaticModel, rows: Table, tokenize: ChunkTokenizer) -> None:
        self._tokenize, self._rows = tokenize, rows
        self._most_rows = _most_rows(rows)
        self._set_model(model)

    def _set_model(self, model: StaticModel) -> None:
        """Take the model's prompt, scaling and number of dimensions."""
        self.model = model
        self._scaling = scaling_of(model)
        self._add = _adder(self._rows, self._scaling.n_parts)

    def variant(self, model: StaticModel) -> TableEncoder:
        """The same with another prompt or number of dimensions; it shares all memory."""
        variant = object.__new__(type(self))
        variant.__dict__.update(self.__dict__)
        variant._set_model(model)
        return variant

    @property
    def width(self) -> int:
        """Dimensions of the table."""
        width: int = self._rows.shape[1]
        return width

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        width: int = self._rows.shape[1]
        return min(width, self.model.truncate_dim or width)

    def encode_text(self, text: str) -> NDArray[np.floating]:
        """The vector [D] of a text, which may be long."""
        alone = np.empty((1, self.dimension), self._rows.dtype)
        self.encode_block(Block(0, arrow.strings([text])), alone)
        vector: NDArray[np.floating] = alone[0]
        return vector

    def encode_block(self, block: Block, vectors: NDArray[np.floating]) -> None:
        """Write the vectors of a block into those of all texts, [N, D]."""
        texts = block.texts
        if self.model.prompt:
            texts = arrow.strings([self.model.prompt + text for text in texts.to_pylist()])
        out = torch.from_numpy(vectors[block.start : block.start + len(texts)])
        if texts.nbytes > _LONG_BYTES:  # of one text: blocks are shorter
            self._write_long(texts, out)
        else:
            self._write_vectors(self._tokenize(texts), out)

    def encode_column(
        self,
        column: pa.ChunkedArray,
        vectors: NDArray[np.floating],
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N] to `vectors`, [N, D], with so many threads."""
        parts = list(blocks(column, threads, self.width))
        if len(parts) == 1 or threads == 1:
            _await(map(self.encode_block, parts, repeat(vectors)), parts, show_progress_bar)
            return
        with ThreadPoolExecutor(threads) as pool:
            done = pool.map(self.encode_block, parts, repeat(vectors))
            _await(done, parts, show_progress_bar)

    @torch.inference_mode()
    def _write_vectors(self, ids: Ragged, out: torch.Tensor) -> None:
        """Write the vectors of token ids [B rows] to `out`, [B, D]."""
        self._write_scaled(self._sums(ids), torch.from_numpy(ids.lengths), out)

    @torch.inference_mode()
    def _write_long(self, text: pa.Array, out: torch.Tensor) -> None:
        """Write the vector of a long text [1] to `out`, [1, D]; all its ids would be too many."""
        n_parts = self._scaling.n_parts
        sums = torch.zeros(n_parts, 1, self.width // n_parts)
        n_tokens = 0
        for ids in self._tokenize.in_parts(text.cast(pa.large_string())):
            n_tokens += len(ids.values)
            sums += self._sums(ids).sum(dim=1, keepdim=True)
        # Scaled once, at the end: the mean is that of the whole text, not of its pieces' means.
        self._write_scaled(sums, torch.tensor([n_tokens]), out)

    def _write_scaled(self, sums: torch.Tensor, lengths: torch.Tensor, out: torch.Tensor) -> None:
        """Write sums [P, B, W] of so many tokens [B], which are used up, to `out`, [B, D]."""
        if not self._scaling.segments:  # else the length makes no difference: it is scaled away
            sums /= lengths.clamp_min_(1).unsqueeze_(1)
        self._scaling.write(sums, out)

    def _sums(self, ids: Ragged) -> torch.Tensor:
        """Sums of the rows of token ids [B rows], in P parts: [P, B, W] in float32."""
        # Sums are in the table's format: in float16, those of many rows would be too large.
        pieces, text_of_piece = ids.cut(self._most_rows)
        n_parts = self._scaling.n_parts
        # Row p of token i is row P i + p of the table seen in parts, [V P, W]. All of one part are
        # summed before those of the next, which leaves that part's columns in the cache.
        part = np.arange(n_parts, dtype=np.int32)[:, np.newaxis]
        values = n_parts * pieces.values + part
        starts = offsets_of(np.tile(pieces.lengths, n_parts))[:-1]
        n_pieces, n_texts = len(text_of_piece), len(ids.lengths)
        sums = self._add(
            torch.from_numpy(values.reshape(-1)), torch.from_numpy(starts.astype(np.int32))
        ).view(n_parts, n_pieces, self.width // n_parts)
        # In float16 it takes longer to scale, and the smallest norm allowed is rounded to zero.
        if n_pieces == n_texts:
            return sums.float()
        is_first = np.diff(text_of_piece, prepend=-1) > 0
        first, others = map(torch.from_numpy, (np.flatnonzero(is_first), np.flatnonzero(~is_first)))
        added = sums[:, others].float()
        return sums[:, first].float().index_add_(1, torch.from_numpy(text_of_piece)[others], added)


def blocks(column: pa.ChunkedArray, threads: int, dimension: int) -> Iterator[Block]:
    """Cut a column into blocks, at least one for each thread if there are many texts."""
    start = 0
    most = max(1, min(_BLOCK_TEXTS, _BLOCK_NUMBERS // dimension))
    size = min(most, max(1024, -(-len(column) // threads)))
    for array in column.chunks:
        fitting = len(array) * _BLOCK_BYTES // max(1, array.nbytes)
        step = max(1, min(size, fitting))
        for first in range(0, len(array), step):
            texts = array.slice(first, step)
            yield Block(start + first, texts)
        start += len(array)


def _await(done: Iterable[None], parts: list[Block], show_progress_bar: bool) -> None:
    """Wait until all blocks are done, behind a progress bar over their texts if wanted."""
    if not show_progress_bar:
        deque(done, maxlen=0)
        return
    from tqdm.auto import tqdm

    total = sum(len(part.texts) for part in parts)
    with tqdm(total=total, unit=" texts", unit_scale=True) as bar:
        for part, _ in zip(parts, done, strict=True):
            bar.update(len(part.texts))


def _adder(rows: Table, n_parts: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """What adds up rows of a table seen in parts, [V P, W].

    Returns:
        A function of row numbers and of the places where new sums begin, [B]; it gives sums [B, W].
    """
    if isinstance(rows, Int8Table):
        add = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
        first, *others = [partial(add, torch.from_numpy(segment)) for segment in rows.packed]
        if not others:
            return first
        return lambda *ids: torch.cat([first(*ids), *(other(*ids) for other in others)], dim=1)
    parts = torch.from_numpy(rows.reshape(len(rows) * n_parts, -1))
    return lambda numbers, starts: F.embedding_bag(numbers, parts, starts, mode="sum")


def _most_rows(rows: Table) -> int:
    """How many rows can be added up before their sum is too large, or rounded too often."""
    if isinstance(rows, Int8Table):
        return ROWS_IN_A_SUM
    if rows.dtype != np.float16:
        return _ANY_NUMBER
    smallest, largest = map(float, torch.aminmax(torch.from_numpy(rows)))
    return max(1, int(torch.finfo(torch.float16).max / max(1.0, largest, -smallest)))
