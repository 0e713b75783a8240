"""The likeliest pieces of many short strings at once: a Unigram model's search in numpy.

Each step is taken for all strings together:

1. Edges: from each character on, a trie of the pieces is followed. Nodes are numbers, and a hash
   table has the child of a node and a character, so that strings are told apart exactly.
2. Search: the best sum at the end of an edge is the best one before it and the edge's score. An
   edge that begins later replaces another one only if its sum is larger, so of equal sums that
   with the longest last piece stays, as in the library.
3. The way back, from the end of each string.

The sums are the library's if `unigram.exact_characters` says that none is rounded. Unknown
characters in a row become one token, whose string the library looks up: it gets such strings.

Characters lie in columns: the first ones of all strings, then the second ones, and so on; the
longest string is first in each. So each step is a range, and the range before has what it needs.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from st_static.tokens.ragged import Ragged, concatenate, offsets_of

PENALTY = 10.0
"""An unknown character has the smallest score less this."""
_POINT_BITS = np.uint64(21)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
# Search this many characters at a time: their arrays stay in the processor's cache.
_CHARACTERS_AT_A_TIME = 65_536
# Node 0 is the root, before the first character. As a token it is an unknown character.
_ROOT = _UNKNOWN = 0


class UnigramViterbi:
    """Splits strings as tokenizers does; all sums of scores must be exact."""

    def __init__(self, vocabulary: list[tuple[str, float]], unknown_id: int | None) -> None:
        self._unknown_id = unknown_id
        index = {piece: i for i, (piece, _) in enumerate(vocabulary) if piece}
        scores = np.array([score for _, score in vocabulary])
        nodes = self._build_trie(list(index))
        # Of each node: the piece that ends there, -1 if none does, and its score.
        self._ids = np.full(self._n_nodes, -1, np.int32)
        self._scores = np.full(self._n_nodes, -np.inf)
        self._ids[nodes] = list(index.values())
        self._scores[nodes] = scores[self._ids[nodes]]
        self._is_piece = self._ids >= 0
        self._scores[_UNKNOWN] = scores.min() - PENALTY
        if unknown_id is not None:
            self._ids[_UNKNOWN] = unknown_id

    def _build_trie(self, pieces: list[str]) -> NDArray[np.int64]:
        """Number the prefixes of distinct pieces [V], and return the nodes of whole pieces."""
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        points = np.frombuffer("".join(pieces).encode("utf-32-le"), np.uint32)
        positions = offsets_of(lengths)[:-1]
        nodes = np.full(len(pieces), _ROOT, np.int64)
        self._n_nodes = 1
        keys = [np.empty(0, np.uint64)]
        longer = np.flatnonzero(lengths)
        while len(longer):
            level = _child_keys(nodes[longer], points[positions[longer]])
            distinct, numbers = np.unique(level, return_inverse=True)
            nodes[longer] = self._n_nodes + numbers
            self._n_nodes += len(distinct)
            keys.append(distinct)
            positions = positions + 1
            longer = longer[lengths[longer] >= len(keys)]
        all_keys = np.concatenate(keys)
        self._children = _Children(all_keys)
        self._has_children = np.zeros(self._n_nodes, np.bool_)
        self._has_children[all_keys >> _POINT_BITS] = True
        self._has_children[_ROOT] = False  # no node is written as the root, too
        return nodes

    def encode(
        self, points: NDArray[np.uint32], lengths: NDArray[np.int64]
    ) -> tuple[Ragged, NDArray[np.bool_]]:
        """Split P normalised strings, of at least one character each, given all code points [N] and
        lengths [P]. Returns the ids [P rows], and which strings are left to the library, [P]: those
        with unknown characters in a row, or with any if they are an error."""
        offsets = offsets_of(lengths)
        parts, start = [], 0
        while start < len(lengths):
            end = np.searchsorted(offsets, offsets[start] + _CHARACTERS_AT_A_TIME, side="right")
            end = max(start + 1, int(end) - 1)
            columns = _Columns.of(lengths[start:end])
            edges = self._edges(columns, points[offsets[start] : offsets[end]])
            is_end, nodes = (at[columns.positions] for at in self._best_pieces(columns, edges))
            bounds = offsets_of(is_end)[offsets[start : end + 1] - offsets[start]]
            parts.append(Ragged(self._ids[nodes[is_end]], bounds))
            start = end
        ids = concatenate(parts)
        unknown = ids.values == (-1 if self._unknown_id is None else self._unknown_id)
        if self._unknown_id is not None:  # one alone is like a piece
            unknown[1:] &= unknown[:-1]
            unknown[ids.offsets[:-1]] = False
        counts = offsets_of(unknown)
        return ids, counts[ids.offsets[1:]] > counts[ids.offsets[:-1]]

    def _edges(self, columns: _Columns, points: NDArray[np.uint32]) -> _Edges:
        """Find the positions of pieces and unknown characters in strings of characters [N]."""
        n = len(points)
        in_columns = np.zeros(n + 1, np.uint32)
        in_columns[columns.positions] = points
        starts = ends = np.arange(n)
        nodes = self._children.of(np.zeros(n, np.int64), in_columns[:n])
        single = np.where(self._is_piece[nodes], nodes, _UNKNOWN)
        levels = [_Edges(starts, ends, single)]
        while len(nodes):
            on = np.flatnonzero(self._has_children[nodes])
            starts, ends = starts[on], columns.next[ends[on]]
            nodes = self._children.of(nodes[on], in_columns[ends])
            on = np.flatnonzero(nodes)
            starts, ends, nodes = starts[on], ends[on], nodes[on]
            whole = np.flatnonzero(self._is_piece[nodes])
            levels.append(_Edges(starts[whole], ends[whole], nodes[whole]))
        return _Edges(*map(np.concatenate, zip(*levels, strict=True)))

    def _best_pieces(
        self, columns: _Columns, edges: _Edges
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Find the positions [N] at which one of the best pieces ends, and which piece."""
        n = len(columns.positions)
        order = np.argsort(columns.steps[edges.starts], kind="stable")
        before = columns.previous[edges.starts][order]
        ends, nodes = edges.ends[order], edges.nodes[order]
        scores = self._scores[nodes]
        bounds = offsets_of(np.bincount(columns.steps[edges.starts]))
        best = np.full(n + 1, -np.inf)
        best[n] = 0.0  # before the first character
        chosen = np.zeros(n + 1, np.int64)
        for start, end in itertools.pairwise(bounds):
            sums = best[before[start:end]] + scores[start:end]
            better = np.flatnonzero(sums > best[ends[start:end]])
            targets = ends[start:end][better]
            best[targets] = sums[better]
            chosen[targets] = better + start
        is_end = np.zeros(n + 1, np.bool_)
        positions = columns.last
        while len(positions):
            is_end[positions] = True
            positions = before[chosen[positions]]
            positions = positions[positions < n]
        return is_end, nodes[chosen]


