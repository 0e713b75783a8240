"""Read a model's card, README.md: its header, and the notes that a person wrote into it.

The header may come from anyone. A few lines of YAML with nested aliases can expand beyond any
memory: aliases, deep nesting and tags are refused before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from st_static.foreign_files import read_bounded
from st_static.model.records import FineTuning

NOTES_START, NOTES_END = "<!-- notes: start -->", "<!-- notes: end -->"
OF_MODEL = "<!-- st_static: model={} -->"
"""An invisible line of a card with the fingerprint of the model that it was written for."""
_FINGERPRINT = re.compile(OF_MODEL.format("([0-9a-f]+)"))
# Ten times the size of large cards.
_MOST_BYTES = 1_000_000
_MOST_DEPTH = 32
_HEADER = re.compile(r"\ufeff?\s*---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
# Tags that sentence-transformers' Trainer gives a model.
_TRAINED = "generated_from_trainer"
_OF_TRAINING = re.compile(f"{_TRAINED}|dataset_size:.*|loss:.*")
_BY_TRAINER = re.compile(f"^- {_TRAINED}$", re.MULTILINE)


def read_card(file: Path) -> str:
    """Read the text of a card; a FileNotFoundError if it is missing, else a ValueError."""
    try:
        text = read_bounded(file, _MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected text in UTF-8 in {file}, but there is other data.") from error
    return text.replace("\r\n", "\n")


# -- the header ------------------------------------------------------------------------


def header_of(card: str) -> dict[str, Any] | None:
    """Parse a card's YAML; None if it has none, a ValueError if it cannot be read."""
    match = _HEADER.match(card)
    if not match:
        return None
    values = read_yaml(match[1])
    if not isinstance(values, dict):
        raise ValueError("it is not a mapping of names to values")
    return values


def read_yaml(text: str) -> Any:
    """Parse plain and shallow YAML in linear time and memory; other YAML is a ValueError."""
    import yaml  # encoding does not need it

    # The loader in C is ten times as fast.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    try:
        for event in yaml.parse(text, loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise ValueError("it has an alias (*): write out what it stands for")
            if (tag := getattr(event, "tag", None)) is not None:
                raise ValueError(f"it has the tag {tag}: leave it out")
            if depth > _MOST_DEPTH:
                raise ValueError(f"it is nested more than {_MOST_DEPTH} deep")
        return yaml.load(text, loader)
    except (yaml.YAMLError, ArithmeticError) as error:
        raise ValueError(str(error)) from error


def training_of(header: Mapping[str, Any]) -> FineTuning | None:
    """Read what sentence-transformers' Trainer says of a training, as a record's `fine_tuning`:
    from a card's YAML or `vars(model.model_card_data)`. None without a training."""
    tags, datasets, languages, bases = (
        [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
        for value in map(header.get, ("tags", "datasets", "language", "base_model"))
    )
    if _TRAINED not in tags:
        return None
    license_id = header.get("license")
    is_known = isinstance(license_id, str) and license_id != "unknown"
    return FineTuning(
        tags=[tag for tag in tags if _OF_TRAINING.fullmatch(tag)],
        datasets=datasets,
        language=languages,
        license=license_id if is_known else None,
        base=bases[0] if bases else None,
    )


# -- a person's notes ------------------------------------------------------------------


def notes_of(card: str) -> str:
    """Find the notes between a card's markers, which stay when the card is written again."""
    if card.count(NOTES_START) != 1 or card.count(NOTES_END) != 1:
        raise ValueError(
            f"Expected the lines {NOTES_START} and {NOTES_END} once each in the card, around what "
            "is yours. Put them back, or move the card away: it would be overwritten."
        )
    return card.partition(NOTES_START)[2].partition(NOTES_END)[0].strip("\n")


def read_notes(path: Path) -> str:
    """Read the notes of a card, empty if it is missing or sentence-transformers wrote it; errors
    are those of `notes_of`, with the file's name."""
    if not path.exists():
        return ""
    card = read_card(path)
    if NOTES_START not in card and not marked(card) and _BY_TRAINER.search(card):
        return ""
    try:
        return notes_of(card)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def with_notes(card: str, notes: str) -> str:
    """Put notes between a card's markers; a card without markers gets them at its end."""
    if NOTES_START not in card:
        card = f"{card.rstrip()}\n\n{NOTES_START}\n{NOTES_END}\n"
    before, _, behind = card.partition(NOTES_START)
    after = behind.partition(NOTES_END)[2]
    return before + "\n".join(filter(None, [NOTES_START, notes, NOTES_END])) + after


def with_line(card: str, line: str) -> str:
    """Put a line behind a card's notes, or at its end."""
    before, marker, after = card.partition(NOTES_END)
    head = f"{before}{marker}" if marker else card.rstrip()
    return f"{head}\n\n{line}{after or chr(10)}"


# -- its model ---------------------------------------------------------------------------


def marked(card: str) -> str | None:
    """Find the fingerprint of the model that a card was written for; None if written by hand."""
    fingerprints = _FINGERPRINT.findall(card)
    return fingerprints[-1] if fingerprints else None


def marked_for(card: str, fingerprint: str) -> str:
    """Change the fingerprint in a card, for another form of its model; a card without one stays."""
    return _FINGERPRINT.sub(OF_MODEL.format(fingerprint), card)
