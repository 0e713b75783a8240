"""One vocabulary for several models: its tokenizer, and the row that each model has for a token."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.cluster.processes import unblock_torch
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import CONTINUATION, SPECIAL_TOKENS, build_tokenizer, is_punctuation
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

# A word, to find what a token becomes after one.
_WORD = "a"


def fused_tokenizer(vocabulary: Iterable[str] | None, first: StaticModel) -> Tokenizer:
    """The tokenizer of a vocabulary; without one, of the first member's own.

    Raises:
        ValueError: The vocabulary is empty; or there is none, and the first member's tokenizer is
            of another kind.
    """
    if vocabulary is None:
        model = json.loads(first.tokenizer.to_str())["model"]
        if model["type"] != "WordPiece" or model["continuing_subword_prefix"] != CONTINUATION:
            raise ValueError(
                "Expected a vocabulary of words, for the first member's tokenizer is no WordPiece "
                f"but {model['type']}. Give one, or put a member with words first."
            )
        vocabulary = sorted(model["vocab"], key=model["vocab"].__getitem__)
    words = list(vocabulary)
    if not words:
        raise ValueError("Expected at least one word in the vocabulary, but it is empty.")
    return build_tokenizer(words)


def token_rows(model: StaticModel, tokens: Sequence[str]) -> NDArray[np.float32]:
    """What each token of a vocabulary is to a member: the sum of the rows of its own tokens.

    A member with the same `##` piece gives its row. Else pieces and punctuation, which stand
    behind a word without a space, become what the member makes of them there.

    Args:
        model: The member, with the table [V, D].
        tokens: The vocabulary, [W]; special tokens get zeros.

    Returns:
        One row per token, [W, D].
    """
    ids = _member_ids(model, tokens)
    unblock_torch()
    with torch.inference_mode():
        sums = F.embedding_bag(
            torch.from_numpy(ids.values),
            torch.from_numpy(np.ascontiguousarray(model.table, np.float32)),
            torch.from_numpy(ids.offsets[:-1]).int(),
            mode="sum",
        )
    return sums.numpy()


def _member_ids(model: StaticModel, tokens: Sequence[str]) -> Ragged:
    """A member's token ids of each token of a vocabulary, [W rows]."""
    description = json.loads(model.tokenizer.to_str())["model"]
    pieces = description["vocab"] if description["type"] == "WordPiece" else {}
    encode = FastTokenizer(model.tokenizer)
    texts = [token.removeprefix(CONTINUATION) or token for token in tokens]
    alone = _lists(encode(texts))
    word = encode([_WORD]).values.tolist()
    behind = _lists(encode([_WORD + text for text in texts]))
    rows: list[list[int]] = []
    for i, (token, text) in enumerate(zip(tokens, texts, strict=True)):
        if token in SPECIAL_TOKENS:
            rows.append([])
        elif text != token and token in pieces:
            rows.append([pieces[token]])
        # Where it changes the word before it, there is no telling its part.
        elif (text != token or is_punctuation(token)) and behind[i][: len(word)] == word:
            rows.append(behind[i][len(word) :])
        else:
            rows.append(alone[i])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.int32), offsets_of(lengths))


def _lists(ids: Ragged) -> list[list[int]]:
    values = ids.values.tolist()
    return [values[start:end] for start, end in pairwise(ids.offsets.tolist())]
