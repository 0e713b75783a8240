"""Single texts to the vectors of a static model, with numpy and the tokenizer alone."""

from __future__ import annotations

import json
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.encode.head_scaling import scaling_of
from st_static.model.int8_table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.tokens.boundaries import Cut, chunking_of
from st_static.tokens.panics import TellingPanics

# Of longer texts, so many rows are taken and added up at a time.
_ROWS = 1_024
# Ids of so many chunks are kept, if these are no longer than this.
_REMEMBERED = 100_000
_REMEMBERED_CHARACTERS = 64


class TextEncoder:
    """Adds up and scales the rows of a text's tokens; it may be used by several threads at a time.

    Args:
        model: Tokenizer, prompt and scaling.
        rows: Its table [V, D], in int8 or a format whose numbers float32 has, too.
        dtype: Number format of the vectors.
    """

    def __init__(self, model: StaticModel, rows: Table, dtype: np.dtype[Any]) -> None:
        self._rows, self._dtype = rows, dtype
        self._ids_of_chunk = _ChunkIds(model.tokenizer)
        self._set_model(model)

    def _set_model(self, model: StaticModel) -> None:
        """Take the model's prompt, scaling and number of dimensions."""
        self._model = model
        self._scaling = scaling_of(model)

    def variant(self, model: StaticModel) -> TextEncoder:
        """The same with another prompt or number of dimensions; it shares all memory."""
        variant = object.__new__(type(self))
        variant.__dict__.update(self.__dict__)
        variant._set_model(model)
        return variant

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        width: int = self._rows.shape[1]
        return min(width, self._model.truncate_dim or width)

    def encode(self, text: str) -> NDArray[np.floating]:
        """The vector [D] of a text.

        Raises:
            ValueError: It is not valid Unicode.
        """
        text = self._model.prompt + text
        if self._ids_of_chunk.are_all:
            chunks = map(self._ids_of_chunk.__getitem__, text.split(" "))
            ids = list(chain.from_iterable(chunks))
        else:
            ids = _ids(self._model.tokenizer, text)
        if not ids:
            return np.zeros(self.dimension, self._dtype)
        vector = self._sum(ids)
        if not self._scaling.segments:
            vector /= len(ids)
        self._scaling.scale_one(vector)
        return vector[: self.dimension].astype(self._dtype, copy=False)

    def _sum(self, ids: list[int]) -> NDArray[np.float32]:
        """The sum of the rows of token ids, [D of the table]."""
        if isinstance(self._rows, Int8Table):
            return _sum_of_parts(self._rows, ids)
        rows = self._rows.take(ids[:_ROWS], axis=0)  # a third of the time of self._rows[ids]
        # In float32 also for float16 rows: their sum would lose digits, or be too large.
        vector: NDArray[np.float32] = np.add.reduce(rows, axis=0, dtype=np.float32)
        for start in range(_ROWS, len(ids), _ROWS):
            # Row after row, as torch does: in long texts, other roundings would add up.
            rows = self._rows.take(ids[start : start + _ROWS], axis=0)
            vector = np.add.reduce(np.vstack([vector, rows]), axis=0)
        return vector


def _sum_of_parts(table: Int8Table, ids: list[int]) -> NDArray[np.float32]:
    """The sum of the rows of token ids, [D]: of few rows at a time, as with torch."""
    vector = np.zeros(table.shape[1], np.float32)
    for start in range(0, len(ids), ROWS_IN_A_SUM):
        vector += np.add.reduce(table.take(ids[start : start + ROWS_IN_A_SUM], axis=0), axis=0)
    return vector


class _ChunkIds(dict[str, list[int]]):
    """Token ids of chunks, the parts of texts between spaces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    @cached_property
    def are_all(self) -> bool:
        """Whether any text has the ids of its chunks, one after the other."""
        description = json.loads(self._tokenizer.to_str())
        chunking = chunking_of(description)
        return (
            chunking.cut is Cut.AT_SPACES
            and not chunking.ascii_only
            and not chunking.kept_whole
            and description["truncation"] is None
        )

    def __missing__(self, chunk: str) -> list[int]:
        if len(self) > _REMEMBERED:
            self.clear()
        ids = _ids(self._tokenizer, chunk)
        if len(chunk) <= _REMEMBERED_CHARACTERS:
            self[chunk] = ids
        return ids


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    if not text.isascii():
        text.encode()  # of half a surrogate pair the tokenizer says that it is no str
    with TellingPanics(tokenizer):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids
