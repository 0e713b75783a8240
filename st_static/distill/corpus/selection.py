"""Select the sentences that the teacher reads: for each word the N shortest, shared if possible.

The paper samples N sentences per word (section 2.1); here they are those that cost the teacher
least, out of a random sample: those whose key, a hash, lies under the word's threshold. So the
result does not depend on how the corpus was cut or ordered.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.config import MAX_CANDIDATES, SelectionConfig
from st_static.distill.corpus import spans_and_passages
from st_static.distill.corpus.sentences import sentence_key, sentence_shards
from st_static.distill.corpus.shards import Shards, Task, merged_by_range, read_parts, write_parts
from st_static.distill.engines import Engine
from st_static.distill.stages import (
    SELECTED_FILE,
    TEACHER_TOKENIZER_FILE,
    WORDS_FILE,
    Figures,
    WorkDirectory,
    require_disk,
)
from st_static.files import read_arrow, write_arrow
from st_static.model.modules import TOKENIZER_FILE
from st_static.model.tokenizer import SPECIAL_TOKENS, Normalization, build_tokenizer, has_pieces
from st_static.texts import arrow
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

# Pairs that are merged at a time, at 24 bytes each plus about as much for sorting.
PAIRS_PER_RANGE = 2_000_000
_PAIR_BYTES = 24
# Batches are cut from this order, and the content of a batch decides how its vectors round. Sorting
# by key makes sentences of equal length independent of the order of the corpus.
READING_ORDER = [("length", "ascending"), ("key", "ascending")]
# In the metadata of a range's file: how many candidates there were before `order_candidates`.
_N_CANDIDATES = b"found"


def write_selection(
    folder: Path,
    work: WorkDirectory,
    config: SelectionConfig,
    engine: Engine,
    languages: Sequence[str] = (),
    max_tokens: int | None = None,
    max_candidates: int = MAX_CANDIDATES,
) -> Figures:
    """Run the stage: choose sentences for each word from a random sample of `max_candidates`, and
    held-out ones; the teacher reads at most `max_tokens` of a passage, beside its prompt and
    special tokens."""
    shards = Shards(sentence_shards(work.folder("sentences")), engine)
    held_out_from, held_out_numbers = held_out(shards, config.held_out)

    counts, vocabulary = work.words["count"].to_numpy(), work.folder("vocabulary")
    # Twice: by shard, and by range.
    n_bytes = 2 * _PAIR_BYTES * int(_most_pairs(counts, max_candidates).sum())
    require_disk(folder, n_bytes, "Candidates")
    thresholds = key_thresholds(counts, max_candidates)
    merged = candidates(
        shards,
        folder,
        vocabulary,
        plan=CandidatePlan(thresholds, held_out_from, config.min_words),
        bounds=word_ranges(counts, max_candidates),
        max_candidates=max_candidates,
    )
    with merged as ranges:
        n_candidates = sum(int(read_arrow(f).schema.metadata[_N_CANDIDATES]) for f in ranges)
        pairs = select((Pairs.read(file) for file in reversed(ranges)), config)
        teacher = load_finder(vocabulary).teacher
        selected = gather_selected(pairs, held_out_numbers, shards, teacher)
        n_sentences = len(selected) - len(held_out_numbers)

        are_read_whole = functools.partial(_are_read_whole, limit=max_tokens, vocabulary=vocabulary)
        further = spans_and_passages.draw_spans_and_passages(
            config,
            shards,
            selected=selected.filter(pc.invert(selected["held_out"]))["text"],
            tokenizer=work.tokenizer,
            plan=spans_and_passages.PassagePlan(
                spans_and_passages.PASSAGE_WORDS, held_out_from, languages, are_read_whole
            ),
        )
        rows = [selected, *(_further_rows(texts, teacher) for texts in further.values())]
        write_arrow(folder / SELECTED_FILE, pa.concat_tables(rows).sort_by(READING_ORDER))
    return {
        "candidates": n_candidates,
        "pairs": len(pairs.word),
        "sentences": n_sentences,
        "sentences_per_pair": round(n_sentences / max(len(pairs.word), 1), 4),
        "naive_passes": len(work.words) * config.sentences_per_word,
        "held_out": len(held_out_numbers),
        **{name: len(texts) for name, texts in further.items()},
    }


def held_out(shards: Shards, n: int) -> tuple[np.uint64, NDArray[np.int64]]:
    """Find the sentences with the n largest keys: the smallest of these, and their numbers."""
    if 2 * n > shards.n_sentences:
        raise ValueError(
            f"selection.held_out = {n} needs a corpus of at least {2 * n} sentences, but it has "
            f"{shards.n_sentences}. Give more text, or hold out fewer."
        )
    # Keys are hashes: the largest are a random sample, whatever the order of the text.
    inverted, numbers = shards.smallest(n, np.invert, "held-out sentences")
    return ~inverted[-1], np.sort(numbers)


def _are_read_whole(texts: pa.Array, limit: int | None, vocabulary: Path) -> NDArray[np.bool_]:
    """Tell which texts the teacher reads to their end."""
    if limit is None:
        return np.ones(len(texts), np.bool_)
    # Workers that found candidates have this finder loaded.
    return load_finder(vocabulary).teacher(texts).lengths <= limit


# -- finding words -----------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def load_finder(vocabulary: Path) -> WordFinder:
    """Load a stage's finder once in a process, so that nanotoken's cache outlives a shard."""
    student = Tokenizer.from_file(str(vocabulary / TOKENIZER_FILE))
    if not has_pieces(student):  # leave out the pieces of unknown words
        words = read_arrow(vocabulary / WORDS_FILE)["text"].to_pylist()
        student = build_tokenizer(words, normalization=Normalization.of(student))
    return WordFinder(student, Tokenizer.from_file(str(vocabulary / TEACHER_TOKENIZER_FILE)))


class WordFinder:
    """Finds a student's words, or pieces, in sentences, and counts the teacher's tokens."""

    def __init__(self, student: Tokenizer, teacher: Tokenizer) -> None:
        self._student, self.teacher = FastTokenizer(student), FastTokenizer(teacher)

    def __call__(self, texts: pa.Array) -> tuple[Ragged, NDArray[np.int64], NDArray[np.int64]]:
        """Find vocabulary words [B rows]; count teacher tokens, and words or pieces, [B]."""
        ids = self._student(texts)
        words = ids.filter(ids.values >= len(SPECIAL_TOKENS))
        n_words = words.lengths
        if not has_pieces(self._student.tokenizer):
            n_words = arrow.numbers(pc.count_substring(texts, " ")).astype(np.int64) + 1
        return words, self.teacher(texts).lengths, n_words


# -- candidates --------------------------------------------------------------------------


class Pairs(NamedTuple):
    """(word, sentence) pairs: the candidates of words, or those that were selected; each [P]."""

    word: NDArray[np.int32]  # its token id
    sentence: NDArray[np.int64]  # its number in the whole corpus
    length: NDArray[np.int32]  # in the teacher's tokens
    key: NDArray[np.uint64]

    def take(self, index: NDArray[np.integer] | NDArray[np.bool_] | slice) -> Pairs:
        """Take some of the pairs, in the order of the index."""
        word, sentence, length, key = self
        return Pairs(word[index], sentence[index], length[index], key[index])

    def runs(self) -> list[tuple[int, int]]:
        """Find where each word's pairs begin and end, if they are sorted by word."""
        changes = np.flatnonzero(np.diff(self.word, prepend=-1, append=-1))
        return list(pairwise(changes.tolist()))

    @classmethod
    def read(cls, file: Path) -> Pairs:
        """Map the candidates of a range of words into memory, as `order_candidates` leaves them."""
        return cls(*(column.to_numpy() for column in read_arrow(file).columns))

    @staticmethod
    def concatenate(parts: Iterable[Pairs]) -> Pairs:
        """Join parts, one after the other."""
        return Pairs(*map(np.concatenate, zip(*parts, strict=True)))


