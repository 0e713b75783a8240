"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package: finds each name in the module that `home` gives for it."""

    def find(name: str) -> object:
        """The name, from the module that is imported now."""
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    return find
