"""Which sentences the teacher reads: for every word the N shortest, shared where possible.

The paper samples N sentences per word (section 2.1). Here a word takes its N shortest candidates,
which cost the teacher least, and words share sentences, which saves it whole passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.corpus.candidates import (
    CandidatePlan,
    FinderFiles,
    Pairs,
    held_out_threshold,
    key_thresholds,
    largest_candidates,
    write_candidates,
)
from st_static.distill.corpus.config import SelectionConfig
from st_static.distill.corpus.further_texts import (
    choose,
    draw_passages,
    draw_sentences,
    draw_spans,
)
from st_static.distill.corpus.sentences import sentence_key
from st_static.distill.engines import Engine
from st_static.distill.stages import Figures, require_disk
from st_static.distill.work_directory import SELECTED_FILE, WorkDirectory
from st_static.files import read_table, write_table
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.ragged import offsets_of

logger = logging.getLogger(__name__)

# Pairs that one merge holds in memory, at 24 bytes each and about as much again for sorting.
PAIRS_IN_MEMORY = 20_000_000
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
    shards = work.sentence_shards()
    counts = work.words["count"].to_numpy()
    keys = np.concatenate([read_table(path)["key"].to_numpy() for path in shards])
    plan = _plan(counts, keys, config)
    require_disk(folder, largest_candidates(counts, config.max_candidates), "Candidates")
    candidates = write_candidates(shards, folder, _finder_files(work), plan, engine)
    pairs = select(by_word_range(candidates), len(keys), config)
    held_out = np.flatnonzero(keys >= plan.held_out_from)
    count = _token_counter(work.teacher_tokenizer_file)
    table = gather_selected(pairs, held_out, shards, count)
    further = _FurtherTexts(config, len(table) - len(held_out), count)
    texts = {
        "further": further.sentences(shards, keys, np.append(pairs.sentence, held_out)),
        "spans": further.spans(table, work.tokenizer),
        "passages": further.passages(shards, plan.held_out_from, languages, max_tokens),
    }
    write_table(folder / SELECTED_FILE, _in_order([table, *texts.values()]))
    return {
        "candidates": sum(len(part.word) for part in candidates),
        "pairs": len(pairs.word),
        "sentences": further.n_sentences,
        "sentences_per_pair": round(further.n_sentences / max(len(pairs.word), 1), 4),
        "naive_passes": len(counts) * config.sentences_per_word,
        "held_out": len(held_out),
        **{name: len(rows) for name, rows in texts.items()},
    }


def _finder_files(work: WorkDirectory) -> FinderFiles:
    return FinderFiles(work.words_file, work.tokenizer_file, work.teacher_tokenizer_file)


def _in_order(tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).sort_by(_ORDER)


def _plan(
    counts: NDArray[np.int64], keys: NDArray[np.uint64], config: SelectionConfig
) -> CandidatePlan:
    """Which sentences are candidates, of words with these counts and sentences with these keys."""
    return CandidatePlan(
        thresholds=key_thresholds(counts, config.max_candidates),
        held_out_from=held_out_threshold(keys, config.held_out),
        min_words=config.min_words,
    )


def _token_counter(file: Path) -> CountTokens:
    """Counts the tokens of texts by the tokenizer in a file."""
    tokenize = ChunkTokenizer(Tokenizer.from_file(str(file)))
    return lambda texts: tokenize(texts).lengths.astype(np.int32)


class _FurtherTexts:
    """Texts as rows of the table of selected sentences, chosen for no word."""

    def __init__(self, config: SelectionConfig, n_sentences: int, count: CountTokens) -> None:
        self.config, self.n_sentences, self.count = config, n_sentences, count

    def sentences(
        self, shards: Sequence[Path], keys: NDArray[np.uint64], taken: NDArray[np.int64]
    ) -> pa.Table:
        """Sentences of the corpus that are neither selected nor held out: `taken`, by number."""
        n = round(self.config.further * self.n_sentences)
        if not n:
            return self._rows([])
        numbers = draw_sentences(keys, taken, n)
        _warn_of_few("further", len(numbers), n, "other sentences in the corpus")
        return self._rows(_read_sentences(shards, numbers)["text"].to_pylist())

    def spans(self, selected: pa.Table, tokenizer: Tokenizer) -> pa.Table:
        """Spans of the selected sentences that are not held out."""
        n = round(self.config.spans * self.n_sentences)
        if not n:
            return self._rows([])
        texts = selected.filter(pc.invert(selected["held_out"]))["text"].to_pylist()
        spans = draw_spans(texts, n, self.config.span_words, tokenizer)
        _warn_of_few("spans", len(spans), n, "different ones in as many sentences")
        return self._rows(spans)

    def passages(
        self,
        shards: Sequence[Path],
        held_out_from: np.uint64,
        languages: Sequence[str],
        max_tokens: int | None,
    ) -> pa.Table:
        """Passages of the corpus that the teacher reads to their end."""
        n, words = round(self.config.passages * self.n_sentences), self.config.passage_words
        drawn = list(draw_passages(shards, n, words, held_out_from, languages))
        if max_tokens is not None and drawn:
            fits = self.count(pa.array(drawn, pa.string())) <= max_tokens
            drawn = [text for text, fit in zip(drawn, fits, strict=True) if fit]
        passages = choose(drawn, n)
        reason = "of selection.passage_words that the teacher reads to their end"
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


def by_word_range(partials: Sequence[Pairs], max_pairs: int = PAIRS_IN_MEMORY) -> Iterator[Pairs]:
    """Merge summaries, a range of words at a time, the rarest words (largest ids) first.

    Args:
        partials: Summaries, each sorted by word.
        max_pairs: About how many pairs to hold at a time.
    """
    # All of a word's candidates must be in one range, but those of all words may not fit into
    # memory. Counted from the largest id down, a range ends after about `max_pairs` candidates.
    n_words = 1 + max((int(p.word[-1]) for p in partials if len(p.word)), default=-1)
    per_word = sum((np.bincount(p.word, minlength=n_words) for p in partials), np.zeros(n_words))
    range_of_word = (np.cumsum(per_word[::-1])[::-1] // max_pairs).astype(np.int64)
    edges = np.flatnonzero(np.diff(range_of_word, prepend=-1, append=-1))
    for low, high in zip(edges[-2::-1], edges[:0:-1], strict=True):
        yield Pairs.concatenate(
            p.take(slice(*np.searchsorted(p.word, [low, high]))) for p in partials
        )


def select(pairs: Iterable[Pairs], n_sentences: int, config: SelectionConfig) -> Pairs:
    """Choose for every word at most N candidates, the shortest first, sharing sentences.

    Words are served from the rarest to the most frequent. A sentence that is already chosen is
    preferred, as long as it is at most `reuse_length` times as long as the word's N-th shortest
    candidate; the rest are the shortest.

    Args:
        pairs: Candidates by word range, the rarest words first.
        n_sentences: Sentences in the corpus.
        config: N, the size of the sample, and the bound on reused sentences.

    Returns:
        The selected pairs, sorted by word and, within a word, as chosen.
    """
    # Rare words have few candidates to choose from; what they take, frequent words can share.
    chosen = np.zeros(n_sentences, dtype=np.bool_)
    selected: list[Pairs] = []
    for part in pairs:
        part = part.take(np.argsort(part.word, kind="stable"))
        starts = np.flatnonzero(np.diff(part.word, prepend=-1))
        stops = np.append(starts[1:], len(part.word))
        for start, stop in zip(starts[::-1], stops[::-1], strict=True):
            picked = _pick(part.take(slice(start, stop)), chosen, config)
            chosen[picked.sentence] = True
            selected.append(picked)
    if not selected:
        raise ValueError(
            f"No word stands in a sentence of at least {config.min_words} words "
            "(selection.min_words). Give more text, or lower it."
        )
    return Pairs.concatenate(selected[::-1])


def _pick(candidates: Pairs, chosen: NDArray[np.bool_], config: SelectionConfig) -> Pairs:
    """The sentences that one word takes of its candidates."""
    n = config.sentences_per_word
    # The threshold let in a few more; those with the smallest keys are again a fair sample.
    if len(candidates.key) > config.max_candidates:
        smallest = np.argpartition(candidates.key, config.max_candidates)
        candidates = candidates.take(smallest[: config.max_candidates])
    # By length; equals by key, which no two sentences share, so that the order of the corpus does
    # not decide.
    candidates = candidates.take(np.lexsort((candidates.key, candidates.length)))
    if len(candidates.length) <= n:
        return candidates
    bound = config.reuse_length * candidates.length[n - 1]
    preferred = chosen[candidates.sentence] & (candidates.length <= bound)
    if config.reuse_length == 1:
        preferred |= candidates.length < bound  # only equals may take each other's place
    first = np.flatnonzero(preferred)[:n]
    rest = np.flatnonzero(~preferred)[: n - len(first)]
    return candidates.take(np.concatenate([first, rest]))


def gather_selected(
    pairs: Pairs,
    held_out: NDArray[np.int64],
    shards: Sequence[Path],
    count_tokens: CountTokens,
) -> pa.Table:
    """Collect the selected and the held-out sentences, sorted by length.

    Args:
        pairs: The selected pairs.
        held_out: Numbers of the held-out sentences.
        shards: The sentence shards.
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
    sentences = _read_sentences(shards, numbers)
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


def _read_sentences(shards: Sequence[Path], numbers: NDArray[np.int64]) -> pa.Table:
    """Read the sentences with the given numbers, in that order."""
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    parts, first = [], 0
    for shard in shards:
        table = read_table(shard)
        low, high = np.searchsorted(ascending, [first, first + len(table)])
        parts.append(table.take(ascending[low:high] - first))
        first += len(table)
    return pa.concat_tables(parts).take(np.argsort(order, kind="stable"))
