"""A hash table from short strings to rows, for many look-ups at a time in numpy.

A string of up to 15 bytes is its own key: two 64-bit numbers, of its bytes and its length. So
nothing is compared but numbers, and no two strings share a key.

Against it, 100,000 look-ups among 200,000 words take 7 times as long in a dict, which needs a
Python string for each, and 4.5 times as long with `pyarrow.compute.index_in`, which hashes the
whole table anew on each call (6.9, 7.3 and 7.8 times; 4.4, 4.4 and 4.7 times, in three runs of
`python benchmarks/key_table_speed.py` on a busy machine of two processors).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from st_static.tokens.chunks import PADDING, Spans

LONGEST = PADDING - 1
_MIN_SLOTS = 1024
# Odd numbers that spread keys over the slots (from SplitMix64).
_FACTOR_LOW, _FACTOR_HIGH = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)
# For each length the bytes that belong to the string, and the length + 1 behind them.
_BYTES = np.arange(PADDING) < np.arange(PADDING)[:, None]
_MASKS = np.where(_BYTES, np.uint8(255), np.uint8(0)).view("<u8")
_MASK_LOW, _MASK_HIGH = np.ascontiguousarray(_MASKS.T)
_LENGTHS = np.arange(1, PADDING + 1, dtype=np.uint64) << np.uint64(56)
_INSIDE = np.uint64(61)  # the bit of those inside of words
_NO_STRING = np.uint64(0xFFFFFFFFFFFFFFFF)


class Keys(NamedTuple):
    """Keys of strings.

    Attributes:
        low: Bytes 0 to 7, [C].
        high: Bytes 8 to 14; in the topmost byte the length + 1, and whether it is inside, [C].
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]

    def take(self, which: NDArray[np.int64]) -> Keys:
        """Some of them, [n]."""
        return Keys(self.low[which], self.high[which])

    @property
    def is_long(self) -> NDArray[np.bool_]:
        """Which strings are too long to have a key, [C]."""
        is_long: NDArray[np.bool_] = self.high == _NO_STRING
        return is_long


def keys_of(strings: Spans) -> Keys:
    """The keys of strings [C] of up to `LONGEST` bytes; longer ones get that of no string."""
    n = len(strings.data) - PADDING + 1
    windows = np.ndarray(n, f"V{PADDING}", strings.data.data, strides=(1,))
    words = windows[strings.starts].view("<u8").reshape(-1, 2)
    lengths = np.minimum(strings.lengths, LONGEST)
    low = words[:, 0] & np.take(_MASK_LOW, lengths)
    high = words[:, 1] & np.take(_MASK_HIGH, lengths) | np.take(_LENGTHS, lengths)
    if strings.inside is not None:
        high |= strings.inside.astype(np.uint64) << _INSIDE
    high[strings.lengths > LONGEST] = _NO_STRING
    return Keys(low, high)


class KeyTable:
    """Rows by key. Slots are probed one after the other; at most half of them are in use.

    One thread may insert while others find. They may miss keys that are being inserted, but never
    get a wrong row: a slot's high number is the last that is written of it, and the first read.

    Attributes:
        size: Number of keys.
    """

    def __init__(self, n_slots: int = _MIN_SLOTS) -> None:
        self.size = 0
        self._slots = _Slots.empty(n_slots)

    def copy(self) -> KeyTable:
        """Another table with the same keys."""
        other = KeyTable(0)
        low, high, rows = self._slots
        other.size, other._slots = self.size, _Slots(low.copy(), high.copy(), rows.copy())
        return other

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(array.nbytes for array in self._slots)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The row of each key [C], -1 where there is none."""
        return self._slots.find(keys)

    def insert(self, keys: Keys, rows: NDArray[np.int64]) -> None:
        """Add distinct keys [n] that are not there yet, with their rows."""
        slots = self._slots
        needed = 2 * (self.size + len(rows))
        if needed > len(slots.rows):
            used = np.flatnonzero(slots.high)
            bigger = _Slots.empty(1 << (needed - 1).bit_length())
            bigger.fill(Keys(slots.low[used], slots.high[used]), slots.rows[used].astype(np.int64))
            self._slots = slots = bigger
        slots.fill(keys, rows)
        self.size += len(rows)


class _Slots(NamedTuple):
    """The slots of a table, [S], a power of two.

    Attributes:
        low: The low number of each one's key.
        high: The high number; 0 in empty slots, as no key has it.
        rows: The row.
    """

    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    rows: NDArray[np.int32]

    @staticmethod
    def empty(n: int) -> _Slots:
        """So many slots without keys."""
        return _Slots(np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.zeros(n, np.int32))

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The row of each key [C], -1 where there is none."""
        rows = np.full(len(keys.low), -1, np.int64)
        places: NDArray[np.int64] | None = None  # all
        slots = self._first_slots(keys)
        while len(slots):
            high = np.take(self.high, slots)
            equal = (np.take(self.low, slots) == keys.low) & (high == keys.high)
            found = np.flatnonzero(equal)
            rows[found if places is None else places[found]] = self.rows[slots[found]]
            on = np.flatnonzero(~equal & (high != 0))
            places = on if places is None else places[on]
            keys, slots = keys.take(on), self._next(slots[on])
        return rows

    def fill(self, keys: Keys, rows: NDArray[np.int64]) -> None:
        """Add distinct keys [n] that are not there yet, with their rows, to enough empty slots."""
        slots = self._first_slots(keys)
        while len(slots):
            free = np.flatnonzero(self.high[slots] == 0)
            # Of several for one slot the last one has it; the others try the next slot.
            wanted = slots[free]
            self.rows[wanted] = rows[free]
            won = free[self.rows[wanted] == rows[free]]
            self.low[slots[won]] = keys.low[won]
            self.high[slots[won]] = keys.high[won]
            left = np.ones(len(slots), np.bool_)
            left[won] = False
            on = np.flatnonzero(left)
            keys, rows, slots = keys.take(on), rows[on], self._next(slots[on])

    def _first_slots(self, keys: Keys) -> NDArray[np.int64]:
        mixed = keys.low * _FACTOR_LOW ^ keys.high * _FACTOR_HIGH
        mixed ^= mixed >> _SHIFT
        mixed *= _FACTOR_HIGH
        mixed ^= mixed >> _SHIFT
        mixed &= np.uint64(len(self.rows) - 1)
        return mixed.view(np.int64)

    def _next(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        following: NDArray[np.int64] = (slots + 1) & (len(self.rows) - 1)
        return following
