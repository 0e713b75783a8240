"""Run the teacher: a vector of each word, and of each sentence (paper section 2.1).

Shards of whole batches run anywhere, are written whole and merged in order: always the same bytes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from st_static.distill.engines import Engine
from st_static.distill.stages import SENTENCE_VECTORS_FILE, Figures, WorkDirectory, require_disk
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import (
    IsolatedTokens,
    WordSums,
    WordVectorSums,
    read_batches,
    sentence_lengths,
    token_batches,
)
from st_static.files import (
    Arrays,
    atomic,
    look_again,
    npy_header,
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
LEAST_TOKENS = 65_536
_MOST_SHARDS = 1024
_BYTES_AT_A_TIME = 128_000_000  # of sums that one merge holds


class TeacherShard(NamedTuple):
    """Consecutive batches of texts."""

    number: int  # from 0
    batches: list[slice]
    tokens: int  # of all batches, padding included: proportional to the teacher's time

    @property
    def rows(self) -> slice:
        """Its texts."""
        return slice(self.batches[0].start, self.batches[-1].stop)


def cut_shards(batches: Sequence[slice], lengths: NDArray[np.integer]) -> list[TeacherShard]:
    """Cut batches of texts, of ascending lengths in tokens, into shards."""
    tokens = [(batch.stop - batch.start) * int(lengths[batch.stop - 1]) for batch in batches]
    wanted = max(LEAST_TOKENS, sum(tokens) // _MOST_SHARDS)
    shards: list[TeacherShard] = []
    first, size = 0, 0
    for number, n in enumerate(tokens, 1):
        size += n
        if size >= wanted or number == len(batches):
            shards.append(TeacherShard(len(shards), list(batches[first:number]), size))
            first, size = number, 0
    return shards


@dataclass(frozen=True)
class ShardWork:
    """Work for the teacher, in shards that each leave a file."""

    encode: Callable[[TeacherShard], Arrays]  # runs the teacher over one shard; picklable
    shards: list[TeacherShard]
    folder: Path
    file: str  # what the files' names begin with
    name: str = "texts {} of the selection"  # in messages, with {} for the numbers of texts

    def path(self, shard: TeacherShard) -> Path:
        """Name the file of a shard."""
        return self.folder / f"{self.file}-{shard.number:05d}.safetensors"

    def read(self, array: str) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Read an array of each shard, with its rows."""
        for shard in self.shards:
            with safe_open(self.path(shard), framework="numpy") as arrays:
                yield shard.rows, arrays.get_tensor(array)

    def remove(self) -> None:
        """Remove the files; missing ones are no error."""
        for shard in self.shards:
            self.path(shard).unlink(missing_ok=True)


class _Item(NamedTuple):
    """A shard of one of several works, and its name in messages."""

    work: int
    shard: TeacherShard
    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


def _write_shard(encode: Sequence[Callable[[TeacherShard], Arrays]], item: _Item) -> TeacherShard:
    """Encode a shard by the function of its work, and write its file."""
    write_arrays(item.path, encode[item.work](item.shard))
    return item.shard


def run_shards(works: Sequence[ShardWork], engine: Engine) -> None:
    """Run the teacher over the missing shards of all works at once: its processes start slowly."""
    items = [
        _Item(number, s, work.path(s), work.name.format(f"{s.rows.start:,} to {s.rows.stop - 1:,}"))
        for number, work in enumerate(works)
        for s in work.shards
    ]
    missing = [item for item in items if not item.path.exists()]
    if not missing:
        return
    n_tokens, n_missing = (sum(item.shard.tokens for item in group) for group in (items, missing))
    start, n_texts = time.perf_counter(), 0
    write = functools.partial(_write_shard, [work.encode for work in works])
    with bar("teacher", n_tokens, "token", initial=n_tokens - n_missing) as progress:
        done = engine.map_on_devices(write, missing)
        for n_done, shard in enumerate(done, 1 + len(items) - len(missing)):
            n_texts += shard.rows.stop - shard.rows.start
            rate = n_texts / (time.perf_counter() - start)
            progress.set_postfix_str(f"{n_done:,}/{len(items):,} shards, {rate:,.0f} texts/s")
            progress.update(shard.tokens)
    for folder in {work.folder for work in works}:
        look_again(folder)


