"""Tokenizers from elsewhere: bound the length of normalised texts, and switch sampling off."""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct
from tokenizers import Regex, Tokenizer, models, normalizers

from st_static.foreign_files import read_as
from st_static.tokens.boundaries import Part, flat
from st_static.tokens.panics import TellingPanics

# Ten times the files of the largest vocabularies.
_MOST_BYTES = 500_000_000
# A character may become this many. Published tokenizers make at most a dozen of one, except for
# Unicode's compositions, which make up to 18, and are not counted, as they apply only once.
_MOST_GROWTH = 200
_LONGEST_COMPOSITION = 18
# Published tokenizers have about five.
_MOST_STEPS = 500
# How many characters these make of one: a space on both sides; bytes, decomposed.
_GROWTH_IN_STEPS = {"BertNormalizer": 3, "ByteLevel": 11}
# Bytes; a mark before it.
_GROWTH_IN_SPLITS = {"ByteLevel": 4, "Metaspace": 2}
# Patterns that match one character first, and then perhaps others, in a row without groups.
_CLASS = r"\\[sdwSDW.,:;/|?*+()\[\]{}$^-]"
_ATOM = rf"(?:[^\\^$|?*+()\[\]{{}}]|{_CLASS}|\[\^?(?:[^\\^&\[\]]|{_CLASS})+\])"
_EDGE = rf"(?:[$^]|\\[bAzZ]|\(\?<?[=!]{_ATOM}\))*"
_PLAIN = re.compile(rf"{_EDGE}({_ATOM})(?:\+|\{{[1-9][0-9]*,?\}})?(?:{_ATOM}[?*+]?)*{_EDGE}")
_OTHERS = ""  # stands for all characters that no step inserts
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
    description = read_as(file, _TokenizerFile, _MOST_BYTES)
    # Parsed by the library, since it knows several spellings of a step.
    tokenizer = _empty_tokenizer(str(file), description.normalizer, description.pre_tokenizer)
    steps = flat(_parsed(tokenizer.normalizer), "normalizers")
    splits = flat(_parsed(tokenizer.pre_tokenizer), "pretokenizers")
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


def _parsed(part: Any) -> Part | None:
    """Parse the JSON of a part, as pickle gets it."""
    return None if part is None else json.loads(part.__getstate__())


def _growth(steps: list[Part], splits: list[Part]) -> float:
    """Bound how many characters the steps make of one anywhere in a text.

    It works backwards: for each character, it keeps the most characters that the remaining steps
    can make of it. If the last step turns `b` into `cc`, and the one before it `a` into `bb`, then
    `b` may become 2, and so `a` 4. What a match becomes counts for one of its characters, and
    nothing is taken off for what a step removes: another text may keep it.
    """
    longest = max((len(_inserted_by(step)) for step in steps), default=0)
    if longest > _MOST_GROWTH:  # before anything is done for each character
        return longest
    maps = (_longest_mapped(step) for step in steps if step["type"] == "Precompiled")
    last = max(1.0, math.prod(maps, start=1 / _LONGEST_COMPOSITION))
    last *= math.prod(_GROWTH_IN_SPLITS.get(split["type"], 1) for split in splits)
    inserted = Counter("".join(map(_inserted_by, steps)))
    decomposed = {character: _decomposed_length(character) for character in inserted}
    growth = dict.fromkeys([*inserted, _OTHERS], last)
    for step in reversed(steps):
        made = sum(growth[character] * decomposed[character] for character in _inserted_by(step))
        pattern = step.get("pattern", {})
        plain = _PLAIN.fullmatch(pattern.get("Regex", ""))
        if pattern.get("String"):
            rarest = min(pattern["String"], key=inserted.__getitem__)
            matched = {rarest if rarest in growth else _OTHERS}
        elif plain:
            characters = "".join(inserted)
            first = normalizers.Replace(Regex(plain[1]), "")
            matched = {_OTHERS, *characters}.difference(first.normalize_str(characters))
        elif step["type"] in ("Replace", "Prepend"):  # perhaps on both sides of each character
            growth = {character: before + 2 * made for character, before in growth.items()}
            continue
        else:  # any character may become any other
            factor = _GROWTH_IN_STEPS.get(step["type"], 1)
            growth = dict.fromkeys(growth, factor * max(growth.values()))
            continue
        growth |= {character: max(growth[character], made) for character in matched}
    return max(growth.values())


def _inserted_by(step: Part) -> str:
    text: str = step.get("content") or step.get("prepend") or ""
    return text


def _decomposed_length(text: str) -> int:
    """Count the characters in the longest of a text's Unicode normal forms."""
    return len(normalizers.NFKD().normalize_str(text))


def _longest_mapped(precompiled: Part) -> int:
    """Find the length of the longest text in SentencePiece's character map."""
    # The length of a trie, the trie, and the texts, each of which ends with a zero.
    blob = base64.b64decode(precompiled["precompiled_charsmap"])
    texts = blob[4 + int.from_bytes(blob[:4], "little") :].split(b"\0")
    return max(1, *(_decomposed_length(text.decode(errors="replace")) for text in texts))


def _empty_tokenizer(name: str, normalizer: Raw, pre_tokenizer: Raw) -> Tokenizer:
    """Make a tokenizer of parts in JSON, with an empty vocabulary."""
    content = json.loads(Tokenizer(models.WordLevel()).to_str())
    content |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    try:
        with TellingPanics(name):
            return Tokenizer.from_str(msgspec.json.encode(content).decode())
    except Exception as error:  # tokenizers raises no subclass
        raise ValueError(f"{name} is not a tokenizer: {error}.") from error
