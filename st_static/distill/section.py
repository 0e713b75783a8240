"""Sections of a recipe: frozen dataclasses that pydantic checks, with errors of one sentence."""

from __future__ import annotations

import functools
import os
from inspect import signature
from numbers import Number
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, get_type_hints

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, ConfigDict, ValidationError
from pydantic.dataclasses import dataclass

from st_static.arguments import in_words, shown

Section = TypeVar("Section", bound=type[Any])

Count = Annotated[int, Ge(1)]
CountOrZero = Annotated[int, Ge(0)]
AtLeastTwo = Annotated[int, Ge(2)]
Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
PathText = Annotated[str, BeforeValidator(lambda v: str(v) if isinstance(v, os.PathLike) else v)]
"""A path, as text or as a `Path`."""


class FieldError(ValueError):
    """A field that holds a value out of bounds, or of another type."""

    def __init__(self, section: type[Any], field: str, value: Any) -> None:
        self.field, self.value = field, value
        self.hint = get_type_hints(section, include_extras=True)[field]
        super().__init__(
            f"{section.__name__}.{field}: expected {in_words(self.hint)}, but got {shown(value)}."
        )


class FieldTypeError(FieldError, TypeError):
    """A field that holds a value of another type."""


@dataclass_transform(frozen_default=True)
def section(cls: Section) -> Section:
    """Make a section of a class: a frozen dataclass whose values have strictly the types of its
    fields; a docstring after a field says in `--help` what it means."""
    options = ConfigDict(strict=True, use_attribute_docstrings=True)
    checked: Any = dataclass(frozen=True, config=options)(cls)
    validate, fields = checked.__init__, signature(checked)

    @functools.wraps(validate)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        """Check the values."""
        try:
            values = fields.bind(*args, **kwargs).arguments
        except TypeError as fault:
            names = ", ".join(fields.parameters)
            raise TypeError(f"{cls.__name__}: {fault}. Its fields are {names}.") from None
        try:
            validate(self, **{name: _plain(value) for name, value in values.items()})
        except ValidationError as errors:
            error = errors.errors()[0]
            if error["type"] == "value_error":
                raise error["ctx"]["error"] from None
            is_bound = error["type"].startswith(("greater_than", "less_than"))
            kind = FieldError if is_bound else FieldTypeError
            name = str(error["loc"][0])
            raise kind(checked, name, values[name]) from None

    checked.__init__ = make
    return cast("Section", checked)


def _plain(value: Any) -> Any:
    """Convert a value as Python and YAML have it: numpy's numbers to Python's, tuples to lists."""
    if isinstance(value, Number) and hasattr(value, "item"):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
