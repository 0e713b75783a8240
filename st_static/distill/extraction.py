"""The stage of the teacher: a vector of each word, and of each sentence (paper section 2.1)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

from st_static.distill.engines import Engine
from st_static.distill.pieces import TokensAlone
from st_static.distill.stages import Figures, require_disk
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_batches import encode_batches, sentence_batches
from st_static.distill.teacher_shards import (
    Shard,
    ShardFiles,
    ShardWork,
    cut_shards,
    merge_sums,
    run_shards,
    summed,
)
from st_static.distill.word_sums import WordSums
from st_static.distill.work_directory import SENTENCE_VECTORS_FILE, Selected, WorkDirectory
from st_static.files import Arrays, create_array, read_json, write_json
from st_static.model.tokenizer import SPECIAL_TOKENS, Normalization
from st_static.model.vectors import has_vector

logger = logging.getLogger(__name__)

_SUMS_FILE = "sums.safetensors"


class Texts(Protocol):
    """What the teacher reads: a work directory, which other processes can open, too."""

    @property
    def selected(self) -> Selected:
        """The sentences, [S]."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer."""


class SentenceShards:
    """The teacher's pass over the selected sentences, in shards.

    A shard gives `sentences`, the vectors of its sentences, and the arrays of `WordVectors`.

    Args:
        teacher: The teacher.
        texts: What it reads.
    """

    def __init__(self, teacher: Teacher, texts: Texts) -> None:
        self._teacher, self._texts = teacher, texts

    def cut(self) -> list[Shard]:
        """All shards."""
        return cut_shards(*sentence_batches(self._teacher, self._texts.selected))

    def __call__(self, shard: Shard) -> Arrays:
        """Run the teacher over one shard."""
        texts = self._texts
        encoded = list(
            encode_batches(self._teacher, texts.tokenizer, texts.selected, shard.batches)
        )
        words = (part for batch in encoded for part in batch.words)
        vectors = np.concatenate([batch.sentences for batch in encoded])
        return {"sentences": vectors, **summed(words, self._teacher.token_dimension)._asdict()}


def extract(
    teacher: Teacher, texts: Texts, folder: Path, engine: Engine, also: Sequence[ShardWork] = ()
) -> WordSums:
    """Run the teacher over all selected sentences.

    Each shard leaves a file; an interrupted run goes on with those that are missing.

    Args:
        teacher: The teacher.
        texts: The sentences, [S], and the student's tokenizer.
        folder: Where the sums and the sentence vectors [S, d], `sentence_vectors.npy`, go.
        engine: What runs it.
        also: What else the teacher is to do.

    Returns:
        The sums over all sentences.
    """
    sentences = SentenceShards(teacher, texts)
    work = ShardWork(sentences, sentences.cut(), ShardFiles(folder, "shard"))
    if (folder / _SUMS_FILE).exists():
        run_shards(also, engine)
    else:
        run_shards([work, *also], engine)
        _gather_sentences(folder, teacher.dimension, work)
        n_tokens, paths = texts.tokenizer.get_vocab_size(), list(map(work.files.of, work.shards))
        merge_sums(paths, n_tokens, teacher.token_dimension, engine).save(folder / _SUMS_FILE)
    work.files.remove(work.shards)  # only here, for else a kill in between would lose them
    return WordSums.load(folder / _SUMS_FILE)


def _gather_sentences(folder: Path, dimension: int, work: ShardWork) -> None:
    """Write the sentence vectors of all shards into one file."""
    file, shape = folder / SENTENCE_VECTORS_FILE, (work.shards[-1].rows.stop, dimension)
    vectors = create_array(file, np.float16, shape)
    for shard in work.shards:
        with safe_open(work.files.of(shard), framework="numpy") as arrays:
            vectors[shard.rows] = arrays.get_tensor("sentences")
    vectors.flush()


