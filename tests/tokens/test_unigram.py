"""Which parts of words are searched in numpy, and which are left to the library."""

import pytest
from test_unigram_cuts import CONFIGURATIONS, build

from st_static.tokens import unigram
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.panics import encode_batch

PIECES = dict.fromkeys(
    [*"日本語の行くab▁。.々株式会社", "日本", "の本", "行く", "く行く", "▁aa", "▁日本"], -2.0
)


@pytest.fixture
def few_are_many(monkeypatch):
    """Even a single short part is searched."""
    monkeypatch.setattr(unigram, "_FEWEST", 1)
    monkeypatch.setattr(unigram, "_FEW_BYTES", 0)


@pytest.fixture
def left(few_are_many, monkeypatch):
    """What parts of texts are left to the library: words, and after a hyphen what is inside."""

    def find(texts, configuration="published"):
        tokenizer = build(PIECES, CONFIGURATIONS[configuration])
        encoder, found = FastTokenizer(tokenizer), []
        encode_inside = encoder._unigram._encode_inside
        monkeypatch.setattr(
            encoder._unigram,
            "_encode_inside",
            lambda parts: found.extend(f"-{part}" for part in parts) or encode_inside(parts),
        )
        monkeypatch.setattr(
            unigram,
            "encode_batch",
            lambda tokenizer, words: found.extend(words) or encode_batch(tokenizer, words),
        )
        ids = encoder(texts).values.tolist()
        assert ids == [i for text in texts for i in tokenizer.encode(text).ids]
        return found

    return find


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("日本語の本。行く行日々 AA", []),
        ("ｂ語々々", []),
        ("謎語", []),  # an unknown character
        ("謎々の謎語", []),
        ("日謎謎語の本", ["日謎謎語"]),  # in a row
        ("日㍿語々", ["日㍿語"]),  # becomes several characters
        ("の…本", ["…"]),
        ("語\u3099語々", ["語\u3099語々"]),  # combines
        ("語々" + "行く" * 30, ["-" + "行く" * 30]),  # long
        ("行く" * 30, ["行く" * 30]),
        ("語\U00020bb7", ["語\U00020bb7"]),
    ],
)
def test_what_is_left(left, text, expected):
    assert left([text]) == expected


def test_a_combining_mark_may_begin_the_next_text(left):
    """So there is no cut before the end of a text, and a chunk may hold two words."""
    assert left(["日。", "\u3099本"]) == ["日。", "\u3099本"]


@pytest.mark.parametrize("name", ["spaces_only", "accents_stripped", "not_normalised"])
def test_words_that_begin_with_a_mark_are_searched(left, name):
    assert left(["日本の本 行く日本"], name) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("without_mark", ["日本", "行く"]),
        ("metaspace", ["日本", " 行く"]),
        ("metaspace_first", ["日本", " 行く"]),
        ("xlm_roberta", ["日本", " 行く"]),
    ],
)
def test_only_insides_are_searched_where_marks_are_put_otherwise(left, name, expected):
    assert left(["日本の本 行く日本"], name) == expected


def test_few_parts_are_left(left, monkeypatch):
    monkeypatch.setattr(unigram, "_FEWEST", 3)
    assert left(["日本 の本"]) == ["日本", "の本"]
    assert left(["日本 の本 行く"]) == []


def test_texts_with_added_tokens_are_left(few_are_many):
    tokenizer = build(PIECES, CONFIGURATIONS["published"])
    tokenizer.add_special_tokens(["日本"])
    assert (
        FastTokenizer(tokenizer)(["語日本語"]).values.tolist() == tokenizer.encode("語日本語").ids
    )
