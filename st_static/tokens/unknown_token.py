"""The token that stands for what a tokenizer does not know."""

from __future__ import annotations

import json

from tokenizers import Tokenizer


def unknown_id(tokenizer: Tokenizer) -> int | None:
    """The id of a tokenizer's unknown token; None if it has none."""
    model = json.loads(tokenizer.to_str())["model"]
    if "unk_id" in model:
        return None if model["unk_id"] is None else int(model["unk_id"])
    return tokenizer.token_to_id(model["unk_token"]) if model.get("unk_token") else None
