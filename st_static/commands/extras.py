"""What a command needs beyond what `pip install st-static` brings."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator


@contextlib.contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Say which extra brings a package that is missing; a decorator of a command, too.

    Raises:
        ValueError: A package is missing; names it and the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == "st_static":  # a mistake of ours
            raise
        raise ValueError(
            f'This command needs {package}: pip install "st-static[{name}]".'
        ) from error


def require_packages(*names: str) -> None:
    """Find out now, without loading them, whether packages are there that are used much later.

    Raises:
        ModuleNotFoundError: One is missing.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
