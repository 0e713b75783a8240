"""Tables that are merged by range: each file of one shard has a part for every range.

A range's part is read from all files and merged by itself, so that no process holds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.engines import Engine, map_shards
from st_static.files import atomic, look_again

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Missing(NamedTuple, Generic[Item]):
    """A file that is to be written, and what it is made of."""

    made_of: Item
    file: Path

    def __str__(self) -> str:
        return str(self.file)


def write_parts(path: Path, table: pa.Table, bounds: NDArray[np.int64]) -> None:
    """Write a table atomically, as an Arrow IPC file with a record batch for each part.

    Args:
        path: The file.
        table: Its rows, one part after the other, [n].
        bounds: Where each part begins and the last one ends, [parts + 1].
    """
    table = table.combine_chunks()
    with (
        atomic(path) as temporary,
        pa.OSFile(str(temporary), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            part = table.slice(start, stop - start).to_batches()
            writer.write_batch(part[0] if part else _empty(table.schema))


def read_parts(paths: Sequence[Path], number: int) -> Iterator[pa.Table]:
    """The part with the given number of each file. Nothing else of the files is read."""
    for path in paths:
        with pa.OSFile(str(path)) as file:
            yield pa.Table.from_batches([pa.ipc.open_file(file).get_batch(number)])


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)


def write_missing(
    write: Callable[[tuple[Item, Path]], Result],
    items: Sequence[tuple[Item, Path]],
    engine: Engine,
    label: str,
    sentences: Callable[[Result], int] | None = None,
) -> None:
    """Write files of one folder, but those that an interrupted run left.

    Args:
        write: Writes the file that is the second of an item.
        items: What each file is made of, and the file.
        engine: What runs it.
        label: What the progress bar says.
        sentences: As `map_shards` takes it.
    """
    missing = [_Missing(*item) for item in items if not item[1].exists()]
    for _ in map_shards(write, missing, engine, label, len(missing), sentences):
        pass
    if missing:
        look_again(missing[0].file.parent)
