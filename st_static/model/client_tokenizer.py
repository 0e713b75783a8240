"""Which tokenizers give the same tokens where an ONNX file is run, from their own descriptions.

Clients of ONNX files read `tokenizer.json`, too, as it is: those in Python and Rust with
`tokenizers`, those in JavaScript with `@huggingface/tokenizers`, which is another program. What
that one does not know, or does otherwise in common text, is refused here; tests run it in node.
docs/onnx.md names the characters that are left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tokenizers import Tokenizer

from st_static.model.javascript_tokenizer import Part, javascript_problems
from st_static.tokens.boundaries import flat


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
    for part in flat(description["pre_tokenizer"], "pretokenizers"):
        if part["type"] == "Whitespace":
            yield "the pre-tokenizer Whitespace of JavaScript knows the letters of ASCII only"
        is_split = part["type"] == "Split" and part["behavior"] == "Removed"
        if is_split and "String" in part["pattern"]:
            yield "the pre-tokenizer Split of JavaScript keeps a text that it is to remove"
    if description["truncation"]:
        yield "it cuts texts itself, and clients do so by other rules"
