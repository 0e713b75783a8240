"""Encode many texts with torch: in blocks, by several threads."""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from st_static.cluster.processes import unblock_torch
from st_static.encode.scaling import Scaling
from st_static.model.table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.texts import arrow
from st_static.threads import Workers
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged

# A thread encodes at most this many texts and bytes at a time, into at most this many numbers,
# 24 MB of float32. A text of more bytes is added up part by part.
_BLOCK_TEXTS = 8_192
_BLOCK_BYTES = 4_000_000
_BLOCK_NUMBERS = 6_000_000
# Estimate the length of a list's texts from this many: looking at all takes a tenth of the encoding
# time, and blocks the other threads.
_SAMPLE = 1_000
# Add up and scale this many numbers at a time: half a megabyte stays in the second-level cache.
_SUMMED_NUMBERS = 131_072


class TorchBackend:
    """Adds up rows [V, width] of texts' tokens, in the vectors' format or int8; safe in threads."""

    def __init__(self, tokenize: FastTokenizer, rows: Table, scaling: Scaling) -> None:
        self._tokenize, self._rows, self._scaling = tokenize, rows, scaling
        self._width: int = rows.shape[1]
        unblock_torch()
        self._most_rows = _most_rows(rows)

    def encode(
        self,
        texts: list[str] | pa.ChunkedArray,
        vectors: NDArray[np.floating],
        prompt: str = "",
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N], each behind the prompt, to `vectors` [N, D], of the
        table's format and at most its width; TypeError or ValueError if a text is not valid."""
        unblock_torch()
        blocks = list(_blocks(texts, threads, self._width))

        def encode_block(block: tuple[int, list[str] | pa.Array]) -> None:
            start, some = block
            if prompt:
                strings = some if isinstance(some, list) else some.to_pylist()
                some = [prompt + text for text in strings]
            self._encode_block(some, torch.from_numpy(vectors[start:][: len(some)]))

        with contextlib.ExitStack() as stack:
            done: Iterator[None]
            if threads == 1:
                stack.enter_context(_stay_in_this_thread())
            if len(blocks) == 1 or threads == 1:
                done = map(encode_block, blocks)
            else:
                pool = Workers(threads, initializer=_stay_in_this_thread)
                done = stack.enter_context(pool).map(encode_block, blocks)
            if not show_progress_bar:
                deque(done, maxlen=0)
                return
            from tqdm.auto import tqdm

            bar = stack.enter_context(tqdm(total=len(texts), unit=" texts", unit_scale=True))
            for (_, some), _ in zip(blocks, done, strict=True):
                bar.update(len(some))

    @torch.inference_mode()
    def _encode_block(self, texts: list[str] | pa.Array, out: torch.Tensor) -> None:
        """Write the vectors of texts [B] to `out`, [B, D]."""
        is_large = _size(texts) > _BLOCK_BYTES
        if is_large and len(texts) > 1:
            half = len(texts) // 2
            self._encode_block(texts[:half], out[:half])
            self._encode_block(texts[half:], out[half:])
        elif is_large and self._tokenize.max_tokens is None:
            sums, n_tokens = torch.zeros(1, self._width, dtype=torch.float64), 0
            text = arrow.strings(texts) if isinstance(texts, list) else texts
            for ids in self._tokenize.in_parts(text.cast(pa.large_string())):
                n_tokens += len(ids.values)
                sums += self._sums(ids).sum(dim=0, dtype=torch.float64)
            # Scaled once, for the mean of the whole text, not of its parts' means.
            self._scaling.write(sums.float(), torch.tensor([n_tokens]), out)
        else:
            ids = self._tokenize(texts)
            step = max(1, _SUMMED_NUMBERS // self._width)
            for start in range(0, len(out), step):
                some = ids.rows(start, start + step)
                lengths = torch.from_numpy(some.lengths)
                self._scaling.write(self._sums(some), lengths, out[start : start + step])

    def _sums(self, ids: Ragged) -> torch.Tensor:
        """Sum the rows of token ids [B rows], [B, width] in float32."""
        if ids.lengths.max(initial=0) > self._most_rows:
            pieces, text_of_piece = ids.cut(self._most_rows)
            sums = torch.zeros(len(ids.lengths), self._width, dtype=torch.float64)
            index = torch.from_numpy(text_of_piece)
            return sums.index_add_(0, index, self._sums(pieces).double()).float()
        values = torch.from_numpy(ids.values)
        starts = torch.from_numpy(ids.offsets[:-1].astype(np.int32))
        if isinstance(self._rows, Int8Table):
            add = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
            segments = map(torch.from_numpy, self._rows.packed)
            return torch.cat([add(segment, values, starts) for segment in segments], dim=1)
        sums = F.embedding_bag(values, torch.from_numpy(self._rows), starts, mode="sum")
        # In float16, scaling takes longer, and the smallest norm would be rounded to zero.
        return sums.float()


def _most_rows(rows: Table) -> int:
    """Bound the number of rows in a sum: it has the table's format, and float16 may overflow."""
    if rows.dtype != np.float16:
        return ROWS_IN_A_SUM
    smallest, largest = map(float, torch.aminmax(torch.from_numpy(rows)))
    most = int(torch.finfo(torch.float16).max / max(1.0, largest, -smallest))
    return min(ROWS_IN_A_SUM, max(1, most))


def _blocks(
    texts: list[str] | pa.ChunkedArray, threads: int, dimension: int
) -> Iterator[tuple[int, list[str] | pa.Array]]:
    """Cut texts into blocks behind the numbers of their first texts, as many for each thread."""
    start = 0
    most = max(1, min(_BLOCK_TEXTS, _BLOCK_NUMBERS // dimension))
    blocks_of_thread = max(1, -(-len(texts) // (threads * most)))
    size = min(most, max(1024, -(-len(texts) // (threads * blocks_of_thread))))
    for part in [texts] if isinstance(texts, list) else texts.chunks:
        sample = part[:: 1 + len(part) // _SAMPLE] if isinstance(part, list) else part
        fitting = len(sample) * _BLOCK_BYTES // max(1, _size(sample))
        step = max(1, min(size, fitting))
        for first in range(0, len(part), step):
            yield start + first, part[first : first + step]
        start += len(part)


def _size(texts: list[str] | pa.Array) -> int:
    """Estimate the bytes of texts."""
    return sum(map(len, texts)) if isinstance(texts, list) else int(texts.nbytes)


def _stay_in_this_thread() -> contextlib.AbstractContextManager[Any]:
    """Keep torch in the calling thread, until the context that it returns ends, if it is entered:
    torch's own threads would wait for those of the pool."""
    torch.get_num_threads()  # the first call in a new thread sets the number
    limited: contextlib.AbstractContextManager[Any] = _openmp().limit(limits=1)
    return limited


@functools.cache
def _openmp() -> ThreadpoolController:
    """Make the controller of OpenMP's number of threads, a setting of each calling thread."""
    return ThreadpoolController().select(user_api="openmp")
