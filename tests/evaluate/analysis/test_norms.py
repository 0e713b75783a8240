"""Norms by stage: small cases computed by hand."""

import lzma

import numpy as np
import polars as pl
import pytest

from st_static.evaluate.analysis.lengths import agreement_by_length
from st_static.evaluate.analysis.norms import (
    frequency_correlation,
    most_changed,
    parts_of_speech,
    read_tags,
    word_norms,
)

WORDS = ["the", "run", "blue", "cat", "dog"]


@pytest.fixture
def norms():
    before = np.diag([1.0, 2, 3, 4, 0])
    after = np.array([[3.0, 4], [0, 2], [0, 3], [0, 4], [1, 0]])
    return word_norms(WORDS, {"extraction": before, "pca": after})


def test_norms_by_stage_and_rank(norms):
    assert norms.to_dict(as_series=False) == {
        "word": WORDS,
        "rank": [1, 2, 3, 4, 5],
        "extraction": [1, 2, 3, 4, 0],
        "pca": [5, 2, 3, 4, 1],
    }


def test_the_words_that_change_most_are_relative_to_the_mean(norms):
    changes = most_changed(norms, "extraction", "pca", n=1)
    assert changes["word"].to_list()[0] == "the"
    # Means over the words with a norm before: 2.5 and 3.5.
    assert changes["change"].to_list() == pytest.approx([5 * 2.5 / 3.5, 2.5 / 3.5])
    assert "dog" not in most_changed(norms, "extraction", "pca")["word"]


def test_correlation_of_norm_and_rank():
    rising = word_norms(WORDS, {"extraction": np.diag([1.0, 2, 3, 4, 5])})
    column = "Spearman of norm and rank x 100"
    assert frequency_correlation(rising)[column].to_list() == pytest.approx([100])
    falling = word_norms(WORDS, {"pca": np.diag([5.0, 4, 3, 2, 1])})
    assert frequency_correlation(falling)[column].to_list() == pytest.approx([-100])


@pytest.mark.parametrize("suffix", [".txt", ".xz"])
def test_the_most_frequent_tag_of_a_word(tmp_path, suffix):
    text = "The/at cat/nn runs/vbz ./.\nthe/at-tl Run/nn run/vb run/vb 1/2/cd it's/pps+bez"
    file = tmp_path / f"tagged{suffix}"
    file.write_bytes(lzma.compress(text.encode()) if suffix == ".xz" else text.encode())
    assert read_tags(file) == {
        "the": "AT",
        "cat": "NN",
        "runs": "VBZ",
        ".": ".",
        "run": "VB",
        "1/2": "CD",
        "it's": "PPS",
    }


def test_a_file_without_tags(tmp_path):
    (tmp_path / "plain.txt").write_text("no tags here")
    with pytest.raises(ValueError, match="no tokens of the form word/TAG"):
        read_tags(tmp_path / "plain.txt")


def test_parts_of_speech_of_the_longest_and_the_shortest(norms):
    tags = {"the": "AT", "run": "VB", "blue": "JJ", "dog": "NN"}  # the cat has none
    counts = parts_of_speech(norms, tags, n=2)
    found = {(row["stage"], row["end"]): set() for row in counts.iter_rows(named=True)}
    for row in counts.iter_rows(named=True):
        found[row["stage"], row["end"]].add(row["tag"])
    assert found == {
        ("extraction", "longest"): {"JJ", "VB"},
        ("extraction", "shortest"): {"AT", "NN"},
        ("pca", "longest"): {"AT", "JJ"},
        ("pca", "shortest"): {"VB", "NN"},
    }
    among = parts_of_speech(norms, tags, n=1, among=2).filter(pl.col("stage") == "extraction")
    assert among["tag"].to_list() == ["VB", "AT"]


def test_agreement_by_length_of_sentences():
    rng = np.random.default_rng(0)
    teacher = rng.normal(size=(60, 8))
    student = np.concatenate([teacher[:30], rng.normal(size=(30, 8))])
    lengths = np.repeat([3, 12], 30)
    lengths[-1] = 50
    table = agreement_by_length(student, teacher, lengths)
    assert table["tokens"].to_list() == ["1-5", "6-10", "11-20", "21-40", "41+", "all"]
    assert table["sentences"].to_list() == [30, 0, 29, 0, 1, 60]
    same, none, unlike, _, few, every = table["agreement"].to_list()
    assert same == pytest.approx(100)
    assert none is None
    assert few is None
    assert abs(unlike) < 40
    assert unlike < every < 100
