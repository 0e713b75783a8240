"""A static model's table as safetensors, read or mapped into memory without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from st_static.model.int8_table import Int8Table, Table

# Number formats of numpy by their names in safetensors; bfloat16 is read as its two bytes.
_FORMATS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}


class _Stored(NamedTuple):
    """Where an array stands in a file."""

    file: Path
    name: str
    offset: int
    shape: list[int]

    def read(self, rows: slice = slice(None)) -> NDArray[Any]:
        """The array in memory, or some of its rows."""
        start, stop, _ = rows.indices(self.shape[0])
        shape = [stop - start, *self.shape[1:]]
        row = int(np.prod(self.shape[1:]))
        offset = self.offset + start * row * np.dtype(_FORMATS[self.name]).itemsize
        array = np.fromfile(self.file, _FORMATS[self.name], shape[0] * row, offset=offset)
        if self.name == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array.reshape(shape)

    def map(self) -> NDArray[Any]:
        """The array mapped into memory; what is written to it stays there."""
        if self.name == "BF16":
            raise _cannot_be_mapped(self.file, "numpy has no bfloat16, as which it is stored")
        if not all(self.shape):  # there is nothing to map
            return self.read()
        mapped = np.memmap(self.file, _FORMATS[self.name], "c", self.offset, tuple(self.shape))
        # Old releases of safetensors put arrays where processors do not like to read numbers.
        return mapped if mapped.flags.aligned else mapped.copy()


def read_table(
    file: Path, mmap: bool = False, int8: bool = False, widths: Sequence[int] = ()
) -> Table:
    """The table [V, D]; Model2Vec may store fewer rows, with the row and weight of each token.

    Args:
        file: The file.
        mmap: Whether to map it, as a `numpy.memmap`: a row is read when it is first used, and the
            processes of a machine share the memory. The file must not change meanwhile.
        int8: Whether to round it to int8 as it is read, some rows at a time.
        widths: Dimensions of each segment of a fused ensemble, which int8 has scales for.

    Raises:
        ValueError: It is broken, holds no table, or the table cannot be mapped.
    """
    arrays = _stored(file)
    if "embedding.weight" not in arrays and "embeddings" not in arrays:
        raise ValueError(
            f"Expected a table called embedding.weight or embeddings in {file}, but it holds "
            f"{', '.join(arrays)}."
        )
    name = "embedding.weight" if "embedding.weight" in arrays else "embeddings"
    changes = [key for key in ("mapping", "weights") if name == "embeddings" and key in arrays]
    if mmap and changes:
        raise _cannot_be_mapped(file, f"its rows go through {' and '.join(changes)}")
    if int8 and not changes:
        return Int8Table.of(arrays[name].read, arrays[name].shape, widths)
    table = arrays[name].map() if mmap else arrays[name].read()
    if "mapping" in changes:
        table = table[arrays["mapping"].read().astype(np.int64)]
    if "weights" in changes:
        weights = arrays["weights"].read().astype(np.float32)
        table = table.astype(np.float32) * weights[:, None]
    return Int8Table.of(table.__getitem__, table.shape, widths) if int8 else table


def _stored(file: Path) -> dict[str, _Stored]:
    """The arrays of a file, by name."""
    try:
        with safe_open(file, "numpy"):  # which checks the whole header
            pass
    except SafetensorError as error:
        raise ValueError(f"{file} is broken: {error}. Copy it again.") from error
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    start = 8 + length
    for name, array in header.items():
        if array["dtype"] not in _FORMATS:
            raise ValueError(
                f"The array {name} in {file} is stored as {array['dtype']}, but expected one of "
                f"{', '.join(_FORMATS)}. Store it as float32."
            )
    return {
        name: _Stored(file, array["dtype"], start + array["data_offsets"][0], array["shape"])
        for name, array in header.items()
    }


def _cannot_be_mapped(file: Path, reason: str) -> ValueError:
    return ValueError(f"The table in {file} cannot be mapped: {reason}. Leave out mmap.")
