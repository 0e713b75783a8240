"""Check that other programs can run a tokenizer, with the same token ids.

JavaScript's `@huggingface/tokenizers` behaves differently in a few parts, which
`javascript_description` replaces if it can. Other clients of ONNX read tokenizer.json as it is:
for them, a difference in common text is an error. Characters newer than the Unicode of Python's
tokenizers are not checked, see docs/onnx.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from st_static.tokens.boundaries import flat

_Part = dict[str, Any]

_MODELS = ("WordPiece", "Unigram", "BPE", "WordLevel")
# Without Precompiled: the library replaces it by NFKC, which is not quite the same.
_NORMALIZERS = ["BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace"]
_NORMALIZERS += ["Strip", "StripAccents"]
_PRE_TOKENIZERS = ["BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Split"]
_PRE_TOKENIZERS += ["Whitespace", "WhitespaceSplit"]
# The behaviors of Split, and whether its pattern is inverted.
_SPLITS = (("Isolated", False), ("Removed", True), ("Removed", False))
_PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"
# The parts into which ByteLevel splits a text.
_BYTE_LEVEL = r"'(?:[stmd]|re|ve|ll)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# BERT's Chinese characters that are surrogate pairs in JavaScript.
_CHINESE = r"[\x{20000}-\x{2A6DF}\x{2A700}-\x{2B81F}\x{2B920}-\x{2CEAF}\x{2F800}-\x{2FA1F}]"
# Pre-tokenizers that differ in JavaScript at U+0085 and U+FEFF only.
_BY_WHITE_SPACE = ("BertPreTokenizer", "ByteLevel", "WhitespaceSplit")


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Check that clients of ONNX files get the same tokens; an error names the step at fault."""
    description = json.loads(tokenizer.to_str())
    reasons = [*_problems(description), *_problems_as_it_is(description)]
    if tokenizer.num_special_tokens_to_add(is_pair=False):
        reasons.append(
            "its post-processor adds special tokens, which clients count and the model does not"
        )
    for reason in reasons:
        raise ValueError(
            f"The model's tokenizer cannot be run beside an ONNX file: {reason}. Use the model "
            "with st_static or sentence-transformers, or build one with another tokenizer."
        )


def check_javascript_tokenizer(tokenizer: Tokenizer) -> None:
    """Check that JavaScript gives Python's token ids, without padding; an error names the part."""
    for problem in _problems(json.loads(tokenizer.to_str())):
        raise ValueError(
            f"The model's tokenizer does not run in JavaScript: {problem}. Expected the models "
            f"{', '.join(_MODELS)} with the normalizers {', '.join(_NORMALIZERS)} and the "
            f"pre-tokenizers {', '.join(_PRE_TOKENIZERS)}. Build a model with st_static, whose "
            "tokenizers do."
        )


