"""The stage of the teacher: a vector of each word, and of each sentence (paper section 2.1).

The work is cut into shards of whole batches: run anywhere, written whole, merged in order. So the
bytes are the same whichever processes ran which shards, and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from tokenizers import Tokenizer

from st_static.distill.engines import Engine
from st_static.distill.stages import (
    SENTENCE_VECTORS_FILE,
    Figures,
    Selected,
    WorkDirectory,
    require_disk,
)
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import (
    TokensAlone,
    WordSums,
    WordVectors,
    encode_batches,
    sentence_batches,
)
from st_static.files import (
    Arrays,
    create_array,
    look_again,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from st_static.model.tokenizer import SPECIAL_TOKENS, Normalization
from st_static.model.vectors import has_vector
from st_static.progress import bar

_SUMS_FILE = "sums.safetensors"
# Tokens of a shard, padding included: seconds of work, as a kill loses the shard under way. Large
# builds have larger shards, and at most about `_MOST_SHARDS`.
_LEAST_TOKENS = 65_536
_MOST_SHARDS = 1024
_BYTES_AT_A_TIME = 32_000_000  # of sums that one merge holds


class Shard(NamedTuple):
    """Consecutive batches.

    Attributes:
        number: Of the shard, from 0.
        batches: Which texts are in each batch.
        tokens: Tokens of all batches, padding included.
    """

    number: int
    batches: list[slice]
    tokens: int

    @property
    def rows(self) -> slice:
        """Its texts."""
        return slice(self.batches[0].start, self.batches[-1].stop)


def cut_shards(batches: Sequence[slice], tokens: Sequence[int]) -> list[Shard]:
    """Cut batches into shards, the same for the same batches.

    Args:
        batches: The batches.
        tokens: The tokens of each, padding included.
    """
    wanted = max(_LEAST_TOKENS, sum(tokens) // _MOST_SHARDS)
    shards: list[Shard] = []
    first, size = 0, 0
    for number, n in enumerate(tokens, 1):
        size += n
        if size >= wanted or number == len(batches):
            shards.append(Shard(len(shards), list(batches[first:number]), size))
            first, size = number, 0
    return shards


@dataclass(frozen=True)
class ShardWork:
    """Something that the teacher is to do, in shards that each leave a file.

    Args:
        encode: Runs the teacher over one shard; picklable.
        shards: All shards.
        folder: Where the files go.
        file: What their names begin with.
        name: What a message calls texts of it, with {} for their numbers.
    """

    encode: Callable[[Shard], Arrays]
    shards: list[Shard]
    folder: Path
    file: str
    name: str = "texts {} of the selection"

    def path(self, shard: Shard) -> Path:
        """The file of one shard."""
        return self.folder / f"{self.file}-{shard.number:05d}.safetensors"

    def remove(self) -> None:
        """Remove the files; those that are gone already are no error."""
        for shard in self.shards:
            self.path(shard).unlink(missing_ok=True)


class _Item(NamedTuple):
    """A shard of one of several works, and what a message calls it."""

    work: int
    shard: Shard
    path: Path
    name: str

    def __str__(self) -> str:
        rows = self.shard.rows
        return self.name.format(f"{rows.start:,} to {rows.stop - 1:,}")


@dataclass(frozen=True)
class _Writer:
    """Encodes a shard and writes its file; sent to the processes that do so."""

    encode: Sequence[Callable[[Shard], Arrays]]

    def __call__(self, item: _Item) -> Shard:
        write_arrays(item.path, self.encode[item.work](item.shard))
        return item.shard


def run_shards(works: Sequence[ShardWork], engine: Engine) -> None:
    """Run the teacher over the shards whose files are not there yet.

    Args:
        works: All that is to do; together, for the processes that do it take seconds to start.
        engine: What runs it.
    """
    items = [
        _Item(number, shard, work.path(shard), work.name)
        for number, work in enumerate(works)
        for shard in work.shards
    ]
    left = [item for item in items if not item.path.exists()]
    if not left:
        return
    n_tokens, n_left = (sum(item.shard.tokens for item in some) for some in (items, left))
    start, n_texts = time.perf_counter(), 0
    with bar("teacher", n_tokens, "token", initial=n_tokens - n_left) as progress:
        done = engine.map_on_devices(_Writer([work.encode for work in works]), left)
        for n_done, shard in enumerate(done, 1 + len(items) - len(left)):
            n_texts += shard.rows.stop - shard.rows.start
            rate = n_texts / (time.perf_counter() - start)
            progress.set_postfix_str(f"{n_done:,}/{len(items):,} shards, {rate:,.0f} texts/s")
            progress.update(shard.tokens)
    for folder in {work.folder for work in works}:
        look_again(folder)


class Texts(Protocol):
    """The teacher's input: a work directory, which other processes can open, too."""

    @property
    def selected(self) -> Selected:
        """The sentences, [S]."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer."""


