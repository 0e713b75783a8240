"""A hash by which a model and its card know each other."""

from __future__ import annotations

from pathlib import Path

from st_static.evaluate.models import hash_files
from st_static.model.export import own_files
from st_static.model.modules import RECORD_FILE, TABLE_FILE, TOKENIZER_FILE

_DETERMINING = (TABLE_FILE, TOKENIZER_FILE)


def fingerprint(folder: Path) -> str:
    """A hash of a model's weights, tokenizer and record: all that its card is about."""
    files = [file for file in own_files(folder) if file.name in _DETERMINING]
    record = folder / RECORD_FILE
    return hash_files([*files, *([record] if record.is_file() else [])])
