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
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.chunks import split_chunks
from st_static.tokens.ragged import Ragged, offsets_of
from st_static.tokens.tokenizer import (
    ENGLISH,
    SPECIAL_TOKENS,
    Normalization,
    has_pieces,
    split_all_words,
)

# Chunks that a worker remembers: about 60 MB. joblib replaces workers that grow by 300 MB.
_MEMO_CHUNKS = 400_000


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
def load_finder(files: FinderFiles) -> WordFinder | PieceFinder:
    """Load a finder, once in a process, so that its memo outlives a shard."""
    student, teacher = (Tokenizer.from_file(str(file)) for file in files[1:])
    if has_pieces(student):
        return PieceFinder(student, teacher)
    words = read_table(files.words)["text"].combine_chunks()
    return WordFinder(words, teacher, Normalization.of(student))


class PieceFinder:
    """Finds a student's pieces in sentences, and counts the teacher's tokens.

    Args:
        student: The student's tokenizer.
        teacher_tokenizer: The teacher's, without truncation and padding.
    """

    def __init__(self, student: Tokenizer, teacher_tokenizer: Tokenizer) -> None:
        self._student = ChunkTokenizer(student, max_chunks=_MEMO_CHUNKS)
        self.teacher = ChunkTokenizer(teacher_tokenizer, max_chunks=_MEMO_CHUNKS)

    def __call__(self, texts: pa.Array) -> Found:
        """Look at sentences [B]."""
        ids = self._student(texts)
        pieces = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        return Found(pieces, self.teacher(texts).lengths, pieces.lengths)


class WordFinder:
    """Finds vocabulary words in sentences, and counts the teacher's tokens.

    Args:
        words: The vocabulary; its words follow the special tokens, [V].
        teacher_tokenizer: The teacher's, without truncation and padding.
        normalization: What becomes of a text before it is split into words.
    """

    def __init__(
        self, words: pa.Array, teacher_tokenizer: Tokenizer, normalization: Normalization = ENGLISH
    ) -> None:
        self.words = words
        self.normalization = normalization
        self.teacher = ChunkTokenizer(teacher_tokenizer, max_chunks=_MEMO_CHUNKS)

    def __call__(self, texts: pa.Array) -> Found:
        """Look at sentences [B]."""
        chunks = split_chunks(texts)
        words = self._ids_of(chunks.distinct).take(chunks.codes)
        return Found(
            Ragged(words.values, words.offsets[chunks.offsets]),
            self.teacher(texts).lengths,
            np.diff(chunks.offsets),
        )

    def _ids_of(self, chunks: pa.Array) -> Ragged:
        """The ids of each chunk's vocabulary words."""
        lists = split_all_words(chunks.cast(pa.string()), self.normalization)
        places = pc.index_in(lists.flatten(), value_set=self.words)
        known = places.is_valid().to_numpy(zero_copy_only=False)
        ids = places.fill_null(0).to_numpy() + np.int32(len(SPECIAL_TOKENS))
        lengths = pc.list_value_length(lists).to_numpy()
        return Ragged(ids, offsets_of(lengths)).filter(known)
