"""What a person wrote into a model's card: it stays when the card is written again."""

from __future__ import annotations

from pathlib import Path

from st_static.foreign_files import read_bounded

CARD_FILE = "README.md"
# Large ones have a tenth of it.
_MOST_BYTES = 1_000_000
NOTES_START, NOTES_END = "<!-- notes: start -->", "<!-- notes: end -->"


def read_card(file: Path) -> str:
    """The text of a card.

    Raises:
        ValueError: It is too large, no regular file, or not UTF-8.
        FileNotFoundError: It is not there.
    """
    try:
        text = read_bounded(file, _MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"Expected text in UTF-8 in {file}, but there is other data.") from error
    return text.replace("\r\n", "\n")


def notes_of(card: str) -> str:
    """What a person wrote between a card's markers.

    Raises:
        ValueError: A marker is missing, or there are several.
    """
    if card.count(NOTES_START) != 1 or card.count(NOTES_END) != 1:
        raise ValueError(
            f"Expected the lines {NOTES_START} and {NOTES_END} once each in the card, around what "
            "is yours. Put them back, or move the card away: it would be overwritten."
        )
    return card.partition(NOTES_START)[2].partition(NOTES_END)[0].strip("\n")


def read_notes(path: Path) -> str:
    """The notes of a card in a file.

    Raises:
        ValueError: As `notes_of`; it names the file.
    """
    card = read_card(path)
    try:
        return notes_of(card)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def with_notes(card: str, notes: str) -> str:
    """A card with the given notes between its markers; without markers, it gets them at its end.

    Example:
        >>> print(with_notes("# Model", "Mine."))
        # Model
        <BLANKLINE>
        <!-- notes: start -->
        Mine.
        <!-- notes: end -->
        <BLANKLINE>
    """
    if NOTES_START not in card:
        card = f"{card.rstrip()}\n\n{NOTES_START}\n{NOTES_END}\n"
    before, _, rest = card.partition(NOTES_START)
    after = rest.partition(NOTES_END)[2]
    lines = [NOTES_START, notes, NOTES_END] if notes else [NOTES_START, NOTES_END]
    return before + "\n".join(lines) + after
