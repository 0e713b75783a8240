"""The teacher's vocabulary in the student's spelling, and vectors of tokens without context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from st_static.distill.teacher import Teacher
from st_static.distill.teacher_batches import is_out_of_memory, padded_tokens, token_batches
from st_static.distill.teacher_shards import Shard, cut_shards
from st_static.files import Arrays
from st_static.model.tokenizer import (
    CONTINUATION,
    ENGLISH,
    WORD_BEGIN,
    Normalization,
    build_tokenizer,
    is_punctuation,
    split_words,
    unknown_id,
)


def teacher_pieces(teacher: Tokenizer, normalization: Normalization = ENGLISH) -> dict[str, int]:
    """Spell the teacher's tokens as WordPiece tokens of the student.

    WordPiece, Unigram and byte-level BPE vocabularies mark word beginnings each in their own way;
    the student marks continuations with `##`. Spellings are normalised as the student's text is,
    and those that the student's pre-tokenizer would split, special tokens and punctuation are
    left out.

    Args:
        teacher: The teacher's tokenizer.
        normalization: What becomes of the student's text before it is split.

    Returns:
        For each spelling the teacher's token id; the smallest one where several agree.
    """
    description = json.loads(teacher.to_str())
    kind = description["model"]["type"]
    byte_level = kind == "BPE" and '"ByteLevel"' in teacher.to_str()
    special = {token["id"] for token in description["added_tokens"]}
    student = build_tokenizer([], normalization=normalization)
    decoder = ByteLevel()
    pieces: dict[str, int] = {}
    for token, index in sorted(teacher.get_vocab().items(), key=lambda item: item[1]):
        if index in special:
            continue
        if kind == "WordPiece":
            prefix = description["model"]["continuing_subword_prefix"]
            begins, text = not token.startswith(prefix), token.removeprefix(prefix)
        else:
            text = decoder.decode([token]) if byte_level else token.replace(WORD_BEGIN, " ")
            begins, text = text.startswith(" "), text.strip(" ")
        words = split_words(student, text)
        if len(words) == 1 and not is_punctuation(words[0]):
            pieces.setdefault(words[0] if begins else CONTINUATION + words[0], index)
    return pieces


def vectors_alone(
    teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
) -> NDArray[np.float32]:
    """The teacher's vectors for tokens of the student on their own, between special tokens.

    Args:
        teacher: The teacher.
        tokens: Words, pieces and characters of the student, [n].
        normalization: What became of the student's text before it was split.

    Returns:
        The mean over the token's last-layer vectors, [n, h]; zero where the teacher does not
        know any of its characters.
    """
    alone = TokensAlone(teacher, tokens, normalization)
    return alone.gather(map(alone, alone.shards))


class TokensAlone:
    """The work of `vectors_alone` in shards, of which each gives `vectors` of its texts.

    Args:
        teacher: The teacher.
        tokens: Words, pieces and characters of the student, [n].
        normalization: What became of the student's text before it was split.

    Attributes:
        shards: All the work; its texts are the tokens that the teacher knows, by length.
    """

    def __init__(
        self, teacher: Teacher, tokens: Sequence[str], normalization: Normalization = ENGLISH
    ) -> None:
        self._teacher = teacher
        rows = _teacher_ids(teacher, tokens, normalization)
        self._shape = len(rows), teacher.token_dimension
        self._known = sorted((i for i, row in enumerate(rows) if row), key=lambda i: len(rows[i]))
        self._rows = [rows[i] for i in self._known]
        lengths = np.array([len(row) for row in self._rows], dtype=np.int64)
        lengths += sum(map(len, teacher.surroundings()))
        batches = token_batches(lengths, teacher.batch_tokens)
        self.shards = cut_shards(batches, padded_tokens(batches, lengths))

    def __call__(self, shard: Shard) -> Arrays:
        """Run the teacher over one shard."""
        parts = [_encode_halving(self._teacher, self._rows[batch]) for batch in shard.batches]
        return {"vectors": np.concatenate(parts)}

    def gather(self, parts: Iterable[Arrays]) -> NDArray[np.float32]:
        """The vectors of all tokens, [n, h], from those of all shards in their order."""
        vectors = np.zeros(self._shape, dtype=np.float32)
        if self._known:
            vectors[self._known] = np.concatenate([part["vectors"] for part in parts])
        return vectors


def _teacher_ids(
    teacher: Teacher, tokens: Sequence[str], normalization: Normalization
) -> list[list[int]]:
    """The teacher's ids of each token; none if it knows nothing of it."""
    pieces = teacher_pieces(teacher.tokenizer, normalization)
    unknown = unknown_id(teacher.tokenizer)

    def ids_of(token: str) -> list[int]:
        """Of one token."""
        if token in pieces:
            return [pieces[token]]
        text = token.removeprefix(CONTINUATION).removeprefix(WORD_BEGIN)
        ids = teacher.tokenizer.encode(text, add_special_tokens=False).ids
        known = (teacher.tokenizer.id_to_token(i) for i in ids if i != unknown)
        return ids if any(token and token.strip(WORD_BEGIN) for token in known) else []

    return [ids_of(token) for token in tokens]


def _encode_halving(teacher: Teacher, rows: list[list[int]]) -> NDArray[np.float32]:
    """As `_encode_inside`; where memory runs out, for each half of the rows instead."""
    try:
        return _encode_inside(teacher, rows)
    except (MemoryError, RuntimeError) as error:
        if len(rows) == 1 or not is_out_of_memory(error):
            raise
    middle = len(rows) // 2
    halves = [_encode_halving(teacher, half) for half in (rows[:middle], rows[middle:])]
    return np.concatenate(halves)


def _encode_inside(teacher: Teacher, rows: list[list[int]]) -> NDArray[np.float32]:
    """Mean last-layer vectors of token ids put between the teacher's special tokens."""
    before, after = teacher.surroundings()
    if teacher.max_tokens is not None:
        rows = [row[: max(1, teacher.max_tokens - len(before) - len(after))] for row in rows]
    sizes = np.array([len(row) for row in rows])
    positions = np.arange(len(before) + sizes.max() + len(after))
    ids = np.full((len(rows), len(positions)), teacher.pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(before) + len(row) + len(after)] = [*before, *row, *after]
    present = positions < (len(before) + sizes + len(after))[:, None]
    inside = (positions >= len(before)) & (positions < (len(before) + sizes)[:, None])
    tokens, _ = teacher.forward(torch.from_numpy(ids), torch.from_numpy(present.astype(np.int64)))
    weights = torch.from_numpy(inside / sizes[:, None]).to(tokens.device, torch.float32)
    return torch.einsum("bt,bth->bh", weights, tokens.float()).cpu().numpy()