@dataclass(frozen=True)
class _Sentences:
    """Gives a shard's sentence vectors, and the arrays of `WordVectors`."""

    teacher: Teacher
    texts: Texts

    def __call__(self, shard: Shard) -> Arrays:
        teacher, texts = self.teacher, self.texts
        encoded = list(encode_batches(teacher, texts.tokenizer, texts.selected, shard.batches))
        words = summed([batch.words for batch in encoded], teacher.token_dimension)
        return {
            "sentences": np.concatenate([batch.sentences for batch in encoded]),
            **words._asdict(),
        }


def sentence_work(teacher: Teacher, texts: Texts, folder: Path) -> ShardWork:
    """The teacher's pass over the selected sentences."""
    shards = cut_shards(*sentence_batches(teacher, texts.selected))
    return ShardWork(_Sentences(teacher, texts), shards, folder, "shard")


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
    work, sums_file = sentence_work(teacher, texts, folder), folder / _SUMS_FILE
    if sums_file.exists():
        run_shards(also, engine)
    else:
        run_shards([work, *also], engine)
        gather_sentences(work, teacher.dimension)
        n_tokens, files = texts.tokenizer.get_vocab_size(), list(map(work.path, work.shards))
        merge_sums(files, n_tokens, teacher.token_dimension, engine).save(sums_file)
    work.remove()  # only here, for else a kill in between would lose them
    return WordSums.load(sums_file)


def gather_sentences(work: ShardWork, dimension: int) -> None:
    """Write the sentence vectors of all shards into one file."""
    shape = (work.shards[-1].rows.stop, dimension)
    vectors = create_array(work.folder / SENTENCE_VECTORS_FILE, np.float16, shape)
    for shard in work.shards:
        with safe_open(work.path(shard), framework="numpy") as arrays:
            vectors[shard.rows] = arrays.get_tensor("sentences")
    vectors.flush()


class _Range(NamedTuple):
    """The tokens from `low` to `high`, which one merge sums up over all files."""

    low: int
    high: int
    dimension: int
    files: list[Path]

    def __str__(self) -> str:
        return f"sums of the tokens {self.low:,} to {self.high - 1:,}"


