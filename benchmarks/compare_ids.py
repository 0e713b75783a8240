"""Token ids of a whole corpus, from the fast way and from the tokenizer itself.

    python benchmarks/compare_ids.py [--whole] TOKENIZER_JSON FILE [FILE ...]

splits the files (.txt or .xz, a paragraph a line) into sentences, or with `--whole` takes their
lines as they are, encodes each text both ways, and prints how many were compared. Ends with an
error and the first text whose ids differ.
"""

import argparse
import itertools
from pathlib import Path

from tokenizers import Tokenizer
from tqdm import tqdm

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import split_sentences
from st_static.tokens.chunk_tokenizer import ChunkTokenizer

BATCH = 10_000


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
    options = parser.parse_args()
    fast = ChunkTokenizer(Tokenizer.from_file(str(options.tokenizer)))
    if fast.chunking.cut is None:
        raise SystemExit(f"Texts are not cut for this tokenizer: {fast.chunking.reason}.")
    n_texts = 0
    paragraphs = iter(tqdm(Corpus(CorpusConfig(files=options.files)), unit=" paragraphs"))
    while batch := list(itertools.islice(paragraphs, BATCH)):
        texts = batch if options.whole else split_sentences(batch)
        check(fast, texts)
        n_texts += len(texts)
    print(f"{n_texts:,} texts have the same ids both ways")


if __name__ == "__main__":
    main()
