"""How long a file of text vectors takes to convert, and how much memory.

    python benchmarks/convert_speed.py [--words 400000] [--dimension 300] [--turns 3] [--folder DIR]

writes a file of random vectors, by default of the size of GloVe's with 6 billion tokens; a fifth of
the words have a hyphen, a dot or an apostrophe. In each turn `st-static convert` makes a model of
it, and gensim's `KeyedVectors.load_word2vec_format`, which needs the package, reads it, each in a
process of its own. Printed are the median of the seconds, the ratio to gensim, and the most memory
that a process took; then the same of loading the model's tokenizer, beside one that has the same
words, WordPiece and BERT's pre-tokenizer, as built models have.
"""

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from measuring import parser_of, seconds_of
from tokenizers import Tokenizer

from st_static.model.tokenizer import build_tokenizer

NUMBERS_IN_A_PART = 10
PARTS = 20_000
READ = """
import sys
from gensim.models import KeyedVectors
KeyedVectors.load_word2vec_format(sys.argv[1], no_header=True)
"""


def words(n: int) -> list[str]:
    """Distinct words, a fifth of which are two with something between them."""
    draw = random.Random(0)
    syllables = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in ("", "n", "r", "s")]
    plain: dict[str, None] = {}
    while len(plain) < n - n // 5:
        plain["".join(draw.choices(syllables, k=draw.randint(1, 4)))] = None
    known, joined = list(plain), dict.fromkeys(())
    while len(joined) < n // 5:
        joined[draw.choice(known) + draw.choice("-.'") + draw.choice(known)] = None
    found = [*known, *joined]
    draw.shuffle(found)
    return found


def write(file: Path, n: int, dimension: int) -> None:
    """Write text vectors as GloVe has them: five digits behind the point, no header."""
    rng = np.random.default_rng(0)
    values = rng.normal(scale=0.4, size=(PARTS, NUMBERS_IN_A_PART))
    parts = [" ".join(f"{value:.5f}" for value in row) for row in values]
    n_parts = dimension // NUMBERS_IN_A_PART
    with file.open("w", encoding="utf-8") as lines:
        for word in words(n):
            chosen = rng.integers(0, PARTS, n_parts).tolist()
            lines.write(f"{word} {' '.join([parts[i] for i in chosen])}\n")


def run(command: Sequence[str | Path]) -> tuple[float, float]:
    """Seconds of a command, and the most megabytes that it took, as Linux counts them."""
    start = time.perf_counter()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"It failed: {command[:4]}")
    return time.perf_counter() - start, used.ru_maxrss / 1e3


def main() -> None:
    """Write the file, and convert and read it in turn."""
    parser = parser_of(__doc__)
    parser.add_argument("--words", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.dimension % NUMBERS_IN_A_PART:
        parser.error(f"--dimension must be a multiple of {NUMBERS_IN_A_PART}.")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file, model = Path(folder, "vectors.txt"), Path(folder, "model")
        write(file, options.words, options.dimension)
        print(f"{file.stat().st_size / 1e6:.0f} MB, {options.words:,} x {options.dimension}")
        convert = [sys.executable, "-m", "st_static.cli", "convert", file, model]
        commands = {"st-static convert": convert, "gensim": [sys.executable, "-c", READ, file]}
        turns = [
            {name: run(command) for name, command in commands.items()} for _ in range(options.turns)
        ]
        seconds = {n: statistics.median(turn[n][0] for turn in turns) for n in commands}
        for name in commands:
            memory = max(turn[name][1] for turn in turns)
            ratio = seconds[name] / seconds["gensim"]
            print(f"{name}: {seconds[name]:.1f} s, x {ratio:.2f}, {memory:,.0f} MB")
        build_tokenizer(words(options.words)).save(str(model / "wordpiece.json"))
        files = {"its tokenizer": "tokenizer.json", "WordPiece": "wordpiece.json"}
        loads = [
            {n: seconds_of(Tokenizer.from_file, str(model / f)) for n, f in files.items()}
            for _ in range(options.turns)
        ]
        for name in files:
            print(f"{name}: {statistics.median(turn[name] for turn in loads):.2f} s to load")


if __name__ == "__main__":
    main()
