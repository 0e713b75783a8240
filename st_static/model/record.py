"""The record of how a model was made, `st_static.json`: what its readers may count on.

`StatedRecord` and `BuiltRecord` are what others read, of older versions, too; a card is made from
more, which `read_record` asks for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from st_static.foreign_files import read_object
from st_static.model.modules import RECORD_FILE


class _StatedTeacher(TypedDict, total=False):
    model: str
    hub_id: str | None
    description: str | None


class _StatedCorpus(TypedDict, total=False):
    files: str | list[str] | None
    description: str | None
    license: str | None
    redistributable: bool
    language: str | list[str] | None


class _StatedExport(TypedDict, total=False):
    license: str | None


class _StatedRecipe(TypedDict, total=False):
    teacher: _StatedTeacher
    corpus: _StatedCorpus | None
    export: _StatedExport | None
    language: str | list[str] | None


class _StatedMember(TypedDict, total=False):
    languages: list[str] | None


class _StatedEnsemble(TypedDict, total=False):
    members: list[_StatedMember] | None


class _StatedConversion(TypedDict, total=False):
    teacher: str | None
    license: str | None
    languages: list[str] | None


class StatedRecord(TypedDict, total=False):
    """What a record may state of its model; each part may be missing."""

    recipe: _StatedRecipe | None
    ensemble: _StatedEnsemble | None
    conversion: _StatedConversion | None


class _Teacher(TypedDict):
    model: str
    revision: str | None
    sha256: str | None
    hub_id: NotRequired[str | None]
    description: NotRequired[str | None]
    license: NotRequired[str | None]


class _Corpus(TypedDict):
    files: str | list[str] | None
    docstrings: list[str] | None
    dataset: str | None
    dataset_config: str | list[str] | None
    description: NotRequired[str | None]
    license: NotRequired[str | None]
    redistributable: NotRequired[bool]
    language: NotRequired[str | list[str] | None]


class _Selection(TypedDict):
    sentences_per_word: int


class _PCA(TypedDict):
    n_components: int


class _Export(TypedDict, total=False):
    license: str | None
    normalize: bool


class _Recipe(TypedDict):
    teacher: _Teacher
    corpus: _Corpus
    selection: _Selection
    pca: _PCA
    export: _Export
    language: NotRequired[str | list[str] | None]
    pairs: NotRequired[dict[str, Any] | None]


class _Stage(TypedDict):
    hash: str


class _Sentences(_Stage):
    kept: int
    bytes: int


class _Vocabulary(_Stage):
    words: int
    tokens: int
    smallest_count: int


class _Selected(_Stage):
    sentences: int


class _Reduced(_Stage):
    removed: int


class _Stages(TypedDict):
    sentences: _Sentences
    vocabulary: _Vocabulary
    selection: _Selected
    pca: _Reduced


class _Built(TypedDict):
    recipe: _Recipe
    stages: _Stages
    versions: dict[str, str]


class _BuiltRecipe(TypedDict, total=False):
    export: _Export


class BuiltRecord(TypedDict, total=False):
    """What finds a model's stages; one that no recipe built has none."""

    recipe: _BuiltRecipe
    stages: dict[str, _Stage]


class _Member(TypedDict):
    name: str
    width: int
    weight: float
    license: str | None
    languages: NotRequired[list[str] | None]


class _Agreement(TypedDict):
    random_pairs: int
    fused_agreement: float
    model_agreement: float


class _Ensemble(TypedDict):
    form: Literal["exact", "calibrated", "distilled"]
    members: list[_Member]
    head_units: NotRequired[int]
    agreement: NotRequired[_Agreement | None]


class _OfEnsemble(TypedDict):
    ensemble: _Ensemble


class _Conversion(TypedDict):
    file: str
    limit: int | None
    dtype: str
    words: int
    dimension: int
    punctuation: int
    lowercase: bool
    strip_accents: bool
    spellings: int
    never_found: int
    teacher: str | None
    license: str | None
    languages: list[str]


class _Converted(TypedDict):
    conversion: _Conversion


_SHAPES = {"recipe": _Built, "ensemble": _OfEnsemble, "conversion": _Converted}


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a model: with `recipe`, or with `ensemble` or `conversion` in its place.

    Raises:
        ValueError: It is not a model that st_static built, or its record is not as expected.
    """
    file = folder / RECORD_FILE
    if not file.exists():
        raise ValueError(
            f"{folder} is not a model that st_static built: there is no {RECORD_FILE}."
        )
    record = read_object(file, dict)
    for part, shape in _SHAPES.items():
        if part in record:
            return read_object(file, shape)
    raise ValueError(
        f"{file} names no recipe, ensemble or file of text vectors that the model was made from. "
        "Write its card by hand."
    )
