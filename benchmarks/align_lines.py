"""Pairs of translations out of two files in the same order, of which lines are missing.

    python benchmarks/align_lines.py FILE FILE --model MODEL --output pairs.jsonl
        [--least 0.3] [--width 1000]

Line by line, two files of a parallel corpus may be translations, until equal or odd lines are taken
out of either. This finds what still belongs together: of all ways to pair lines of the one file
with lines of the other in the same order, that with the largest sum of cosines, each less `least`.
The cosines are those of `model`, a static one for both languages, with the mean of each language
removed. A line is paired within `width` lines of its place in proportion. Where as many lines are
left on both sides between two pairs, they are taken for translations, too, whatever their cosines.

It writes `{"anchor": line, "positive": line}`, and says how many pairs there are.
"""

import json
from pathlib import Path

import numpy as np
from cross_lingual import Vectors, centred
from measuring import parser_of
from numpy.typing import NDArray

from st_static import FastEncoder


def align(one: Vectors, other: Vectors, least: float, width: int) -> NDArray[np.int64]:
    """Pair rows of unit vectors [n, D] and [m, D] in ascending order on both sides, [P, 2]."""
    n, m = len(one), len(other)
    starts = np.clip(np.arange(n) * m // n - width // 2, 0, max(0, m - width))
    width = min(width, m)
    moves = np.zeros((n, width), np.int8)  # 0: leave out row i; 1: row j; 2: pair both
    best = np.zeros(width + 1, np.float32)  # of rows before i, and columns before starts[i] + k
    for i, start in enumerate(starts):
        shift = start - (starts[i - 1] if i else 0)
        if shift:
            best = np.concatenate([best[shift:], np.full(min(shift, width + 1), best[-1])])
            best = best[: width + 1]
        gains = other[start : start + width] @ one[i] - least
        paired = best[:-1] + gains
        reached = np.maximum(best[1:], paired)
        top = np.maximum.accumulate(np.concatenate([best[:1], reached]))
        moves[i] = np.where(top[1:] > reached, 1, np.where(paired > best[1:], 2, 0))
        best = top
    pairs, i, j = [], n - 1, m - 1
    while i >= 0 and j >= 0:
        k = j - starts[i]
        move = 0 if k < 0 else 1 if k >= width else moves[i, k]
        if move == 2:
            pairs.append((i, j))
        i, j = i - (move != 1), j - (move != 0)
    return np.array(pairs[::-1], np.int64).reshape(-1, 2)


def with_lines_between(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the rows between two pairs where as many are left out on both sides."""
    steps = np.diff(pairs, axis=0)
    filled = [
        pair + np.arange(step[0] if step[0] == step[1] else 1)[:, None]
        for pair, step in zip(pairs, steps, strict=False)
    ]
    return np.concatenate([*filled, pairs[-1:]])


def main() -> None:
    """Read both files, align them, and write the pairs."""
    parser = parser_of(__doc__)
    parser.add_argument("texts", type=Path, nargs=2)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--least", type=float, default=0.3)
    parser.add_argument("--width", type=int, default=1000)
    arguments = parser.parse_args()
    encoder = FastEncoder.from_pretrained(arguments.model)
    texts = [file.read_text("utf-8").splitlines() for file in arguments.texts]
    vectors = [centred(encoder.encode(lines)) for lines in texts]
    pairs = with_lines_between(align(*vectors, arguments.least, arguments.width))
    with arguments.output.open("w", encoding="utf-8") as output:
        for one, other in pairs:
            pair = {"anchor": texts[0][one], "positive": texts[1][other]}
            output.write(json.dumps(pair, ensure_ascii=False) + "\n")
    print(f"{len(texts[0]):,} and {len(texts[1]):,} lines, {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
