"""Encoders that a process keeps, for work that is sent to it piece by piece."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from st_static.encode.fast_encoder import FastEncoder

# Models that a process keeps.
_KEPT = 4


def loaded_encoder(model: str, **options: Any) -> FastEncoder:
    """A model, loaded once in a process; again if its folder was replaced.

    Args:
        model: A folder or Hub id.
        options: Those of `FastEncoder.from_pretrained`.
    """
    return _loaded(model, _version(model), **options)


def _version(model: str) -> tuple[int, int] | None:
    """What changes when a folder is replaced by another model; None for the Hub's."""
    path = Path(model)
    if not path.is_dir():
        return None
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


@functools.lru_cache(_KEPT)
def _loaded(model: str, version: tuple[int, int] | None, **options: Any) -> FastEncoder:
    return FastEncoder.from_pretrained(model, **options)
