"""Encode many texts: in blocks, by several threads."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from st_static.encode.row_sums import sum_rows, used_rows
from st_static.encode.scaling import Scaling
from st_static.model.table import Table
from st_static.threads import Workers, forks_wait
from st_static.tokens.fast_tokenizer import FastTokenizer

if TYPE_CHECKING:
    import pyarrow as pa  # which lists of texts do not need

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


class BlockEncoder:
    """Adds up rows [V, width] of texts' tokens; safe in threads."""

    def __init__(self, tokenize: FastTokenizer, rows: Table, scaling: Scaling) -> None:
        self._tokenize, self._rows, self._scaling = tokenize, rows, scaling
        self._width: int = rows.shape[1]

    def encode(
        self,
        texts: list[str] | pa.ChunkedArray,
        vectors: NDArray[np.floating],
        prompt: str = "",
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N], each behind the prompt, to `vectors` [N, D], of at most
        the table's width; TypeError or ValueError if a text is not valid."""
        blocks = list(_blocks(texts, threads, self._width))

        def encode_block(block: tuple[int, list[str] | pa.Array]) -> None:
            start, block_texts = block
            if prompt:
                strings = block_texts if isinstance(block_texts, list) else block_texts.to_pylist()
                block_texts = [prompt + text for text in strings]
            self._encode_block(block_texts, vectors[start:][: len(block_texts)])

        with contextlib.ExitStack() as stack:
            done: Iterator[None]
            if len(blocks) == 1 or threads == 1:
                done = map(encode_block, blocks)
            else:
                done = stack.enter_context(Workers(threads)).map(encode_block, blocks)
            if not show_progress_bar:
                deque(done, maxlen=0)
                return
            from tqdm.auto import tqdm

            bar = stack.enter_context(tqdm(total=len(texts), unit=" texts", unit_scale=True))
            for (_, block_texts), _ in zip(blocks, done, strict=True):
                bar.update(len(block_texts))

    def _encode_block(self, texts: list[str] | pa.Array, out: NDArray[np.floating]) -> None:
        """Write the vectors of texts [B] to `out`, [B, D]."""
        is_large = _size(texts) > _BLOCK_BYTES
        if is_large and len(texts) > 1:
            half = len(texts) // 2
            self._encode_block(texts[:half], out[:half])
            self._encode_block(texts[half:], out[half:])
        elif is_large and self._tokenize.max_tokens is None:
            with forks_wait:
                from st_static.texts import arrow

            total, n_tokens = np.zeros((1, self._width)), 0
            text = arrow.strings(texts) if isinstance(texts, list) else texts
            for ids in self._tokenize.in_parts(text.cast(arrow.LARGE_STRING)):
                n_tokens += len(ids.values)
                total += sum_rows(*used_rows(self._rows, ids)).sum(axis=0, dtype=np.float64)
            # Scaled once, for the mean of the whole text, not of its parts' means.
            self._scaling.write(total.astype(np.float32), np.array([n_tokens]), out)
        else:
            rows, ids = used_rows(self._rows, self._tokenize(texts))
            step = max(1, _SUMMED_NUMBERS // self._width)
            for start in range(0, len(out), step):
                part = ids.rows(start, start + step)
                self._scaling.write(sum_rows(rows, part), part.lengths, out[start : start + step])


def _blocks(
    texts: list[str] | pa.ChunkedArray, threads: int, dimension: int
) -> Iterator[tuple[int, list[str] | pa.Array]]:
    """Cut texts into blocks, as many for each thread, each with the number of its first text."""
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
