"""Static models of other projects, as peers in an evaluation.

| name | what it loads |
|---|---|
| `model2vec:ID_OR_FOLDER` | a model of the package `model2vec` |
| `wordllama:DIMENSION` | the token vectors that come inside the package `wordllama` |
| `glove:FILE` | text vectors, read as by `st-static convert`; a text is the mean of its words |
| `sif:FILE,TEXTS` | the same with frequency weights (SIF), counted in TEXTS, one text per line |
| `borep:FILE`, `borep-max:FILE`, `borep-relu:FILE`, `borep-max-relu:FILE` | the same through a \
random projection: a floor |
| `sent2vec:FILE` | a binary model of Sent2Vec (needs the package `gensim`) |

What the words of a text are, `st_static.tokens.word_tokenizer` decides for all but the first two.

To add a peer, write a loader here, name it in `PEERS`, and list it above and in the help of
`st-static evaluate`. A kind whose models lie on the Hub is named in `st_static.model.model_name`,
too, so that the Hub is asked before work starts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Literal

from st_static.evaluate.evaluated_model import (
    EvaluatedModel,
    hash_files,
    local_name,
    revision_of,
    table_encoder,
)
from st_static.evaluate.peers.baselines import RandomProjection, SmoothInverseFrequency
from st_static.evaluate.peers.sent2vec import read_sent2vec
from st_static.hub_access import require_model
from st_static.model.resolve import read_wordllama
from st_static.model.text_vectors import read_word_vectors
from st_static.tokens.chunk_tokenizer import ChunkTokenizer

# Of the texts in which SIF counts words, the first are the sample for the common direction.
_SIF_SAMPLE = 100_000


def _load_model2vec(id_or_folder: str) -> EvaluatedModel:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise ValueError("model2vec:… needs the package: pip install model2vec") from error
    model = StaticModel.from_pretrained(require_model(id_or_folder) or id_or_folder)
    name, revision = local_name(id_or_folder), revision_of(id_or_folder)
    return EvaluatedModel(name, revision, model.encode, int(model.dim))


def _load_wordllama(dimension: str) -> EvaluatedModel:
    model = read_wordllama(dimension)
    encode = table_encoder(ChunkTokenizer(model.tokenizer), model.table)
    version = metadata.version("wordllama")
    return EvaluatedModel(model.name, version, encode, model.table.shape[1])


def _load_text_vectors(file: str) -> EvaluatedModel:
    vectors = read_word_vectors(Path(file))
    encode = table_encoder(vectors.tokenize, vectors.table)
    return EvaluatedModel(
        local_name(file), hash_files([Path(file)]), encode, vectors.table.shape[1]
    )


def _load_sif(files: str) -> EvaluatedModel:
    file, comma, texts_file = files.rpartition(",")
    if not comma or not Path(texts_file).is_file():
        raise ValueError(
            f"Expected sif:VECTORS,TEXTS with a file of texts to count words in, got sif:{files}."
        )
    vectors = read_word_vectors(Path(file))
    with Path(texts_file).open(encoding="utf-8") as texts:
        lines = list(texts)
    counts = Counter(vectors.words[i] for i in vectors.tokenize(lines).values)
    sif = SmoothInverseFrequency(vectors, counts, lines[:_SIF_SAMPLE])
    revision = hash_files([Path(file), Path(texts_file)])
    return EvaluatedModel(f"{local_name(file)}-sif", revision, sif.encode, vectors.table.shape[1])


def _load_borep(file: str, pooling: Literal["mean", "max"], relu: bool) -> EvaluatedModel:
    borep = RandomProjection(read_word_vectors(Path(file)), pooling=pooling, relu=relu)
    name = f"{local_name(file)}-borep-{pooling}" + ("-relu" if relu else "")
    return EvaluatedModel(name, hash_files([Path(file)]), borep.encode, borep.dimension)


def _load_sent2vec(file: str) -> EvaluatedModel:
    model = read_sent2vec(Path(file))
    encode = table_encoder(model.tokenize, model.table)
    return EvaluatedModel(local_name(file), hash_files([Path(file)]), encode, model.table.shape[1])


# What follows the kind and its colon is what a loader gets.
PEERS: dict[str, Callable[[str], EvaluatedModel]] = {
    "model2vec": _load_model2vec,
    "wordllama": _load_wordllama,
    "glove": _load_text_vectors,
    "sif": _load_sif,
    "borep": functools.partial(_load_borep, pooling="mean", relu=False),
    "borep-max": functools.partial(_load_borep, pooling="max", relu=False),
    "borep-relu": functools.partial(_load_borep, pooling="mean", relu=True),
    "borep-max-relu": functools.partial(_load_borep, pooling="max", relu=True),
    "sent2vec": _load_sent2vec,
}
