"""The sentences that a card shows its model on: where a mean of words goes wrong, and one pair."""

from __future__ import annotations

from dataclasses import dataclass

HEAT_MAP_PAIR = ("How do I read rows from a CSV file?", "Parse a table of comma separated values.")


@dataclass(frozen=True)
class Limit:
    """Two texts that show a limit.

    Attributes:
        limit: What the model does not see.
        should: What a reader would expect of the cosine.
        first: A text.
        second: Another.
    """

    limit: str
    should: str
    first: str
    second: str


LIMITS = (
    Limit(
        "word order",
        "clearly below 1: the roles are swapped",
        "The dog bit the man.",
        "The man bit the dog.",
    ),
    Limit(
        "negation",
        "low: they say the opposite",
        "The film is worth seeing.",
        "The film is not worth seeing.",
    ),
    Limit(
        "other languages",
        "high: a translation",
        "The children are playing in the garden.",
        "Die Kinder spielen im Garten.",
    ),
)
