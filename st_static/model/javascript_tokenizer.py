"""Tokenizers in JavaScript: which of them `@huggingface/tokenizers` runs, and how as Python does.

The library reads the same tokenizer.json, but a few of its parts do not what those of Python do.
Where other parts say the same, `javascript_description` puts these in their place; what is left is
refused. So ids are equal, but for characters that came into Unicode after Python's tokenizers were
made: they know fewer marks, signs and punctuation of rare scripts than browsers do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

from st_static.tokens.boundaries import flat

Part = dict[str, Any]

_MODELS = ("WordPiece", "Unigram", "BPE", "WordLevel")
# Not Precompiled: the library puts NFKC in its place, which is not quite the same.
_NORMALIZERS = (
    "BertNormalizer",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Prepend",
    "Replace",
    "Strip",
    "StripAccents",
)
_PRE_TOKENIZERS = (
    "BertPreTokenizer",
    "ByteLevel",
    "Digits",
    "Metaspace",
    "Punctuation",
    "Split",
    "Whitespace",
    "WhitespaceSplit",
)
# How text is split at a pattern, and whether what the pattern matches is what is kept.
_SPLITS = (("Isolated", False), ("Removed", True), ("Removed", False))
_PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
# Into what ByteLevel splits a text.
_BYTE_LEVEL = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# What BERT's normaliser takes for Chinese, of the characters that JavaScript holds in two parts.
_CHINESE = r"[\x{20000}-\x{2A6DF}\x{2A700}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"


def check_javascript_tokenizer(tokenizer: Tokenizer) -> None:
    """Check that JavaScript gives the token ids that Python gives.

    Args:
        tokenizer: Without padding.

    Raises:
        ValueError: It does not, or may not; says which part of the tokenizer is in the way.
    """
    problem = next(javascript_problems(json.loads(tokenizer.to_str())), None)
    if problem:
        raise ValueError(
            f"The model's tokenizer does not run in JavaScript: {problem}. Expected the models "
            f"{', '.join(_MODELS)} with the normalizers {', '.join(_NORMALIZERS)} and the "
            f"pre-tokenizers {', '.join(_PRE_TOKENIZERS)}. Build a model with st_static, whose "
            "tokenizers do."
        )


def javascript_description(tokenizer: Tokenizer) -> Part:
    """The content of a tokenizer.json for JavaScript alone, without special tokens and decoding.

    Raises:
        ValueError: As `check_javascript_tokenizer`.
    """
    check_javascript_tokenizer(tokenizer)
    description: Part = json.loads(tokenizer.to_str())
    normalizers = flat(description["normalizer"], "normalizers")
    pre_tokenizers = flat(description["pre_tokenizer"], "pretokenizers")
    normalizers = [part for one in normalizers for part in _as_normalizers(one)]
    pre_tokenizers = [part for one in pre_tokenizers for part in _as_pre_tokenizers(one)]
    return {
        **description,
        "normalizer": _sequence("normalizers", normalizers),
        "pre_tokenizer": _sequence("pretokenizers", pre_tokenizers),
        "post_processor": None,
        "decoder": None,
    }


def javascript_problems(description: Part) -> Iterator[str]:
    """What keeps a tokenizer, by the content of its tokenizer.json, from running in JavaScript."""
    normalizers = flat(description["normalizer"], "normalizers")
    pre_tokenizers = flat(description["pre_tokenizer"], "pretokenizers")
    yield from _problems_of_model(description["model"])
    for part in normalizers:
        if part["type"] not in _NORMALIZERS:
            yield f"there is no normalizer {part['type']}"
        elif "$" in part.get("content", ""):
            yield f"its normalizer Replace writes {part['content']!r}, with a $"
    for place, part in enumerate(pre_tokenizers):
        yield from _problems_of_pre_tokenizer(part, is_first=place == 0)
    for token in description["added_tokens"]:
        if token["single_word"]:
            yield f"its added token {token['content']!r} stands for whole words only"


def _problems_of_model(model: Part) -> Iterator[str]:
    kind = model["type"]
    if kind not in _MODELS:
        yield f"there is no model {kind}"
    elif kind == "Unigram" and model.get("byte_fallback"):
        yield "its Unigram model falls back to bytes"
    elif model.get("dropout"):
        yield "its model drops merges at random"
    elif kind == "BPE" and model.get("continuing_subword_prefix"):
        yield f"its BPE model marks pieces by {model['continuing_subword_prefix']!r}"


def _problems_of_pre_tokenizer(part: Part, is_first: bool) -> Iterator[str]:
    kind = part["type"]
    if kind not in _PRE_TOKENIZERS:
        yield f"there is no pre-tokenizer {kind}"
    elif kind == "Split" and (part["behavior"], part["invert"]) not in _SPLITS:
        yield f"its pre-tokenizer Split is {part['behavior']}, inverted: {part['invert']}"
    elif kind == "Punctuation" and part["behavior"] not in ("Isolated", "Removed", "Contiguous"):
        yield f"its pre-tokenizer Punctuation is {part['behavior']}"
    elif kind == "Metaspace" and part["prepend_scheme"] == "first" and not is_first:
        yield "its pre-tokenizer Metaspace begins the first word otherwise than others"


def _as_normalizers(part: Part) -> Iterator[Part]:
    """A normaliser with what must come before it, so that JavaScript does the same."""
    if part["type"] == "BertNormalizer" and part["handle_chinese_chars"]:
        # The library looks at the halves of these characters. Of JavaScript $& is what was found.
        yield _replace({"Regex": _CHINESE}, " $& ")
    if part["type"] == "Lowercase" or part.get("lowercase"):
        # JavaScript has another small letter at the end of a word.
        yield _replace({"String": "\N{GREEK CAPITAL LETTER SIGMA}"}, "\N{GREEK SMALL LETTER SIGMA}")
    yield part


def differing_pre_tokenizers(description: Part) -> list[Part]:
    """The pre-tokenizers in whose place `javascript_description` puts others."""
    parts = flat(description["pre_tokenizer"], "pretokenizers")
    return [part for part in parts if list(_as_pre_tokenizers(part)) != [part]]


def _as_pre_tokenizers(part: Part) -> Iterator[Part]:
    """The pre-tokenizers that do in JavaScript what one does in Python."""
    kind = part["type"]
    if kind in ("BertPreTokenizer", "WhitespaceSplit"):
        # JavaScript has U+FEFF for white space, and not U+0085; in a pattern, it has Python's.
        yield _split(r"\s+", "Removed")
        if kind == "BertPreTokenizer":
            yield _split(_PUNCTUATION, "Isolated")
    elif kind == "ByteLevel" and part["use_regex"]:  # the same characters
        if part["add_prefix_space"]:  # to the text, not to each word
            yield {"type": "Replace", "pattern": {"Regex": r"\A[^ ]"}, "content": " $&"}
        yield _split(_BYTE_LEVEL, "Removed", invert=True)
        yield part | {"use_regex": False, "add_prefix_space": False}
    elif kind == "Punctuation" and part["behavior"] != "Contiguous":
        yield _split(_PUNCTUATION, part["behavior"])
    elif kind == "Digits":  # JavaScript's are those of ASCII
        yield _split(r"\p{N}" if part["individual_digits"] else r"\p{N}+", "Isolated")
    elif kind == "Whitespace":  # JavaScript's \w is ASCII
        yield _split(r"\w+|[^\w\s]+", "Removed", invert=True)
    elif kind == "Split" and "String" in part["pattern"] and part["behavior"] == "Removed":
        # Else the library keeps what is to be removed.
        escaped = "".join(rf"\x{{{ord(character):X}}}" for character in part["pattern"]["String"])
        yield _split(escaped, "Removed", part["invert"])
    elif kind == "Metaspace":
        yield part
        if part["split"]:  # which the library does not
            mark = part["replacement"]
            yield _split(rf"{mark}[^{mark}]*|[^{mark}]+", "Removed", invert=True)
    else:
        yield part


def _sequence(members: str, parts: list[Part]) -> Part | None:
    return {"type": "Sequence", members: parts} if parts else None


def _replace(pattern: Part, content: str) -> Part:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _split(pattern: str, behavior: str, invert: bool = False) -> Part:
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": behavior, "invert": invert}
