"""Finding translations: retrieval across two languages, with pairs of people or of a teacher.

    python benchmarks/cross_lingual.py --texts FILE FILE --languages en ja --teacher MODEL
        [--prompt "query: "] [--longest 80] [--margin 1.2] [--show 20] MODEL [MODEL ...]
    python benchmarks/cross_lingual.py --texts FILE FILE --languages en ja --pairs FILE
        [--longest 80] [--teacher MODEL [--prompt "query: "] [--margin 1.2]] MODEL [MODEL ...]

reads the lines of 10 to 80 characters of two files of text (.txt, also .xz or .gz), one for each
language. Pairs of translations are given as lines of JSON, `{"anchor": "...", "positive": "..."}`;
those whose sides are among the lines count, and the first one of a text.

Otherwise, it takes for translations the pairs of lines that are each other's nearest neighbour in
the teacher's space, the mean of each language removed, and whose cosine is at least `margin` times
the mean cosine with the four nearest neighbours of both (Artetxe and Schwenk, 2019, section 3.1).
So they are pairs on which the teacher is sure, not a test of the teacher. Given pairs and a
teacher, it measures on all given pairs, and on those of them on which the teacher is sure.

For the teacher, if there is one, and each model it prints for how many lines of the pairs the
nearest line of the other language is its translation, among the pairs' lines and among all lines,
in both directions and in their mean; and the correlation of the model's and the teacher's cosines
over the pairs and as many random ones. `--show` prints some pairs, to be looked at.
"""

import gzip
import json
import lzma
from pathlib import Path

import numpy as np
from measuring import parser_of, print_heading, print_row
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


def centred(vectors: Vectors) -> Vectors:
    """Unit vectors [n, D] of a language without what is common to all its lines."""
    unit = unit_rows(vectors)
    return unit_rows(unit - unit.mean(axis=0))


def find_translations(one: Vectors, other: Vectors, margin: float) -> NDArray[np.int64]:
    """Pairs of rows of [n, d] and [m, d] that are surely each other's translation, [P, 2]."""
    one, other = centred(one), centred(other)
    there, cosines = nearest(one, other, NEIGHBOURS)
    back, back_cosines = nearest(other, one, NEIGHBOURS)
    first = np.arange(len(one))
    second = there[:, 0]
    around = (cosines.mean(axis=1) + back_cosines.mean(axis=1)[second]) / 2
    sure = (back[second, 0] == first) & (cosines[:, 0] >= margin * around)
    return np.stack([first[sure], second[sure]], axis=1)


def read_pairs(file: Path, texts: list[list[str]]) -> NDArray[np.int64]:
    """Pairs of a file of JSON lines, as numbers of lines among two lists, [P, 2]."""
    numbers = [{line: i for i, line in enumerate(lines)} for lines in texts]
    seen: set[str] = set()
    rows = []
    for line in file.read_text("utf-8").splitlines():
        sides = json.loads(line)["anchor"].strip(), json.loads(line)["positive"].strip()
        pair = [known.get(side) for known, side in zip(numbers, sides, strict=True)]
        if None not in pair and seen.isdisjoint(sides):
            seen.update(sides)
            rows.append(pair)
    return np.array(rows, np.int64).reshape(-1, 2)


def accuracy(of: Vectors, among: Vectors, right: NDArray[np.int64]) -> float:
    """For how many of unit vectors [n, D] the nearest row among others is the right one, x 100."""
    places, _ = nearest(of, among, 1)
    return float(np.mean(places[:, 0] == right) * 100)


def measure(one: Vectors, other: Vectors, pairs: NDArray[np.int64]) -> list[float]:
    """Accuracies among the pairs' lines, and among all lines, both ways and their mean."""
    first, second = one[pairs[:, 0]], other[pairs[:, 1]]
    own = np.arange(len(pairs))
    among_own = accuracy(first, second, own), accuracy(second, first, own)
    among_all = accuracy(first, other, pairs[:, 1]), accuracy(second, one, pairs[:, 0])
    return [value for ways in (among_own, among_all) for value in (*ways, sum(ways) / 2)]


def cosines(one: Vectors, other: Vectors, pairs: NDArray[np.int64]) -> Vectors:
    """Cosines of the pairs, and of as many random ones, [2 P]."""
    random = np.random.default_rng(0).permutation(pairs[:, 1])
    seconds = np.concatenate([pairs[:, 1], random])
    result: Vectors = np.einsum("ij,ij->i", one[np.tile(pairs[:, 0], 2)], other[seconds])
    return result


def main() -> None:
    """Find the pairs, measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("models", nargs="+", help="folders or Hub ids")
    parser.add_argument("--texts", type=Path, nargs=2, required=True)
    parser.add_argument("--languages", nargs=2, default=["en", "ja"])
    parser.add_argument("--pairs", type=Path, help="of translations; or the teacher finds them")
    parser.add_argument("--teacher")
    parser.add_argument("--prompt", help="of the teacher; by default its own")
    parser.add_argument("--longest", type=int, default=80, help="in characters")
    parser.add_argument("--margin", type=float, default=1.2)
    parser.add_argument("--show", type=int, default=0)
    arguments = parser.parse_args()
    if not (arguments.pairs or arguments.teacher):
        parser.error("give --pairs, --teacher or both")
    texts = [read_lines(file, arguments.longest) for file in arguments.texts]
    vectors = []
    if arguments.teacher:
        teacher = SentenceTransformer(arguments.teacher)
        options = {"prompt": arguments.prompt, "show_progress_bar": True}
        vectors = [unit_rows(teacher.encode(lines, **options)) for lines in texts]
    kinds: dict[str, NDArray[np.int64]] = {}
    if arguments.pairs:
        kinds["given"] = read_pairs(arguments.pairs, texts)
        if not len(kinds["given"]):
            parser.error(f"no pair of {arguments.pairs} has both sides among the lines of --texts")
    if vectors:
        sure = find_translations(*vectors, arguments.margin)
        if arguments.pairs:
            given = set(map(tuple, kinds["given"].tolist()))
            sure = sure[[tuple(pair) in given for pair in sure.tolist()]]
        kinds["sure"] = sure
    by_model = {"teacher": vectors} if vectors else {}
    for name in arguments.models:
        model = SentenceTransformer(name, device="cpu")
        by_model[name] = [unit_rows(model.encode(t, batch_size=1024)) for t in texts]
    one, other = arguments.languages
    ways = [f"{one} to {other}", f"{other} to {one}", "mean"]
    columns = ["model", *ways, *(f"{way}, among all" for way in ways)]
    for kind, pairs in kinds.items():
        if not len(pairs):
            print(f"\nThere are no {kind} pairs.")
            continue
        print(f"\n{len(texts[0]):,} and {len(texts[1]):,} lines, {len(pairs):,} {kind} pairs")
        for first, second in pairs[np.linspace(0, len(pairs) - 1, arguments.show, dtype=int)]:
            print(f"  {texts[0][first]} | {texts[1][second]}")
        print_heading([*columns, "correlation"] if vectors else columns)
        taught = cosines(*vectors, pairs) if vectors else None
        for name, own in by_model.items():
            values = measure(*own, pairs)
            if taught is not None:
                values.append(spearmanr(cosines(*own, pairs), taught).statistic * 100)
            print_row(name, *(f"{value:.1f}" for value in values))


if __name__ == "__main__":
    main()
