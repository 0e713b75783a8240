"""Read texts whose words have parts of speech: `word/TAG` tokens with the Brown corpus's tags."""

from __future__ import annotations

import re

# The classes that the paper counts words by; a tag of Brown belongs to the first that it matches.
# `have`, `do` and modals have tags of their own, and no class.
_CLASSES = {
    "be": "BE.*",
    "verbs": "VB.*",
    "proper nouns": "NP.*",
    "nouns": "N[NR].*",
    "personal pronouns": "PP.*",
    "prepositions": "IN",
    "adjectives": "JJ.*",
    "adverbs": "W?RB.*|R[NP].*|QL.*",
}
_OTHERS = "others"
CLASSES = (*_CLASSES, _OTHERS)


def split_tagged(line: str) -> list[tuple[str, str]]:
    """Split a line into words and tags in capitals; a token without `/` has no word.

    >>> split_tagged("The/at 1/2/cd it's/pps+bez")
    [('The', 'AT'), ('1/2', 'CD'), ("it's", 'PPS+BEZ')]
    """
    parts = (token.rpartition("/") for token in line.split())
    return [(word, tag.upper()) for word, _, tag in parts]


def simple_tag(tag: str) -> str:
    """Cut a tag before its first `-` or `+`: title words and contractions are not separate parts
    of speech; `--` and the like stay as they are.

    >>> simple_tag("NN-TL"), simple_tag("PPS+BEZ"), simple_tag("--")
    ('NN', 'PPS', '--')
    """
    return tag.split("-")[0].split("+")[0] or tag


def class_of(tag: str) -> str:
    """Find the class of a simple tag.

    >>> [class_of(tag) for tag in ("NNS", "BEDZ*", "PP$", "MD")]
    ['nouns', 'be', 'personal pronouns', 'others']
    """
    return next((name for name, tags in _CLASSES.items() if re.fullmatch(tags, tag)), _OTHERS)
