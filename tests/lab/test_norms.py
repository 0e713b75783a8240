"""Norms by stage: small cases computed by hand."""

import json
import lzma
from collections import Counter

import numpy as np
import polars as pl
import pytest
from scipy.stats import ConstantInputWarning

from st_static.evaluate import figures
from st_static.evaluate.built_model import agreement_by_length
from st_static.lab.norms import (
    extremes,
    frequency_correlation,
    norm_changes,
    read_tagged,
    tagged_norms,
    word_norms,
    write_norms,
    write_parts_of_speech,
)
from st_static.lab.tagged_text import CLASSES, class_of

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


def test_changes_are_relative_to_the_mean(norms):
    changes = norm_changes(norms, ["extraction", "pca"])
    assert changes.columns == ["extraction to pca"]
    # Means over the words with a norm before: 2.5 and 3.5.
    expected = [5 * 2.5 / 3.5, 2.5 / 3.5, 2.5 / 3.5, 2.5 / 3.5, None]
    assert changes["extraction to pca"].to_list() == pytest.approx(expected)


def test_the_curve_holds_every_word_once(tmp_path, monkeypatch):
    """Norms equal to the ranks: the median of a group is the middle of its first and last rank."""
    saved = []
    monkeypatch.setattr(figures, "save_both", lambda figure, _: saved.append(figure) or [])
    write_norms(
        word_norms([f"w{i}" for i in range(100)], {"pca": np.arange(1.0, 101)[:, None]}), tmp_path
    )
    [curve] = saved[0].axes[0].lines
    first = curve.get_xdata()
    last = np.append(first[1:], 101) - 1
    assert first[0] == 1
    assert len(first) > 20
    np.testing.assert_allclose(curve.get_ydata() * 50.5, (first + last) / 2)


def test_the_ends_are_in_order_and_share_no_word():
    words = pl.DataFrame({"word": list("abcde"), "change": [3.0, None, 1.0, 4.0, 2.0]})
    one = extremes(words, "change", 1)
    assert one.rows() == [("largest", "d", 4.0), ("smallest", "c", 1.0)]
    assert extremes(words, "change", 100)["word"].to_list() == ["d", "a", "e", "c"]


def test_correlation_of_norm_and_rank():
    rising = word_norms(WORDS, {"extraction": np.diag([1.0, 2, 3, 4, 5])})
    falling = word_norms(WORDS, {"pca": np.diag([5.0, 4, 3, 2, 1])})
    column = "Spearman with rank x 100"
    assert frequency_correlation(rising, ["extraction"])[column].to_list() == pytest.approx([100])
    assert frequency_correlation(falling, ["pca"])[column].to_list() == pytest.approx([-100])
    # Without the dog. Ratios of 8, 1, 2 and 3 have the ranks 4, 1, 2 and 3: 1 - 6 * 12 / (4 * 15).
    tables = {"extraction": np.diag([1.0, 2, 3, 4, 0]), "pca": np.diag([8.0, 2, 6, 12, 1])}
    norms = word_norms(WORDS, tables)
    changed = norms.hstack(norm_changes(norms, ["extraction", "pca"]))
    [(norm, words, value)] = frequency_correlation(changed, ["extraction to pca"]).rows()
    assert (norm, words) == ("extraction to pca", 4)
    assert value == pytest.approx(-20)


@pytest.mark.parametrize("suffix", [".txt", ".xz"])
def test_words_of_a_tagged_text(tmp_path, suffix):
    text = "The/at cat/nn runs/vbz ./.\nthe/at-tl Run/nn run/vb run/vb 1/2/cd it's/pps+bez"
    file = tmp_path / f"tagged{suffix}"
    file.write_bytes(lzma.compress(text.encode()) if suffix == ".xz" else text.encode())
    assert read_tagged(file).rows() == [
        ("run", "VB", "verbs", 1),
        ("the", "AT", "others", 2),
        ("1/2", "CD", "others", 3),
        ("cat", "NN", "nouns", 4),
        ("it's", "PPS", "personal pronouns", 5),
        ("runs", "VBZ", "verbs", 6),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no tags here", "no tokens of the form word/TAG"),
        (b"caf\xe9/nn", "line 1: expected text in UTF-8"),
    ],
)
def test_a_file_that_is_not_tagged_text(tmp_path, content, says):
    (tmp_path / "file.txt").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        read_tagged(tmp_path / "file.txt")


