"""Encoders of other projects, and baselines, which `st_static.evaluate.models` loads by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def package_of_peer(kind: str, package: str) -> Iterator[None]:
    """Name the package on PyPI, which is in no extra, that an import in the block misses."""
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{kind}:… needs the package: pip install {package}") from error
