"""The teacher's vocabulary in the student's spelling."""

from __future__ import annotations

import json

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from st_static.model.tokenizer import (
    CONTINUATION,
    ENGLISH,
    WORD_BEGIN,
    Normalization,
    build_tokenizer,
    is_punctuation,
    split_words,
)


def teacher_pieces(teacher: Tokenizer, normalization: Normalization = ENGLISH) -> dict[str, int]:
    """Spell the teacher's tokens as WordPiece tokens of the student.

    Spellings are normalised as the student's text is. Those that the student's pre-tokenizer would
    split, special tokens and punctuation are left out.

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
