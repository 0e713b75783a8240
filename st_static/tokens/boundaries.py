"""Find where texts can be cut without changing their tokens: where no step looks across.

They can if all steps are of these kinds:

- Normalisers that act on single characters, or on a character and its combining marks: a space
  never composes with what follows it.
- Pre-tokenizers that drop white space. Texts are then cut at spaces.
- Pre-tokenizers that put the space before a word into the word (Metaspace, ByteLevel). Texts are
  cut before spaces. ByteLevel takes all but the last of several spaces as a word of their own, so
  only the first of them may start a chunk, and only after a character that is surely visible.

SentencePiece's character map (Precompiled) works on grapheme clusters, which may hold a space, but
not between some letters. Added tokens that hold or swallow spaces need the whole text.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

Part = dict[str, Any]

# Lower-casing İ by the rules of most languages leaves this, beside i.
DOT_ABOVE_I = "(?<=i)\N{COMBINING DOT ABOVE}"
_NORMALIZERS = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Precompiled"}
# These may make, or strip, white space: only for pre-tokenizers that drop it.
_SPACE_NORMALIZERS = {"BertNormalizer", "Nmt", "Strip", "Replace"}
_SPACE_SPLITTERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_INNER_SPLITTERS = {"Punctuation", "Digits"}
# Borders in the bytes of UTF-8: at spaces; before a space that follows a visible character; and,
# where SentencePiece's character map may join characters, between those that it surely does not.
_AT_SPACES = re.compile(rb" ")
_BEFORE_SPACES = re.compile(rb"(?<=[!-~]) ")
_BETWEEN_LETTERS = re.compile(rb"(?<=[!-~]) (?=[!-~\xc3\xd0\xd1\xe4-\xe9])")
# If each punctuation character is a word: also after a full stop or comma of Chinese and
# Japanese, before an ideograph or hiragana.
AFTER_PUNCTUATION = re.compile(rb" |(?<=\xe3\x80[\x81\x82])(?:[\xe4-\xe9]|\xe3\x81[\x81-\xbf])")


@dataclass(frozen=True)
class Boundaries:
    """The positions at which a tokenizer's texts can be cut."""

    border: re.Pattern[bytes] | None  # its matches begin at the positions
    kept_whole: tuple[str, ...] = ()  # a text that contains one of these must stay whole


def boundaries_of(description: Part) -> Boundaries:
    """Decide from a tokenizer's description, the parsed content of its tokenizer.json."""
    nowhere = Boundaries(None)
    normalizers = flat(description["normalizer"], "normalizers")
    border = _border_of(flat(description["pre_tokenizer"], "pretokenizers"))
    if border is None or not all(_is_local(part, border) for part in normalizers):
        return nowhere
    if description["padding"] is not None or description["model"].get("dropout"):
        return nowhere
    kinds = {part["type"] for part in normalizers if not _keeps_positions(part)}
    kept_whole = []
    for token in description["added_tokens"]:
        content = token["content"]
        spacious = " " in content or token["lstrip"] or token["rstrip"]
        stays_visible = all("!" <= character <= "~" for character in content)
        stays_visible &= kinds.isdisjoint(["Precompiled", "Replace"])
        if token["normalized"] and (spacious or not stays_visible):
            return nowhere
        if spacious:
            kept_whole.append(content)
    return Boundaries(_BETWEEN_LETTERS if "Precompiled" in kinds else border, tuple(kept_whole))


def _keeps_positions(normalizer: Part) -> bool:
    """Check that a normaliser only replaces one visible character by another."""
    if normalizer["type"] != "Replace":
        return False
    strings = normalizer["pattern"].get("String", ""), normalizer["content"]
    # Letters, numbers, punctuation and symbols: no spaces and no combining marks.
    return all(len(s) == 1 and unicodedata.category(s)[0] in "LNPS" for s in strings)


def flat(part: Part | None, members: str) -> list[Part]:
    """List a part of a tokenizer or, if it is a sequence, its members."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [inner for member in part[members] for inner in flat(member, members)]
    return [part]


def _border_of(pre_tokenizers: list[Part]) -> re.Pattern[bytes] | None:
    """Find the positions at which the pre-tokenizers allow a cut."""
    kinds = [part["type"] for part in pre_tokenizers]
    first = next((i for i, kind in enumerate(kinds) if kind in _SPACE_SPLITTERS), None)
    if first is not None:
        before, after = pre_tokenizers[:first], pre_tokenizers[first + 1 :]
        if all(map(_splits_inside, before)) and all(map(_works_without_spaces, after)):
            return _AT_SPACES
    if kinds == ["Metaspace"] and pre_tokenizers[0].get("split", True):
        return _BEFORE_SPACES
    if kinds[-1:] == ["ByteLevel"] and pre_tokenizers[-1].get("use_regex", True):
        return _BEFORE_SPACES if {*kinds[:-1]} <= {"Digits"} else None
    return None


def _splits_inside(part: Part) -> bool:
    """Check that a split inside a chunk depends on that chunk alone."""
    if part["type"] == "Split":
        return " " not in part["pattern"].get("String", " ") and not part["invert"]
    return part["type"] in _INNER_SPLITTERS | _SPACE_SPLITTERS


def _works_without_spaces(part: Part) -> bool:
    """Check that a step splits a chunk alone alike, given pieces without white space."""
    if part["type"] == "Metaspace":  # with "first", only the text's first piece gets a prefix
        return bool(part.get("prepend_scheme", "always") != "first")
    # A pattern is matched within each piece, even if it looks beyond.
    return part["type"] in ("ByteLevel", "Split") or _splits_inside(part)


def _is_local(part: Part, border: re.Pattern[bytes]) -> bool:
    """Check that a normaliser changes a chunk as it changes it within its text."""
    kind = part["type"]
    if kind in _NORMALIZERS:
        return True
    if kind not in _SPACE_NORMALIZERS or border is not _AT_SPACES:
        return False
    return (
        kind != "Replace"
        or " " not in part["pattern"].get("String", " ")
        or part["pattern"] == {"Regex": DOT_ABOVE_I}
    )
