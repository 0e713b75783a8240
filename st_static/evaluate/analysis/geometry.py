"""How vectors lie on the unit sphere: alignment and uniformity (Wang and Isola 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from st_static.evaluate.analysis.built_model import BuiltModel
from st_static.model.vectors import unit_rows


def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Two texts per line, with a tab between them; at least two of the first ones differ."""
    pairs = []
    for number, line in enumerate(file.read_text("utf-8").rstrip("\n").split("\n"), 1):
        first, tab, second = line.partition("\t")
        if not tab or not first.strip() or not second.strip():
            raise ValueError(f"{file}, line {number}: expected two texts with a tab between them.")
        pairs.append((first, second))
    if len({first for first, _ in pairs}) < 2:
        raise ValueError(f"{file}: expected two different texts at the beginnings of its lines.")
    return pairs


def sphere(model: BuiltModel, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Alignment of paraphrases and uniformity of random pairs, after each stage."""
    first, second = zip(*pairs, strict=True)
    ids = model.tokenize(first), model.tokenize(second)
    # A text may begin several pairs: the same one twice would be no random pair.
    distinct = np.unique(first, return_index=True)[1]
    i, j = distinct[random_pairs(len(distinct))].T
    rows = []
    for stage in model.tables:
        x, y = (model.text_vectors(side, stage) for side in ids)
        rows.append(
            {"stage": stage, "alignment": alignment(x, y), "uniformity": uniformity(x[i], x[j])}
        )
    return pl.DataFrame(rows)


def alignment(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """Mean squared distance of paraphrases on the unit sphere; smaller is better.

    Args:
        x: Vectors of texts, [P, D].
        y: Vectors of their paraphrases, [P, D].

    Example:
        >>> alignment(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]))
        2.0
    """
    _check_pairs(x, y)
    return float(np.square(unit_rows(x) - unit_rows(y)).sum(axis=1).mean())


def uniformity(x: NDArray[np.floating], y: NDArray[np.floating], t: float = 2.0) -> float:
    """Logarithm of the mean of exp(-t |x - y|^2) over random pairs; smaller is better.

    Args:
        x: Vectors of random texts, [P, D].
        y: Vectors of other texts, [P, D]; `random_pairs` pairs no text with itself.
        t: Width of the kernel.

    Example:
        >>> uniformity(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]))
        -4.0
    """
    _check_pairs(x, y)
    distances = np.square(unit_rows(x) - unit_rows(y)).sum(axis=1)
    return float(np.log(np.mean(np.exp(-t * distances.astype(np.float64)))))


def random_pairs(n: int, seed: int = 0) -> NDArray[np.int64]:
    """Pairs of different indices below n, none of them twice, [n, 2]; of two indices one pair.

    Args:
        n: How many there are; each is in two pairs.
        seed: Seed of their order.

    Raises:
        ValueError: There are fewer than two.

    Example:
        >>> random_pairs(3).shape
        (3, 2)
    """
    if n < 2:
        raise ValueError(f"Expected at least two different texts to pair, but got {n}.")
    order = np.random.default_rng(seed).permutation(n)
    pairs = np.stack([order, np.roll(order, 1)], axis=1)  # each with its neighbour in a circle
    return pairs if n > 2 else pairs[:1]


def _check_pairs(x: NDArray[np.floating], y: NDArray[np.floating]) -> None:
    if x.ndim != 2 or x.shape != y.shape or not len(x):
        raise ValueError(
            f"Expected pairs of vectors, twice [P, D] with P > 0, but got {x.shape} and {y.shape}."
        )
