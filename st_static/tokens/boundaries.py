"""Where a tokenizer's texts can be cut without changing their tokens, from its own description.

A tokenizer normalises a text, splits it into words, and splits each word into tokens. It can be
run on chunks of the text where no step looks across the cuts:

- Normalisers that act on single characters, or on a character and its combining marks: a space
  never composes with what follows it.
- Pre-tokenizers that drop white space. Texts are then cut at spaces.
- Pre-tokenizers that put the space before a word into the word (Metaspace, ByteLevel). Texts are
  cut before spaces. ByteLevel takes all but the last of several spaces as a word of their own, so
  only the first of them may start a chunk, and only after a character that is surely visible.

SentencePiece's character map (Precompiled) works on grapheme clusters, which may hold a space; in
ASCII they do not. Tokens added to the vocabulary with flags that let them swallow spaces, or with
a space inside, are looked for in the whole text.

Unigram models can also be run on parts of a word: see `unigram_cuts`.
"""

from __future__ import annotations

import enum
import unicodedata
from dataclasses import dataclass
from typing import Any

Part = dict[str, Any]

# What lower-casing by the rules of most languages leaves of İ, beside i.
DOT_ABOVE_I = "(?<=i)\N{COMBINING DOT ABOVE}"
_NORMALIZERS = {"Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Precompiled"}
# These may make, or strip, white space: only for pre-tokenizers that drop it.
_SPACE_NORMALIZERS = {"BertNormalizer", "Nmt", "Strip", "Replace"}
_SPACE_SPLITTERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_INNER_SPLITTERS = {"Punctuation", "Digits"}


class Cut(enum.Enum):
    """Where texts are cut."""

    AT_SPACES = "at spaces"
    """At each space character (U+0020), which belongs to no chunk."""
    BEFORE_SPACES = "before spaces"
    """Before a space that follows a visible ASCII character; chunks keep their spaces."""


@dataclass(frozen=True)
class Chunking:
    """How texts are cut for a tokenizer.

    Attributes:
        cut: Where; None if they cannot be cut.
        reason: Why they cannot.
        ascii_only: Whether texts with other characters must stay whole.
        kept_whole: A text that contains one of these strings must stay whole.
        joinable: Whether chunks without spaces can be joined by spaces into one text, and their
            tokens be told apart by the places that the tokenizer reports.
    """

    cut: Cut | None
    reason: str = ""
    ascii_only: bool = False
    kept_whole: tuple[str, ...] = ()
    joinable: bool = False


def chunking_of(description: Part) -> Chunking:
    """Decide from a tokenizer's description, the parsed content of its tokenizer.json."""
    normalizers = flat(description["normalizer"], "normalizers")
    pre_tokenizers = flat(description["pre_tokenizer"], "pretokenizers")
    cut = _cut_of(pre_tokenizers)
    if cut is None:
        names = ", ".join(part["type"] for part in pre_tokenizers) or "none"
        return Chunking(None, f"its pre-tokenizer ({names}) may look across spaces")
    for part in normalizers:
        if not _is_local(part, cut):
            return Chunking(None, f"its normalizer {part['type']} may look across spaces")
    if description["padding"] is not None:
        return Chunking(None, "it pads texts")
    if description["truncation"] and description["truncation"]["direction"] != "Right":
        return Chunking(None, "it cuts off the beginning of long texts")
    if description["model"].get("dropout"):
        return Chunking(None, "its model drops merges at random")
    kinds = {part["type"] for part in normalizers if not _keeps_places(part)}
    kept_whole = []
    for token in description["added_tokens"]:
        content = token["content"]
        spacious = " " in content or token["lstrip"] or token["rstrip"]
        if token["normalized"] and (spacious or not _stays_visible(content, kinds)):
            return Chunking(None, f"its added token {content!r} may hold spaces")
        if spacious:
            kept_whole.append(content)
    return Chunking(
        cut,
        ascii_only="Precompiled" in kinds,
        kept_whole=tuple(kept_whole),
        # The last two report wrong places where they remove characters.
        joinable=cut is Cut.AT_SPACES
        and not kept_whole
        and kinds.isdisjoint(["Precompiled", "Replace"]),
    )


def _keeps_places(normalizer: Part) -> bool:
    """Whether a normaliser only puts one visible character in the place of another."""
    if normalizer["type"] != "Replace":
        return False
    strings = normalizer["pattern"].get("String", ""), normalizer["content"]
    # Letters, numbers, punctuation and symbols: no spaces and no combining marks.
    return all(len(s) == 1 and unicodedata.category(s)[0] in "LNPS" for s in strings)


def _stays_visible(content: str, normalizers: set[str]) -> bool:
    """Whether an added token is surely without white space after normalisation."""
    visible = all("!" <= character <= "~" for character in content)
    return visible and normalizers.isdisjoint(["Precompiled", "Replace"])


def flat(part: Part | None, members: str) -> list[Part]:
    """A part of a tokenizer, or the members of a sequence of them."""
    if part is None:
        return []
    if part["type"] == "Sequence":
        return [inner for member in part[members] for inner in flat(member, members)]
    return [part]


def _cut_of(pre_tokenizers: list[Part]) -> Cut | None:
    """Where the pre-tokenizers allow a cut."""
    kinds = [part["type"] for part in pre_tokenizers]
    if any(kind in _SPACE_SPLITTERS for kind in kinds):
        first = min(i for i, kind in enumerate(kinds) if kind in _SPACE_SPLITTERS)
        before, after = pre_tokenizers[:first], pre_tokenizers[first + 1 :]
        if all(map(_splits_inside, before)) and all(map(_works_without_spaces, after)):
            return Cut.AT_SPACES
    if kinds == ["Metaspace"] and pre_tokenizers[0].get("split", True):
        return Cut.BEFORE_SPACES
    if kinds and kinds[-1] == "ByteLevel" and pre_tokenizers[-1].get("use_regex", True):
        others = pre_tokenizers[:-1]
        if all(part["type"] == "Digits" for part in others):
            return Cut.BEFORE_SPACES
    return None


def _splits_inside(part: Part) -> bool:
    """Whether a split inside a chunk depends on that chunk alone."""
    if part["type"] == "Split":
        return " " not in part["pattern"].get("String", " ") and not part["invert"]
    return part["type"] in _INNER_SPLITTERS | _SPACE_SPLITTERS


def _works_without_spaces(part: Part) -> bool:
    """The same, for a step that sees pieces without white space only."""
    if part["type"] == "Metaspace":  # with "first", only the text's first piece gets a prefix
        return bool(part.get("prepend_scheme", "always") != "first")
    # A pattern is looked for in each piece by itself, whatever it says of what stands around.
    return part["type"] in ("ByteLevel", "Split") or _splits_inside(part)


def _is_local(part: Part, cut: Cut) -> bool:
    """Whether a normaliser gives of a chunk what it gives of it within its text."""
    kind = part["type"]
    if kind in _NORMALIZERS:
        return True
    if kind not in _SPACE_NORMALIZERS or cut is not Cut.AT_SPACES:
        return False
    return (
        kind != "Replace"
        or " " not in part["pattern"].get("String", " ")
        or part["pattern"] == {"Regex": DOT_ABOVE_I}
    )
