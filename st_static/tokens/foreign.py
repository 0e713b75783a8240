"""Tokenizers from elsewhere: a bound on what a text becomes, and the same ids in each call."""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct
from tokenizers import Tokenizer, models, normalizers

from st_static.foreign_files import read_as
from st_static.tokens.boundaries import Part, flat
from st_static.tokens.panics import TellingPanics

# Ten times the files of the largest vocabularies.
_MOST_BYTES = 500_000_000
# A character may become so many. Published tokenizers make at most a dozen of one, but for
# Unicode's compositions, which make up to 18, and are not counted: they do so only once.
_MOST_GROWTH = 200
_LONGEST_COMPOSITION = 18
# Each step is tried on what earlier ones insert. Published tokenizers have about five.
_MOST_STEPS = 500
# What these make of one character at most: a space on both sides; bytes; a mark before it.
_GROWTH = {"BertNormalizer": 3, "ByteLevel": 4, "Metaspace": 2}
# Patterns that look around what they match, which depends on the text.
_LOOKS_AROUND = re.compile(r"\(\?[=!<(~]|\\K")


_NONE = Raw(b"null")


class _TokenizerFile(Struct):
    normalizer: Raw = _NONE
    pre_tokenizer: Raw = _NONE


def check_tokenizer_file(file: Path) -> None:
    """Check a tokenizer.json before it is loaded, which normalises its added tokens.

    Raises:
        ValueError: It is not a tokenizer; or its steps make more than 200 characters of one, so
            that a short text could take all memory.
    """
    found = read_as(file, _TokenizerFile, _MOST_BYTES)
    # Parsed by the library, since it knows several spellings of a step.
    tokenizer = _without_words(str(file), found.normalizer, found.pre_tokenizer)
    steps = flat(_described(tokenizer.normalizer), "normalizers")
    splits = flat(_described(tokenizer.pre_tokenizer), "pretokenizers")
    if len(steps) + len(splits) > _MOST_STEPS or _growth(steps, splits) > _MOST_GROWTH:
        raise ValueError(
            f"The normalizer and pre_tokenizer in {file} make too much of a text: expected at most "
            f"{_MOST_STEPS:,} steps, which make at most {_MOST_GROWTH} characters of one. Else a "
            "short text could take all memory. Fix the file, or take another model."
        )


def without_sampling(tokenizer: Tokenizer) -> Tokenizer:
    """Switch off, in place, what makes a tokenizer's ids random: it serves training only."""
    model = tokenizer.model
    for option in ("dropout", "alpha"):  # BPE leaves merges out; Unigram draws among its paths
        if getattr(model, option, None):
            setattr(model, option, None)
    return tokenizer


def _described(part: Any) -> Part | None:
    """Parse the JSON of a part, as pickle gets it."""
    return None if part is None else json.loads(part.__getstate__())


def _growth(steps: list[Part], splits: list[Part]) -> float:
    """Bound how many characters the steps make of one; more than the most if they make too many."""
    maps = [_longest_made(step) for step in steps if step["type"] == "Precompiled"]
    factors = [_GROWTH.get(part["type"], 1) for part in [*steps, *splits]]
    factor = max(1, math.prod(maps) / _LONGEST_COMPOSITION) * math.prod(factors)
    inserted = [step.get("content") or step.get("prepend") or "" for step in steps]
    longest = max([1, *map(len, inserted)])
    if factor * longest > _MOST_GROWTH:
        return factor * longest
    singly = [_without_words("A step", Raw(msgspec.json.encode(step))) for step in steps]
    for place, text in enumerate(inserted):
        # What is inserted, for one character at least, goes through all later steps, which may
        # insert into it.
        for step, alone in zip(steps[place + 1 :], singly[place + 1 :], strict=True):
            text = _through(text, step, alone.normalizer)
            longest = max(longest, len(text))
            if factor * longest > _MOST_GROWTH:
                return factor * longest
    return factor * longest


def _longest_made(precompiled: Part) -> int:
    """Find the length of the longest text that SentencePiece's character map makes of something."""
    # The length of a trie, the trie, and the texts, each of which ends with a zero.
    blob = base64.b64decode(precompiled["precompiled_charsmap"])
    texts = blob[4 + int.from_bytes(blob[:4], "little") :].split(b"\0")
    return max(len(text.decode(errors="replace")) for text in texts)


def _through(text: str, step: Part, normalizer: normalizers.Normalizer) -> str:
    """Apply a step to an inserted text; if it looks around, as if it matched everywhere."""
    if not text:
        return ""
    if step["type"] == "Replace" and _LOOKS_AROUND.search(step["pattern"].get("Regex", "")):
        return "".join(character + step["content"] for character in text)
    result: str = normalizer.normalize_str(text)
    return result


def _without_words(name: str, normalizer: Raw, pre_tokenizer: Raw = _NONE) -> Tokenizer:
    """Make a tokenizer of parts in JSON, with an empty vocabulary."""
    content = json.loads(Tokenizer(models.WordLevel()).to_str())
    content |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    try:
        with TellingPanics(name):
            return Tokenizer.from_str(msgspec.json.encode(content).decode())
    except Exception as error:  # tokenizers raises no subclass
        raise ValueError(f"{name} is not a tokenizer: {error}.") from error
