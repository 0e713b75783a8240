"""A bounded memory of the token ids of chunks, safe under threads and fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from st_static.tokens import arrow
from st_static.tokens.chunks import Spans
from st_static.tokens.key_table import Keys, KeyTable, keys_of
from st_static.tokens.ragged import Ragged

Scalar = TypeVar("Scalar", bound=np.generic)
EncodeChunks = Callable[[list[str]], Ragged]

# Of a chunk in a dict, beside its characters.
_BYTES_OF_LONG = 150


class Memo:
    """Token ids of chunks that were seen before.

    Args:
        max_chunks: When it holds more chunks than this, it starts afresh with the next look-up.
        max_bytes: The same, for its memory.
        known: Chunks of one token and their ids, which it always holds beside the others.
    """

    def __init__(self, max_chunks: int, max_bytes: int, known: Mapping[str, int]) -> None:
        self.max_chunks = max_chunks
        self.max_bytes = max_bytes
        self._known = _Content()
        chunks = arrow.strings(list(known))
        ids = np.fromiter(known.values(), np.int32, len(known))
        every = Ragged(ids, np.arange(len(known) + 1, dtype=np.int64))
        self._known.add(list(known), keys_of(Spans.of(chunks)), every)
        self._content = self._known.copy()
        self._lock = threading.Lock()
        _memos.add(self)

    def look_up(self, chunks: Spans, encode: EncodeChunks) -> tuple[NDArray[np.int64], Ragged]:
        """Find chunks, adding those that are new.

        Args:
            chunks: The chunks, [C].
            encode: Gives the ids of new chunks.

        Returns:
            The row of each chunk, [C], and the ids in rows.
        """
        keys = keys_of(chunks)
        with self._lock:
            content = self._current()
        rows = content.find_short(keys)  # which may miss what another thread is adding
        others = np.flatnonzero(rows < 0)
        if len(others):
            encoded = chunks.strings(others).dictionary_encode()
            distinct: list[str] = encoded.dictionary.to_pylist()
            codes = arrow.numbers(encoded.indices)
            keys_of_distinct = keys.take(others[np.unique(codes, return_index=True)[1]])
            rows[others] = self._remember(content, distinct, keys_of_distinct, encode)[codes]
        return rows, content.ids

    def _remember(
        self, content: _Content, chunks: list[str], keys: Keys, encode: EncodeChunks
    ) -> NDArray[np.int64]:
        """The rows of distinct chunks [U] that are long or new."""
        rows = content.find_long(chunks, keys)
        new = np.flatnonzero(rows < 0)
        if len(new):
            new_chunks = [chunks[i] for i in new]
            ids = encode(new_chunks)
            with self._lock:
                rows[new] = content.add(new_chunks, keys.take(new), ids)
        return rows

    def _current(self) -> _Content:
        """The content; a fresh one if it is full. Others may still use the old one."""
        content = self._content
        n_added = content.size - self._known.size
        if n_added > self.max_chunks or content.nbytes - self._known.nbytes > self.max_bytes:
            content = self._content = self._known.copy()
        return content

    def _start_anew(self) -> None:
        """Make it usable in a child process, which has none of the parent's other threads."""
        if self._lock.locked():  # by one of them, which may have been adding chunks
            self._content = self._known.copy()
        self._lock = threading.Lock()


_memos: weakref.WeakSet[Memo] = weakref.WeakSet()


def _after_fork() -> None:
    for memo in list(_memos):
        memo._start_anew()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # Before the child has threads: if each made the lock when it needs it, two could make two.
    os.register_at_fork(after_in_child=_after_fork)


class _Content:
    """Chunks and their ids. Rows are only ever added, and each before its chunk can be found."""

    def __init__(self) -> None:
        self.size = 0  # rows in use; both arrays of `ids` have room for more
        self.ids = Ragged(np.zeros(1024, np.int32), np.zeros(1024, np.int64))
        self._short = KeyTable()
        self._long: dict[str, int] = {}
        self._bytes_of_long = 0

    def copy(self) -> _Content:
        """Another content with the same chunks."""
        other = _Content()
        other.size, other._bytes_of_long = self.size, self._bytes_of_long
        other.ids = Ragged(self.ids.values.copy(), self.ids.offsets.copy())
        other._short, other._long = self._short.copy(), self._long.copy()
        return other

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        arrays = self.ids.values.nbytes + self.ids.offsets.nbytes + self._short.nbytes
        return arrays + self._bytes_of_long

    def find_short(self, keys: Keys) -> NDArray[np.int64]:
        """The rows of keys [C], -1 where there is none."""
        return self._short.find(keys)

    def find_long(self, chunks: list[str], keys: Keys) -> NDArray[np.int64]:
        """The rows of the long ones of chunks [U], -1 for others and where there is none."""
        rows = np.full(len(chunks), -1, np.int64)
        places = np.flatnonzero(keys.is_long)
        rows[places] = [self._long.get(chunks[place], -1) for place in places.tolist()]
        return rows

    def add(self, chunks: list[str], keys: Keys, ids: Ragged) -> NDArray[np.int64]:
        """Add distinct chunks with their ids; only one thread at a time may. Gives their rows."""
        # Another thread, or their own words' look-up, may have added some meanwhile.
        rows = self.find_short(keys)
        left = np.flatnonzero(rows < 0)
        ids = ids.take(left)
        used, end = int(self.ids.offsets[self.size]), self.size + len(left)
        values = _with_room(self.ids.values, used + len(ids.values))
        offsets = _with_room(self.ids.offsets, end + 1)
        values[used : used + len(ids.values)] = ids.values
        offsets[self.size + 1 : end + 1] = used + ids.offsets[1:]
        self.ids = Ragged(values, offsets)
        rows[left] = np.arange(self.size, end)
        self.size = end
        is_long = keys.is_long[left]
        self._short.insert(keys.take(left[~is_long]), rows[left[~is_long]])
        long = [chunks[place] for place in left[is_long].tolist()]
        self._long.update(zip(long, rows[left[is_long]].tolist(), strict=True))
        self._bytes_of_long += _BYTES_OF_LONG * len(long) + sum(map(len, long))
        return rows


def _with_room(array: NDArray[Scalar], size: int) -> NDArray[Scalar]:
    """The array itself if it has room for `size` values, else a copy with twice its room."""
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array)), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
