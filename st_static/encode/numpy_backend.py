"""Encode single texts with numpy and the tokenizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.encode.scaling import Scaling
from st_static.model.int8_table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.tokens.fast_tokenizer import FastTokenizer

# Take and add up at most this many rows at a time.
_ROWS = 1_024


class NumpyBackend:
    """Adds up and scales the rows of a text's tokens; several threads may use it at a time.

    Args:
        tokenize: The model's tokenizer.
        rows: Its table [V, D], in int8 or a format that float32 includes.
        scaling: The processing of sums.
        dtype: Number format of the vectors.
    """

    def __init__(
        self, tokenize: FastTokenizer, rows: Table, scaling: Scaling, dtype: np.dtype[Any]
    ) -> None:
        self._tokenize, self._rows, self._scaling, self._dtype = tokenize, rows, scaling, dtype

    def encode(self, text: str, dimension: int) -> NDArray[np.floating]:
        """Encode a text into the first dimensions of its vector, [dimension].

        Raises:
            UnicodeEncodeError: It is not valid Unicode.
        """
        ids, rows = self._tokenize.ids_of(text), self._rows
        if not len(ids):
            return np.zeros(dimension, self._dtype)
        vector: NDArray[np.float32]
        if isinstance(rows, Int8Table):  # few rows at a time, as with torch
            vector = np.zeros(rows.shape[1], np.float32)
            for start in range(0, len(ids), ROWS_IN_A_SUM):
                vector += np.add.reduce(rows.take(ids[start : start + ROWS_IN_A_SUM], 0), 0)
        else:
            some = rows.take(ids[:_ROWS], 0)  # three times as fast as rows[ids]
            # In float32 even for float16 rows: their sum would lose digits, or overflow.
            vector = np.add.reduce(some, 0, np.float32)
            for start in range(_ROWS, len(ids), _ROWS):
                # Row after row, as torch does: in long texts, other rounding would add up.
                some = rows.take(ids[start : start + _ROWS], 0)
                vector = np.add.reduce(np.vstack([vector, some]), 0)
        self._scaling.scale_one(vector, len(ids))
        return vector[:dimension].astype(self._dtype, copy=False)
