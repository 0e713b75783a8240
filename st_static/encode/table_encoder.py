"""Many texts to the vectors of a static model, with torch: in blocks, for several threads."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from st_static.encode.scaling import Scaling
from st_static.model.int8_table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.texts import arrow
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

# A thread encodes this many texts at a time, of about so many bytes, into at most so many numbers:
# 24 MB of float32.
_BLOCK_TEXTS = 8_192
_BLOCK_BYTES = 4_000_000
_BLOCK_NUMBERS = 6_000_000
# Add up and scale this many numbers at a time: half a megabyte stays in the second-level cache.
_SUMMED_NUMBERS = 131_072
# Longer texts are added up piece by piece.
_LONG_BYTES = 8_000_000
# More rows than any text has.
_ANY_NUMBER = 2**31


class Block(NamedTuple):
    """Neighbouring texts, a list or Arrow array, of which the first is text number `start`."""

    start: int
    texts: list[str] | pa.Array


class TableEncoder:
    """Adds up and scales the rows of texts' tokens; it may be used by several threads at a time.

    Args:
        model: Prompt and scaling.
        rows: Its table [V, D], in the number format of the vectors, or in int8.
        tokenize: Its tokenizer.
    """

    def __init__(self, model: StaticModel, rows: Table, tokenize: FastTokenizer) -> None:
        self._tokenize, self._rows = tokenize, rows
        self.width: int = rows.shape[1]
        self._most_rows = _most_rows(rows)
        self._add = _adder(rows)
        self._set_model(model)

    def _set_model(self, model: StaticModel) -> None:
        """Take the model's prompt, scaling and number of dimensions."""
        self.model = model
        self._scaling = Scaling(model)

    def variant(self, model: StaticModel) -> TableEncoder:
        """The same with another prompt or number of dimensions; it shares all memory."""
        variant = object.__new__(type(self))
        variant.__dict__.update(self.__dict__)
        variant._set_model(model)
        return variant

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        return min(self.width, self.model.truncate_dim or self.width)

    def encode_text(self, text: str) -> NDArray[np.floating]:
        """The vector [D] of a text, which may be long."""
        alone = np.empty((1, self.dimension), self._rows.dtype)
        self.encode_block(Block(0, [text]), alone)
        vector: NDArray[np.floating] = alone[0]
        return vector

    def encode_block(self, block: Block, vectors: NDArray[np.floating]) -> None:
        """Write the vectors of a block into those of all texts, [N, D]."""
        texts = block.texts
        if self.model.prompt:
            strings = texts if isinstance(texts, list) else texts.to_pylist()
            texts = [self.model.prompt + text for text in strings]
        out = torch.from_numpy(vectors[block.start : block.start + len(texts)])
        truncates = self._tokenize.max_tokens is not None
        if len(texts) == 1 and _size(texts) > _LONG_BYTES and not truncates:
            self._write_long(arrow.strings(texts) if isinstance(texts, list) else texts, out)
        else:
            self._write_vectors(self._tokenize(texts), out)

    def encode_column(
        self,
        texts: list[str] | pa.ChunkedArray,
        vectors: NDArray[np.floating],
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N] to `vectors`, [N, D], with so many threads."""
        parts = list(blocks(texts, threads, self.width))
        if len(parts) == 1 or threads == 1:
            _await(map(self.encode_block, parts, repeat(vectors)), parts, show_progress_bar)
            return
        with ThreadPoolExecutor(threads, initializer=_stay_in_this_thread) as pool:
            done = pool.map(self.encode_block, parts, repeat(vectors))
            _await(done, parts, show_progress_bar)

    @torch.inference_mode()
    def _write_vectors(self, ids: Ragged, out: torch.Tensor) -> None:
        """Write the vectors of token ids [B rows] to `out`, [B, D]."""
        step = max(1, _SUMMED_NUMBERS // self.width)
        for start in range(0, len(out), step):
            some = ids.rows(start, start + step)
            lengths = torch.from_numpy(some.lengths)
            self._scaling.write(self._sums(some), lengths, out[start : start + step])

    @torch.inference_mode()
    def _write_long(self, text: pa.Array, out: torch.Tensor) -> None:
        """Write the vector of a long text [1] to `out`, [1, D]; all its ids would be too many."""
        sums = torch.zeros(1, self.width)
        n_tokens = 0
        for ids in self._tokenize.in_parts(text.cast(pa.large_string())):
            n_tokens += len(ids.values)
            sums += self._sums(ids).sum(dim=0)
        # Scaled once, at the end: the mean is that of the whole text, not of its pieces' means.
        self._scaling.write(sums, torch.tensor([n_tokens]), out)

    def _sums(self, ids: Ragged) -> torch.Tensor:
        """Sums of the rows of token ids [B rows], [B, width] in float32."""
        if ids.lengths.max(initial=0) <= self._most_rows:
            return self._add(ids)
        pieces, text_of_piece = ids.cut(self._most_rows)
        sums = torch.zeros(len(ids.lengths), self.width)
        return sums.index_add_(0, torch.from_numpy(text_of_piece), self._add(pieces))


def _stay_in_this_thread() -> None:
    """Keep torch in the calling thread: its own threads would wait for those of the pool."""
    torch.get_num_threads()  # in a new thread, torch sets the number when it is first asked for it
    _openmp().limit(limits=1)


@functools.cache
def _openmp() -> ThreadpoolController:
    """What sets the number of OpenMP's threads, which is one of each thread that starts some."""
    return ThreadpoolController().select(user_api="openmp")