def test_a_tagged_text_that_was_cut_off(tmp_path):
    (tmp_path / "file.xz").write_bytes(lzma.compress(b"the/at " * 1000)[:-20])
    with pytest.raises(ValueError, match=r"file\.xz cannot be read \(.*it is damaged"):
        read_tagged(tmp_path / "file.xz")


def tagged(*pairs):
    words, tags = zip(*pairs, strict=True)
    ranks, classes = range(1, len(words) + 1), map(class_of, tags)
    return pl.DataFrame({"word": words, "tag": tags, "class": classes, "rank": ranks})


def test_only_the_most_frequent_words_of_the_text_count(norms):
    text = tagged(("cat", "NN"), ("unheard", "JJ"), ("the", "AT"), ("run", "VB"))
    known, steps = tagged_norms(norms, text, among=3)
    assert steps == ["extraction to pca"]
    assert known["word"].to_list() == ["cat", "the"]
    assert known["rank"].to_list() == [1, 3]
    assert known["pca"].to_list() == [4, 5]
    # Relative to the means over these two words alone: 2.5 and 4.5.
    assert known["extraction to pca"].to_list() == pytest.approx([2.5 / 4.5, 5 * 2.5 / 4.5])
    with pytest.raises(ValueError, match=r"Of the 2 most frequent words .* only 1 are in"):
        tagged_norms(norms, text, among=2)


