"""Refuse arguments of the wrong kind, each in one sentence, and show them without secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONGEST = 60
_SECRET_OPTION = re.compile("key|secret|token|password|^sig$", re.IGNORECASE)
_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLAIN |= {Path: "a path", NoneType: "null"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "texts", Path: "paths"}


def shown(value: Any) -> str:
    """Show a value in a message: None and short texts as they are, else its type."""
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
    """Check that a value is of a type, and not a bool where a number is wanted."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(" ".join(f"Expected {wanted}, but got {shown(value)}. {advice}".split()))


def require(condition: bool, message: str) -> None:
    """Raise a ValueError unless a condition holds."""
    if not condition:
        raise ValueError(message)


def check_texts(texts: Any) -> None:
    """Check that texts are a list or a column: ordered, and readable more than once."""
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
    """Return a str or path as a `Path`."""
    check_type(path, (str, os.PathLike), f"{wanted}, as a str or Path")
    return Path(path)


def check_file(file: Path, wanted: str = "") -> None:
    """Check that a file to read is there; `wanted` says in errors what it is to hold."""
    if file.is_file():
        return
    message = f"There is no file {file}."
    if file.is_dir():
        message = f"{file} is a folder: name a file in it."
    elif file.exists():
        message = f"{file} is a pipe or a device: name a file."
    raise ValueError(f"{message} {wanted}".strip())


def check_model_name(model: Any) -> None:
    """Check that a model is named by its folder or id, and not by one of its files."""
    check_type(model, (str, os.PathLike), "the model's folder or id, as a str or Path")
    require(model != "", "Expected the model's folder or id, but its name is empty.")
    path = Path(model)
    if path.is_file():
        raise ValueError(f"{model} is a file: name the folder that it is in, {path.parent}.")


def as_numbers(vectors: Any, wanted: str) -> NDArray[Any]:
    """Return vectors as an array, in their own number format."""
    import numpy as np  # not for those who only make a recipe

    try:
        array = np.asarray(vectors)
    except ValueError as error:
        raise ValueError(f"Expected {wanted}, but got rows of different lengths.") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"Expected {wanted}, in numbers, but got {shown(vectors)}.")
    return array


def as_matrix(vectors: Any, wanted: str) -> NDArray[Any]:
    """Return vectors as a matrix, in their own number format."""
    matrix = as_numbers(vectors, wanted)
    if matrix.ndim != 2:
        raise ValueError(f"Expected {wanted}, but got the shape {matrix.shape}.")
    return matrix


def in_words(hint: Any, many: bool = False) -> str:
    """Describe a type: "a whole number of at least 1 or null"; texts in its metadata name it."""
    if get_origin(hint) is Annotated:
        kind, *metadata = get_args(hint)
        spelled = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
        bounds = [
            f"{words} {getattr(item, name)}"
            for item in metadata
            for name, words in spelled.items()
            if hasattr(item, name)
        ]
        names = [item for item in metadata if isinstance(item, str)]
        return names[0] if names else f"{in_words(kind, many)} {' and '.join(bounds)}".strip()
    if get_origin(hint) in (Union, UnionType):
        parts = [in_words(part) for part in get_args(hint)]
        return " or ".join(sorted(dict.fromkeys(parts), key="null".__eq__))
    if get_origin(hint) is Literal:
        return " or ".join(map(str, get_args(hint)))
    if get_origin(hint) is list:
        return f"a list of {in_words(get_args(hint)[0], many=True)}"
    plain = (_PLURAL if many else {}).get(hint) or _PLAIN.get(hint)
    return plain or _with_article(hint.__name__)


def without_secrets(address: str) -> str:
    """Strip user, password and options from an address; keep a path as it is.

    >>> without_secrets("s3://key:se/cr@et@bucket/lake?endpoint_override=localhost")
    's3://bucket/lake'
    """
    kind, mark, tail = address.partition("://")
    if not mark:
        return address
    return f"{kind}{mark}{tail.partition('?')[0].rpartition('@')[2]}"


def has_secrets(address: str) -> bool:
    """Tell whether an address has a password, an S3 user, or options that are named like secrets.

    Other users are not secret, such as `anonymous` in gs:// and the container in abfs://.
    """
    kind, mark, tail = address.partition("://")
    plain, _, options = tail.partition("?")
    if not mark:
        return False
    host = plain.partition("/")[0]
    if kind.lower() == "s3":
        # A bucket has no port: what looks like one is the beginning of a password with a slash.
        has_password = "@" in host or ":" in host
    else:
        has_password = ":" in host.rpartition("@")[0]
    named = (name for name, _ in parse_qsl(options, keep_blank_values=True))
    return has_password or any(map(_SECRET_OPTION.search, named))
