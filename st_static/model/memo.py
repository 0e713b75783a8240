"""A bounded memory of the token ids of chunks, safe under threads and fork."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from st_static.model.ragged import Ragged

Scalar = TypeVar("Scalar", bound=np.generic)
EncodeChunks = Callable[[list[str]], Ragged]


class Memo:
    """Token ids of chunks that were seen before.

    Args:
        max_chunks: When it holds more chunks than this, it starts afresh with the next look-up.
        max_bytes: The same, for the chunks' characters and ids.
        known: Chunks of one token and their ids, which it always holds.
    """

    def __init__(self, max_chunks: int, max_bytes: int, known: Mapping[str, int]) -> None:
        self.max_chunks = max_chunks
        self.max_bytes = max_bytes
        self._known = known
        self._content = _Content(known)
        self._lock = threading.Lock()
        self._process = os.getpid()

    def look_up(self, chunks: list[str], encode: EncodeChunks) -> tuple[NDArray[np.int64], Ragged]:
        """Find chunks, adding those that are new.

        Args:
            chunks: Distinct chunks, [U].
            encode: Gives the ids of new chunks.

        Returns:
            The row of each chunk, [U], and the ids in rows.
        """
        content = self._content
        if content.size - len(self._known) > self.max_chunks or content.n_bytes > self.max_bytes:
            # Others may still use the old content; it stays as it is.
            content = self._content = _Content(self._known)
        row_of = content.row_of_chunk.get
        rows = np.fromiter(map(row_of, chunks, itertools.repeat(-1)), np.int64, len(chunks))
        places = np.flatnonzero(rows < 0)
        if len(places):
            new = [chunks[place] for place in places]
            ids = encode(new)
            with self._own_lock():
                rows[places] = content.add(new, ids)
        return rows, content.ids

    def _own_lock(self) -> threading.Lock:
        """The lock; a new one after a fork, for another thread may have held the old one."""
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), threading.Lock()
        return self._lock


class _Content:
    """Chunks and their ids. Rows are only ever added, and each before its chunk can be found."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self.row_of_chunk = dict(zip(known, range(len(known)), strict=True))
        self.size = len(known)
        self.n_bytes = 0
        # With room at the end: rows from `size` on are not in use.
        self.ids = Ragged(
            _with_room(np.fromiter(known.values(), np.int32, len(known)), 1024),
            _with_room(np.arange(len(known) + 1, dtype=np.int64), 1024),
        )

    def add(self, chunks: list[str], ids: Ragged) -> NDArray[np.int64]:
        """Add chunks with their ids; only one thread at a time may. Returns their rows."""
        used, n = int(self.ids.offsets[self.size]), len(ids.offsets) - 1
        values = _with_room(self.ids.values, used + len(ids.values))
        offsets = _with_room(self.ids.offsets, self.size + n + 1)
        values[used : used + len(ids.values)] = ids.values
        offsets[self.size + 1 : self.size + n + 1] = used + ids.offsets[1:]
        self.ids = Ragged(values, offsets)
        first, self.size = self.size, self.size + n
        # Another thread may have added some meanwhile: theirs are replaced by equal ones.
        self.row_of_chunk.update(zip(chunks, range(first, first + n), strict=True))
        self.n_bytes += sum(map(len, chunks)) + ids.values.nbytes
        return np.arange(first, first + n)


def _with_room(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """The array itself if it has room for `size` values, else a copy with twice its room."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
