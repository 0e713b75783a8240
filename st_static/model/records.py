"""The types of the JSON files in a model's folder, above all `st_static.json`.

Keys without a default are required; those of `st_static.json` are required for a card only. Files
may have further keys, which copies keep: so `read_object` returns a dictionary, checked against
these types.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, defstruct, structs

Form = Literal["exact", "calibrated", "distilled"]
"""How an ensemble became one table."""
Made = Literal["recipe", "ensemble", "conversion", "fine_tuning"]
"""The part of a record that says how the model was made."""

# -- st_static.json --------------------------------------------------------------------


class Record(Struct, kw_only=True, omit_defaults=True):
    """How a model was made: `st_static.json`."""

    recipe: Recipe | None = None  # or else an ensemble, a conversion, or a fine-tuning
    stages: Stages | None = None  # of a recipe: those that ran, with their figures
    ensemble: Ensemble | None = None
    conversion: Conversion | None = None
    fine_tuning: FineTuning | None = None
    versions: dict[str, str] | None = None  # by package; a fine-tuning has none
    distillation: dict[str, Any] | None = None  # the figures of an ensemble that was distilled

    def __post_init__(self) -> None:
        for part in ("stages", "versions") if self.recipe else ():
            if getattr(self, part) is None:
                raise ValueError(f"Object missing required field `{part}`")


class Recipe(Struct, kw_only=True):
    """The options of a recipe that a card needs; a build writes all that decide its result."""

    teacher: Teacher | None = None  # or else the next
    teachers: list[WeightedTeacher] | None = None
    corpus: Corpus
    selection: SelectionOptions
    pca: PCAOptions
    export: ExportOptions
    language: str | list[str] | None = None
    pairs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.teachers and self.teacher is None:
            raise ValueError("Object missing required field `teacher`")


class Teacher(Struct, kw_only=True):
    model: str  # an id on the Hub, or the name of a folder
    revision: str | None
    sha256: str | None  # of its weights
    hub_id: str | None = None  # of a folder's model
    description: str | None = None
    license: str | None = None


class WeightedTeacher(Teacher, kw_only=True):
    weight: float


class Corpus(Struct, kw_only=True):
    files: str | list[str] | None  # names or patterns, without their folders
    docstrings: list[str] | None  # of packages
    dataset: str | None  # on the Hub
    dataset_config: str | list[str] | None
    description: str | None = None
    license: str | None = None
    redistributable: bool | None = None


class SelectionOptions(Struct):
    sentences_per_word: int  # N


class PCAOptions(Struct):
    n_components: int | None  # D


class ExportOptions(Struct):
    license: str | None = None
    normalize: bool | None = None


class Stages(Struct):
    """The figures of stages that a card needs; each stage that ran has its own."""

    sentences: SentencesStage
    vocabulary: VocabularyStage
    selection: SelectionStage
    pca: PCAStage | None = None


class Stage(Struct):
    hash: str  # in the name of its folder


class SentencesStage(Stage):
    kept: int  # distinct sentences
    bytes: int  # of the text


class VocabularyStage(Stage):
    words: int
    tokens: int  # with pieces and characters
    smallest_count: int  # of a word in the text


class SelectionStage(Stage):
    sentences: int  # that a teacher read


class PCAStage(Stage):
    removed: int  # leading components, k


class Ensemble(Struct, omit_defaults=True):
    form: Form
    members: list[Member]
    head_units: int | None = None
    agreement: Agreement | None = None


class Member(Struct):
    """One member of a fused ensemble."""

    name: str
    license: str | None  # if its card or the record of its build names one
    width: int  # its dimensions D_i
    weight: float  # a_i
    languages: tuple[str, ...] | None = ()  # tags, if its record or card states them


class Agreement(Struct):
    """Pearson's correlation of cosines with those of the members, each with its own tokenizer."""

    random_pairs: int
    fused_agreement: float
    model_agreement: float


class Conversion(Struct, kw_only=True):
    """The text vectors that were converted; counts are of words, or of rows that were left out."""

    file: str
    limit: int | None
    dtype: str
    words: int
    dimension: int
    punctuation: int
    nfkc: bool = False
    lowercase: bool
    strip_accents: bool
    dotless_i: bool = False
    form: str | None = None  # Unicode's canonical form to which texts are brought
    brought: int = 0  # words that were in another form
    alike: int = 0  # words that equal an earlier one in this form
    spellings: int  # capitalised forms that are found, too
    never_found: int
    repeated: int = 0  # further rows of earlier words
    reserved: int = 0  # rows of `[PAD]` and `[UNK]`
    teacher: str | None
    license: str | None
    languages: list[str]


class FineTuning(Struct, omit_defaults=True):
    """What a card says of a training by sentence-transformers."""

    tags: list[str]
    datasets: list[str]
    language: list[str]
    license: str | None
    base: str | None = None


def _partial(kind: Any) -> Any:
    """Make the type of objects that may lack any key."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        fields = [(f.name, _partial(f.type) | None, None) for f in structs.fields(kind)]
        return defstruct(kind.__name__, fields)
    parts = tuple(map(_partial, get_args(kind)))
    if get_origin(kind) is list:
        return list[parts]  # type: ignore[valid-type]
    return functools.reduce(operator.or_, parts) if get_origin(kind) in (Union, UnionType) else kind


PartialRecord = _partial(Record)
"""A record of which any part may be missing: only a card needs the whole."""


def teachers_of(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the teachers of a record's recipe: its `teachers`, or `teacher` alone."""
    return recipe.get("teachers") or [recipe["teacher"]]


def license_of_recipe(recipe: Mapping[str, Any]) -> str | None:
    """Find the licence of the model that a record's recipe built, if it states one."""
    license_id: str | None = (recipe.get("export") or {}).get("license")
    return license_id


# -- sentence-transformers' and Model2Vec's ----------------------------------------------


class ModuleEntry(Struct, kw_only=True):
    """A module in modules.json: its class, and its folder inside the model's."""

    idx: int | None = None
    name: str | None = None
    path: str
    type: str

    @property
    def kind(self) -> str:
        """The name of its class."""
        return self.type.rpartition(".")[2]


class ModelConfig(Struct):
    """The keys of a config_sentence_transformers.json that are read."""

    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None
    similarity_fn_name: str | None = None
    truncate_dim: Annotated[int, Meta(ge=1)] | None = None


class Model2VecConfig(Struct):
    """The keys of a config.json of Model2Vec that are read."""

    normalize: bool | None = None


class DenseConfig(Struct):
    """The config.json of a Dense module."""

    in_features: int
    out_features: int
    bias: bool
    activation_function: str


class SegmentsConfig(Struct):
    """The config.json of a SegmentNormalize module."""

    widths: list[Annotated[int, Meta(ge=1)]]
    weights: list[Annotated[float, Meta(gt=0)]]
