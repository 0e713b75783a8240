"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from st_static.dependencies import extra_of, needed_by


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package: finds each name in the module that `home` gives for it.

    Where that module needs a package that is not installed, the error names the extra to install.
    """

    def find(name: str) -> object:
        """The name, from the module that is imported now."""
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}", extra_of(home[name])):
            return getattr(importlib.import_module(home[name]), name)

    return find
