"""Which sentences the teacher reads: invariants, against slow references in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_files import Stopped, stop_after, write_shards
from telling import Telling
from tokenizers import Tokenizer

from st_static.distill.config import SelectionConfig
from st_static.distill.corpus import selection
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.selection import (
    CandidatePlan,
    Pairs,
    WordFinder,
    candidates,
    find_candidates,
    gather_selected,
    held_out,
    key_thresholds,
    order_candidates,
    select,
    word_ranges,
    write_selection,
)
from st_static.distill.corpus.sentences import sentence_key, split_sentences
from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Processes
from st_static.distill.stages import WorkDirectory
from st_static.files import write_arrow, write_json
from st_static.model.tokenizer import SPECIAL_TOKENS, build_tokenizer, is_punctuation, split_words

N_WORDS = 250
CANDIDATES = 40  # of a word at most
SPLITTER = build_tokenizer([])


@dataclass
class Setting:
    """A corpus with its tokenizers; word i of `words` has the token id 2 + i."""

    sentences: list[str]
    words: list[str]
    counts: np.ndarray
    tokenizer: Tokenizer
    teacher: Tokenizer

    @cached_property
    def finder(self):
        return WordFinder(build_tokenizer(self.words), self.teacher)

    @cached_property
    def rows(self):
        """Each sentence as the tokenizers' own methods see it, one at a time."""
        return [
            Row(
                sentence_key(text),
                frozenset(split_words(SPLITTER, text)),
                len(self.teacher.encode(text, add_special_tokens=False).ids),
                len(text.split()),
            )
            for text in self.sentences
        ]

    def plan(self, config):
        keys = np.array([row.key for row in self.rows], np.uint64)
        return CandidatePlan(
            key_thresholds(self.counts, CANDIDATES),
            np.sort(keys)[-config.held_out],
            config.min_words,
        )


class Row(NamedTuple):
    """A sentence: its key, its distinct words, the teacher's tokens, words by white space."""

    key: int
    words: frozenset[str]
    length: int
    n_words: int


@pytest.fixture(scope="module")
def setting(minilm_tokenizer):
    """Some 1,500 sentences of documentation and the 250 most frequent words of it."""
    documents = read_docstrings(["json", "logging", "argparse", "asyncio"])
    sentences = sorted({s.lower(): s for s in split_sentences(documents)}.values())
    counts = Counter(word for text in sentences for word in split_words(SPLITTER, text))
    words = [word for word, _ in counts.most_common() if not is_punctuation(word)][:N_WORDS]
    letters = sorted(set("".join(counts)))
    pieces = [*letters, *(f"##{letter}" for letter in letters), "##s", "##ing"]
    return Setting(
        sentences,
        words,
        np.array([counts[word] for word in words]),
        build_tokenizer(words, pieces),
        minilm_tokenizer,
    )


def merged(partials, ranges, config):
    """The candidates of each range of words, the rarest words first."""
    for low, high in reversed(list(pairwise(ranges.tolist()))):
        parts = [p.take((p.word >= low) & (p.word < high)) for p in partials]
        yield order_candidates(Pairs.concatenate(parts), CANDIDATES)


def summarise(setting, shards, plan):
    partials, first = [], 0
    for texts in shards:
        keys = np.array([sentence_key(text) for text in texts], np.uint64)
        texts = pa.array(texts, pa.string())
        partials.append(find_candidates(texts, keys, first, setting.finder, plan))
        first += len(texts)
    return partials


def select_all(setting, config, shards=(), **options):
    """The keys of the sentences that each word selects, in the order of choice."""
    partials = summarise(setting, shards or [setting.sentences], setting.plan(config))
    ranges = word_ranges(setting.counts, CANDIDATES, **options)
    pairs = select(merged(partials, ranges, config), config)
    selected = defaultdict(list)
    for word, key in zip(pairs.word, pairs.key.tolist(), strict=True):
        selected[setting.words[word - len(SPECIAL_TOKENS)]].append(key)
    return selected