class CandidatePlan(NamedTuple):
    """The criteria for candidates; the same for every shard."""

    thresholds: NDArray[np.uint64]  # the largest key of a candidate of each word, [V]
    held_out_from: np.uint64  # sentences with this key or a larger one are held out
    min_words: int  # or pieces, of a candidate


def key_thresholds(counts: NDArray[np.int64], max_candidates: int) -> NDArray[np.uint64]:
    """Compute the largest key in each word's random sample of sentences, [V]. As keys are hashes,
    about `max_candidates` and five standard deviations more lie under it; somewhat fewer if the
    word often occurs twice in a sentence, since the counts [V] are of occurrences."""
    every = np.iinfo(np.uint64).max
    # The number of n keys that lie under a share p of all is binomial, with a standard deviation of
    # at most sqrt(n p). With five on top, about one word in a million gets too small a sample.
    wanted = max_candidates + 5 * np.sqrt(max_candidates)
    # Below 1 even for smaller counts, so that the conversion below never overflows; float64 rounds
    # a threshold by at most 2^-53 of itself, equally on every machine.
    shares = wanted / np.maximum(counts, wanted + 1)
    return np.where(counts <= wanted, every, (shares * 2.0**64).astype(np.uint64))


def _most_pairs(counts: NDArray[np.int64], max_candidates: int) -> NDArray[np.float64]:
    """Bound the number of sentences under each word's threshold, [V]."""
    most: NDArray[np.float64] = np.minimum(counts, max_candidates + 10 * np.sqrt(max_candidates))
    return most