def sentence_work(teacher: Teacher, work: WorkDirectory, folder: Path) -> ShardWork:
    """Plan the teacher's pass over the selected sentences."""
    lengths = sentence_lengths(teacher, work.selected, work.teacher_tokenizer)
    shards = cut_shards(token_batches(lengths, teacher.batch_tokens), lengths)
    return ShardWork(functools.partial(_encode_sentences, teacher, work), shards, folder, "shard")


def _encode_sentences(teacher: Teacher, work: WorkDirectory, shard: TeacherShard) -> Arrays:
    """Compute a shard's sentence vectors, and the arrays of `WordVectorSums`."""
    batches = read_batches(teacher, work.tokenizer, work.selected, shard.batches)
    sentences, words = zip(*batches, strict=True)
    vectors = {"sentences": np.concatenate(sentences)}
    return vectors | summed(words, teacher.token_dimension)._asdict()


def isolated_work(tokens: IsolatedTokens, folder: Path, file: str) -> ShardWork:
    """Plan the teacher's pass over isolated tokens."""
    shards = cut_shards(tokens.batches, tokens.lengths)
    name = "words and pieces {} that the teacher reads alone"
    return ShardWork(functools.partial(_encode_isolated, tokens), shards, folder, file, name)


def _encode_isolated(tokens: IsolatedTokens, shard: TeacherShard) -> Arrays:
    return {"vectors": tokens.encode(shard.batches)}


def extract(
    teacher: Teacher,
    before: WorkDirectory,
    folder: Path,
    engine: Engine,
    also: Sequence[ShardWork] = (),
) -> WordSums:
    """Write the vectors of selected sentences [S, d] into `folder`; return the words' sums."""
    work, sums_file = sentence_work(teacher, before, folder), folder / _SUMS_FILE
    if sums_file.exists():
        run_shards(also, engine)
    else:
        run_shards([work, *also], engine)
        gather_sentences(work, teacher.dimension)
        n_tokens, files = before.tokenizer.get_vocab_size(), list(map(work.path, work.shards))
        sums = merge_sums(files, n_tokens, teacher.token_dimension, engine)
        write_arrays(sums_file, sums._asdict())
    work.remove()  # once the sums are written; until then they come from these
    return WordSums(**read_arrays(sums_file))


def gather_sentences(work: ShardWork, dimension: int) -> None:
    """Write the sentence vectors of all shards into one .npy file, [S, d] in float16."""
    with atomic(work.folder / SENTENCE_VECTORS_FILE) as path, path.open("wb") as file:
        file.write(npy_header(work.shards[-1].rows.stop, dimension, np.float16))
        for _, part in work.read("sentences"):
            file.write(part.data)