def test_parts_of_speech_at_the_ends(tmp_path, monkeypatch):
    """Against sorting by hand: 60 words whose norms and tags are random."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(60)]
    tags = rng.choice(["NN", "VB", "JJ"], 60, p=[0.6, 0.3, 0.1])
    before, after = rng.uniform(1, 2, (2, 60))
    norms = word_norms(words, {"pca": before[:, None], "distillation": after[:, None]})
    monkeypatch.setattr("st_static.lab.norms._TAGGED", 5)
    write_parts_of_speech(*tagged_norms(norms, tagged(*zip(words, tags, strict=True))), tmp_path)
    extreme = pl.read_json(tmp_path / "tagged_extremes.json")
    counts = pl.read_json(tmp_path / "parts_of_speech.json")
    for norm, values in (
        ("pca", before),
        ("distillation", after),
        ("pca to distillation", after / before),
    ):
        order = np.argsort(-values)
        for end, expected in (("largest", order[:5]), ("smallest", order[-5:])):
            found = extreme.filter(norm=norm, end=end)
            assert found["word"].to_list() == [words[i] for i in expected]
            assert found["rank"].to_list() == [i + 1 for i in expected]
            rows = counts.filter(norm=norm, end=end)
            shown = dict(rows.select("tag", "words").iter_rows())
            assert list(shown.values()) == sorted(shown.values(), reverse=True)
            assert shown == Counter(str(tags[i]) for i in expected)
            chance = {tag: 5 * np.mean(tags == tag) for tag in shown}
            assert dict(rows.select("tag", "expected").iter_rows()) == pytest.approx(chance)
    assert pl.read_json(tmp_path / "tagged_norms_and_frequency.json")["paper"].to_list() == [
        *(36, 37, None)
    ]


# Each class's tags in the Brown corpus's manual, without those for titles and foreign words.
TAGS = {
    "verbs": ["VB", "VBD", "VBG", "VBN", "VBZ"],
    "be": ["BE", "BED", "BED*", "BEDZ", "BEDZ*", "BEG", "BEM", "BEN", "BER", "BER*", "BEZ", "BEZ*"],
    "nouns": ["NN", "NN$", "NNS", "NNS$", "NR", "NR$", "NRS"],
    "proper nouns": ["NP", "NP$", "NPS", "NPS$"],
    "personal pronouns": ["PP$", "PP$$", "PPL", "PPLS", "PPO", "PPS", "PPSS"],
    "prepositions": ["IN"],
    "adjectives": ["JJ", "JJR", "JJS", "JJT"],
    "adverbs": ["RB", "RB$", "RBR", "RBT", "RN", "RP", "QL", "QLP", "WRB"],
    "others": ["AT", "AP", "CD", "CC", "CS", "DT", "DTI", "EX", "DO", "HV", "MD", "OD", "PN", "TO"],
}


def test_the_classes_of_tags():
    assert set(TAGS) == set(CLASSES)
    assert {tag: class_of(tag) for tags in TAGS.values() for tag in tags} == {
        tag: name for name, tags in TAGS.items() for tag in tags
    }


def test_classes_at_the_ends_beside_the_papers(tmp_path, monkeypatch):
    """Ten words; the two that the PCA lengthens most, and the two that it shortens most."""
    monkeypatch.setattr("st_static.lab.norms._TAGGED", 2)
    tags = ["NNS", "VBD", "NP", "IN", "PPS", "BEZ", "JJ", "RB", "NN", "NN"]
    text = tagged(*((f"w{i}", tag) for i, tag in enumerate(tags)))
    before, ratios = np.arange(1.0, 11), np.array([10.0, 9, 5, 5, 5, 1, 5, 5, 5, 2])
    norms = word_norms(
        text["word"].to_list(), {"extraction": before[:, None], "pca": (before * ratios)[:, None]}
    )
    write_parts_of_speech(*tagged_norms(norms, text), tmp_path)
    rows = pl.read_json(tmp_path / "word_classes.json").rows_by_key(["end", "class"], unique=True)
    assert len(rows) == 2 * 9
    # Three of ten words are nouns: 0.6 of two.
    ratio = "extraction to pca"
    assert rows["largest", "nouns"] == (ratio, 1, pytest.approx(0.6), 71)
    assert rows["largest", "verbs"] == (ratio, 1, pytest.approx(0.2), 5)
    assert rows["largest", "proper nouns"] == (ratio, 0, pytest.approx(0.2), 19)
    assert rows["largest", "adverbs"] == (ratio, 0, pytest.approx(0.2), None)
    assert rows["smallest", "be"] == (ratio, 1, pytest.approx(0.2), 7)
    assert rows["smallest", "nouns"] == (ratio, 1, pytest.approx(0.6), None)
    assert "null" not in (tmp_path / "word_classes.md").read_text()


def test_a_correlation_with_a_constant_is_no_value(tmp_path):
    norms = word_norms(["the", "run"], {"extraction": np.ones((2, 1)), "pca": np.eye(2)})
    with pytest.warns(ConstantInputWarning):
        write_norms(norms, tmp_path)
    table = json.loads((tmp_path / "norms_and_frequency.json").read_text(), parse_constant=list)
    assert [row["Spearman with rank x 100"] for row in table] == [None, None]


def test_the_papers_counts_and_correlations_are_those_of_its_table(tmp_path):
    """As the paper prints them, by the ratio of norms and its end."""
    pca, distillation = "extraction to pca", "pca to distillation"
    expected = {
        **{(pca, "smallest", "verbs"): 23, (pca, "smallest", "prepositions"): 19},
        **{(pca, "smallest", "personal pronouns"): 8, (pca, "smallest", "be"): 7},
        **{(pca, "largest", "nouns"): 71, (pca, "largest", "proper nouns"): 19},
        **{(pca, "largest", "verbs"): 5, (distillation, "largest", "verbs"): 25},
        **{(distillation, "largest", "nouns"): 24, (distillation, "largest", "adjectives"): 18},
        **{(distillation, "smallest", "adverbs"): 16, (distillation, "smallest", "nouns"): 13},
        (distillation, "smallest", "personal pronouns"): 14,
    }
    stages = ("extraction", "pca", "distillation")
    tables = {stage: np.array([[1.0], [second]]) for second, stage in enumerate(stages, 2)}
    text = tagged(("the", "AT"), ("run", "VB"))
    norms = word_norms(text["word"].to_list(), tables)
    write_parts_of_speech(*tagged_norms(norms, text), tmp_path)
    classes = pl.read_json(tmp_path / "word_classes.json").drop_nulls("paper")
    keys = ("ratio", "end", "class", "paper")
    assert {key[:3]: key[3] for key in classes.select(keys).rows()} == expected
    correlations = pl.read_json(tmp_path / "tagged_norms_and_frequency.json")
    assert correlations["paper"].drop_nulls().to_list() == [34, 36, 37]


def test_a_panel_for_each_step(tmp_path, norms):
    text = tagged(("the", "AT"), ("run", "VB"), ("blue", "JJ"), ("cat", "NN"), ("dog", "NN"))
    *_, svg, png = write_parts_of_speech(*tagged_norms(norms, text), tmp_path)
    drawn = svg.read_text("utf-8")
    assert "<!-- Words whose vectors grow and shrink most: extraction to pca -->" in drawn
    assert all(f"<!-- {tag} -->" in drawn for tag in ("AT", "VB", "JJ", "NN"))
    assert png.read_bytes()[:4] == b"\x89PNG"


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
