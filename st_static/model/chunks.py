"""Text to token ids through a memo over whitespace chunks.

Tokenisation is most of a static model's running time, and natural text repeats its chunks (the
strings between spaces). So each distinct chunk goes through the tokenizer once, and its ids are
copied to every place where it stands. This is exact where the tokenizer never looks across a
space; other tokenizers are run on the whole text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

Scalar = TypeVar("Scalar", bound=np.generic)

# Normalisers and pre-tokenizers that act on each side of a space alone.
_CHUNKWISE_NORMALIZERS = {"BertNormalizer", "Lowercase"}
_CHUNKWISE_PRE_TOKENIZERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
# Fewer spend more on each call of the tokenizer, more on its long strings.
_CHUNKS_IN_A_TEXT = 50


class Ragged(NamedTuple):
    """Rows of different lengths: row i is `values[offsets[i] : offsets[i + 1]]`.

    Attributes:
        values: All rows one after the other, [T].
        offsets: Row boundaries, [B + 1], starting at 0 and ending at T.
    """

    values: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of values in each row, [B]."""
        return np.diff(self.offsets)

    @property
    def row_of_value(self) -> NDArray[np.int64]:
        """The row that each value belongs to, [T]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def filter(self, kept: NDArray[np.bool_]) -> Ragged:
        """Keep the values where `kept` [T] is true; rows get shorter, none is dropped."""
        return Ragged(self.values[kept], offsets_of(kept)[self.offsets])

    def take(self, rows: NDArray[np.integer]) -> Ragged:
        """Copy the given rows, in the given order."""
        starts = self.offsets[rows]
        offsets = offsets_of(self.offsets[np.asarray(rows) + 1] - starts)
        positions = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
        return Ragged(self.values[positions], offsets)


class Chunks(NamedTuple):
    """Texts cut at spaces, each distinct chunk stored once.

    Attributes:
        distinct: The distinct chunks, [U].
        codes: For each text one after the other, the index of each chunk in `distinct`, [C].
        offsets: Where each text's chunks begin in `codes`, [B + 1].
    """

    distinct: list[str]
    codes: NDArray[np.int64]
    offsets: NDArray[np.int64]


def offsets_of(lengths: NDArray[np.integer] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Row boundaries [B + 1] of rows with the given lengths [B]."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def split_chunks(texts: Sequence[str] | pa.Array) -> Chunks:
    """Cut texts at the space character (U+0020), and nowhere else."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    lists = pc.split_pattern(array.cast(pa.large_string()), " ")
    encoded = lists.flatten().dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    return Chunks(encoded.dictionary.to_pylist(), codes, offsets_of(lengths))


def is_chunkwise(tokenizer: Tokenizer) -> bool:
    """Tell from a tokenizer's own description whether it never looks across a space."""
    description = json.loads(tokenizer.to_str())
    normalizer, pre_tokenizer = description["normalizer"], description["pre_tokenizer"]
    return (
        (normalizer is None or normalizer["type"] in _CHUNKWISE_NORMALIZERS)
        and (pre_tokenizer is not None and pre_tokenizer["type"] in _CHUNKWISE_PRE_TOKENIZERS)
        and all(
            " " not in token["content"] and not token["lstrip"] and not token["rstrip"]
            for token in description["added_tokens"]
        )
        and description["truncation"] is None
        and description["padding"] is None
    )


class ChunkTokenizer:
    """Token ids of many texts at once, equal to the tokenizer's own, without special tokens.

    Args:
        tokenizer: Any `tokenizers.Tokenizer`, without truncation and padding.
        max_chunks: The memo is emptied when it holds more than this many chunks.

    Example:
        >>> from st_static.model.tokenizer import build_tokenizer
        >>> encode = ChunkTokenizer(build_tokenizer(["a", "b"]))
        >>> encode(["A b", "b"]).values.tolist()
        [2, 3, 3]
    """

    def __init__(self, tokenizer: Tokenizer, max_chunks: int = 1_000_000) -> None:
        self.tokenizer = tokenizer
        self.max_chunks = max_chunks
        self.chunkwise = is_chunkwise(tokenizer)
        self._row_of_chunk: dict[str, int] = {}
        self._ids = np.empty(1024, dtype=np.int32)
        self._offsets = np.zeros(1024, dtype=np.int64)
        self._size = 0  # rows in use

    def __call__(self, texts: Sequence[str] | pa.Array) -> Ragged:
        """Encode texts.

        Args:
            texts: A list of str, or an Arrow string array, [B].

        Returns:
            The token ids of each text, [B rows].
        """
        if self.chunkwise:
            return self.encode_chunks(split_chunks(texts))
        return self._encode_with_tokenizer(
            texts.to_pylist() if isinstance(texts, pa.Array) else list(texts)
        )

    def encode_chunks(self, chunks: Chunks) -> Ragged:
        """Encode texts that `split_chunks` has cut; only for chunkwise tokenizers."""
        rows = self._rows_of(chunks.distinct)
        ids = Ragged(self._ids[: self._offsets[self._size]], self._offsets).take(rows[chunks.codes])
        return Ragged(ids.values, ids.offsets[chunks.offsets])

    def _rows_of(self, chunks: list[str]) -> NDArray[np.int64]:
        """Look up the memo row of each distinct chunk, adding those that are new."""
        if self._size > self.max_chunks:
            self._row_of_chunk.clear()
            self._size = 0
        row_of_chunk = self._row_of_chunk
        new = [chunk for chunk in chunks if chunk not in row_of_chunk]
        if new:
            self._append(self._encode_new(new))
            row_of_chunk.update(zip(new, range(len(row_of_chunk), self._size), strict=True))
        return np.fromiter((row_of_chunk[chunk] for chunk in chunks), np.int64, len(chunks))

    def _append(self, rows: Ragged) -> None:
        used, size = int(self._offsets[self._size]), self._size + len(rows.offsets) - 1
        self._ids = _grown(self._ids, used + len(rows.values))
        self._offsets = _grown(self._offsets, size + 1)
        self._ids[used : used + len(rows.values)] = rows.values
        self._offsets[self._size + 1 : size + 1] = used + rows.offsets[1:]
        self._size = size

    def _encode_new(self, chunks: list[str]) -> Ragged:
        """Encode chunks, many in one text: a call of the tokenizer costs more than a chunk."""
        firsts = range(0, len(chunks), _CHUNKS_IN_A_TEXT)
        texts = [" ".join(chunks[i : i + _CHUNKS_IN_A_TEXT]) for i in firsts]
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        # All texts on one line, a space after each: a token belongs to the chunk that it starts in.
        begins = offsets_of(np.fromiter(map(len, chunks), np.int64, len(chunks)) + 1)
        starts = [
            np.array(encoding.offsets, np.int64).reshape(-1, 2)[:, 0] + begin
            for begin, encoding in zip(begins[firsts], encodings, strict=True)
        ]
        chunk_of_token = np.searchsorted(begins, np.concatenate(starts), side="right") - 1
        ids = np.fromiter(chain.from_iterable(e.ids for e in encodings), np.int32)
        return Ragged(ids, offsets_of(np.bincount(chunk_of_token, minlength=len(chunks))))

    def _encode_with_tokenizer(self, texts: list[str]) -> Ragged:
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        rows = [encoding.ids for encoding in encodings]
        offsets = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
        return Ragged(np.fromiter(chain.from_iterable(rows), np.int32), offsets)


def _grown(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """Return the array with room for `size` values, doubling so that appending stays cheap."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
