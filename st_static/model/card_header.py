"""The header of a model's card: YAML between two lines of `---`, which anybody may have written.

A few lines of YAML can stand for more than any memory holds, by aliases, each of which stands for
ten of the one before. So they are refused before anything is built, as are deep nesting and tags,
which no header needs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from st_static.foreign_files import check_regular

# So much of a card is looked at for what its header states; those of st_static have 4 KB.
_FIRST_CHARACTERS = 65_536
_MOST_DEPTH = 32
_HEADER = re.compile(r"\s*---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_BEGINNING = re.compile(r"\s*---[ \t]*\n(.*)^(?=\w)", re.DOTALL | re.MULTILINE)
# The loader in C, which takes a tenth of the time.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def header_of(card: str) -> dict[str, Any] | None:
    """The YAML of a card; None if it has none.

    Raises:
        ValueError: It cannot be read.
    """
    found = _HEADER.match(card)
    return _mapping(found[1]) if found else None


def stated_in_header(file: Path) -> dict[str, Any]:
    """What a card's header states in its first 64 KB; nothing where it cannot be read.

    huggingface_hub's `metadata_load` reads all of it, and its import takes longer than to read a
    model.
    """
    try:
        check_regular(file)
        with file.open(encoding="utf-8-sig", errors="replace") as card:
            text = card.read(_FIRST_CHARACTERS)
        found = _HEADER.match(text)
        if not found and len(text) == _FIRST_CHARACTERS:  # all names of it but the last
            found = _BEGINNING.match(text)
        return _mapping(found[1]) if found else {}
    except (OSError, ValueError):
        return {}


def read_yaml(text: str) -> Any:
    """The value of YAML that is plain and shallow, in time and memory that follow its length.

    Raises:
        ValueError: It is no such YAML.
    """
    depth = 0
    try:
        for event in yaml.parse(text, _LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("it has an alias (*): write out what it stands for")
            if (tag := getattr(event, "tag", None)) is not None:
                raise ValueError(f"it has the tag {tag}: leave it out")
            if depth > _MOST_DEPTH:
                raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
        return yaml.load(text, _LOADER)
    except (yaml.YAMLError, ArithmeticError) as error:
        raise ValueError(str(error)) from error


def _mapping(header: str) -> dict[str, Any]:
    values = read_yaml(header)
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping of names to values")
    return values
