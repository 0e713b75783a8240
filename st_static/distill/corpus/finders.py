"""Which of the vocabulary's words stand in sentences, and how many tokens the teacher reads."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.files import read_table
from st_static.model.tokenizer import (
    SPECIAL_TOKENS,
    Normalization,
    build_tokenizer,
    has_pieces,
)
from st_static.texts import arrow
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged


class Found(NamedTuple):
    """What a finder tells of sentences [B].

    Attributes:
        words: The ids of each sentence's vocabulary words, repetitions included, [B rows].
        teacher_tokens: Each sentence's teacher tokens, [B].
        n_words: Its words: those between spaces, or its pieces, [B].
    """

    words: Ragged
    teacher_tokens: NDArray[np.int64]
    n_words: NDArray[np.int64]


class FinderFiles(NamedTuple):
    """What a finder is loaded from.

    Attributes:
        words: The vocabulary.
        student: The student's tokenizer.
        teacher: The teacher's tokenizer.
    """

    words: Path
    student: Path
    teacher: Path


@functools.lru_cache(maxsize=1)
def load_finder(files: FinderFiles) -> WordFinder:
    """Load a finder, once in a process, so that what nanotoken remembers outlives a shard."""
    student, teacher = (Tokenizer.from_file(str(file)) for file in files[1:])
    if not has_pieces(student):  # of unknown words, the pieces are not looked for
        words = read_table(files.words)["text"].to_pylist()
        student = build_tokenizer(words, normalization=Normalization.of(student))
    return WordFinder(student, teacher)


class WordFinder:
    """Finds a student's words, or pieces, in sentences, and counts the teacher's tokens.

    Args:
        student: The student's tokenizer of words alone, or of pieces.
        teacher_tokenizer: The teacher's, without truncation and padding.
    """

    def __init__(self, student: Tokenizer, teacher_tokenizer: Tokenizer) -> None:
        self._student = FastTokenizer(student)
        self.teacher = FastTokenizer(teacher_tokenizer)

    def __call__(self, texts: pa.Array) -> Found:
        """Look at sentences [B]."""
        ids = self._student(texts)
        words = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        lengths = words.lengths
        if not has_pieces(self._student.tokenizer):
            lengths = arrow.numbers(pc.count_substring(texts, " ")).astype(np.int64) + 1
        return Found(words, self.teacher(texts).lengths, lengths)
