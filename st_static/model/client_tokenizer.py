"""Which tokenizers give the same tokens where an ONNX file is run, from their own descriptions.

Clients of ONNX files read `tokenizer.json`, too: those in Python and Rust with `tokenizers`, those
in JavaScript with `@huggingface/tokenizers`, which is another program. What that one does not know,
or does otherwise in common text, is refused here; tests run it in node. docs/onnx.md names the
characters that are left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

from st_static.tokens.boundaries import flat

_MODELS = {"BPE", "Unigram", "WordLevel", "WordPiece"}
_NORMALIZERS = {
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
}
_PRE_TOKENIZERS = {
    "BertPreTokenizer",
    "ByteLevel",
    "Digits",
    "Metaspace",
    "Punctuation",
    "Split",
    "WhitespaceSplit",
}
_BEHAVIORS_OF_SPLIT = {"Isolated", "Removed"}


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Check that a tokenizer gives the same tokens in other programs.

    Raises:
        ValueError: It does not; says which step of it is the reason.
    """
    for reason in _reasons(tokenizer):
        raise ValueError(
            f"The model's tokenizer cannot be run beside an ONNX file: {reason}. Use the model "
            "with st_static or sentence-transformers, or build one with another tokenizer."
        )


def _reasons(tokenizer: Tokenizer) -> Iterator[str]:
    """What keeps a tokenizer from being run elsewhere."""
    description = json.loads(tokenizer.to_str())
    model = description["model"]
    if model["type"] not in _MODELS:
        yield f"JavaScript has no model {model['type']}"
    if model["type"] == "Unigram" and model.get("byte_fallback"):
        yield "JavaScript has no byte fallback for Unigram"
    for part in flat(description["normalizer"], "normalizers"):
        if part["type"] not in _NORMALIZERS:
            yield f"JavaScript has no normalizer {part['type']} that does the same"
    for part in flat(description["pre_tokenizer"], "pretokenizers"):
        yield from _reasons_of_split(part)
    if description["truncation"]:
        yield "it cuts texts itself, and clients do so by other rules"
    if tokenizer.num_special_tokens_to_add(is_pair=False):
        yield "its post-processor adds special tokens, which clients count and the model does not"


def _reasons_of_split(part: dict[str, Any]) -> Iterator[str]:
    kind = part["type"]
    if kind not in _PRE_TOKENIZERS:
        yield f"JavaScript has no pre-tokenizer {kind} that does the same"
    if kind == "Split" and part["behavior"] not in _BEHAVIORS_OF_SPLIT:
        yield f"JavaScript does not split as {part['behavior']}"
