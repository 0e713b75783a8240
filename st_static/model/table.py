"""A static model's table [V, D]: read or mapped from safetensors, or rounded to int8."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray
from safetensors import SafetensorError, safe_open

from st_static.foreign_files import check_regular
from st_static.model.vectors import in_format

# numpy's number formats by their names in safetensors; bfloat16 is read as two bytes.
_FORMATS = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"},
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1"},
    **{"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"},
}
# One megabyte is enough for ten thousand arrays.
_MOST_OF_A_HEADER = 1_000_000
# Bytes that are checked at a time: few, as they are copied.
_CHECKED_BYTES = 4_000_000
# The largest number in a row; -128 is not used, so that signs are symmetric.
_LARGEST = 127
# Rows that are rounded at a time.
_PART = 2_048
ROWS_IN_A_SUM = 256
"""The most rows that are added up in float32; sums of these are added up in float64.

The same row again and again is rounded the same way each time: in a text of a million words that
would change the vector's fourth digit. Fewer rows take longer: most blocks of texts would have a
text in several parts.
"""


# -- in int8 -------------------------------------------------------------------------


def dimensions_of(widths: Sequence[int], width: int) -> list[slice]:
    """Cut rows [D] into segments, the last of which takes the rest; without widths, into one."""
    ends = [*list(accumulate(widths))[:-1], width]
    return [slice(begin, end) for begin, end in pairwise([0, *ends])]


class Int8Table:
    """A table [V, D] in int8: each segment of a row is its numbers times the segment's scale.

    Args:
        rows: The numbers, [V, D] in int8, from -127 to 127.
        scales: The scales of a row's segments, [V, L] in float32; 0 for a segment of zeros.
        widths: The numbers of dimensions of the L segments, the members of a fused ensemble; the
            last takes the rest. Without any, a row is one segment.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self, rows: NDArray[np.int8], scales: NDArray[np.float32], widths: Sequence[int] = ()
    ) -> None:
        self.rows = np.asarray(rows)  # the methods of a memmap are slower
        self.scales = scales
        self._segments = dimensions_of(widths, rows.shape[1])

    @classmethod
    def of(cls, table: NDArray[Any] | StoredArray, widths: Sequence[int] = ()) -> Int8Table:
        """Round each segment of each row of a table [V, D] to multiples of 1/127 of its largest
        number: the error is at most half of that. A ValueError if numbers are not finite."""
        shape = tuple(table.shape)
        scales = np.empty((shape[0], len(widths) or 1), np.float32)
        rounded = cls(np.empty(shape, np.int8), scales, widths)
        for start in range(0, shape[0], _PART):  # avoids a second table in float32
            part = slice(start, start + _PART)
            numbers = in_format(table[part], cls.dtype)
            for i, segment in enumerate(rounded._segments):
                rounded._round(part, i, numbers[:, segment])
        return rounded

    def _round(self, part: slice, i: int, numbers: NDArray[np.float32]) -> None:
        """Write the i-th segment of some rows [n, width]."""
        largest = np.maximum(numbers.max(axis=1, initial=0), -numbers.min(axis=1, initial=0))
        scale = largest / np.float32(_LARGEST)
        if not np.isfinite(scale).all():
            raise ValueError(
                "The table holds numbers that are not finite, for which int8 has no place. "
                "Take float32."
            )
        scale[scale < np.finfo(np.float32).tiny] = 0  # 1 / scale would overflow
        inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
        rounded = np.rint(numbers * inverse[:, None])
        self.rows[part, self._segments[i]] = np.clip(rounded, -_LARGEST, _LARGEST)
        self.scales[part, i] = scale

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows V and dimensions D."""
        return len(self), self.rows.shape[1]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.rows.nbytes + self.scales.nbytes

    def __len__(self) -> int:
        return len(self.rows)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("A table in int8 becomes an array only as a copy.")
        return self._restored(self.rows, self.scales).astype(dtype or self.dtype, copy=False)

    def take(self, rows: Sequence[int] | NDArray[np.integer], axis: int) -> NDArray[np.float32]:
        """Take rows of the table, [n, D], as the method of an array does along axis 0."""
        return self._restored(self.rows.take(rows, axis), self.scales.take(rows, axis))

    def _restored(self, rows: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
        """Multiply rows [n, D] by their scales [n, L]."""
        if len(self._segments) == 1:
            return rows * scales
        restored = rows.astype(np.float32)
        for i, segment in enumerate(self._segments):
            restored[:, segment] *= scales[:, i : i + 1]
        return restored

    def __setitem__(self, row: int, zero: Literal[0]) -> None:
        self.scales[row] = zero


Table = NDArray[Any] | Int8Table
"""A table [V, D] that numpy can use as an array."""


# -- in files ------------------------------------------------------------------------


@dataclass(frozen=True)
class StoredArray:
    """An array in a file; reads slices along the first axis."""

    file: Path
    name: str
    dtype: str  # as safetensors calls it
    offset: int  # of its first byte
    shape: list[int]  # its axes; there may be none

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Read some rows; a ValueError if they are not finite, or too large for memory."""
        start, stop, _ = rows.indices((self.shape or [1])[0])
        shape, kind = [stop - start, *self.shape[1:]], np.dtype(_FORMATS[self.dtype])
        offset = self.offset + start * math.prod(self.shape[1:]) * kind.itemsize
        try:
            array = np.fromfile(self.file, kind, math.prod(shape), offset=offset)
            if self.dtype == "BF16":  # the upper half of a float32
                array = (array.astype(np.uint32) << 16).view(np.float32)
        except MemoryError as error:
            raise ValueError(
                f"{self.name} in {self.file} needs {math.prod(shape) * 4 / 1e9:.1f} GB of memory, "
                "which are not free. Map the table (mmap=True), or free memory."
            ) from error
        _check_finite(array, self.file, self.name)
        return array.reshape(shape)

    def map(self) -> NDArray[Any]:
        """Map the array into memory, copy-on-write."""
        if self.dtype == "BF16":
            raise _cannot_be_mapped(self.file, "numpy has no bfloat16, as which it is stored")
        if not all(self.shape):  # nothing at the end of a file cannot be mapped
            return np.empty(self.shape, _FORMATS[self.dtype])
        mapped = np.memmap(self.file, _FORMATS[self.dtype], "c", self.offset, tuple(self.shape))
        # Old releases of safetensors do not align arrays.
        return mapped if mapped.flags.aligned else mapped.copy()