def slow_candidates(setting, config):
    """Each word's candidates, the shortest first."""
    plan = setting.plan(config)
    result = {}
    for word, threshold in zip(setting.words, plan.thresholds.tolist(), strict=True):
        found = [
            row
            for row in setting.rows
            if word in row.words
            and row.n_words >= config.min_words
            and row.key < plan.held_out_from
            and row.key <= threshold
        ]
        sample = sorted(found, key=lambda row: row.key)[:CANDIDATES]
        result[word] = sorted(sample, key=lambda row: (row.length, row.key))
    return result


def slow_selection(setting, config):
    """The selection as the docstring describes it: rare words first, chosen sentences preferred."""
    candidates, n = slow_candidates(setting, config), config.sentences_per_word
    chosen: set[int] = set()
    result = {}
    for word in reversed(setting.words):
        mine = candidates[word]
        if len(mine) > n:
            bound = config.reuse_length * mine[n - 1].length
            reused = [row for row in mine if row.key in chosen and row.length <= bound][:n]
            new = [row for row in mine if row.key not in chosen]
            mine = reused + new[: n - len(reused)]
        result[word] = {row.key for row in mine}
        chosen |= result[word]
    return result


CONFIGS = [
    SelectionConfig(sentences_per_word=5, held_out=50),
    SelectionConfig(sentences_per_word=5, held_out=50, reuse_length=1.0),
    SelectionConfig(sentences_per_word=20, held_out=2, min_words=8),
    SelectionConfig(sentences_per_word=1, held_out=50, reuse_length=3.0),
]


# -- finding words ---------------------------------------------------------------------


def test_words_are_found_whole_and_only_whole(setting):
    words, _, _ = setting.finder(pa.array(setting.sentences))
    vocabulary = set(setting.words)
    for row, text in enumerate(setting.sentences):
        ids = words.values[words.offsets[row] : words.offsets[row + 1]]
        expected = [word for word in split_words(SPLITTER, text) if word in vocabulary]
        assert [setting.words[i - len(SPECIAL_TOKENS)] for i in ids] == expected


@given(st.lists(st.text("ab .'éÄ", max_size=12), max_size=4))
def test_pieces_of_longer_words_are_not_found(texts):
    words = ["ab", "a", "aab", "e"]
    tokenizer = build_tokenizer(words, ["b", "##a", "##b", "##e", "##ab"])
    found, _, _ = WordFinder(build_tokenizer(words), tokenizer)(pa.array(texts, pa.string()))
    expected = [[w for w in split_words(SPLITTER, text) if w in words] for text in texts]
    assert [words[i - len(SPECIAL_TOKENS)] for i in found.values] == [
        word for row in expected for word in row
    ]
    assert found.lengths.tolist() == [len(row) for row in expected]


@pytest.mark.parametrize("family", ["wordpiece", "unigram", "byte_level"])
def test_lengths_are_the_teachers_own_tokens(setting, family, tokenizers_by_family, sentences):
    teacher = tokenizers_by_family[family]
    finder = WordFinder(build_tokenizer(setting.words), teacher)
    texts = [*sentences, *setting.sentences[:200]]
    _, lengths, n_words = finder(pa.array(texts))
    expected = [len(teacher.encode(text, add_special_tokens=False).ids) for text in texts]
    assert lengths.tolist() == expected
    assert n_words.tolist() == [len(text.split()) for text in texts]


# -- candidates ------------------------------------------------------------------------


