"""Arguments of the wrong kind, each refused in one sentence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Set
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST = 60
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLAIN |= {Path: "a path", NoneType: "null"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "texts", Path: "paths"}


def shown(value: Any) -> str:
    """A value in a message: None and short texts as they are, else its type."""
    if value is None:
        return "None"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, str | int | float | os.PathLike):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return _with_article(type(value).__name__)


def _with_article(name: str) -> str:
    is_vowel = name[0].lower() in "aeiou" or name == "ndarray"
    return f"an {name}" if is_vowel else f"a {name}"


def check_type(value: Any, kind: type | tuple[type, ...], wanted: str, advice: str = "") -> None:
    """Check that a value is of a type, and not a bool where a number is wanted.

    Raises:
        TypeError: It is not; says what was wanted, what came, and what to do.
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(" ".join(f"Expected {wanted}, but got {shown(value)}. {advice}".split()))


def require(condition: bool, message: str) -> None:
    """Check that a condition holds.

    Raises:
        ValueError: It does not; says the message.
    """
    if not condition:
        raise ValueError(message)


def check_texts(texts: Any) -> None:
    """Check that texts are a list of them, or a column: in order, and to be read more than once.

    Raises:
        ValueError: It is one text.
        TypeError: It is something else.
    """
    if isinstance(texts, str):
        raise ValueError("Expected a list of texts, but got one str. Put it into a list.")
    is_sequence = hasattr(texts, "__len__") and hasattr(texts, "__getitem__")
    if not is_sequence or isinstance(texts, bytes | Mapping):
        is_lazy = isinstance(texts, Iterable) and not isinstance(texts, Set | Mapping | bytes)
        advice = " Make a list of it: list(texts)." if is_lazy else ""
        raise TypeError(f"Expected a list of texts, but got {shown(texts)}.{advice}")
    if isinstance(texts, list | tuple) and not set(map(type, texts)) <= {str}:
        for position, text in enumerate(texts):
            check_type(text, str, f"a str at position {position}")


def as_path(path: Any, wanted: str) -> Path:
    """A path as a `Path`.

    Raises:
        TypeError: It is neither a str nor a path.
    """
    check_type(path, (str, os.PathLike), f"{wanted}, as a str or Path")
    return Path(path)


def check_model_name(model: Any) -> None:
    """Check that a model is named by its folder or id.

    Raises:
        TypeError: It is neither a str nor a path.
        ValueError: It is a file, such as one of the model's.
    """
    check_type(model, (str, os.PathLike), "the model's folder or id, as a str or Path")
    path = Path(model)
    if path.is_file():
        raise ValueError(f"{model} is a file: name the folder that it is in, {path.parent}.")


def as_numbers(vectors: Any, wanted: str) -> NDArray[Any]:
    """Vectors as an array, in their own number format.

    Raises:
        ValueError: They are of different lengths.
        TypeError: They are not numbers.
    """
    import numpy as np  # not for those who only make a recipe

    try:
        array = np.asarray(vectors)
    except ValueError as error:
        raise ValueError(f"Expected {wanted}, but got rows of different lengths.") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"Expected {wanted}, in numbers, but got {shown(vectors)}.")
    return array


def as_matrix(vectors: Any, wanted: str) -> NDArray[Any]:
    """Vectors as a matrix, in their own number format.

    Raises:
        ValueError: They are of another shape.
        TypeError: They are not numbers.
    """
    matrix = as_numbers(vectors, wanted)
    if matrix.ndim != 2:
        raise ValueError(f"Expected {wanted}, but got the shape {matrix.shape}.")
    return matrix


def check_fields(config: Any) -> None:
    """Check that each field of a dataclass holds what its type says.

    Numbers of numpy become those of Python.

    Raises:
        TypeError: One does not; names it.
    """
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if not _fits(value, hint):
            raise TypeError(
                f"{type(config).__name__}.{name}: expected {in_words(hint)}, but got "
                f"{shown(value)}."
            )
        if isinstance(value, Real) and hasattr(value, "item"):  # JSON does not know numpy's
            object.__setattr__(config, name, value.item())


def in_words(hint: Any) -> str:
    """A type in words, such as "a whole number or null"."""
    if get_origin(hint) in (Union, UnionType):
        parts = [in_words(part) for part in get_args(hint)]
        return " or ".join(sorted(dict.fromkeys(parts), key="null".__eq__))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is list:
        [part] = get_args(hint)
        return f"a list of {_PLURAL.get(part, in_words(part))}"
    if get_origin(hint) is dict:
        return "a mapping"
    return _PLAIN.get(hint) or _with_article(hint.__name__)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as it stands in an annotation."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if get_origin(hint) is list:
        [part] = get_args(hint)
        return isinstance(value, list | tuple) and all(_fits(item, part) for item in value)
    if get_origin(hint) is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, {int: Integral, float: Real}.get(hint, hint))
