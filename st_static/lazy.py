"""Load the names of a package when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from st_static.dependencies import extra_of, needed_by


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], object]:
    """Make the `__getattr__` of a package: it finds each name in the module given by `home`.

    If that module needs a package that is not installed, the error names the extra to install.
    """

    def find(name: str) -> object:
        """Import the module of a name, and return the named object."""
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with needed_by(f"{package}.{name}", extra_of(home[name])):
            return getattr(importlib.import_module(home[name]), name)

    return find
