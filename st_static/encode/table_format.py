"""The number formats that a table may have in memory."""

from __future__ import annotations

import dataclasses
from typing import Literal, get_args

import numpy as np

from st_static.model.int8_table import Int8Table, Table
from st_static.model.static_model import StaticModel
from st_static.model.vectors import in_format

TableFormat = Literal["float32", "float16", "int8"]


def check_format(dtype: str, mmap: bool = False) -> None:
    """Check that there is a format, and that a table can be mapped in it if it should be.

    Raises:
        ValueError: There is none, or it cannot.
    """
    if dtype not in get_args(TableFormat):
        raise ValueError(f"Expected the dtype float32, float16 or int8, but got {dtype!r}.")
    if mmap and dtype == "int8":
        raise ValueError("A table in int8 is made in memory, so no file is mapped. Leave out mmap.")


def vector_format(dtype: TableFormat) -> np.dtype[np.floating]:
    """The number format of the vectors that come from a table in a format."""
    return np.dtype("float32" if dtype == "int8" else dtype)


def in_memory(model: StaticModel, dtype: TableFormat) -> StaticModel:
    """A model whose table is in a format; one that is mapped stays as it is.

    Raises:
        ValueError: Values are too large for the format, or a mapped table's format is wider.
    """
    return dataclasses.replace(model, table=_in_memory(model.table, dtype, model.widths))


def _in_memory(table: Table, dtype: TableFormat, widths: list[int]) -> Table:
    if dtype == "int8":
        if isinstance(table, Int8Table):
            return table
        return Int8Table.of(table.__getitem__, table.shape, widths)
    if not isinstance(table, np.memmap):
        return in_format(np.asarray(table), np.dtype(dtype))
    if not np.can_cast(table.dtype, dtype, "safe"):
        raise ValueError(
            f"The table is stored as {table.dtype}, so it cannot be mapped as {dtype}. Take "
            f"dtype={str(table.dtype)!r}, or leave out mmap."
        )
    return table
