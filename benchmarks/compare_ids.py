"""Token ids of a whole corpus, from the fast way and from the tokenizer itself.

    python benchmarks/compare_ids.py [--whole] [--cut N] [--fuzz N] TOKENIZER_JSON [FILE ...]

splits the files (.txt or .xz, a paragraph a line) into sentences, or with `--whole` takes their
lines as they are, encodes each text both ways, and prints how many were compared. Ends with an
error and the first text whose ids differ.

`--cut 10000000` makes more texts of the files than they have sentences: lines are cut at random
characters, one in twenty, inside of words and before combining marks, too. Each round through the
files cuts them elsewhere. Rounds go on until so many different texts were compared.

`--fuzz 10000000` compares so many random strings: characters of all scripts, of a block of Unicode
or of several, odd spaces, control characters, combining marks, words and pieces of the vocabulary,
and its added tokens.
"""

import itertools
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measuring import parser_of
from tokenizers import Tokenizer
from tqdm import tqdm

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.tokens.fast_tokenizer import FastTokenizer

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


def random_texts(tokenizer: Tokenizer, n: int, rng: np.random.Generator) -> list[str]:
    """Strings of up to 24 parts, each of a kind that a string has more or less of."""
    is_assigned = [unicodedata.category(chr(c)) not in ("Cn", "Cs") for c in range(0x110000)]
    assigned = np.flatnonzero(is_assigned)
    by_block = [assigned[assigned // 128 == block] for block in np.unique(assigned // 128)]
    marks = [chr(c) for c in assigned if unicodedata.category(chr(c))[0] == "M"]
    odd = [chr(c) for c in assigned if unicodedata.category(chr(c))[0] in "ZC" and c < 0xE0200]
    tokens = list(tokenizer.get_vocab())
    tokens += [token.removeprefix("##").lstrip("▁") for token in tokens]
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    ascii_characters = [chr(c) for c in range(128)]
    pools = (assigned, marks, odd, tokens, added or [" "], ascii_characters)
    lengths = rng.integers(1, 25, n)
    text = np.repeat(np.arange(n), lengths)
    bounds = rng.dirichlet([0.3] * (1 + len(pools)), n).cumsum(axis=1)[text, :-1]
    kinds = (rng.random((len(text), 1)) > bounds).sum(axis=1).tolist()
    places = rng.random(len(text)).tolist()
    block = [by_block[i] for i in rng.integers(len(by_block), size=n)]
    texts = [""] * n
    for i, kind, place in zip(text.tolist(), kinds, places, strict=True):
        pool = pools[kind] if kind < len(pools) else block[i]
        part = pool[int(place * len(pool))]
        texts[i] += part if isinstance(part, str) else chr(part)
    return texts


def check(fast: FastTokenizer, texts: list[str]) -> None:
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
    parser = parser_of(__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--whole", action="store_true", help="lines, not their sentences")
    parser.add_argument("--cut", type=int, metavar="N", help="pieces, until N different ones")
    parser.add_argument("--fuzz", type=int, default=0, metavar="N", help="random strings, so many")
    options = parser.parse_args()
    if not (options.files or options.fuzz):
        parser.error("name files, or say --fuzz N")
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    fast = FastTokenizer(tokenizer)
    rng = np.random.default_rng(0)
    for start in tqdm(range(0, options.fuzz, 100_000), unit="00,000 strings"):
        check(fast, random_texts(tokenizer, min(100_000, options.fuzz - start), rng))
    if options.fuzz:
        print(f"{options.fuzz:,} random strings have the same ids both ways")
    if not options.files:
        return
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
