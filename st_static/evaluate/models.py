"""Models to evaluate, by name: ours, other static ones, transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from st_static.evaluate.word_vectors import WordVectors, read_word_vectors
from st_static.model.chunks import ChunkTokenizer, Ragged
from st_static.model.vectors import sentence_means

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Encode = Callable[[list[str]], NDArray[np.floating]]

_WEIGHTS = ("*.safetensors", "*.bin")


@dataclass(frozen=True)
class EvaluatedModel:
    """A model under its name in results.

    Attributes:
        name: `org/name`; `local/FOLDER` for a folder.
        revision: The Hub's commit, or a hash of the weights.
        encode: Texts [B] to vectors [B, D].
        dimension: D.
        sentence_transformer: The model, if it is one: its prompts then apply.
    """

    name: str
    revision: str
    encode: Encode
    dimension: int
    sentence_transformer: SentenceTransformer | None = None


def load_model(spec: str, trust_remote_code: bool = False) -> EvaluatedModel:
    """Load a model to evaluate.

    Args:
        spec: A folder or Hub id of a SentenceTransformer, also as `sentence-transformers:ID`; or a
            peer: `model2vec:ID_OR_FOLDER`, `wordllama:DIMENSION` (from the package `wordllama`),
            `glove:FILE` (text vectors: a word and its numbers a line).
        trust_remote_code: Run code that a SentenceTransformer's repository brings.

    Raises:
        ValueError: There is no such model, or its package is not installed.
    """
    kind, separator, name = spec.partition(":")
    if separator and kind in _PEERS:
        return _PEERS[kind](name)
    if separator and kind == "sentence-transformers":
        spec = name
    return _load_sentence_transformer(spec, trust_remote_code)


def _load_sentence_transformer(name: str, trust_remote_code: bool) -> EvaluatedModel:
    from sentence_transformers import SentenceTransformer

    from st_static.build.teacher import locate

    path = locate(name)
    try:
        model = SentenceTransformer(path, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{name!r} cannot be loaded ({error}). Expected a folder, a Hub id, or a peer: "
            f"{', '.join(f'{kind}:…' for kind in _PEERS)}."
        ) from error

    def encode(texts: list[str]) -> NDArray[np.floating]:
        vectors: NDArray[np.floating] = model.encode(texts, batch_size=1024)
        return vectors

    return EvaluatedModel(
        name if path == name and not Path(path).is_dir() else f"local/{Path(path).resolve().name}",
        revision_of(path),
        encode,
        int(model.get_embedding_dimension() or 0),
        model,
    )


def _load_model2vec(name: str) -> EvaluatedModel:
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise ValueError("model2vec:… needs the package: pip install model2vec") from error
    model = StaticModel.from_pretrained(name)
    label = f"local/{Path(name).resolve().name}" if Path(name).is_dir() else name

    def encode(texts: list[str]) -> NDArray[np.floating]:
        vectors: NDArray[np.floating] = model.encode(texts)
        return vectors

    return EvaluatedModel(label, revision_of(name), encode, int(model.dim))


def _load_wordllama(name: str) -> EvaluatedModel:
    """The token vectors that come inside the package `wordllama`.

    Its own loader looks for the tokenizer in the folder `tokenizer`, but the package has it in
    `tokenizers`, so that it would be downloaded.
    """
    try:
        package = resources.files("wordllama")
    except ModuleNotFoundError as error:
        raise ValueError("wordllama:… needs the package: pip install wordllama") from error
    weights = Path(str(package / "weights" / f"l2_supercat_{name}.safetensors"))
    if not weights.is_file():
        present = sorted(p.stem.rpartition("_")[2] for p in weights.parent.glob("l2_*.safetensors"))
        raise ValueError(
            f"The package wordllama has no model of {name!r} dimensions, but of {present}."
        )
    table = load_file(weights)["embedding.weight"].astype(np.float32)
    file = package / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encode = table_encoder(ChunkTokenizer(tokenizer), table)
    version = metadata.version("wordllama")
    return EvaluatedModel(f"wordllama/l2_supercat_{name}", version, encode, table.shape[1])


def _load_glove(name: str) -> EvaluatedModel:
    vectors: WordVectors = read_word_vectors(Path(name))
    encode = table_encoder(vectors.tokenize, vectors.table)
    label = f"local/{Path(name).name}"
    return EvaluatedModel(label, hash_files([Path(name)]), encode, vectors.table.shape[1])


_PEERS: dict[str, Callable[[str], EvaluatedModel]] = {
    "model2vec": _load_model2vec,
    "wordllama": _load_wordllama,
    "glove": _load_glove,
}


def table_encoder(
    tokenize: Callable[[Sequence[str]], Ragged], table: NDArray[np.floating]
) -> Encode:
    """An encoder that takes the mean of a text's rows; zero for a text without any."""

    def encode(texts: list[str]) -> NDArray[np.floating]:
        return sentence_means(table, tokenize(texts))

    return encode


def revision_of(model: str) -> str:
    """The Hub's commit of a downloaded model, or a hash of a folder's weights."""
    folder = Path(model)
    if folder.is_dir():
        return hash_files(sorted(file for kind in _WEIGHTS for file in folder.rglob(kind)))
    from huggingface_hub import try_to_load_from_cache

    for file in ("modules.json", "config.json"):
        cached = try_to_load_from_cache(model, file)
        if isinstance(cached, str):
            return Path(cached).parent.name
    return "unknown"


def hash_files(files: Sequence[Path]) -> str:
    """SHA-256 over the contents of files, its first 40 digits."""
    hasher = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 22):
                hasher.update(block)
    return hasher.hexdigest()[:40]
