"""What a person wrote into a model's card: it stays when the card is written again."""

from __future__ import annotations

NOTES_START, NOTES_END = "<!-- notes: start -->", "<!-- notes: end -->"


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
