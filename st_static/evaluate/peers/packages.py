"""Packages that a peer needs and no extra brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package_of_peer(kind: str, package: str) -> Iterator[None]:
    """Say what to install if an import inside does not find a peer's package.

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
