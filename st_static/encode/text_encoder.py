"""Single texts to the vectors of a static model, with numpy and the tokenizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from st_static.encode.scaling import Scaling
from st_static.model.int8_table import ROWS_IN_A_SUM, Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.tokens.fast_tokenizer import FastTokenizer, Ids

# Of longer texts, so many rows are taken and added up at a time.
_ROWS = 1_024


class TextEncoder:
    """Adds up and scales the rows of a text's tokens; it may be used by several threads at a time.

    Args:
        model: Prompt and scaling.
        rows: Its table [V, D], in int8 or a format whose numbers float32 has, too.
        dtype: Number format of the vectors.
        tokenize: The model's tokenizer.
    """

    def __init__(
        self, model: StaticModel, rows: Table, dtype: np.dtype[Any], tokenize: FastTokenizer
    ) -> None:
        self._rows, self._dtype, self._tokenize = rows, dtype, tokenize
        self._set_model(model)

    def _set_model(self, model: StaticModel) -> None:
        """Take the model's prompt, scaling and number of dimensions."""
        self._model = model
        self._scaling = Scaling(model)

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
        ids = self._tokenize.ids_of(text)
        if not len(ids):
            return np.zeros(self.dimension, self._dtype)
        vector = self._sum(ids)
        self._scaling.scale_one(vector, len(ids))
        return vector[: self.dimension].astype(self._dtype, copy=False)

    def _sum(self, ids: Ids) -> NDArray[np.float32]:
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


def _sum_of_parts(table: Int8Table, ids: Ids) -> NDArray[np.float32]:
    """The sum of the rows of token ids, [D]: of few rows at a time, as with torch."""
    vector = np.zeros(table.shape[1], np.float32)
    for start in range(0, len(ids), ROWS_IN_A_SUM):
        vector += np.add.reduce(table.take(ids[start : start + ROWS_IN_A_SUM], axis=0), axis=0)
    return vector
