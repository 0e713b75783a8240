"""BM25: words, and scores equal to those of bm25s."""

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.search.word_index import WordIndex, split_texts
from st_static.texts import arrow

WORDS = ["a", "bb", "ccc", "x7", "straße", "東京", "都"]


def words_of(*texts: str) -> list[list[str]]:
    """The words of each text."""
    words, counts = split_texts(arrow.strings(texts))
    ends = np.cumsum(counts)
    found = words.to_pylist()
    assert len(found) == counts.sum()
    return [found[end - n : end] for end, n in zip(ends, counts, strict=True)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, WORLD! x7-9 it's", ["hello", "world", "x7", "9", "it", "s"]),
        ("", []),
        (" ...\n🎉", []),
        ("ÜBER Straße\u2028naïve", ["über", "straße", "naïve"]),
        ("Ünïcode—“quoted”… 3½", ["ünïcode", "quoted", "31", "2"]),
        (
            "cafe\u0301 \uff21\uff30\uff29\uff12 \ufb01n",
            ["café", "api2", "fin"],
        ),  # an accent apart, full width
        ("ﾊﾟｿ", ["パソ", "ソ"]),  # half width
        ("日本語", ["日本", "語", "本語"]),
        ("東", ["東"]),
        ("新宿X7は large", ["新宿", "x7", "は", "large", "宿"]),
        ("ภาษา", ["ภา", "ษา", "าษ", "า"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),
    ],
)
def test_words_of_a_text(text: str, words: list[str]) -> None:
    assert words_of("before", text, "after 1") == [["before"], words, ["after", "1"]]


def test_without_words_nothing_has_a_score() -> None:
    with np.errstate(all="raise"):
        index = WordIndex.of([split_texts(arrow.strings(["", "?!"]))])
    assert index.scores("one ?!")[0].tolist() == [0, 0]


TEXTS = st.lists(st.lists(st.sampled_from(WORDS[:5]), max_size=12), min_size=1, max_size=30)


@given(TEXTS, st.lists(st.sampled_from([*WORDS[:5], "unseen"]), min_size=1, max_size=6))
def test_scores_are_those_of_bm25s(texts: list[list[str]], query: list[str]) -> None:
    if not any(texts):
        texts[0] = ["a"]
    theirs = bm25s.BM25()
    theirs.index(texts, show_progress=False)
    strings = arrow.strings([" ".join(words) for words in texts])
    parts = [split_texts(strings.slice(start, 7)) for start in range(0, len(strings), 7)]
    ours, complete = WordIndex.of(parts).scores(", ".join(query))
    known = [word for word in query if any(word in words for words in texts)]
    expected = theirs.get_scores(known) if known else np.zeros(len(texts))
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    n_with = [sum(word in words for words in texts) for word in query]
    idf = np.log(1 + (len(texts) - np.array(n_with) + 0.5) / (np.array(n_with) + 0.5))
    np.testing.assert_allclose(complete, idf.sum() / 2.5, rtol=1e-6)