class _Range(NamedTuple):
    """The tokens from `low` to before `high`, which one merge sums up over all files."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"sums of the tokens {self.low:,} to {self.high - 1:,}"


def merge_sums(files: Sequence[Path], n_tokens: int, dimension: int, engine: Engine) -> WordSums:
    """Add up the word vectors of V tokens from the files of all shards, in their order."""
    step = max(1, _BYTES_AT_A_TIME // (4 * dimension))
    ranges = [_Range(low, min(low + step, n_tokens)) for low in range(0, n_tokens, step)]
    merge = functools.partial(_merge_range, files=files, dimension=dimension)
    sums = WordSums.zeros(n_tokens, dimension)
    for (low, high), part in engine.map(merge, ranges):
        sums.sums[low:high], sums.counts[low:high] = part.sums, part.counts
    return sums


def _merge_range(words: _Range, files: Sequence[Path], dimension: int) -> tuple[_Range, WordSums]:
    part = WordSums.zeros(words.high - words.low, dimension)
    for file in files:
        with safe_open(file, framework="numpy") as arrays:
            word = arrays.get_tensor("word")
            rows = slice(*np.searchsorted(word, words).tolist())
            if rows.start == rows.stop:  # safetensors cannot give an empty slice at the end
                continue
            sums, counts = (arrays.get_slice(name)[rows] for name in ("sums", "counts"))
        part.add(WordVectorSums(word[rows] - words.low, sums, counts))
    return words, part


def summed(parts: Iterable[WordVectorSums], dimension: int) -> WordVectorSums:
    """Add up the vectors of batches, in their order: the words ascending, each once."""
    parts = list(parts)
    words: NDArray[np.int64] = np.unique(np.concatenate([part.word for part in parts]))
    sums = WordSums.zeros(len(words), dimension)
    for part in parts:
        sums.add(part._replace(word=np.searchsorted(words, part.word)))
    return WordVectorSums(words, sums.sums, sums.counts)


@contextmanager
def extracted_table(
    folder: Path, teacher: Teacher, work: WorkDirectory, engine: Engine
) -> Iterator[tuple[NDArray[np.float32], Figures]]:
    """Run the stage: make the word table [V, d], zero for special tokens, and the stage's figures.
    A token in no selected sentence gets the teacher's vector of it alone. The caller stores the
    table inside the block; then the shards are removed."""
    selected, tokenizer, n_special = work.selected, work.tokenizer, len(SPECIAL_TOKENS)
    require_disk(folder, _bytes_needed(teacher, work, folder), "The teacher's vectors")
    # Other devices round otherwise.
    device_file, device = folder / "device.json", teacher.runs_on
    before = read_json(device_file)["device"] if device_file.exists() else device
    if before != device:
        raise ValueError(
            f"The teacher began to run on {before}, and now has {device}, which rounds otherwise. "
            f"Go on with --teacher.device {before}, or remove {folder} to begin anew."
        )
    write_json(device_file, {"device": device})

    def isolated(
        wanted: NDArray[np.bool_], file: str
    ) -> tuple[NDArray[np.int64], IsolatedTokens, ShardWork]:
        """Plan the work for the wanted tokens [V] but special ones; also return their ids."""
        ids = np.flatnonzero(wanted[n_special:]) + n_special
        names = [str(tokenizer.id_to_token(int(i))) for i in ids]
        tokens = IsolatedTokens(teacher, names, Normalization.of(tokenizer))
        return ids, tokens, isolated_work(tokens, folder, file)

    has_sentences = np.isin(np.arange(tokenizer.get_vocab_size()), selected.words.values)
    no_sentence = isolated(~has_sentences, "no_sentence")
    sums = extract(teacher, work, folder, engine, also=[no_sentence[-1]])
    table, lacks_vector = sums.means(), sums.counts == 0
    # All places of a word may lie beyond where the teacher cuts its sentences.
    cut_off = isolated(lacks_vector & has_sentences, "cut_off")
    run_shards([cut_off[-1]], engine)
    for ids, tokens, shards in (no_sentence, cut_off):
        table[ids] = tokens.gather([part for _, part in shards.read("vectors")])
    # The teacher's Dense layers are linear, so they are applied to means instead of each
    # sentence's vectors. Their bias would turn rows of zeros into vectors.
    has_row = has_vector(table)
    table[has_row] = teacher.to_sentence_space(table[has_row])
    words_alone, pieces_alone = np.split(lacks_vector[n_special:], [work.words.num_rows])
    figures = {"dtype": str(teacher.dtype), "teacher_tokens": int(selected.lengths.sum())}
    figures |= {"words_alone": int(words_alone.sum()), "pieces_alone": int(pieces_alone.sum())}
    yield table, figures
    for _, _, shards in (no_sentence, cut_off):
        shards.remove()


def _bytes_needed(teacher: Teacher, work: WorkDirectory, folder: Path) -> int:
    """Estimate the bytes of the stage: vectors of sentences and words, in shards and merged."""
    selected, n_tokens = work.selected, work.tokenizer.get_vocab_size()
    words = selected.words
    shards = sentence_work(teacher, work, folder).shards
    edges = [words.offsets[[shard.rows.start, shard.rows.stop]] for shard in shards]
    in_shards = sum(len(np.unique(words.values[start:stop])) for start, stop in edges)
    sentences = 2 * len(selected.lengths) * teacher.dimension  # float16, and all else float32
    # For each token: its sums, its vector alone, and its row of the table.
    tokens = 4 * (in_shards + 3 * n_tokens) * max(teacher.token_dimension, teacher.dimension)
    return 2 * sentences + tokens