@contextmanager
def extracted_table(
    folder: Path, teacher: Teacher, work: WorkDirectory, engine: Engine
) -> Iterator[tuple[NDArray[np.float32], Figures]]:
    """The stage: the teacher's vector of every token, and of every selected sentence.

    A token that stands in no selected sentence gets the teacher's vector of it alone. Shards of
    those are removed when the block ends without an error: it is to store the table.

    Args:
        folder: Where the stage's files go, the sentence vectors among them.
        teacher: The teacher.
        work: The stages before: vocabulary and selection.
        engine: What runs the teacher.

    Yields:
        The word table [V, d], zero for special tokens; how much the teacher read.

    Raises:
        ValueError: The disk is too small, or the stage began on another kind of device.
    """
    selected, tokenizer = work.selected, work.tokenizer
    require_disk(folder, _bytes_needed(teacher, work), "The teacher's vectors")
    _check_device(folder / "device.json", teacher.runs_on)
    served = np.isin(np.arange(tokenizer.get_vocab_size()), selected.words.values)
    unserved = _alone(teacher, tokenizer, ~served, folder / "unserved")
    sums = extract(teacher, work, folder, engine, [unserved.work])
    table, lacks_vector = sums.means(), sums.counts == 0
    # The teacher may cut off all places of a word, which so is served by none in the end.
    cut_off = _alone(teacher, tokenizer, lacks_vector & served, folder / "cut_off")
    run_shards([cut_off.work], engine)
    for alone in (unserved, cut_off):
        table[alone.tokens] = alone.vectors()
    # Of the means, not of each sentence's vectors: the layers are linear, and a mean of vectors
    # goes through them as they do. Their bias would turn rows of zeros into vectors.
    known = has_vector(table)
    table[known] = teacher.to_sentence_space(table[known])
    alone_tokens = np.flatnonzero(lacks_vector)[len(SPECIAL_TOKENS) :]
    first_piece = work.words.num_rows + len(SPECIAL_TOKENS)
    figures = {
        "dtype": str(teacher.dtype),
        "teacher_tokens": int(selected.lengths.sum()),
        "words_alone": int((alone_tokens < first_piece).sum()),
        "pieces_alone": int((alone_tokens >= first_piece).sum()),
    }
    yield table, figures
    for alone in (unserved, cut_off):
        alone.work.files.remove(alone.work.shards)


def _check_device(file: Path, device: str) -> None:
    """Check that an interrupted extraction goes on where it began: other devices round otherwise.

    Raises:
        ValueError: It began on another kind of device.
    """
    before = read_json(file)["device"] if file.exists() else device
    if before != device:
        raise ValueError(
            f"The teacher began to run on {before}, and now has {device}, whose vectors differ in "
            f"their last digits. Go on with --teacher.device {before}, or remove {file.parent} to "
            "begin anew."
        )
    write_json(file, {"device": device})


class _Alone(NamedTuple):
    """Tokens that get the teacher's vectors of themselves alone.

    Attributes:
        tokens: Their ids, [n].
        texts: What the teacher reads for them.
        files: Where its vectors go.
    """

    tokens: NDArray[np.int64]
    texts: TokensAlone
    files: ShardFiles

    @property
    def work(self) -> ShardWork:
        """What the teacher is to do."""
        name = "words and pieces {} that the teacher reads alone"
        return ShardWork(self.texts, self.texts.shards, self.files, name)

    def vectors(self) -> NDArray[np.float32]:
        """Their vectors, [n, h], when that is done."""
        return self.texts.gather(self.work.results())


def _alone(teacher: Teacher, tokenizer: Tokenizer, wanted: NDArray[np.bool_], file: Path) -> _Alone:
    """Those of the tokens that are wanted [V] but special ones."""
    tokens = np.flatnonzero(wanted[len(SPECIAL_TOKENS) :]) + len(SPECIAL_TOKENS)
    names = [str(tokenizer.id_to_token(int(i))) for i in tokens]
    texts = TokensAlone(teacher, names, Normalization.of(tokenizer))
    return _Alone(tokens, texts, ShardFiles(file.parent, file.name))


def _bytes_needed(teacher: Teacher, work: WorkDirectory) -> int:
    """What the stage writes: vectors of sentences and words, in shards and merged."""
    selected, n_tokens = work.selected, work.tokenizer.get_vocab_size()
    words = selected.words
    shards = SentenceShards(teacher, work).cut()
    edges = [words.offsets[[shard.rows.start, shard.rows.stop]] for shard in shards]
    in_shards = sum(len(np.unique(words.values[start:stop])) for start, stop in edges)
    sentences = 2 * len(selected.lengths) * teacher.dimension  # float16, and all else float32
    # Of tokens the sums, the vectors of tokens alone and the table.
    tokens = 4 * (in_shards + 3 * n_tokens) * max(teacher.token_dimension, teacher.dimension)
    return 2 * sentences + tokens
