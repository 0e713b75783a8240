"""The sentences that the teacher reads, and those that are held out, as one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.distill.corpus.selection import Pairs
from st_static.files import read_table
from st_static.tokens.ragged import offsets_of


def gather_selected(
    pairs: Pairs,
    held_out: NDArray[np.int64],
    shards: Sequence[Path],
    count_tokens: Callable[[pa.Array], NDArray[np.int32]],
) -> pa.Table:
    """Collect the selected and the held-out sentences, sorted by length.

    Args:
        pairs: The selected pairs.
        held_out: Numbers of the held-out sentences.
        shards: The sentence shards.
        count_tokens: Counts the teacher tokens of texts.

    Returns:
        Columns `text`, `key`, `length` (teacher tokens, without special ones), `words` (token
        ids of the words that it was selected for) and `held_out`; sorted by `length`, then `key`.
    """
    order = np.lexsort((pairs.word, pairs.sentence))
    chosen, first, counts = np.unique(pairs.sentence, return_index=True, return_counts=True)
    numbers = np.concatenate([chosen, held_out])
    offsets = offsets_of(np.concatenate([counts, np.zeros(len(held_out), dtype=np.int64)]))
    words = pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(pairs.word[order]))
    sentences = _read_sentences(shards, numbers)
    held_out_lengths = count_tokens(sentences["text"][len(chosen) :].combine_chunks())
    table = pa.table(
        {
            **{name: sentences[name] for name in sentences.column_names},
            "length": np.concatenate([pairs.length[first], held_out_lengths]),
            "words": words,
            "held_out": np.arange(len(numbers)) >= len(chosen),
        }
    )
    return table.sort_by([("length", "ascending"), ("key", "ascending")])


def _read_sentences(shards: Sequence[Path], numbers: NDArray[np.int64]) -> pa.Table:
    """Read the sentences with the given numbers, in that order."""
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    parts, first = [], 0
    for shard in shards:
        table = read_table(shard)
        low, high = np.searchsorted(ascending, [first, first + len(table)])
        parts.append(table.take(ascending[low:high] - first))
        first += len(table)
    return pa.concat_tables(parts).take(np.argsort(order, kind="stable"))
