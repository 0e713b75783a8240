"""Texts to the vectors of a static model: few without torch, which is loaded for many.

To import torch takes longer than to encode thousands of texts without it, and it takes more memory
than most tables.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from st_static.cluster.processes import unblock_torch
from st_static.encode.text_encoder import TextEncoder
from st_static.model.int8_table import Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.model.vectors import in_format
from st_static.tokens.fast_tokenizer import FastTokenizer

if TYPE_CHECKING:
    import pyarrow as pa

    from st_static.encode.table_encoder import TableEncoder

# So few texts, of together fewer characters than this, are encoded fastest one by one.
_FEW_TEXTS = 32
_FEW_CHARACTERS = 8_000
# Longer texts are encoded as many are.
_LONG_TEXT = 2_000
# Longer or many texts of so many bytes, all together, are encoded one by one before torch is
# loaded: by then that has taken about as long as the import.
_BYTES_WITHOUT_TORCH = 3_000_000


class LazyEncoder:
    """Encodes single texts with a `TextEncoder`, and many with a `TableEncoder` when it pays.

    It may be used by several threads at a time.

    Args:
        model: Tokenizer and table, see `in_memory`.
        dtype: Number format of the vectors.
    """

    def __init__(self, model: StaticModel, dtype: np.dtype[Any]) -> None:
        rows = model.table
        if isinstance(rows, np.memmap):
            rows = np.asarray(rows)  # the methods of a memmap take longer
        self._shared = _Shared(model, rows, dtype)
        self._texts = TextEncoder(model, rows, dtype, self._shared.tokenize)
        self.model = model

    def variant(self, model: StaticModel) -> LazyEncoder:
        """The same with another prompt or number of dimensions; it shares all memory."""
        variant = object.__new__(type(self))
        variant._shared, variant._texts = self._shared, self._texts.variant(model)
        variant.model = model
        return variant

    @property
    def dimension(self) -> int:
        """Output dimension D."""
        return self._texts.dimension

    @property
    def tokenize(self) -> FastTokenizer:
        """Token ids of many texts."""
        return self._shared.tokenize

    @property
    def _table(self) -> TableEncoder:
        """The encoder of many texts, ready to be used in this process."""
        unblock_torch()
        return self._table_of_model

    @cached_property
    def _table_of_model(self) -> TableEncoder:
        return self._shared.table.variant(self.model)

    def encode_one(self, text: str) -> NDArray[np.floating]:
        """The vector [D] of a text.

        Raises:
            ValueError: It is not valid Unicode.
        """
        try:
            if len(text) < _LONG_TEXT or self._shared.takes_no_torch(len(text)):
                return self._texts.encode(text)
            return self._table.encode_text(text)
        except UnicodeEncodeError:
            _say_which([text])
            raise

    def encode_few(self, texts: list[str], vectors: NDArray[np.floating]) -> None:
        """Write the vectors of texts [B] to `vectors`, [B, D], one after the other.

        Raises:
            ValueError: A text is not valid Unicode; names its position.
        """
        for row, text in enumerate(texts):
            try:
                vectors[row] = self.encode_one(text)
            except ValueError:
                _say_which(texts)
                raise

    def encode_column(
        self,
        texts: list[str] | pa.ChunkedArray,
        vectors: NDArray[np.floating],
        threads: int = 1,
        show_progress_bar: bool = False,
    ) -> None:
        """Write the vectors of texts [N] to `vectors`, [N, D], with so many threads."""
        size = sum(map(len, texts)) if isinstance(texts, list) else texts.nbytes
        few = len(texts) <= _FEW_TEXTS and size < _FEW_CHARACTERS
        if few or self._shared.takes_no_torch(size):
            for row, text in enumerate(texts if isinstance(texts, list) else texts.to_pylist()):
                vectors[row] = self._texts.encode(text)
        else:
            self._table.encode_column(texts, vectors, threads, show_progress_bar)


def are_few(texts: list[Any]) -> bool:
    """Whether a list holds nothing but texts, and so few that `encode_few` is the fastest."""
    if len(texts) > _FEW_TEXTS or not set(map(type, texts)) <= {str}:
        return False
    return sum(map(len, texts)) < _FEW_CHARACTERS


class _Shared:
    """What the variants of an encoder share, each part made when it is first needed."""

    def __init__(self, model: StaticModel, rows: Table, dtype: np.dtype[Any]) -> None:
        self._model, self._rows, self._dtype = model, rows, dtype
        self.tokenize = FastTokenizer(model.tokenizer)
        self._bytes_left = _BYTES_WITHOUT_TORCH

    def takes_no_torch(self, n_bytes: int) -> bool:
        """Whether torch is not there, and more texts of so many bytes do not repay its import."""
        if "torch" in sys.modules:
            return False
        self._bytes_left -= n_bytes
        return self._bytes_left >= 0

    @cached_property
    def table(self) -> TableEncoder:
        """The encoder of many texts, of which each variant has a variant."""
        from st_static.encode.table_encoder import TableEncoder  # which needs torch

        rows = self._rows
        if not isinstance(rows, Int8Table):
            rows = in_format(rows, self._dtype)  # one that is mapped may be in a narrower format
        return TableEncoder(self._model, rows, self.tokenize)


def _say_which(texts: list[str]) -> None:
    """Refuse texts of which one is not valid Unicode, by its position."""
    from st_static.texts.columns import text_column  # which needs pyarrow

    text_column(texts)