class _Children:
    """A hash table of a trie's nodes but the root, by their `_child_keys` in order."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._shift = np.uint64(64 - (2 * len(keys)).bit_length())
        slots = self._slots(keys)
        order = np.argsort(slots, kind="stable")
        self._keys, self._nodes = keys[order], order + 1
        self._bounds = np.zeros((1 << 64 - int(self._shift)) + 1, np.int32)
        np.cumsum(np.bincount(slots, minlength=len(self._bounds) - 1), out=self._bounds[1:])

    def of(self, nodes: NDArray[np.int64], points: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Look up the children of nodes [n] by characters [n], 0 where there is none."""
        keys = _child_keys(nodes, points)
        slots = self._slots(keys)
        positions, ends = self._bounds[slots], self._bounds[slots + 1]
        children = np.zeros(len(keys), np.int64)
        left = np.flatnonzero(positions < ends)
        while len(left):
            here = positions[left]
            equal = self._keys[here] == keys[left]
            children[left[equal]] = self._nodes[here[equal]]
            positions[left] += 1
            left = left[~equal & (here + 1 < ends[left])]
        return children

    def _slots(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Compute the slot of each key [n]: the top bits of a product (Fibonacci hashing)."""
        return (keys * _FACTOR >> self._shift).view(np.int64)


class _Edges(NamedTuple):
    """Pieces in strings, from the position of one character to another, [E]."""

    starts: NDArray[np.int64]  # the positions of their first characters
    ends: NDArray[np.int64]  # the positions of their last characters
    nodes: NDArray[np.int64]  # which pieces


class _Columns(NamedTuple):
    """The positions in columns of the N characters of P strings."""

    positions: NDArray[np.int64]  # of each character, [N]
    last: NDArray[np.int64]  # of each string's last character, [P]
    steps: NDArray[np.uint16]  # the number of the column that each position is in, [N]
    next: NDArray[np.int64]  # of the next character, N after the last one and after N, [N + 1]
    previous: NDArray[np.int64]  # of the one before, N before the first one, [N]

    @staticmethod
    def of(lengths: NDArray[np.int64]) -> _Columns:
        """Arrange strings of these lengths, at least one and less than 2^16, [P] in columns."""
        rank = np.empty(len(lengths), np.int64)
        rank[np.argsort(-lengths, kind="stable")] = np.arange(len(lengths))
        heights = len(lengths) - np.cumsum(np.bincount(lengths))[:-1]
        column_starts, offsets = offsets_of(heights), offsets_of(lengths)
        n = int(offsets[-1])
        steps = np.arange(n) - np.repeat(offsets[:-1], lengths)
        positions = column_starts[steps] + np.repeat(rank, lengths)
        last = positions[offsets[1:] - 1]
        following = np.arange(n + 1)
        following[:n] += np.repeat(heights, heights)
        following[last] = n
        previous = np.full(n + 1, n)
        previous[following[:n]] = np.arange(n)
        return _Columns(
            positions,
            last,
            np.repeat(np.arange(len(heights), dtype=np.uint16), heights),
            following,
            np.where(np.arange(n) < len(lengths), n, previous[:n]),
        )


def _child_keys(nodes: NDArray[np.int64], points: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """Make a number of each node and the character after it, [n]."""
    return nodes.astype(np.uint64) << _POINT_BITS | points