def blocks(texts: list[str] | pa.ChunkedArray, threads: int, dimension: int) -> Iterator[Block]:
    """Cut texts into blocks, as many for each thread if there are many."""
    start = 0
    most = max(1, min(_BLOCK_TEXTS, _BLOCK_NUMBERS // dimension))
    blocks_of_thread = max(1, -(-len(texts) // (threads * most)))
    size = min(most, max(1024, -(-len(texts) // (threads * blocks_of_thread))))
    for part in [texts] if isinstance(texts, list) else texts.chunks:
        fitting = len(part) * _BLOCK_BYTES // max(1, _size(part))
        step = max(1, min(size, fitting))
        for first in range(0, len(part), step):
            yield Block(start + first, part[first : first + step])
        start += len(part)


def _size(texts: list[str] | pa.Array) -> int:
    """About how many bytes texts have."""
    return sum(map(len, texts)) if isinstance(texts, list) else int(texts.nbytes)


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


def _adder(rows: Table) -> Callable[[Ragged], torch.Tensor]:
    """What adds up the rows of token ids [B rows]: a function that gives [B, width] in float32."""
    is_int8 = isinstance(rows, Int8Table)
    segments = list(map(torch.from_numpy, rows.packed if isinstance(rows, Int8Table) else [rows]))
    add_int8 = torch.ops.quantized.embedding_bag_byte_rowwise_offsets

    def add(ids: Ragged) -> torch.Tensor:
        values = torch.from_numpy(ids.values)
        starts = torch.from_numpy(ids.offsets[:-1].astype(np.int32))
        if is_int8:
            return torch.cat([add_int8(segment, values, starts) for segment in segments], dim=1)
        # In float16 it takes longer to scale, and the smallest norm allowed is rounded to zero.
        return F.embedding_bag(values, segments[0], starts, mode="sum").float()

    return add


def _most_rows(rows: Table) -> int:
    """How many rows can be added up before their sum is too large, or rounded too often.

    Sums are in the table's format: in float16, those of many rows would be too large.
    """
    if isinstance(rows, Int8Table):
        return ROWS_IN_A_SUM
    if rows.dtype != np.float16:
        return _ANY_NUMBER
    smallest, largest = map(float, torch.aminmax(torch.from_numpy(rows)))
    return max(1, int(torch.finfo(torch.float16).max / max(1.0, largest, -smallest)))
