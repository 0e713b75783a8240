"""Encoders of other projects, and baselines, which `st_static.evaluate.models` loads by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package_of_peer(kind: str, package: str) -> Iterator[None]:
    """Say what to install if an import in the block misses a package that is in no extra.

    Args:
        kind: The kind of the peer, as in `KIND:…`.
        package: Its name on PyPI.

    Raises:
        ValueError: The package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{kind}:… needs the package: pip install {package}") from error
