"""Token ids of a whole corpus, from the fast way and from the tokenizer itself.

    python benchmarks/compare_ids.py TOKENIZER_JSON FILE [FILE ...]

encodes every line of the files (.txt or .xz) both ways, and its sentences, and prints how many
were compared. Ends with an error and the first text whose ids differ.
"""

import argparse
import itertools
import lzma
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer
from tqdm import tqdm

from st_static.build.sentences import split_sentences
from st_static.model.chunk_tokenizer import ChunkTokenizer

BATCH = 10_000


def read_lines(file: Path) -> Iterator[str]:
    """A file's lines without their ends."""
    with lzma.open(file, "rt", encoding="utf-8") if file.suffix == ".xz" else file.open() as lines:
        yield from (line.rstrip("\n") for line in lines)


def check(fast: ChunkTokenizer, texts: list[str]) -> None:
    """Compare the ids of texts; ends the program at the first difference."""
    found = fast(texts)
    expected = fast.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    bounds = itertools.pairwise(found.offsets)
    for text, encoding, (start, stop) in zip(texts, expected, bounds, strict=True):
        if found.values[start:stop].tolist() != encoding.ids:
            raise SystemExit(f"The ids differ of {text!r}.")


def main() -> None:
    """Compare and count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    fast = ChunkTokenizer(Tokenizer.from_file(str(options.tokenizer)))
    if fast.chunking.cut is None:
        raise SystemExit(f"Texts are not cut for this tokenizer: {fast.chunking.reason}.")
    lines = sentences = 0
    for file in tqdm(options.files, unit="file"):
        texts = read_lines(file)
        while batch := list(itertools.islice(texts, BATCH)):
            check(fast, batch)
            split = split_sentences(batch)
            check(fast, split)
            lines, sentences = lines + len(batch), sentences + len(split)
    print(f"{lines:,} lines and {sentences:,} sentences have the same ids both ways")


if __name__ == "__main__":
    main()