def javascript_description(tokenizer: Tokenizer) -> dict[str, Any]:
    """Write a tokenizer.json for JavaScript, without special tokens; errors are the check's."""
    check_javascript_tokenizer(tokenizer)
    description: _Part = json.loads(tokenizer.to_str())
    steps = _steps(description)
    description |= dict.fromkeys(("normalizer", "pre_tokenizer", "post_processor", "decoder"))
    if normalizers := [part for step in steps[0] for part in _as_normalizers(step)]:
        description["normalizer"] = {"type": "Sequence", "normalizers": normalizers}
    if splits := [part for step in steps[1] for part in _as_pre_tokenizers(step)]:
        description["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splits}
    return description


def _steps(description: _Part) -> tuple[list[_Part], list[_Part]]:
    """List a tokenizer's normalisers and pre-tokenizers, with sequences flattened."""
    return (
        flat(description["normalizer"], "normalizers"),
        flat(description["pre_tokenizer"], "pretokenizers"),
    )


def _problems(description: _Part) -> Iterator[str]:
    """Say what keeps a tokenizer from running in JavaScript."""
    model, kind = description["model"], description["model"]["type"]
    if kind not in _MODELS:
        yield f"there is no model {kind}"
    elif kind == "Unigram" and model.get("byte_fallback"):
        yield "its Unigram model falls back to bytes"
    elif model.get("dropout"):
        yield "its model drops merges at random"
    elif kind == "BPE" and model.get("continuing_subword_prefix"):
        yield f"its BPE model marks pieces by {model['continuing_subword_prefix']!r}"
    normalizers, pre_tokenizers = _steps(description)
    for part in normalizers:
        if part["type"] not in _NORMALIZERS:
            yield f"there is no normalizer {part['type']}"
        elif "$" in part.get("content", ""):
            yield f"its normalizer Replace writes {part['content']!r}, with a $"
    for i, part in enumerate(pre_tokenizers):
        kind, behavior = part["type"], part.get("behavior")
        if kind not in _PRE_TOKENIZERS:
            yield f"there is no pre-tokenizer {kind}"
        elif kind == "Split" and (behavior, part["invert"]) not in _SPLITS:
            yield f"its pre-tokenizer Split is {behavior}, inverted: {part['invert']}"
        elif kind == "Punctuation" and behavior not in ("Isolated", "Removed", "Contiguous"):
            yield f"its pre-tokenizer Punctuation is {behavior}"
        elif kind == "Metaspace" and part["prepend_scheme"] == "first" and i:
            yield "its pre-tokenizer Metaspace begins the first word otherwise than others"
    for token in description["added_tokens"]:
        if token["single_word"]:
            yield f"its added token {token['content']!r} stands for whole words only"


def _problems_as_it_is(description: _Part) -> Iterator[str]:
    """Say what keeps a tokenizer from running in JavaScript without replaced parts."""
    for part in _steps(description)[1]:
        kind = part["type"]
        if (
            kind not in _BY_WHITE_SPACE
            and list(_as_pre_tokenizers(part)) != [part]
            and not _is_same_for_pieces(part, description["model"])
        ):
            yield f"the pre-tokenizer {kind} of JavaScript splits common texts otherwise"
    if description["truncation"]:
        yield "it cuts texts itself, and clients do so by other rules"


def _is_same_for_pieces(part: _Part, model: _Part) -> bool:
    """Tell whether a Unigram model has no piece that JavaScript's splitting would break."""
    if model["type"] != "Unigram":
        return False
    pieces = [piece for piece, _ in model["vocab"]]
    if part["type"] == "Metaspace":
        return not any(part["replacement"] in piece[1:] for piece in pieces)
    if part["type"] == "Punctuation" and part["behavior"] == "Isolated":
        split = pre_tokenizers.Punctuation("removed").pre_tokenize_str
        return all(split(piece) for piece in (p.removeprefix("▁") for p in pieces) if piece)
    return False


def _as_normalizers(part: _Part) -> Iterator[_Part]:
    """Put steps before a normaliser, so that it does the same in JavaScript."""
    if part["type"] == "BertNormalizer" and part["handle_chinese_chars"]:
        # The library looks at single surrogates. In JavaScript $& is the match.
        yield _replace({"Regex": _CHINESE}, " $& ")
    if part["type"] == "Lowercase" or part.get("lowercase"):
        # JavaScript lower-cases it to another letter at the end of a word.
        yield _replace({"String": "\N{GREEK CAPITAL LETTER SIGMA}"}, "\N{GREEK SMALL LETTER SIGMA}")
    yield part


def _as_pre_tokenizers(part: _Part) -> Iterator[_Part]:
    """Translate a pre-tokenizer into ones that do the same in JavaScript."""
    kind = part["type"]
    if kind in ("BertPreTokenizer", "WhitespaceSplit"):
        # JavaScript's white space has U+FEFF but not U+0085; that of a pattern is as in Python.
        yield _split(r"\s+", "Removed")
        if kind == "BertPreTokenizer":
            yield _split(_PUNCTUATION, "Isolated")
    elif kind == "ByteLevel" and part["use_regex"]:  # white space differs as above
        if part["add_prefix_space"]:  # to the text, not to each word
            yield {"type": "Replace", "pattern": {"Regex": r"\A[^ ]"}, "content": " $&"}
        yield _split(_BYTE_LEVEL, "Removed", invert=True)
        yield part | {"use_regex": False, "add_prefix_space": False}
    elif kind == "Punctuation" and part["behavior"] != "Contiguous":
        yield _split(_PUNCTUATION, part["behavior"])
    elif kind == "Digits":  # JavaScript's are ASCII
        yield _split(r"\p{N}" if part["individual_digits"] else r"\p{N}+", "Isolated")
    elif kind == "Whitespace":  # JavaScript's \w is ASCII
        yield _split(r"\w+|[^\w\s]+", "Removed", invert=True)
    elif kind == "Split" and "String" in part["pattern"] and part["behavior"] == "Removed":
        # Otherwise the library keeps the text to be removed.
        escaped = "".join(rf"\x{{{ord(character):X}}}" for character in part["pattern"]["String"])
        yield _split(escaped, "Removed", part["invert"])
    elif kind == "Metaspace":
        yield part
        if part["split"]:  # ignored by the library
            mark = part["replacement"]
            yield _split(rf"{mark}[^{mark}]*|[^{mark}]+", "Removed", invert=True)
    else:
        yield part


def _replace(pattern: _Part, content: str) -> _Part:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _split(pattern: str, behavior: str, invert: bool = False) -> _Part:
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": behavior, "invert": invert}
