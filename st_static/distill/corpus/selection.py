"""Which sentences the teacher reads: for every word the N shortest, shared where possible.

The paper samples N sentences per word (section 2.1). Here a word takes its N shortest candidates,
which cost the teacher least, and words share sentences, which saves it whole passes.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.config import SelectionConfig
from st_static.distill.corpus.candidates import (
    CandidatePlan,
    Pairs,
    held_out,
    key_thresholds,
    largest_candidates,
    merge_candidates,
    read_range,
    word_ranges,
    write_candidates,
)
from st_static.distill.corpus.finders import FinderFiles, load_finder
from st_static.distill.corpus.further_texts import (
    Fits,
    PassagePlan,
    choose,
    draw_passages,
    draw_sentences,
    draw_spans,
)
from st_static.distill.corpus.sentences import sentence_key
from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Engine
from st_static.distill.stages import Figures, require_disk
from st_static.distill.work_directory import SELECTED_FILE, WorkDirectory
from st_static.files import write_table
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import offsets_of

logger = logging.getLogger(__name__)

SPAN_WORDS = [1, 5]
"""Fewest and most words of a span."""
PASSAGE_WORDS = [40, 220]
"""Fewest and most words of a passage."""

# Batches are cut from this order, and what is in a batch decides how its vectors round. The key
# keeps sentences of equal length from following the order of the corpus.
_ORDER = [("length", "ascending"), ("key", "ascending")]

CountTokens = Callable[[pa.Array], NDArray[np.int32]]


def write_selection(
    folder: Path,
    work: WorkDirectory,
    config: SelectionConfig,
    engine: Engine,
    languages: Sequence[str] = (),
    max_tokens: int | None = None,
) -> Figures:
    """The stage: choose sentences for every word of the vocabulary, and those held out.

    Args:
        folder: Where the stage's files go.
        work: The stages before: sentences and vocabulary.
        config: How they are chosen.
        engine: What runs the parts.
        languages: Tags of the corpus's languages; without any, it is English.
        max_tokens: Most tokens of a passage, without special ones; None is any number.

    Returns:
        How many candidates, pairs and sentences there are.

    Raises:
        ValueError: The corpus is too small, or the disk.
    """
    shards = Shards(work.sentence_shards(), engine)
    held_out_from, held_out_numbers = held_out(shards, config.held_out)
    ranges = _write_ranges(folder, work, shards, held_out_from, config)
    pairs = select((read_range(file)[0] for file in reversed(ranges)), config)
    count = functools.partial(_count_tokens, file=work.teacher_tokenizer_file)
    table = gather_selected(pairs, held_out_numbers, shards, count)
    further = _FurtherTexts(config, len(table) - len(held_out_numbers), count)
    fits = functools.partial(_fits, max_tokens=max_tokens, files=_finder_files(work))
    texts = {
        "further": further.sentences(shards, np.append(pairs.sentence, held_out_numbers)),
        "spans": further.spans(table, work.tokenizer),
        "passages": further.passages(shards, held_out_from, languages, fits),
    }
    write_table(folder / SELECTED_FILE, _in_order([table, *texts.values()]))
    n_candidates = sum(read_range(file)[1] for file in ranges)
    for file in ranges:
        file.unlink()
    return {
        "candidates": n_candidates,
        "pairs": len(pairs.word),
        "sentences": further.n_sentences,
        "sentences_per_pair": round(further.n_sentences / max(len(pairs.word), 1), 4),
        "naive_passes": len(work.words) * config.sentences_per_word,
        "held_out": len(held_out_numbers),
        **{name: len(rows) for name, rows in texts.items()},
    }


def _write_ranges(
    folder: Path,
    work: WorkDirectory,
    shards: Shards,
    held_out_from: np.uint64,
    config: SelectionConfig,
) -> list[Path]:
    """Leave the candidates of each range of words in a file, the most frequent words first."""
    counts, wanted = work.words["count"].to_numpy(), config.max_candidates
    # By shard, and by range.
    require_disk(folder, 2 * largest_candidates(counts, wanted), "Candidates")
    plan = CandidatePlan(key_thresholds(counts, wanted), held_out_from, config.min_words)
    ranges = word_ranges(counts, wanted)
    files = write_candidates(shards, folder, _finder_files(work), plan, ranges)
    return merge_candidates(files, folder, len(ranges) - 1, wanted, shards.engine)


def _finder_files(work: WorkDirectory) -> FinderFiles:
    return FinderFiles(work.words_file, work.tokenizer_file, work.teacher_tokenizer_file)


def _in_order(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).sort_by(_ORDER)


def _count_tokens(texts: pa.Array, file: Path) -> NDArray[np.int32]:
    """Count the tokens of texts by the tokenizer in a file."""
    return _load_tokenizer(file)(texts).lengths.astype(np.int32)


@functools.lru_cache(maxsize=1)
def _load_tokenizer(file: Path) -> FastTokenizer:
    return FastTokenizer(Tokenizer.from_file(str(file)))


def _fits(texts: pa.Array, max_tokens: int | None, files: FinderFiles) -> NDArray[np.bool_]:
    """Which texts the teacher reads to their end."""
    if max_tokens is None:
        return np.ones(len(texts), np.bool_)
    # Workers that found candidates have this one loaded.
    return load_finder(files).teacher(texts).lengths <= max_tokens


class _FurtherTexts:
    """Texts as rows of the table of selected sentences, chosen for no word."""

    def __init__(self, config: SelectionConfig, n_sentences: int, count: CountTokens) -> None:
        self.config, self.n_sentences, self.count = config, n_sentences, count

    def sentences(self, shards: Shards, taken: NDArray[np.int64]) -> pa.Table:
        """Sentences of the corpus that are neither selected nor held out: `taken`, by number."""
        n = round(self.config.further * self.n_sentences)
        if not n:
            return self._rows([])
        numbers = draw_sentences(shards, np.unique(taken), n)
        _warn_of_few("further", len(numbers), n, "other sentences in the corpus")
        return self._rows(shards.read(numbers, "further sentences")["text"].to_pylist())

    def spans(self, selected: pa.Table, tokenizer: Tokenizer) -> pa.Table:
        """Spans of the selected sentences that are not held out."""
        n = round(self.config.spans * self.n_sentences)
        if not n:
            return self._rows([])
        texts = selected.filter(pc.invert(selected["held_out"]))["text"].to_pylist()
        spans = draw_spans(texts, n, SPAN_WORDS, tokenizer)
        _warn_of_few("spans", len(spans), n, "different ones in as many sentences")
        return self._rows(spans)

    def passages(
        self, shards: Shards, held_out_from: np.uint64, languages: Sequence[str], fits: Fits
    ) -> pa.Table:
        """Passages of the corpus that the teacher reads to their end."""
        n = round(self.config.passages * self.n_sentences)
        plan = PassagePlan(PASSAGE_WORDS, held_out_from, languages, fits)
        passages = choose(draw_passages(shards, n, plan), n)
        low, high = PASSAGE_WORDS
        reason = f"of {low} to {high} words that the teacher reads to their end"
        _warn_of_few("passages", len(passages), n, reason)
        return self._rows(passages)

    def _rows(self, texts: list[str]) -> pa.Table:
        column = pa.array(texts, pa.string())
        return pa.table(
            [
                column,
                pa.array(np.fromiter(map(sentence_key, texts), np.uint64, len(texts))),
                pa.array(self.count(column)),
                pa.array([[]] * len(texts), pa.list_(pa.int32())),
                pa.array(np.zeros(len(texts), dtype=np.bool_)),
            ],
            names=["text", "key", "length", "words", "held_out"],
        )


def _warn_of_few(name: str, found: int, wanted: int, kind: str) -> None:
    """Warn if not half of the texts that a recipe wants are there; a few are always missing."""
    if 2 * found < wanted:
        logger.warning(
            "selection.%s asks for %s, but there are only %s %s. The model learns less of such "
            "texts than the recipe says: give more text, or change the option.",
            name,
            f"{wanted:,}",
            f"{found:,}",
            kind,
        )


def select(ranges: Iterable[Pairs], config: SelectionConfig) -> Pairs:
    """Choose for every word at most N candidates, the shortest first, sharing sentences.

    Words are served from the rarest to the most frequent. A sentence that is already chosen is
    preferred, as long as it is at most `reuse_length` times as long as the word's N-th shortest
    candidate; the rest are the shortest.

    Args:
        ranges: Candidates by range of words, the rarest words first; within a range as
            `order_candidates` leaves them.
        config: N, and the bound on reused sentences.

    Returns:
        The selected pairs, sorted by word and, within a word, as chosen.
    """
    # Rare words have few candidates to choose from; what they take, frequent words can share.
    chosen: set[int] = set()
    selected: list[Pairs] = []
    for part in ranges:
        picked = [np.empty(0, np.int64)]
        for start, stop in reversed(part.runs()):
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
    """Which of its candidates a word takes.

    Args:
        sentences: Their numbers, the shortest first, [C].
        lengths: Their lengths, [C].
        chosen: The sentences that other words have chosen.
        config: N, and the bound on reused sentences.
    """
    n = config.sentences_per_word
    if len(lengths) <= n:
        return np.arange(len(lengths))
    bound = config.reuse_length * lengths[n - 1]
    within = int(np.searchsorted(lengths, bound, side="right"))
    # With 1, only equals may take each other's place: the shorter ones are taken in any case.
    sure = int(np.searchsorted(lengths, bound)) if config.reuse_length == 1 else 0
    others = enumerate(sentences[sure:within].tolist(), sure)
    preferred = islice((row for row, sentence in others if sentence in chosen), n - sure)
    first = np.fromiter(chain(range(sure), preferred), np.int64)
    rest = np.setdiff1d(np.arange(n), first, assume_unique=True)
    return np.concatenate([first, rest[: n - len(first)]])


def gather_selected(
    pairs: Pairs,
    held_out: NDArray[np.int64],
    shards: Shards,
    count_tokens: CountTokens,
) -> pa.Table:
    """Collect the selected and the held-out sentences, sorted by length.

    Args:
        pairs: The selected pairs.
        held_out: Numbers of the held-out sentences.
        shards: All sentences.
        count_tokens: Counts the teacher tokens of texts.

    Returns:
        Columns `text`, `key`, `length` (teacher tokens, without special ones), `words` (token
        ids of the words that it was selected for) and `held_out`; sorted by `length`, then `key`.
    """
    order = np.lexsort((pairs.word, pairs.sentence))
    chosen, first, counts = np.unique(pairs.sentence, return_index=True, return_counts=True)
    numbers = np.concatenate([chosen, held_out])
    offsets = offsets_of(np.concatenate([counts, np.zeros(len(held_out), dtype=np.int64)]))
    words = pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(pairs.word[order]))
    sentences = shards.read(numbers, "selected sentences")
    held_out_lengths = count_tokens(sentences["text"][len(chosen) :].combine_chunks())
    table = pa.table(
        {
            **{name: sentences[name] for name in sentences.column_names},
            "length": np.concatenate([pairs.length[first], held_out_lengths]),
            "words": words,
            "held_out": np.arange(len(numbers)) >= len(chosen),
        }
    )
    return _in_order([table])