def test_the_sample_of_a_frequent_word_is_fair():
    """A few more than `max_candidates`, from the whole corpus and not from its beginning."""
    texts = [f"Sentence number {number} of many" for number in range(20_000)]
    keys = np.array([sentence_key(text) for text in texts], np.uint64)
    tokenizer = build_tokenizer(["of", "many"])
    thresholds = key_thresholds(np.array([20_000, 20_000]), 1000)
    plan = CandidatePlan(thresholds, np.uint64(2**64 - 1), min_words=4)
    finder = WordFinder(tokenizer, tokenizer)
    pairs = find_candidates(pa.array(texts), keys, 0, finder, plan)
    sample = pairs.take(pairs.word == len(SPECIAL_TOKENS))
    # Five standard deviations of a fair draw, which make it improbable to have too few.
    assert 1000 <= len(sample.word) <= 1000 + 10 * 34
    assert sample.sentence.mean() == pytest.approx(10_000, abs=5 * 183)
    assert sample.key.max() <= plan.thresholds[0] < 2**64 // 17


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=20), st.integers(1, 5000))
def test_thresholds_let_through_the_share_that_is_wanted(counts, wanted):
    thresholds = key_thresholds(np.array(counts), wanted)
    assert thresholds.dtype == np.uint64
    for count, threshold in zip(counts, thresholds.tolist(), strict=True):
        expected = wanted + 5 * wanted**0.5
        if count <= expected:
            assert threshold == 2**64 - 1
        else:
            assert threshold / 2**64 * count == pytest.approx(expected)


@given(
    st.sets(st.integers(0, 2**64 - 1), min_size=4, max_size=40),
    st.integers(2, 20),
    st.integers(1, 5),
)
@settings(deadline=None)
def test_the_sentences_with_the_largest_keys_are_held_out(keys, n, n_shards):
    every = list(keys)
    cut = np.linspace(0, len(every), n_shards + 1).astype(int).tolist()
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.arrow" for number in range(n_shards)]
        for file, (start, stop) in zip(files, pairwise(cut), strict=True):
            write_arrow(file, pa.table({"key": pa.array(every[start:stop], pa.uint64())}))
        shards = Shards(files, Processes(1))
        if 2 * n > len(keys):
            says = f"at least {2 * n} sentences, but it has {len(keys)}"
            with pytest.raises(ValueError, match=says):
                held_out(shards, n)
        else:
            threshold, numbers = held_out(shards, n)
            largest = set(sorted(keys)[-n:])
            assert {key for key in keys if key >= threshold} == largest
            assert numbers.tolist() == [i for i, key in enumerate(every) if key in largest]


# -- selection -------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS)
def test_a_word_takes_n_sentences_that_are_short_enough_or_all_there_are(setting, config):
    selected, candidates = select_all(setting, config), slow_candidates(setting, config)
    rows, n = {row.key: row for row in setting.rows}, config.sentences_per_word
    assert any(len(found) > n for found in candidates.values())
    for word in setting.words:
        keys, possible = selected[word], {row.key for row in candidates[word]}
        assert len(set(keys)) == len(keys) == min(n, len(possible))
        assert set(keys) <= possible
        shortest = max((row.length for row in candidates[word][:n]), default=0)
        assert all(rows[key].length <= config.reuse_length * shortest for key in keys)
    chosen = set().union(*selected.values())
    assert chosen.isdisjoint(sorted(rows)[-config.held_out :])
    assert min(rows[key].n_words for key in chosen) >= config.min_words


def test_without_reuse_of_longer_ones_a_word_takes_its_shortest(setting):
    config = SelectionConfig(5, held_out=50, reuse_length=1.0)
    selected, candidates = select_all(setting, config), slow_candidates(setting, config)
    length_of = {row.key: row.length for row in setting.rows}
    for word, found in candidates.items():
        lengths = sorted(length_of[key] for key in selected[word])
        assert lengths == [row.length for row in found[:5]], word


@pytest.mark.parametrize("config", [c for c in CONFIGS if c.reuse_length > 1])
def test_selection_equals_a_slow_one(setting, config):
    selected = {word: set(keys) for word, keys in select_all(setting, config).items()}
    slow = slow_selection(setting, config)
    assert selected == {word: keys for word, keys in slow.items() if keys}


def test_reuse_saves_sentences(setting):
    def distinct(reuse_length):
        config = SelectionConfig(10, held_out=50, reuse_length=reuse_length)
        return len(set().union(*select_all(setting, config).values()))

    assert distinct(3.0) < distinct(2.0) < distinct(1.0)


