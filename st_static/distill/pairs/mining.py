"""Mining pairs of sentences that the teacher has read: near neighbours, and hard negatives.

A pair is a sentence and its nearest neighbour by the teacher's cosines; its hard negative is the
nearest of those that are clearly less near.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from st_static.distill.config import PairsConfig
from st_static.distill.pairs.reading import COLUMNS
from st_static.distill.progress import bar
from st_static.distill.target import Target
from st_static.distill.work_directory import WorkDirectory
from st_static.files import read_table, write_table
from st_static.model.vectors import unit_rows

logger = logging.getLogger(__name__)

MIN_COSINE = 0.6
"""Least cosine of a pair, by the teacher's vectors as distillation takes them."""
MARGIN = 0.1
"""By how much the cosine of a hard negative is smaller than that of its pair, at least."""

_FILE = "pairs.arrow"
_NEIGHBOURS = 100  # among which a hard negative is looked for
_COSINES_AT_A_TIME = 2**26  # 256 MB
_POOL = 300_000  # sentences, beyond which pairs are looked for in a sample


def mine(vectors: NDArray[np.float32], config: PairsConfig, seed: int = 0) -> NDArray[np.int64]:
    """Mine pairs of sentences.

    Args:
        vectors: The teacher's vectors of S sentences, of length 1, [S, d].
        config: How many are wanted.
        seed: Seed of the order in which sentences are tried.

    Returns:
        The numbers of both sides and of the hard negative of at most so many pairs, [P, 3]. A
        sentence is the first side of one of them, or of none.

    Raises:
        ValueError: No two sentences are so near to each other, with another one less near.
    """
    order = np.random.default_rng(seed).permutation(len(vectors))
    pool = torch.from_numpy(vectors)
    found, n, at_a_time = [], 0, max(1, _COSINES_AT_A_TIME // len(vectors))
    with bar("pairs", config.mined, "pair") as progress:
        for start in range(0, len(order), at_a_time):
            part = _pairs_of(pool, order[start : start + at_a_time], config)
            found.append(part)
            progress.update(min(len(part), config.mined - n))
            n += len(part)
            if n >= config.mined:
                break
    rows = np.concatenate(found)[: config.mined]
    if not len(rows):
        raise ValueError(
            f"pairs.mined: no two of {len(vectors):,} sentences have a cosine of {MIN_COSINE} or "
            f"more, with a hard negative that is {MARGIN} less near. Give more text."
        )
    return rows


def _pairs_of(
    pool: torch.Tensor, anchors: NDArray[np.int64], config: PairsConfig
) -> NDArray[np.int64]:
    """Anchor, positive and negative of those anchors that have them, [n, 3]."""
    rows = torch.from_numpy(anchors)
    cosines = pool[rows] @ pool.T
    cosines[torch.arange(len(rows)), rows] = -2.0  # a sentence is no neighbour of its own
    top = cosines.topk(min(_NEIGHBOURS, len(pool)), dim=1)
    values, neighbours = top.values.numpy(), top.indices.numpy()
    nearest = values[:, :1]
    is_less_near = (values <= nearest - MARGIN) & (values > -2.0)
    has_both = (nearest[:, 0] >= MIN_COSINE) & is_less_near.any(axis=1)
    negative = neighbours[np.arange(len(anchors)), is_less_near.argmax(axis=1)]
    return np.stack([anchors, neighbours[:, 0], negative], axis=1)[has_both]


def mined_pairs(
    folder: Path, work: WorkDirectory, target: Target, config: PairsConfig, seed: int
) -> pa.Table:
    """Pairs of the sentences that words have chosen; of more than 300,000, of a sample of these.

    Args:
        folder: Where they are kept: a stage that was interrupted finds them there.
        work: The stages before, with the teacher's vectors of the sentences.
        target: What the student learns of these.
        config: How many pairs are wanted.
        seed: Seed of the order in which sentences are tried.
    """
    file = folder / _FILE
    if not file.exists():
        rows = work.for_words
        if len(rows) > _POOL:
            rows = np.sort(np.random.default_rng(seed).choice(rows, _POOL, replace=False))
        pairs = mine(unit_rows(target(work.sentence_vectors[rows])), config, seed)
        texts = [work.selected.texts.take(rows[side]) for side in pairs.T]
        if len(pairs) < config.mined:
            logger.warning(
                "pairs.mined asks for %s pairs, but only %s sentences have one. Give more text.",
                *(f"{config.mined:,}", f"{len(pairs):,}"),
            )
        write_table(file, pa.table(texts, names=list(COLUMNS)))
    return read_table(file)
