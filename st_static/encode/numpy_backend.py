"""Encode single texts with numpy and the tokenizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.encode.scaling import Scaling
from st_static.model.table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.tokens.fast_tokenizer import FastTokenizer, Ids

# Take and add up at most this many rows at a time.
_ROWS = 1_024
_sum_of = np.add.reduce


class NumpyBackend:
    """Adds up and scales the rows of a text's tokens; several threads may use it at a time.

    The rows [V, D] are in int8, or in a format that float32 includes; vectors are of `dtype`.
    """

    def __init__(
        self, tokenize: FastTokenizer, rows: Table, scaling: Scaling, dtype: np.dtype[Any]
    ) -> None:
        self._ids_of, self._take, self._scale = tokenize.ids_of, rows.take, scaling.scale_one
        self._is_int8, self._dtype = isinstance(rows, Int8Table), dtype
        self._width = rows.shape[1]
        self._most = ROWS_IN_A_SUM if self._is_int8 else _ROWS

    def encode(self, text: str, dimension: int) -> NDArray[np.floating]:
        """Encode a text into the first dimensions of its vector, [dimension].

        Raises:
            UnicodeEncodeError: It is not valid Unicode.
        """
        ids = self._ids_of(text)
        n = len(ids)
        if 0 < n <= self._most:  # `take` is three times as fast as rows[ids]
            # In float32 even for float16 rows: their sum would lose digits, or overflow.
            vector = _sum_of(self._take(ids, 0), 0, np.float32)
        elif n:
            vector = self._sum_in_parts(ids)
        else:
            return np.zeros(dimension, self._dtype)
        self._scale(vector, n)
        if dimension < len(vector):
            vector = vector[:dimension]
        found: NDArray[np.floating] = vector.astype(self._dtype, copy=False)
        return found

    def _sum_in_parts(self, ids: Ids) -> NDArray[np.float32]:
        """Add up many rows, [D], in the order of torch, or other rounding would add up."""
        vector: NDArray[np.float32] = np.zeros(self._width, np.float32)
        for start in range(0, len(ids), self._most):
            some = self._take(ids[start : start + self._most], 0)
            if self._is_int8:
                vector += _sum_of(some, 0)
            else:
                vector = _sum_of(np.vstack([vector, some]), 0)
        return vector
