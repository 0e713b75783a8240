"""Sentences to word counts: as the tokenizer's own steps give them, merged in any parts."""

from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentence_files import reference_counts, write_shards

from st_static.distill.corpus import word_counts
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.word_counts import (
    counted_words,
    n_ranges_of,
    word_frequencies,
)
from st_static.distill.engines import Processes
from st_static.files import read_arrow
from st_static.model.tokenizer import ENGLISH


def as_dict(counts):
    words = counts["text"].to_pylist()
    assert len(set(words)) == len(words)
    return dict(zip(words, counts["count"].to_pylist(), strict=True))


def count_files(
    folder: Path, shards: list[list[str]], n_ranges: int, workers: int = 1
) -> list[dict[str, int]]:
    """What is in each file of words."""
    files = write_shards(folder, shards)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_counts, "n_ranges_of", lambda _: n_ranges)
        with counted_words(Shards(files, Processes(workers)), folder, ENGLISH) as counts:
            found = [as_dict(read_arrow(file)) for file in counts]
    assert sorted(folder.iterdir()) == files  # nothing else is left
    return found


def test_words_are_lower_cased_and_split_from_punctuation():
    counts = word_frequencies(["The café's CAFE, the Über-cafe.", "世界 x2"])
    assert as_dict(counts) == reference_counts(["the cafe's cafe, the uber-cafe.", "世界 x2"])
    assert as_dict(counts) == {
        **{"the": 2, "cafe": 3, "'": 1, "s": 1, ",": 1, "uber": 1, "-": 1, ".": 1},
        **{"世": 1, "界": 1, "x2": 1},
    }


@settings(max_examples=200)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), max_size=20)
        | st.text(st.sampled_from("aÄ ́  \u2801\u2802\u28ff\u200b.'-世"), max_size=30),
        max_size=8,
    )
)
@example([" ".join(map(chr, range(0x2800, 0x2900))), "and words"])  # all patterns of Braille
def test_counts_equal_those_of_each_text_alone(texts):
    expected = reference_counts(texts)
    assert as_dict(word_frequencies(texts)) == expected
    array = pa.array(["before", *texts], pa.string())[1:]
    assert as_dict(word_frequencies(array)) == expected


@given(
    st.lists(st.lists(st.text("abü. ", max_size=8), max_size=4), min_size=1, max_size=5),
    st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_any_shards_and_any_ranges_give_the_counts_of_the_whole(shards, n_ranges):
    with TemporaryDirectory() as folder:
        files = count_files(Path(folder), shards, n_ranges)
    assert len(files) == n_ranges
    assert sum(map(len, files)) == len(set().union(*files))  # each word is in one file
    whole = reference_counts(text for texts in shards for text in texts)
    assert {word: n for file in files for word, n in file.items()} == whole


@pytest.mark.parametrize("step", ["_count_shard", "_merge_range"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_counting_that_was_interrupted_goes_on(tmp_path, monkeypatch, step, after):
    """In each of its steps: whole files are kept, and nothing is computed twice."""
    texts = [["b a c", "d b"], ["a b c e"], ["f f f f g h"]]
    shards = write_shards(tmp_path, texts)
    monkeypatch.setattr(word_counts, "n_ranges_of", lambda _: 3)
    calls = Counter[str]()
    for name in ("_count_shard", "_merge_range"):
        counted = partial(interrupted, getattr(word_counts, name), name, calls)
        monkeypatch.setattr(word_counts, name, counted)
    calls[step] = -1 - after
    with (
        pytest.raises(KeyboardInterrupt),
        counted_words(Shards(shards, Processes(1)), tmp_path, ENGLISH),
    ):
        pass
    times = {f: f.stat().st_mtime_ns for f in tmp_path.iterdir()}
    assert len(times) > len(shards) or not after
    with counted_words(Shards(shards, Processes(1)), tmp_path, ENGLISH) as counts:
        found = {word: n for file in counts for word, n in as_dict(read_arrow(file)).items()}
        assert times == {file: file.stat().st_mtime_ns for file in times}
    assert found == reference_counts(text for part in texts for text in part)
    assert sorted(tmp_path.iterdir()) == shards
    assert calls == {"_count_shard": 3, "_merge_range": 3} | {step: 3 - after}


def test_the_bar_tells_the_sentences_that_are_counted(tmp_path, told):
    count_files(tmp_path, [["a b", "c"], [], ["a", "d e", "f"]], 2)
    assert told == {"words": "5 sentences/s"}


def interrupted(function, name, calls, *args, **options):
    """Calls a function, and counts; from -n on, the n-th call is interrupted."""
    calls[name] += 1
    if calls[name] == 0:
        raise KeyboardInterrupt
    return function(*args, **options)


def test_ranges_depend_on_the_size_of_the_corpus(tmp_path, monkeypatch):
    shards = write_shards(tmp_path, [["a"]] * 10)
    size = Shards(shards, Processes(1)).n_bytes
    assert size == sum(shard.stat().st_size for shard in shards)
    assert n_ranges_of(size) == 1
    monkeypatch.setattr(word_counts, "_BYTES_PER_SMALL_RANGE", size / 3.5)
    assert n_ranges_of(size) == 4
    monkeypatch.setattr(word_counts, "_BYTES_PER_SMALL_RANGE", size / 100)
    assert n_ranges_of(size) == 8
    monkeypatch.setattr(word_counts, "_BYTES_PER_RANGE", size / 30.5)
    assert n_ranges_of(size) == 31


def test_counts_are_kept_where_what_is_done_with_them_fails(tmp_path):
    shards = write_shards(tmp_path, [["a b"], ["c"]])
    with (
        pytest.raises(ValueError, match="no"),
        counted_words(Shards(shards, Processes(1)), tmp_path, ENGLISH) as counts,
    ):
        raise ValueError("no")
    assert counts[0].exists()
