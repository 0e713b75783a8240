"""BM25: words, and scores equal to those of bm25s."""

import unicodedata

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from st_static.search import word_index
from st_static.search.word_index import WordIndex, split_texts, stems_of, words_of_each
from st_static.texts import arrow

WORDS = ["a", "bb", "ccc", "x7", "straße", "東京", "都"]


def words_of(*texts: str) -> list[list[str]]:
    """The words of each text."""
    return words_of_each(texts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, WORLD! x7-9 it's", ["hello", "world", "x7", "9", "it", "s"]),
        ("", []),
        (" ...\n🎉", []),
        ("ÜBER Straße\u2028naïve", ["über", "strasse", "naïve"]),
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


@pytest.mark.parametrize(
    "forms",
    [
        # What shows nothing: a soft hyphen, joiners, marks of direction, a selector of forms.
        ("network", "net\u00adwork", "net\u200bwork", "net\u200cwork", "net\u200dwork"),
        ("network", "net\u2060work", "\ufeffnet\ufeffwork", "\u2067net\u200ework", "network\ufe0f"),
        ("ภาษาไทย", "ภาษา\u200bไทย"),  # whether a writer marks where words end
        ("日本", "日\u00ad本"),
        (
            "e\u0301te\u0301",
            "e\u034f\u0301t\u00e9",
            "é\u00adte\u0301",
        ),  # or part accent from letter
        ("ΔΡΌΜΟΣ", "δρόμος", "Δρόμοσ", "ΔΡΟ\u0301ΜΟΣ"),  # noqa: RUF001
        ("straße", "STRASSE", "STRAẞE", "Strasse", "\u017ftraße"),
        ("\u1fb3x", "\u03b1\u03b9x", "\u0391\u0399X", "\u1fbcX", "\u03b1\u0345x"),  # iotas
        ("istanbul", "İSTANBUL", "İstanbul", "I\u0307stanbul"),
        ("\u13e3\u1c80", "\uabb3\u0412"),  # of Cherokee, and a rounded letter of Cyrillic
        ("\ufb01n", "FIN", "\uff26\uff29\uff2e"),
        ("it's", "it\u00b4s"),  # whose accent is a space and a mark in NFKC
        ("I love it", "❤\ufe0f I ❤\ufe0e love ☺\ufe0f it"),
        ("...", "\u200d\ufe0f", "\u00b4"),
    ],
)
def test_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    found = words_of(*forms)
    assert found == found[:1] * len(forms)


def test_forms_are_one_where_unicode_says_so_and_only_there() -> None:
    """In all letters and marks: the words are one if NFKC_Casefold is, but for the dot of İ."""

    def folded(text: str) -> str:
        fold = unicodedata.normalize("NFKD", text).casefold()
        fold = unicodedata.normalize("NFKC", fold).replace("i\u0307", "i")
        return fold if fold == text else folded(fold)

    ideographs = range(0x3400, 0xD7A4), range(0x20000, 0x32000)  # and syllables: no case
    left = (i for i in range(128, 0x110000) if not any(i in some for some in ideographs))
    texts = [f"a{chr(i)}" for i in left if unicodedata.category(chr(i))[0] in "LM"]
    foldings = [folded(text) for text in texts]
    words = words_of(*texts)
    assert len(texts) > 10_000
    assert words == words_of(*foldings)
    by_words: dict[str, set[str]] = {}
    for found, folding in zip(words, foldings, strict=True):
        if all(unicodedata.category(one)[0] in "LMN" for one in folding) and found != ["a"]:
            by_words.setdefault(" ".join(sorted(found)), set()).add(folding)
    assert len(by_words) > 9_000
    assert [foldings for foldings in by_words.values() if len(foldings) > 1] == []


def test_marks_of_other_scripts_change_no_pairs() -> None:
    pairs = ["日本", "語", "本語"]
    assert words_of("x\u0327日本語") == [["x\u0327", *pairs]]
    assert words_of("日本語x\u0327") == [["日本", "語", "x\u0327", "本語"]]


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


INFLECTED = ["plate", "plates", "plated", "running", "run", "universities", "日本", "e221"]
INFLECTED_TEXTS = st.lists(st.lists(st.sampled_from(INFLECTED), max_size=9), min_size=1)


@given(INFLECTED_TEXTS, st.lists(st.sampled_from(INFLECTED), min_size=1, max_size=5))
def test_scores_of_stems_are_those_of_bm25s(texts: list[list[str]], query: list[str]) -> None:
    strings = [" ".join(["plate", *words]) for words in texts]
    theirs = bm25s.BM25()
    options = {"stopwords": [], "token_pattern": r"\w+", "show_progress": False}
    options["stemmer"] = Stemmer.Stemmer("english")
    # bm25s knows no pairs of characters; those of two characters have their last one besides.
    theirs.index(
        bm25s.tokenize([s.replace("日本", "日本 本") for s in strings], **options),
        show_progress=False,
    )
    split = arrow.strings(strings)
    parts = [split_texts(split.slice(start, 7)) for start in range(0, len(split), 7)]
    ours, complete = WordIndex.of(parts, "english").scores(" ".join(query))
    asked = " ".join(query).replace("日本", "日本 本")
    [words] = bm25s.tokenize([asked], return_ids=False, **options)
    known = [word for word in words if word in theirs.vocab_dict]
    expected = theirs.get_scores(known) if known else np.zeros(len(texts))
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    counts = [sum(word in [*words_of_each([s], "english")[0]] for s in strings) for word in words]
    idf = np.log(1 + (len(texts) - np.array(counts) + 0.5) / (np.array(counts) + 0.5))
    np.testing.assert_allclose(complete, idf.sum() / 2.5, rtol=1e-6)


def test_all_of_a_querys_words_with_a_texts_stem_match() -> None:
    texts = arrow.strings(["two plates", "a plate", "running"])
    index = WordIndex.of([split_texts(texts)], "english")
    found = index.matched(index.look_up("Plated, run plates"), np.arange(3))
    assert found == [["plated", "plates"], ["plated", "plates"], ["run"]]
    assert len(index.words) == 4  # of five


def test_words_with_digits_have_no_stems() -> None:
    codes = ["s3ies", "x7", "e221", "mp3s", "½ies"]
    assert Stemmer.Stemmer("english").stemWord("s3ies") == "s3i"
    assert stems_of(arrow.strings(codes), "english").to_pylist() == codes
    assert stems_of(arrow.strings([]), "english").to_pylist() == []


@given(TEXTS, st.lists(st.sampled_from([*WORDS[:5], "unseen"]), max_size=6))
def test_matched_words_are_those_that_a_text_has(texts: list[list[str]], query: list[str]) -> None:
    strings = [" ".join(words) for words in texts]
    index = WordIndex.of([split_texts(arrow.strings(strings))])
    positions = np.arange(len(texts))[::-2]
    found = index.matched(index.look_up(" ".join(query).upper()), positions)
    asked = dict.fromkeys(words_of(" ".join(query))[0])
    has = [set(words) for words in words_of(*strings)]
    assert found == [[word for word in asked if word in has[i]] for i in positions]


def test_a_word_is_looked_up_once_however_often_the_query_has_it(monkeypatch) -> None:
    index = WordIndex.of([split_texts(arrow.strings(["a bb a", "bb ccc", "ccc x7"]))])
    expected = [np.multiply(found, 50_000) for found in index.scores("a bb a unseen")]
    looked_up, word = [], WordIndex._word
    monkeypatch.setattr(WordIndex, "_word", lambda *at: looked_up.append(at) or word(*at))
    scores, complete = index.scores("A bb, a unseen? " * 50_000)
    np.testing.assert_allclose(scores, expected[0], rtol=1e-6)
    assert complete == pytest.approx(float(expected[1]))
    assert len(looked_up) < 20


def test_many_words_are_found_as_few_are(monkeypatch) -> None:
    texts = [f"w{i} w{i + 1} w{i % 7}" for i in range(40)]
    index = WordIndex.of([split_texts(arrow.strings(texts))])
    for query in ("w3 w4 w4 unseen w39", "unseen", ""):
        few = index.scores(query)
        with monkeypatch.context() as patched:
            patched.setattr(word_index, "_MANY", -1)
            many = index.scores(query)
        np.testing.assert_array_equal(many[0], few[0])
        assert many[1] == few[1]
