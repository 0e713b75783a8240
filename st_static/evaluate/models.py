"""Load models to evaluate, by the names in docs/peers.md: ours, transformers, and peers."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.arguments import check_file
from st_static.dependencies import DependencyError, add_on
from st_static.encode.encoder import EncodeTexts
from st_static.files import hash_files
from st_static.hub import downloading, packaged, require_model, whole_path
from st_static.model.model_folder import STATING_FILES, ModelFolder
from st_static.model.model_name import PACKAGE, ModelName, read_wordllama, require_modules
from st_static.model.modules import check_for_others
from st_static.model.static_model import StatedFacts
from st_static.model.text_vectors import read_word_vectors
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.foreign import without_sampling
from st_static.tokens.panics import TellingPanics
from st_static.tokens.ragged import Ragged

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


# Texts to encode at a time: few for a transformer, whose memory grows with them.
BATCH, _TRANSFORMER_BATCH = 1024, 32
# The files that determine a model's vectors.
_DETERMINING = ("*.safetensors", "*.bin", "*.json", "*.txt")
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
        """Encode documents by another model; a ValueError if their dimensions differ."""
        if self.dimension != documents.dimension:
            raise ValueError(
                f"{self.name} has vectors of {self.dimension} dimensions, but {documents.name}, "
                f"which is to encode the documents, of {documents.dimension}. Name the teacher of "
                "a model that was built with distillation.target vectors."
            )
        return replace(self, documents=documents)


def local_name(name: str) -> str:
    """Name a model in results: `local/FOLDER` for a folder or file, else the Hub's id."""
    return f"local/{Path(name).resolve().name}" if Path(name).exists() else name