def merge_sums(files: Sequence[Path], n_tokens: int, dimension: int, engine: Engine) -> WordSums:
    """Add up the word vectors of shards, in the order of the shards.

    Args:
        files: The files of all shards, with the arrays of `WordVectors`, words ascending.
        n_tokens: Token ids of the student, V.
        dimension: The dimension of token vectors, h.
        engine: What merges, a range of words at a time.
    """
    step = max(1, _BYTES_AT_A_TIME // (4 * dimension))
    ranges = [
        _Range(low, min(low + step, n_tokens), dimension, list(files))
        for low in range(0, n_tokens, step)
    ]
    sums = WordSums(n_tokens, dimension)
    for low, high, part in engine.map(_merge_range, ranges):
        sums.sums[low:high], sums.counts[low:high] = part.sums, part.counts
    return sums


def _merge_range(words: _Range) -> tuple[int, int, WordSums]:
    part = WordSums(words.high - words.low, words.dimension)
    for file in words.files:
        with safe_open(file, framework="numpy") as arrays:
            word = arrays.get_tensor("word")
            rows = slice(*np.searchsorted(word, [words.low, words.high]).tolist())
            if rows.start == rows.stop:  # safetensors cannot give an empty slice at the end
                continue
            sums, counts = (arrays.get_slice(name)[rows] for name in ("sums", "counts"))
        part.add(WordVectors(word[rows] - words.low, sums, counts))
    return words.low, words.high, part


def summed(parts: Iterable[WordVectors], dimension: int) -> WordVectors:
    """Add up the vectors of batches, in their order: the words ascending, each once.

    Args:
        parts: What each batch adds.
        dimension: The dimension of token vectors, h.
    """
    parts = list(parts)
    words: NDArray[np.int64] = np.unique(np.concatenate([part.word for part in parts]))
    sums = WordSums(len(words), dimension)
    for part in parts:
        sums.add(part._replace(word=np.searchsorted(words, part.word)))
    return WordVectors(words, sums.sums, sums.counts)


@dataclass(frozen=True)
class _Tokens:
    """Gives a shard's vectors of tokens that the teacher reads on their own."""

    tokens: TokensAlone

    def __call__(self, shard: Shard) -> Arrays:
        return {"vectors": self.tokens.encode(shard.batches)}


def alone_work(tokens: TokensAlone, folder: Path, file: str) -> ShardWork:
    """The teacher's pass over tokens on their own."""
    shards = cut_shards(tokens.batches, tokens.n_tokens)
    name = "words and pieces {} that the teacher reads alone"
    return ShardWork(_Tokens(tokens), shards, folder, file, name)


class _Alone(NamedTuple):
    """Ids of tokens [n], the tokens, and the teacher's work for them."""

    ids: NDArray[np.int64]
    tokens: TokensAlone
    work: ShardWork


@contextmanager
def extracted_table(
    folder: Path, teacher: Teacher, work: WorkDirectory, engine: Engine
) -> Iterator[tuple[NDArray[np.float32], Figures]]:
    """The stage: the teacher's vector of every token, and of every selected sentence.

    A token that stands in no selected sentence gets the teacher's vector of it alone. The caller
    stores the table inside the block; then the shards of tokens alone are removed.

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
    selected, tokenizer, n_special = work.selected, work.tokenizer, len(SPECIAL_TOKENS)
    require_disk(folder, _bytes_needed(teacher, work, folder), "The teacher's vectors")
    # Other devices round otherwise.
    device_file, device = folder / "device.json", teacher.runs_on
    before = read_json(device_file)["device"] if device_file.exists() else device
    if before != device:
        raise ValueError(
            f"The teacher began to run on {before}, and now has {device}, whose vectors differ in "
            f"their last digits. Go on with --teacher.device {before}, or remove {folder} to "
            "begin anew."
        )
    write_json(device_file, {"device": device})

    def alone(wanted: NDArray[np.bool_], file: str) -> _Alone:
        """The teacher's work for the tokens that are wanted [V], but special ones."""
        ids = np.flatnonzero(wanted[n_special:]) + n_special
        names = [str(tokenizer.id_to_token(int(i))) for i in ids]
        tokens = TokensAlone(teacher, names, Normalization.of(tokenizer))
        return _Alone(ids, tokens, alone_work(tokens, folder, file))

    has_sentences = np.isin(np.arange(tokenizer.get_vocab_size()), selected.words.values)
    no_sentence = alone(~has_sentences, "no_sentence")
    sums = extract(teacher, work, folder, engine, [no_sentence.work])
    table, lacks_vector = sums.means(), sums.counts == 0
    # The teacher may cut off all places of a word, which then has no sentence either.
    cut_off = alone(lacks_vector & has_sentences, "cut_off")
    run_shards([cut_off.work], engine)
    for ids, tokens, shards in (no_sentence, cut_off):
        parts = [read_arrays(shards.path(shard))["vectors"] for shard in shards.shards]
        table[ids] = tokens.gather(parts)
    # The layers are linear, so they are applied to means instead of each sentence's vectors. Their
    # bias would turn rows of zeros into vectors.
    known = has_vector(table)
    table[known] = teacher.to_sentence_space(table[known])
    alone_tokens = np.flatnonzero(lacks_vector)[n_special:]
    first_piece = work.words.num_rows + n_special
    yield (
        table,
        {
            "dtype": str(teacher.dtype),
            "teacher_tokens": int(selected.lengths.sum()),
            "words_alone": int((alone_tokens < first_piece).sum()),
            "pieces_alone": int((alone_tokens >= first_piece).sum()),
        },
    )
    for _, _, shards in (no_sentence, cut_off):
        shards.remove()


def _bytes_needed(teacher: Teacher, work: WorkDirectory, folder: Path) -> int:
    """Bytes that the stage writes: vectors of sentences and words, in shards and merged."""
    selected, n_tokens = work.selected, work.tokenizer.get_vocab_size()
    words = selected.words
    shards = sentence_work(teacher, work, folder).shards
    edges = [words.offsets[[shard.rows.start, shard.rows.stop]] for shard in shards]
    in_shards = sum(len(np.unique(words.values[start:stop])) for start, stop in edges)
    sentences = 2 * len(selected.lengths) * teacher.dimension  # float16, and all else float32
    # For each token: its sums, its vector alone, and its row of the table.
    tokens = 4 * (in_shards + 3 * n_tokens) * max(teacher.token_dimension, teacher.dimension)
    return 2 * sentences + tokens