def stored_arrays(file: Path) -> dict[str, StoredArray]:
    """Find the arrays in a file's header, by name; a ValueError if it is not as expected."""
    size = check_regular(file)
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > _MOST_OF_A_HEADER:
            raise ValueError(
                f"{file} is broken: its header would have {length:,} bytes. Copy it again."
            )
        try:
            with safe_open(file, "numpy"):  # checks the whole header, and the file's size
                pass
        except SafetensorError as error:
            raise ValueError(f"{file} is broken: {error}. Copy it again.") from error
        except MemoryError as error:  # over the process's limit of address space
            raise ValueError(
                f"{file} has {size:,} bytes, which is more than this process may have in memory."
            ) from error
        header = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    arrays = {}
    for name, array in header.items():
        if array["dtype"] not in _FORMATS:
            raise ValueError(
                f"The array {name} in {file} is stored as {array['dtype']}, but expected one of "
                f"{', '.join(_FORMATS)}. Store it as float32."
            )
        offset = 8 + length + array["data_offsets"][0]
        arrays[name] = StoredArray(file, name, array["dtype"], offset, array["shape"])
    return arrays


TableForm = Literal["restored", "stored", "int8"]
"""How a table is read: numbers; or an `Int8Table`, if it is stored in int8, or always."""


def read_table(
    file: Path, mmap: bool = False, form: TableForm = "restored", widths: Sequence[int] = ()
) -> Table:
    """Read the table [V, D]; Model2Vec may store fewer rows, with the row and weight of each token.
    With `mmap` it is a `numpy.memmap` that processes share: the file must not change, and numbers
    are not checked to be finite, since that would read all of them. As int8 it is rounded as it is
    read, see `Int8Table.of`. A ValueError if there is no such table, or it cannot be mapped."""
    arrays = stored_arrays(file)
    name = "embedding.weight" if "embedding.weight" in arrays else "embeddings"
    if name not in arrays:
        raise ValueError(
            f"Expected a table called embedding.weight or embeddings in {file}, but it holds "
            f"{', '.join(arrays)}."
        )
    stored = arrays[name]
    if len(stored.shape) != 2 or not all(stored.shape):
        raise ValueError(
            f"Expected the table {name} in {file} as rows of numbers, at least one of each, but "
            f"its shape is {stored.shape}. Copy or build the model again."
        )
    changes = [key for key in ("mapping", "weights") if name == "embeddings" and key in arrays]
    if form != "restored" and changes == ["weights"] and stored.dtype == "I8":
        scales = _weights_of(stored, arrays["weights"])
        with np.errstate(over="ignore"):
            _check_finite(scales * _LARGEST, file, f"{name} times weights")
        return Int8Table(stored.map() if mmap else stored[:], scales)
    if mmap and (changes or form == "int8"):
        if form == "int8":
            reason = f"it is stored as {stored.dtype}, but dtype int8 takes one in int8"
        elif changes == ["weights"] and stored.dtype == "I8":
            reason = 'it is stored in int8, which dtype="int8" takes as it is'
        else:
            reason = f"its rows go through {' and '.join(changes)}"
        raise _cannot_be_mapped(file, reason)
    if form == "int8" and not changes:
        return Int8Table.of(stored, widths)
    table = stored.map() if mmap else stored[:]
    if "mapping" in changes:
        mapping, stored_rows = arrays["mapping"], len(table)
        rows = mapping[:]
        if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer):
            raise ValueError(
                f"Expected mapping in {file} as a whole number for each token, but it is "
                f"{mapping.dtype} of the shape {mapping.shape}. Copy the model again."
            )
        for row in rows[(rows < 0) | (rows >= stored_rows)][:1]:
            raise ValueError(
                f"mapping in {file} names row {row}, but the table has {stored_rows} rows. Copy "
                "the model again."
            )
        table = table[rows.astype(np.int64)]
    if "weights" in changes:
        scales, unscaled = _weights_of(table, arrays["weights"]), table
        table = np.empty(unscaled.shape, np.float32)
        for start in range(0, len(table), _PART):  # avoids a third table
            part = slice(start, start + _PART)
            table[part] = unscaled[part]
            with np.errstate(over="ignore"):
                table[part] *= scales[part]
            _check_finite(table[part], file, f"{name} times weights")
    return Int8Table.of(table, widths) if form == "int8" else table


def _weights_of(table: NDArray[Any] | StoredArray, weights: StoredArray) -> NDArray[np.float32]:
    """Read the weight of each row of a table [V, D], [V, 1]."""
    if weights.shape != [table.shape[0]]:
        raise ValueError(
            f"Expected weights in {weights.file} for {table.shape[0]} tokens, but their shape is "
            f"{weights.shape}. Copy the model again."
        )
    with np.errstate(over="ignore"):  # infinite ones are refused later
        column: NDArray[np.float32] = weights[:].astype(np.float32)[:, None]
    return column


def _check_finite(array: NDArray[Any], file: Path, name: str) -> None:
    """Check an array a part at a time, without a mask as long as the array."""
    numbers = array.reshape(-1)
    step = _CHECKED_BYTES // array.itemsize
    parts = (numbers[i : i + step] for i in range(0, len(numbers), step))
    if array.dtype.kind == "f" and not all(np.isfinite(part).all() for part in parts):
        raise ValueError(
            f"{name} in {file} holds numbers that are not finite. Build or copy the model again."
        )


def _cannot_be_mapped(file: Path, reason: str) -> ValueError:
    return ValueError(f"The table in {file} cannot be mapped: {reason}. Leave out mmap.")
