"""Token ids of a whole corpus, from the fast way and from the tokenizer itself.

    python benchmarks/compare_ids.py [--whole] [--cut N] TOKENIZER_JSON FILE [FILE ...]

splits the files (.txt or .xz, a paragraph a line) into sentences, or with `--whole` takes their
lines as they are, encodes each text both ways, and prints how many were compared. Ends with an
error and the first text whose ids differ.

`--cut 10000000` makes more texts of the files than they have sentences: lines are cut at random
characters, one in twenty, inside of words and before combining marks, too. Each round through the
files cuts them elsewhere. Rounds go on until so many different texts were compared.
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.tokens.chunk_tokenizer import ChunkTokenizer

BATCH = 10_000
CHARACTERS_IN_A_PIECE = 20
"""On average."""


def cut_at_random(line: str, rng: np.random.Generator) -> list[str]:
    """Pieces of a line, cut at random characters."""
    cuts = 1 + np.flatnonzero(rng.random(max(0, len(line) - 1)) < 1 / CHARACTERS_IN_A_PIECE)
    bounds = itertools.pairwise([0, *cuts.tolist(), len(line)])
    return [line[start:end] for start, end in bounds]


def read_batches(files: list[str], whole: bool, seed: int | None) -> Iterator[list[str]]:
    """The texts of files, those of some lines at a time; with a seed pieces of the lines."""
    rng = np.random.default_rng(seed)
    lines = iter(tqdm(Corpus(CorpusConfig(files=files)), unit=" lines"))
    while batch := list(itertools.islice(lines, BATCH)):
        if seed is not None:
            yield [piece for line in batch for piece in cut_at_random(line, rng)]
        else:
            yield batch if whole else split_sentences(batch)


def check(fast: ChunkTokenizer, texts: list[str]) -> None:
    """Compare the ids of texts; ends the program at the first difference."""
    found = fast(texts)
    encodings = fast.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    expected = [encoding.ids for encoding in encodings]
    if found.values.tolist() == list(itertools.chain.from_iterable(expected)) and (
        found.lengths.tolist() == list(map(len, expected))
    ):
        return
    for i, ids in enumerate(expected):
        if found.values[found.offsets[i] : found.offsets[i + 1]].tolist() != ids:
            raise SystemExit(f"The ids differ of {texts[i]!r}.")


def main() -> None:
    """Compare and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--whole", action="store_true", help="lines, not their sentences")
    parser.add_argument("--cut", type=int, metavar="N", help="pieces, until N different ones")
    options = parser.parse_args()
    fast = ChunkTokenizer(Tokenizer.from_file(str(options.tokenizer)))
    if fast.chunking.cut is None:
        raise SystemExit(f"Texts are not cut for this tokenizer: {fast.chunking.reason}.")
    n_texts, different = 0, np.empty(0, np.int64)
    for seed in itertools.count() if options.cut else [None]:
        hashes = [different]
        for texts in read_batches(options.files, options.whole, seed):
            check(fast, texts)
            n_texts += len(texts)
            hashes.append(np.fromiter(map(hash, texts), np.int64, len(texts)))
        n_before, different = len(different), np.unique(np.concatenate(hashes))
        if not n_before < len(different) < (options.cut or 0):
            break
    n_different = len(different)
    print(f"{n_texts:,} texts, {n_different:,} of them different, have the same ids both ways")


if __name__ == "__main__":
    main()