def word_ranges(
    counts: NDArray[np.int64], max_candidates: int, max_pairs: int = PAIRS_PER_RANGE
) -> NDArray[np.int64]:
    """Divide words [V] into ranges to merge at a time: the first token id of each, and the end."""
    last = np.cumsum(_most_pairs(counts, max_candidates))
    starts = np.flatnonzero(np.diff(last // max_pairs, prepend=-1))
    return np.append(starts, len(counts)) + len(SPECIAL_TOKENS)


def find_candidates(
    texts: pa.Array,
    keys: NDArray[np.uint64],
    first_sentence: int,
    finder: WordFinder,
    plan: CandidatePlan,
) -> Pairs:
    """Summarise the sentences [S] of one shard: its candidate pairs, sorted by word."""
    words, lengths, n_words = finder(texts)
    usable = (n_words >= plan.min_words) & (keys < plan.held_out_from)
    rows = words.row_of_value
    chosen = usable[rows] & (keys[rows] <= plan.thresholds[words.values - len(SPECIAL_TOKENS)])
    # One pair for each word of a sentence, however often it occurs: (word, row) as one number,
    # sorted, without repetitions. So pairs are ordered by word, as merging needs them.
    distinct = np.sort(words.values[chosen].astype(np.int64) * len(keys) + rows[chosen])
    distinct = distinct[np.flatnonzero(np.diff(distinct, prepend=-1))]
    word, rows = np.divmod(distinct, max(len(keys), 1))
    return Pairs(
        word=word.astype(np.int32),
        sentence=rows + first_sentence,
        length=lengths[rows].astype(np.int32),
        key=keys[rows],
    )


def candidates(
    shards: Shards,
    folder: Path,
    vocabulary: Path,
    *,
    plan: CandidatePlan,
    bounds: NDArray[np.int64],
    max_candidates: int,
) -> AbstractContextManager[list[Path]]:
    """Find all candidates: a file for each range of `word_ranges`, for `Pairs.read`."""
    sources = list(zip(shards.files, shards.first[:-1].tolist(), strict=True))
    return merged_by_range(
        folder,
        "candidates",
        sources,
        n_ranges=len(bounds) - 1,
        split=functools.partial(_find_in_shard, vocabulary=vocabulary, plan=plan, bounds=bounds),
        merge=functools.partial(_merge_range, max_candidates=max_candidates),
        engine=shards.engine,
    )


def _find_in_shard(
    task: Task[tuple[Path, int]], vocabulary: Path, plan: CandidatePlan, bounds: NDArray[np.int64]
) -> int:
    """Write the candidates of a shard by range of words; count its sentences."""
    shard, first = task.source
    table = read_arrow(shard)
    texts, keys = table["text"].combine_chunks(), table["key"].to_numpy()
    pairs = find_candidates(texts, keys, first, load_finder(vocabulary), plan)
    write_parts(task.file, pa.table(pairs._asdict()), np.searchsorted(pairs.word, bounds))
    return len(table)


def _merge_range(task: Task[int], files: Sequence[Path], max_candidates: int) -> None:
    table = pa.concat_tables(read_parts(files, task.source))
    pairs = order_candidates(Pairs(*(c.to_numpy() for c in table.columns)), max_candidates)
    metadata = {_N_CANDIDATES: str(len(table))}
    write_arrow(task.file, pa.table(pairs._asdict()).replace_schema_metadata(metadata))


def order_candidates(pairs: Pairs, max_candidates: int) -> Pairs:
    """Keep each word's candidates with the smallest keys, sorted by word, length and key."""
    pairs = pairs.take(np.argsort(pairs.word, kind="stable"))
    order = [np.empty(0, np.int64)]
    for start, stop in pairs.runs():
        rows = np.arange(start, stop)
        # The threshold let in a few more; those with the smallest keys are again a random sample.
        if len(rows) > max_candidates:
            rows = start + np.argpartition(pairs.key[start:stop], max_candidates)[:max_candidates]
        # Equal lengths by key, which is unique, so that the order of the corpus does not matter.
        order.append(rows[np.lexsort((pairs.key[rows], pairs.length[rows]))])
    return pairs.take(np.concatenate(order))


# -- choosing ----------------------------------------------------------------------------


def select(ranges: Iterable[Pairs], config: SelectionConfig) -> Pairs:
    """Choose each word's N candidates, short and shared; ranges come with the rarest first."""
    # Rare words have few candidates; frequent words can share what they take.
    chosen: set[int] = set()
    selected: list[Pairs] = []
    for part in ranges:
        picked = [np.empty(0, np.int64)]
        for start, stop in reversed(part.runs()):  # the ids of words ascend from frequent to rare
            rows = start + _pick(part.sentence[start:stop], part.length[start:stop], chosen, config)
            chosen.update(part.sentence[rows].tolist())
            picked.append(rows)
        selected.append(part.take(np.concatenate(picked[::-1])))
    if not any(len(part.word) for part in selected):
        raise ValueError(
            f"No word stands in a sentence of at least {config.min_words} words "
            "(selection.min_words). Give more text, or lower it."
        )
    return Pairs.concatenate(selected[::-1])


def _pick(
    sentences: NDArray[np.int64],
    lengths: NDArray[np.int32],
    chosen: Collection[int],
    config: SelectionConfig,
) -> NDArray[np.int64]:
    """Pick N rows of a word's candidates [C]: sentences chosen already, then the shortest."""
    n = config.sentences_per_word
    if len(lengths) <= n:
        return np.arange(len(lengths))
    bound = config.reuse_length * lengths[n - 1]
    within = int(np.searchsorted(lengths, bound, side="right"))
    # If `reuse_length` is 1, only equally long ones are exchanged: shorter ones are taken anyway.
    sure = int(np.searchsorted(lengths, bound)) if config.reuse_length == 1 else 0
    others = enumerate(sentences[sure:within].tolist(), sure)
    preferred = islice((row for row, sentence in others if sentence in chosen), n - sure)
    first = np.fromiter(chain(range(sure), preferred), np.int64)
    shortest = np.setdiff1d(np.arange(n), first, assume_unique=True)
    return np.concatenate([first, shortest[: n - len(first)]])


def gather_selected(
    pairs: Pairs, held_out: NDArray[np.int64], shards: Shards, teacher: FastTokenizer
) -> pa.Table:
    """Collect selected and held-out sentences, for `WorkDirectory.selected`."""
    order = np.lexsort((pairs.word, pairs.sentence))
    chosen, first, counts = np.unique(pairs.sentence, return_index=True, return_counts=True)
    numbers = np.concatenate([chosen, held_out])
    offsets = offsets_of(np.concatenate([counts, np.zeros(len(held_out), dtype=np.int64)]))
    words = pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(pairs.word[order]))
    sentences = shards.read(numbers, "selected sentences")
    held_out_texts = sentences["text"][len(chosen) :].combine_chunks()
    lengths = [pairs.length[first], teacher(held_out_texts).lengths.astype(np.int32)]
    table = pa.table(
        {
            **{name: sentences[name] for name in sentences.column_names},
            "length": np.concatenate(lengths),
            "words": words,
            "held_out": np.arange(len(numbers)) >= len(chosen),
        }
    )
    return table.sort_by(READING_ORDER)


def _further_rows(texts: list[str], teacher: FastTokenizer) -> pa.Table:
    """Turn texts into rows of the table of selected sentences, chosen for no word."""
    column = pa.array(texts, pa.string())
    return pa.table(
        {
            "text": column,
            "key": pa.array(map(sentence_key, texts), pa.uint64()),
            "length": teacher(column).lengths.astype(np.int32),
            "words": pa.array([[]] * len(texts), pa.list_(pa.int32())),
            "held_out": np.zeros(len(texts), np.bool_),
        }
    )