def revision_of(model: str, revision: str | None = None) -> str:
    """Identify a model's version: a hash of its folder, its cached commit, or "unknown"."""
    folder = packaged(model, revision) or Path(model)
    if folder.is_dir():
        files = [file for kind in _DETERMINING for file in folder.rglob(kind)]
        opened = ModelFolder(folder)
        if opened.record_file.is_file():
            # The record of the build, and files beside the model, do not change vectors.
            files = [file for file in files if opened.is_own(file.relative_to(folder).as_posix())]
        return hash_files(sorted(file for file in files if file != opened.record_file))
    from huggingface_hub import try_to_load_from_cache

    for file in ("modules.json", "config.json"):
        cached = try_to_load_from_cache(model, file, revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name
    return "unknown"


class Peer(NamedTuple):
    """Loads models of a kind, named `kind:REST`, by REST, and checks what they need."""

    load: Callable[[str], EvaluatedModel]
    check: Callable[[str], object]  # raises a ValueError unless REST can be loaded
    package: tuple[str, str] | None = None  # one that is in no extra, and its module

    def require(self, kind: str) -> None:
        """Check that the package is installed."""
        if self.package and importlib.util.find_spec(self.package[1]) is None:
            raise ValueError(f"{kind}:… needs the package: pip install {self.package[0]}")


def require_named(spec: str) -> None:
    """Check that a model to evaluate is available, without loading it or torch."""
    name, peer = _parse(spec)
    if peer:
        peer.require(name.kind)
        peer.check(name.rest)
    else:
        name.require()
        require_modules(name.folder_or_id())


def load_model(
    spec: str, trust_remote_code: bool = False, revision: str | None = None
) -> EvaluatedModel:
    """Load a model by its name; code and revision are of a SentenceTransformer on the Hub."""
    name, peer = _parse(spec)
    if peer:
        peer.require(name.kind)
        return peer.load(name.rest)
    source = name.folder_or_id()
    with downloading("model", source, revision), TellingPanics(source):
        copy = require_model(source, revision)
        require_modules(source)
        check_for_others(source)
        from sentence_transformers import SentenceTransformer

        try:
            model = SentenceTransformer(
                whole_path(packaged(source, revision) or source),
                trust_remote_code=trust_remote_code,
                revision=revision,
                local_files_only=copy is not None,
            )
        except Exception as error:  # the libraries' errors for broken files are of any type
            reason = f"cannot be loaded ({error}). {_expected()}."
            if "trust_remote_code" in str(error):
                reason = (
                    "brings code of its own. If you trust it, give --trust_remote_code "
                    "(in Python: trust_remote_code=True)."
                )
            raise ValueError(f"{source!r} {reason}") from error
        return as_evaluated(model, source, revision)


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


def _parse(spec: str) -> tuple[ModelName, Peer | None]:
    """Split a model's name, and find how peers of its kind are loaded."""
    name = ModelName.parse(spec)
    peer = _PEERS.get(name.kind)
    if peer is None and name.kind not in ("", "sentence-transformers", PACKAGE):
        peer = all_peers().get(name.kind)
        if peer is None:
            raise ValueError(f"{spec!r} is not a folder. {_expected()}.")
    return name, peer


def all_peers() -> dict[str, Peer]:
    """Return all kinds of peers, including those of the lab."""
    of_lab: dict[str, Peer] = add_on("peers").PEERS
    return _PEERS | of_lab


def _expected() -> str:
    kinds = _PEERS
    with contextlib.suppress(DependencyError):  # the lab may be missing
        kinds = all_peers()
    listed = ", ".join(f"{kind}:…" for kind in kinds)
    return f"Expected a folder, a Hub id, or a peer: {listed}"


def of_files(name: str, encode: EncodeTexts, dimension: int, *files: str) -> EvaluatedModel:
    """Make a peer from files, whose hash is its revision."""
    revision = f"{hash_files([Path(file) for file in files])}-{_RULES}"
    return EvaluatedModel(f"{local_name(files[0])}{name}", revision, encode, dimension)


def mean_encoder(
    tokenize: Callable[[Sequence[str]], Ragged], table: NDArray[np.floating]
) -> EncodeTexts:
    """Make an encoder that averages a text's rows, at length 1; zero for a text without any."""
    return lambda texts: unit_rows(sentence_means(table, tokenize(texts)))


def _load_model2vec(id_or_folder: str) -> EvaluatedModel:
    from model2vec import StaticModel

    source = require_model(id_or_folder) or id_or_folder
    if (folder := ModelFolder(source)).home != folder.path:
        raise ValueError(
            f"{id_or_folder} is more than a table (it has a head or segments), and Model2Vec "
            "knows tables only. Name the model without model2vec:."
        )
    check_for_others(id_or_folder)
    with downloading("model", id_or_folder), TellingPanics(id_or_folder):
        try:
            model = StaticModel.from_pretrained(source)
            without_sampling(model.tokenizer)
        except Exception as error:  # the library's errors for broken files are of any type
            raise ValueError(f"Model2Vec cannot load {id_or_folder!r} ({error}).") from error
    name, revision = local_name(id_or_folder), revision_of(id_or_folder)
    return EvaluatedModel(name, revision, model.encode, int(model.dim))


def _load_wordllama(dimension: str) -> EvaluatedModel:
    model = read_wordllama(dimension)
    encode = mean_encoder(FastTokenizer(model.tokenizer), np.asarray(model.table))
    revision = f"{metadata.version('wordllama')}-{_RULES}"
    return EvaluatedModel(model.name, revision, encode, model.table.shape[1])


def _load_text_vectors(file: str) -> EvaluatedModel:
    vectors = read_word_vectors(Path(file))
    encode = mean_encoder(vectors.tokenize, vectors.table)
    return of_files("", encode, vectors.table.shape[1], file)


# The kinds of peers that need no more than this package; the lab has others. The help of
# `st-static evaluate` names all of them.
_PEERS = {
    "model2vec": Peer(_load_model2vec, require_model, ("model2vec", "model2vec")),
    "wordllama": Peer(_load_wordllama, lambda size: ModelName("wordllama", size).require()),
    "glove": Peer(_load_text_vectors, lambda file: check_file(Path(file))),
}
