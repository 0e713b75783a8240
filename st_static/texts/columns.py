"""Text columns of any library as Arrow; most never become Python strings."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Null = Literal["error", "empty"]

_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.null())


def check_null(null: str) -> None:
    """Check the option that says how to treat a missing text."""
    if null not in ("error", "empty"):
        raise ValueError(f'Expected null to be "error" or "empty", but got {null!r}.')


def text_column(texts: Any, null: Null = "error", first: int = 0) -> pa.ChunkedArray:
    """Turn a list of str, or a string column of pyarrow, polars, pandas, numpy or datasets, into
    large_string [B]. Errors count positions from `first`: a TypeError for a value that is no text,
    or is missing while `null` is "error"; a ValueError for invalid Unicode."""
    check_null(null)
    strings = strings_of(_as_arrow(texts, first))
    if strings.null_count:
        if null == "error":
            position = first + pc.index(strings.is_null(), True).as_py()
            raise TypeError(
                f"Expected a str at position {position}, but the text is missing. "
                'Fill it, or where texts are encoded, say null="empty".'
            )
        strings = strings.fill_null("")
    return strings


def strings_of(column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of strings, in a dictionary or not, or nulls; a TypeError for others."""
    kind = column.type
    is_dictionary = pa.types.is_dictionary(kind)
    if (kind.value_type if is_dictionary else kind) not in _TEXT_TYPES:
        raise TypeError(f"Expected a column of strings, but got one of type {kind}.")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if is_dictionary:  # pyarrow cannot cast those of views
        large = [chunk.dictionary.cast(pa.large_string()) for chunk in chunks]
        indices = [chunk.indices.cast(pa.int64()) for chunk in chunks]
        chunks = [values.take(i) for values, i in zip(large, indices, strict=True)]
    return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks], pa.large_string())


def _as_arrow(texts: Any, first: int) -> pa.Array | pa.ChunkedArray:
    # What iterates over other strings is refused: a table over its names, a dict over its keys.
    kind = "None" if texts is None else type(texts).__name__
    if isinstance(texts, pa.Table | pa.RecordBatch) or kind in ("DataFrame", "LazyFrame"):
        raise TypeError(
            f"Expected a list or column of str, but got a table ({kind}). Name its column: "
            'table["text"].'
        )
    if isinstance(texts, set | frozenset):
        raise TypeError(f"Expected a list or column of str, but got {kind}, which has no order.")
    if isinstance(texts, str | bytes | bytearray | memoryview | Mapping) or not isinstance(
        texts, Iterable
    ):
        raise TypeError(f"Expected a list or column of str, but got {kind}.")
    dimensions = getattr(texts, "ndim", 1)
    if dimensions != 1:
        raise TypeError(
            f"Expected texts in one dimension, but got an array of {dimensions}: {kind}."
        )
    if isinstance(texts, (pa.Array, pa.ChunkedArray)):
        return texts
    if type(texts).__module__.startswith("datasets.") and hasattr(texts, "column_name"):
        return _of_dataset(texts, first)
    dtype = getattr(texts, "dtype", None)
    if str(dtype) == "object":  # of pandas or numpy; pandas marks what is missing by NaN
        return _from_python(list(texts), first)
    if hasattr(texts, "__arrow_c_stream__"):  # polars
        return pa.chunked_array(texts)
    if hasattr(texts, "to_numpy") and dtype is not None:  # pandas
        return pa.array(texts, from_pandas=True)
    return _from_python(texts, first)


def _of_dataset(column: Any, first: int) -> pa.Array | pa.ChunkedArray:
    """Read a column of datasets, as a transform or a feature of it shows texts."""
    names, dataset = [], column
    while hasattr(dataset, "column_name"):  # of a column, if it is nested
        names.append(dataset.column_name)
        dataset = dataset.source
    if getattr(dataset, "format", {}).get("type") != "custom":
        dataset = dataset.with_format(None)  # others only wrap texts, some each for itself
        is_stored = len(names) == 1 and hasattr(dataset, "data")
        if is_stored and type(column.features).__name__ == "Value":
            return dataset.select_columns(names).with_format("arrow")[:][names[0]]
    column = dataset
    for name in reversed(names):
        column = column[name]
    # Checked one by one, so that of images, say, only the first is decoded.
    return _from_python((_text(value, i) for i, value in enumerate(column, first)), first)


def _from_python(texts: Iterable[Any], first: int) -> pa.Array:
    values = texts if isinstance(texts, list) else list(texts)
    if not set(map(type, values)) <= {str, type(None)}:
        values = [_text(value, position) for position, value in enumerate(values, first)]
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError as error:
        position = first + next(i for i, v in enumerate(values) if v is not None and is_broken(v))
        raise ValueError(
            f"The text at position {position} is not valid Unicode: it holds half of a character."
        ) from error


def _text(value: Any, position: int) -> str | None:
    """Return a text, or None if it is missing: None itself, or NaN or NA as in pandas."""
    kind = type(value).__name__
    if isinstance(value, str):
        return value
    is_nan = isinstance(value, float) and value != value
    if value is None or is_nan or kind in ("NAType", "NaTType"):
        return None
    raise TypeError(f"Expected a str at position {position}, but got {kind}: {reprlib.repr(value)}")


def is_broken(text: str) -> bool:
    """Check whether a text holds half of a surrogate pair."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return True
    return False
