"""Encoders of other projects, and floors, which `st_static.evaluate.models` loads by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package_of_peer(kind: str, package: str) -> Iterator[None]:
    """Say what to install if an import inside does not find a package that no extra brings.

    Args:
        kind: The peer's, as in `KIND:…`.
        package: Its name on PyPI.

    Raises:
        ValueError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{kind}:… needs the package: pip install {package}") from error
