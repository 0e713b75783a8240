"""Which tokenizers give the same tokens where an ONNX file is run, from their own descriptions.

Clients of ONNX files read `tokenizer.json`, too, as it is: those in Python and Rust with
`tokenizers`, those in JavaScript with `@huggingface/tokenizers`, which is another program. What
that one does not know, or does otherwise in common text, is refused here; tests run it in node.
docs/onnx.md names the characters that are left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tokenizers import Tokenizer, pre_tokenizers

from st_static.model.javascript_tokenizer import (
    Part,
    differing_pre_tokenizers,
    javascript_problems,
)

# They differ at U+0085 and U+FEFF only.
_BY_WHITE_SPACE = ("BertPreTokenizer", "ByteLevel", "WhitespaceSplit")


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Check that a tokenizer gives the same tokens in other programs.

    Raises:
        ValueError: It does not; says which step of it is the reason.
    """
    description = json.loads(tokenizer.to_str())
    for reason in (*javascript_problems(description), *_problems_as_it_is(description)):
        raise ValueError(
            f"The model's tokenizer cannot be run beside an ONNX file: {reason}. Use the model "
            "with st_static or sentence-transformers, or build one with another tokenizer."
        )
    if tokenizer.num_special_tokens_to_add(is_pair=False):
        raise ValueError(
            "The model's tokenizer cannot be run beside an ONNX file: its post-processor adds "
            "special tokens, which clients count and the model does not. Build one without."
        )


def _problems_as_it_is(description: Part) -> Iterator[str]:
    """What is in the way where no other parts can be put in their place."""
    for part in differing_pre_tokenizers(description):
        kind = part["type"]
        if kind not in _BY_WHITE_SPACE and not _is_same_for_pieces(part, description["model"]):
            yield f"the pre-tokenizer {kind} of JavaScript splits common texts otherwise"
    if description["truncation"]:
        yield "it cuts texts itself, and clients do so by other rules"


def _is_same_for_pieces(part: Part, model: Part) -> bool:
    """Whether a Unigram model has no piece that is found only where JavaScript does not split."""
    if model["type"] != "Unigram":
        return False
    pieces = [piece for piece, _ in model["vocab"]]
    if part["type"] == "Metaspace":
        return not any(part["replacement"] in piece[1:] for piece in pieces)
    if part["type"] == "Punctuation" and part["behavior"] == "Isolated":
        return not any(_is_punctuation(piece.removeprefix("▁")) for piece in pieces)
    return False


def _is_punctuation(text: str) -> bool:
    """Whether a text is of what the pre-tokenizer Punctuation takes for it, and of nothing else."""
    return bool(text) and not pre_tokenizers.Punctuation("removed").pre_tokenize_str(text)