# -- the cut into shards ---------------------------------------------------------------


def cuts(sentences):
    """A corpus cut three ways, one of them with an empty shard and in another order."""
    return [
        [sentences],
        [sentences[start : start + 100] for start in range(0, len(sentences), 100)],
        [sentences[4::7], [], *(sentences[start::7][::-1] for start in (6, 0, 3, 5, 1, 2))],
    ]


def test_the_cut_makes_no_difference_to_what_the_teacher_reads(setting, tmp_path):
    whole, *others = (
        gather(setting, shards, tmp_path / str(number))
        for number, shards in enumerate(cuts(setting.sentences))
    )
    for other in others:
        assert other.to_pydict() == whole.to_pydict()


@pytest.mark.parametrize("max_pairs", [1, 10, 1000])
def test_merging_by_ranges_of_words_gives_what_one_range_gives(setting, max_pairs):
    shards = cuts(setting.sentences)[2]
    assert len(word_ranges(setting.counts, CANDIDATES)) == 2
    split = select_all(setting, CONFIGS[0], shards, max_pairs=max_pairs)
    assert split == select_all(setting, CONFIGS[0], shards)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.integers(1, 200))
def test_ranges_hold_each_word_once_and_not_many_pairs(counts, max_pairs):
    ranges = word_ranges(np.array(counts), 9, max_pairs).tolist()
    assert ranges[0] == len(SPECIAL_TOKENS)
    assert ranges[-1] == len(SPECIAL_TOKENS) + len(counts)
    largest = [min(count, 9 + 10 * 3) for count in counts]
    for low, high in pairwise(ranges):
        assert low < high
        pairs = largest[low - len(SPECIAL_TOKENS) : high - len(SPECIAL_TOKENS)]
        assert sum(pairs[1:]) <= max_pairs
        if high < ranges[-1]:  # a range ends where one more would be too many, or a word is
            assert sum(largest[: high - len(SPECIAL_TOKENS) + 1]) >= max_pairs


# -- files -----------------------------------------------------------------------------

CONFIG = SelectionConfig(sentences_per_word=4, held_out=40)


def write_files(setting, shards, folder):
    """The sentence shards, the vocabulary and the teacher's tokenizer."""
    folder.mkdir()
    words = {"text": pa.array(setting.words), "count": setting.counts}
    write_arrow(folder / "words.arrow", pa.table(words))
    build_tokenizer(setting.words).save(str(folder / "tokenizer.json"))
    setting.teacher.save(str(folder / "teacher_tokenizer.json"))
    return write_shards(folder, shards)


@contextmanager
def candidate_files(
    setting: Setting, files: Sequence[Path], engine: Processes
) -> Iterator[tuple[Shards, list[Path], dict[str, bytes]]]:
    """All sentences, the merged files, and the bytes of all files of candidates."""
    folder, shards = files[0].parent, Shards(files, engine)
    ranges = word_ranges(setting.counts, CANDIDATES, max_pairs=3000)
    assert len(ranges) > 3
    plan = setting.plan(CONFIG)
    limits = {"plan": plan, "bounds": ranges, "max_candidates": CANDIDATES}
    with candidates(shards, folder, folder, **limits) as merged:
        bytes_of = {file.name: file.read_bytes() for file in folder.glob("candidates-*")}
        assert len(bytes_of) == len(files) + len(ranges) - 1
        yield shards, merged, bytes_of
    assert not list(folder.glob("candidates-*"))


def gather(setting: Setting, texts: Sequence[list[str]], folder: Path) -> pa.Table:
    files = write_files(setting, texts, folder)
    with candidate_files(setting, files, Processes(1)) as (shards, ranges, _):
        pairs = select((Pairs.read(file) for file in reversed(ranges)), CONFIG)
        _, numbers = held_out(shards, CONFIG.held_out)
        return gather_selected(pairs, numbers, shards, setting.finder.teacher)


