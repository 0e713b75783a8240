"""Finding translations: retrieval across two languages, with pairs that the teacher finds.

    python benchmarks/cross_lingual.py --texts FILE FILE --languages en ja --teacher MODEL
        [--prompt "query: "] [--longest 80] [--margin 1.2] [--show 20] MODEL [MODEL ...]

reads the lines of 10 to 80 characters of two files of text (.txt, also .xz or .gz), one for each
language. It takes for translations the pairs of lines that are each other's nearest neighbour in
the teacher's space, the mean of each language removed, and whose cosine is at least `margin` times
the mean cosine with the four nearest neighbours of both (Artetxe and Schwenk, 2019, section 3.1).
So they are pairs on which the teacher is sure, not a test of the teacher.

For the teacher and each model it prints for how many lines of the pairs the nearest line of the
other language is its translation, among the pairs' lines and among all lines, in both directions;
and the correlation of the model's and the teacher's cosines over the pairs and as many random
ones. `--show` prints some pairs, to be looked at.
"""

import argparse
import gzip
import lzma
from pathlib import Path

import numpy as np
from measuring import print_heading, print_row
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from st_static.model.vectors import unit_rows

Vectors = NDArray[np.float32]
NEIGHBOURS = 4
ROWS_AT_A_TIME = 4096
SHORTEST = 10


def read_lines(file: Path, longest: int) -> list[str]:
    """Distinct lines of so many characters at most, and of ten at least."""
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(file.suffix, open)
    with opener(file, "rt", encoding="utf-8") as lines:
        stripped = dict.fromkeys(line.strip() for line in lines)
    return [line for line in stripped if SHORTEST <= len(line) <= longest]


def nearest(of: Vectors, among: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    """The k nearest rows among unit vectors [m, D] of each of [n, D]: places, cosines, [n, k]."""
    places, cosines = [], []
    for start in range(0, len(of), ROWS_AT_A_TIME):
        scores = of[start : start + ROWS_AT_A_TIME] @ among.T
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(scores, best, axis=1)
        order = np.argsort(-values, axis=1)
        places.append(np.take_along_axis(best, order, axis=1))
        cosines.append(np.take_along_axis(values, order, axis=1))
    return np.concatenate(places), np.concatenate(cosines)


def find_translations(one: Vectors, other: Vectors, margin: float) -> NDArray[np.int64]:
    """Pairs of rows of [n, d] and [m, d] that are surely each other's translation, [P, 2]."""
    one, other = (unit_rows(unit_rows(v) - unit_rows(v).mean(axis=0)) for v in (one, other))
    there, cosines = nearest(one, other, NEIGHBOURS)
    back, back_cosines = nearest(other, one, NEIGHBOURS)
    first = np.arange(len(one))
    second = there[:, 0]
    around = (cosines.mean(axis=1) + back_cosines.mean(axis=1)[second]) / 2
    sure = (back[second, 0] == first) & (cosines[:, 0] >= margin * around)
    return np.stack([first[sure], second[sure]], axis=1)


def accuracy(of: Vectors, among: Vectors, right: NDArray[np.int64]) -> float:
    """For how many of unit vectors [n, D] the nearest row among others is the right one, x 100."""
    places, _ = nearest(of, among, 1)
    return float(np.mean(places[:, 0] == right) * 100)


def measure(one: Vectors, other: Vectors, pairs: NDArray[np.int64]) -> list[float]:
    """Accuracies among the pairs' lines, and among all lines, both ways."""
    first, second = one[pairs[:, 0]], other[pairs[:, 1]]
    own = np.arange(len(pairs))
    return [
        accuracy(first, second, own),
        accuracy(second, first, own),
        accuracy(first, other, pairs[:, 1]),
        accuracy(second, one, pairs[:, 0]),
    ]


def cosines(one: Vectors, other: Vectors, pairs: NDArray[np.int64]) -> Vectors:
    """Cosines of the pairs, and of as many random ones, [2 P]."""
    random = np.random.default_rng(0).permutation(pairs[:, 1])
    seconds = np.concatenate([pairs[:, 1], random])
    result: Vectors = np.einsum("ij,ij->i", one[np.tile(pairs[:, 0], 2)], other[seconds])
    return result


def main() -> None:
    """Find the pairs, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="folders or Hub ids")
    parser.add_argument("--texts", type=Path, nargs=2, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "ja"])
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--prompt", help="of the teacher; by default its own")
    parser.add_argument("--longest", type=int, default=80, help="in characters")
    parser.add_argument("--margin", type=float, default=1.2)
    parser.add_argument("--show", type=int, default=0)
    arguments = parser.parse_args()
    texts = [read_lines(file, arguments.longest) for file in arguments.texts]
    teacher = SentenceTransformer(arguments.teacher)
    vectors = [
        unit_rows(teacher.encode(t, prompt=arguments.prompt, show_progress_bar=True)) for t in texts
    ]
    pairs = find_translations(vectors[0], vectors[1], arguments.margin)
    print(f"{len(texts[0]):,} and {len(texts[1]):,} lines, {len(pairs):,} pairs")
    for one, other in pairs[np.linspace(0, len(pairs) - 1, arguments.show, dtype=int)]:
        print(f"  {texts[0][one]} | {texts[1][other]}")
    taught = cosines(vectors[0], vectors[1], pairs)
    one, other = arguments.languages
    ways = [f"{one} to {other}", f"{other} to {one}"]
    columns = ["model", *ways, *(f"{way}, among all" for way in ways), "correlation"]
    print_heading(columns)
    _print_row("teacher", vectors, pairs, taught)
    for name in arguments.models:
        model = SentenceTransformer(name, device="cpu")
        own = [unit_rows(model.encode(t, batch_size=1024)) for t in texts]
        _print_row(name, own, pairs, taught)


def _print_row(
    name: str, vectors: list[Vectors], pairs: NDArray[np.int64], taught: Vectors
) -> None:
    agreement = spearmanr(cosines(vectors[0], vectors[1], pairs), taught).statistic * 100
    values = (*measure(vectors[0], vectors[1], pairs), agreement)
    print_row(name, *(f"{value:.1f}" for value in values))


if __name__ == "__main__":
    main()
