"""By which a model and its card know each other, and remarks that a card makes to `publish`."""

from __future__ import annotations

import re
from pathlib import Path

from st_static.evaluate.models import hash_files
from st_static.model.export import own_files
from st_static.model.modules import RECORD_FILE, TABLE_FILE, TOKENIZER_FILE

SLOW_MARK = "<!-- st_static: speed=unbelievable -->"
_MARK = re.compile(r"<!-- st_static: model=([0-9a-f]+) -->")
_DETERMINING = (TABLE_FILE, TOKENIZER_FILE)


def fingerprint(folder: Path) -> str:
    """A hash of a model's weights, tokenizer and record: all that its card is about."""
    files = [file for file in own_files(folder) if file.name in _DETERMINING]
    record = folder / RECORD_FILE
    return hash_files([*files, *([record] if record.is_file() else [])])


def mark(value: str) -> str:
    """A fingerprint as an invisible line of a card."""
    return f"<!-- st_static: model={value} -->"


def marked(card: str) -> str | None:
    """The fingerprint of the model that a card was written for; None of one written by hand."""
    found = _MARK.findall(card)
    return found[-1] if found else None
