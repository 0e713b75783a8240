"""Fused ensembles: one vocabulary, one table whose rows hold the members' parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import metadata
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.arguments import as_path, check_type
from st_static.card.facts import CardFacts
from st_static.card.render import render
from st_static.cluster.processes import unblock_torch
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.export import check_output, export_model
from st_static.model.modules import Segment
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import CONTINUATION, SPECIAL_TOKENS, build_tokenizer, is_punctuation
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import offsets_of

_WORD = "a"
"""A word, to find the ids of a token that follows one."""


class FusedMember(NamedTuple):
    """One member of a fused ensemble, as its record names it."""

    name: str
    license: str | None  # if its card or the record of its build names one
    width: int  # its dimensions D_i
    weight: float  # a_i
    languages: tuple[str, ...] = ()  # tags, if its record or card states them


class FusedEnsemble:
    """An `Ensemble` over one vocabulary, as made by `Ensemble.fuse`.

    Args:
        tokenizer: Tokenizer of the vocabulary.
        table: One row per token, the members' vectors side by side, [V, D_1 + ... + D_L].
        members: The members, L of them.
    """

    def __init__(
        self, tokenizer: Tokenizer, table: NDArray[np.float32], members: list[FusedMember]
    ) -> None:
        self.tokenizer, self.table, self.members = tokenizer, table, members
        segments = tuple(Segment(member.width, member.weight) for member in members)
        self.model = StaticModel(tokenizer, table, normalize=False, segments=segments)
        self._encoder = FastEncoder(self.model)

    def encode(self, texts: Any) -> NDArray[np.floating]:
        """Encode texts [B], as for `FastEncoder.encode`, into vectors [B, D]."""
        return self._encoder.encode(texts)

    def save_pretrained(
        self, path: str | Path, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it exactly, as a repository with the code of one module.

        `SentenceTransformer(path, trust_remote_code=True)` loads it without st_static, and
        `FastEncoder.from_pretrained(path)` without running that code.

        Args:
            path: Folder to write.
            dtype: Number format of the table.

        Raises:
            ValueError: The folder holds something else.
        """
        self.export(path, self.record("exact"), self.table, dtype, segments=self.model.segments)

    def export_calibrated(
        self, path: str | Path, texts: Any, dtype: Literal["float32", "float16"] = "float32"
    ) -> None:
        """Save it with sentence-transformers' own modules only, nearly exact.

        Each member's part is scaled once by a_i / E|E_i(z)|, the mean length over texts, and the
        whole vector is scaled to length 1; so the weights hold on average, not in each text.

        Args:
            path: Folder to write.
            texts: Texts like those that will be encoded, as for `FastEncoder.encode`.
            dtype: Number format of the table. In float16 a text without any known word gets NaN
                from sentence-transformers' Normalize.

        Raises:
            ValueError: The folder holds something else, a member knows no word of the texts, or
                texts is a single one.
        """
        check_output(as_path(path, "a folder to write"), with_card=True)
        self.export(path, self.record("calibrated"), self.calibrated_table(texts), dtype)

    def export(
        self,
        path: str | Path,
        record: dict[str, Any],
        table: NDArray[Any],
        dtype: str,
        **parts: Any,
    ) -> None:
        """Write a table with a card; other parts are those of `export_model`."""
        folder = as_path(path, "a folder to write")
        card = render(CardFacts(folder.resolve().name, record))
        export_model(folder, table, self.tokenizer, record, dtype, card=card, **parts)

    def calibrated_table(self, texts: Any) -> NDArray[np.float32]:
        """Scale each member's part of the table by a_i / E|E_i(z)|, [V, D]."""
        if isinstance(texts, str):
            raise ValueError("Expected a list or column of texts, but got one str.")
        check_type(texts, Iterable, "a list or column of texts")
        unscaled = StaticModel(self.tokenizer, self.table, normalize=False)
        means = FastEncoder(unscaled).encode(texts)
        table, start = self.table.copy(), 0
        for member in self.members:
            part = slice(start, start + member.width)
            length = float(np.linalg.norm(means[:, part], axis=1).mean()) if len(means) else 0.0
            if not length:
                raise ValueError(
                    f"{member.name} knows no word of the {len(means)} texts: expected texts like "
                    "those that will be encoded."
                )
            table[:, part] *= member.weight / length
            start += member.width
        return table

    def record(self, form: str) -> dict[str, Any]:
        """Make the content of `st_static.json`."""
        return {
            "ensemble": {"form": form, "members": [member._asdict() for member in self.members]},
            "versions": {"st-static": metadata.version("st-static")},
        }


def fused_tokenizer(vocabulary: Iterable[str] | None, first: StaticModel) -> Tokenizer:
    """Build the tokenizer of a vocabulary, by default that of the first member."""
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
    """Give each token of a vocabulary [W] a member's vector, [W, D]: the sum of its tokens' rows.

    If the member has the same `##` piece, its row is taken. Otherwise pieces and punctuation, which
    follow a word without a space, are tokenised there. Special tokens get zeros.
    """
    description = json.loads(model.tokenizer.to_str())["model"]
    pieces = description["vocab"] if description["type"] == "WordPiece" else {}
    encode = FastTokenizer(model.tokenizer)

    def ids_of(texts: list[str]) -> list[list[int]]:
        ids = encode(texts)
        values = ids.values.tolist()
        return [values[start:end] for start, end in pairwise(ids.offsets.tolist())]

    texts = [token.removeprefix(CONTINUATION) or token for token in tokens]
    alone, [word] = ids_of(texts), ids_of([_WORD])
    behind = ids_of([_WORD + text for text in texts])
    rows: list[list[int]] = []
    for i, (token, text) in enumerate(zip(tokens, texts, strict=True)):
        if token in SPECIAL_TOKENS:
            rows.append([])
        elif text != token and token in pieces:
            rows.append([pieces[token]])
        # If it changes the word before it, its own part is unknown.
        elif (text != token or is_punctuation(token)) and behind[i][: len(word)] == word:
            rows.append(behind[i][len(word) :])
        else:
            rows.append(alone[i])
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    unblock_torch()
    with torch.inference_mode():
        sums = F.embedding_bag(
            torch.from_numpy(np.fromiter(chain.from_iterable(rows), np.int32)),
            torch.from_numpy(np.ascontiguousarray(model.table, np.float32)),
            torch.from_numpy(offsets_of(lengths)[:-1]).int(),
            mode="sum",
        )
    return sums.numpy()