def test_the_merged_files_hold_the_candidates_of_all_shards(setting, tmp_path):
    files = write_files(setting, cuts(setting.sentences)[2], tmp_path / "run")
    with candidate_files(setting, files, Processes(1)) as (_, merged, _):
        pairs = Pairs.concatenate(map(Pairs.read, merged))
    rows = list(zip(pairs.word.tolist(), pairs.length.tolist(), pairs.key.tolist(), strict=True))
    expected = [
        (word, row.length, row.key)
        for word, mine in enumerate(slow_candidates(setting, CONFIG).values(), len(SPECIAL_TOKENS))
        for row in mine
    ]
    assert rows == expected


def test_bars_tell_the_sentences_that_are_looked_at(setting, tmp_path, told):
    files = write_files(setting, cuts(setting.sentences)[2], tmp_path / "run")
    with candidate_files(setting, files, Processes(1)):
        assert told == {"candidates": f"{len(setting.sentences):,} sentences/s"}


def test_errors_name_the_file_that_a_worker_was_to_write(setting, tmp_path):
    files = write_files(setting, cuts(setting.sentences)[2], tmp_path / "run")
    engine = Telling()
    with candidate_files(setting, files, engine) as (shards, *_):
        held_out(shards, CONFIG.held_out)
    names = ["candidates-of-shard-00000", "candidates-of-range-00000", "sentences-00000"]
    assert engine.said == [str(tmp_path / f"run/{name}.arrow") for name in names]


@pytest.mark.parametrize("n_files", [1, 9, 10, 14])
def test_a_stage_that_was_stopped_records_the_figures_of_one_that_was_not(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_files: int
) -> None:
    """Stopped in any step: all candidates are counted, found before or after the stop."""
    stage = tmp_path / "sentences-a"
    files = write_files(setting, cuts(setting.sentences)[2], stage)
    write_json(stage / "blocks.json", {"files": [file.name for file in files]})
    (tmp_path / "vocabulary-a").symlink_to(stage)
    work = WorkDirectory(tmp_path, {"sentences": "a", "vocabulary": "a"})
    monkeypatch.setattr(selection.word_ranges, "__defaults__", (1000,))
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    options = CONFIG, Processes(1)
    figures = write_selection(whole, work, *options, max_candidates=CANDIDATES)
    [found] = summarise(setting, [setting.sentences], setting.plan(CONFIG))
    n_kept = sum(map(len, slow_candidates(setting, CONFIG).values()))
    assert figures["candidates"] == len(found.word) > n_kept

    with stop_after(monkeypatch, n_files) as written, pytest.raises(Stopped):
        write_selection(stopped, work, *options, max_candidates=CANDIDATES)
    assert len(written) == n_files
    assert write_selection(stopped, work, *options, max_candidates=CANDIDATES) == figures
    assert [file.name for file in stopped.iterdir()] == ["selected.arrow"]
    names = whole / "selected.arrow", stopped / "selected.arrow"
    assert len({file.read_bytes() for file in names}) == 1


def test_the_teacher_reads_selected_and_held_out_sentences_sorted_by_length(
    setting: Setting, tmp_path: Path
) -> None:
    table = gather(setting, cuts(setting.sentences)[1], tmp_path / "run")
    rows = table.to_pylist()
    assert [(r["length"], r["key"]) for r in rows] == sorted((r["length"], r["key"]) for r in rows)
    assert len({r["key"] for r in rows}) == len(rows)
    expected = defaultdict(set)
    for word, keys in select_all(setting, CONFIG).items():
        for key in keys:
            expected[key].add(word)
    for row in rows:
        assert row["key"] == sentence_key(row["text"])
        encoding = setting.teacher.encode(row["text"], add_special_tokens=False)
        assert row["length"] == len(encoding.ids)
        words = [setting.words[i - len(SPECIAL_TOKENS)] for i in row["words"]]
        assert len(words) == len(set(words))
        assert set(words) == expected.pop(row["key"], set())
        assert row["held_out"] == (not words)
    assert not expected
    assert sum(row["held_out"] for row in rows) == CONFIG.held_out
