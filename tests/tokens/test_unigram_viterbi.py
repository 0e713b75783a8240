"""The search for the likeliest pieces: the tokenizers library's own, whatever the vocabulary."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import models

from st_static.tokens import unigram_viterbi
from st_static.tokens.unigram_viterbi import UnigramViterbi

# Few characters, and scores of which many sums are equal.
CHARACTERS = "aか日本▁\u3099\U00020bb7"
pieces = st.text(CHARACTERS, min_size=1, max_size=5)
scores = st.sampled_from([-1.0, -2.0, -3.0, -1.5, -0.25, -7.0 / 4096, 0.0, 2.0, 30.0])
strings = st.lists(st.text([*CHARACTERS, "ｶ"], min_size=1, max_size=12), max_size=8)


def encode(viterbi, strings):
    """The ids of strings, None of one that is left to the library."""
    points = np.frombuffer("".join(strings).encode("utf-32-le"), np.uint32)
    ids, left = viterbi.encode(points, np.array(list(map(len, strings)), np.int64))
    bounds = zip(ids.offsets[:-1], ids.offsets[1:], left, strict=True)
    return [None if is_left else ids.values[a:b].tolist() for a, b, is_left in bounds]


def expected(vocabulary, unknown_id, strings):
    """The library's ids of strings."""
    model = models.Unigram(vocabulary, unknown_id, False)
    return [[token.id for token in model.tokenize(string)] for string in strings]


def has_unknown_row(vocabulary, unknown_id, string):
    """Whether two tokens in a row may be unknown, by the characters."""
    unknown = vocabulary[unknown_id][0]
    known = {piece for i, (piece, _) in enumerate(vocabulary) if i != unknown_id}
    pairs = itertools.pairwise(character not in known for character in string)
    return unknown in string or any(map(all, pairs))


@settings(max_examples=400)
@given(
    vocabulary=st.lists(st.tuples(pieces, scores), max_size=14),
    known=st.sets(st.sampled_from(CHARACTERS)),
    unknown=st.sampled_from(["<unk>", "a", "日本"]),
    strings=strings,
)
@example([("aa", -2.0), ("aaa", -3.0)], {"a"}, "<unk>", ["aaa", "aaaaa"])  # equal sums
@example([("日本", -9.0), ("日本", -1.0), ("", -1.0)], {"日", "本"}, "<unk>", ["日本"])  # repeated
@example([], set(), "<unk>", [])
def test_ids_are_the_librarys(vocabulary, known, unknown, strings):
    vocabulary = [(unknown, 0.0), *((c, -2.0) for c in sorted(known)), *vocabulary]
    found = encode(UnigramViterbi(vocabulary, 0), strings)
    for string, ids, wanted in zip(strings, found, expected(vocabulary, 0, strings), strict=True):
        if ids is None:
            assert has_unknown_row(vocabulary, 0, string)
        else:
            assert ids == wanted


@settings(max_examples=200)
@given(
    vocabulary=st.dictionaries(pieces, scores, max_size=14),
    strings=strings.map(lambda found: [string.replace("ｶ", "a") for string in found]),
)
def test_nothing_is_left_where_all_characters_are_known(vocabulary, strings):
    vocabulary = list({"<unk>": 0.0, **dict.fromkeys(CHARACTERS, -2.0), **vocabulary}.items())
    assert encode(UnigramViterbi(vocabulary, 0), strings) == expected(vocabulary, 0, strings)


@settings(max_examples=50)
@given(strings=strings, at_a_time=st.integers(1, 20))
def test_some_characters_at_a_time(strings, at_a_time):
    viterbi = UnigramViterbi([("<unk>", 0.0), ("日本", -1.0), *((c, -2.0) for c in CHARACTERS)], 0)
    at_once = encode(viterbi, strings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unigram_viterbi, "_CHARACTERS_AT_A_TIME", at_a_time)
        assert encode(viterbi, strings) == at_once


def test_an_unknown_character_among_known_ones():
    vocabulary = [("?", 0.0), ("a", -1.0), ("axb", -14.0), ("b", -1.0)]
    found = encode(UnigramViterbi(vocabulary, 0), ["axb", "axa", "x", "bx", "axxb"])
    assert found == [[2], [1, 0, 1], [0], [3, 0], None]
    assert expected(vocabulary, 0, ["axb", "axa", "x", "bx"]) == found[:4]


def test_a_row_of_unknown_characters_is_left_for_it_may_be_a_piece():
    """The library looks its string up once more: here it is a piece that lost."""
    vocabulary = [("x", 0.0), ("xx", -9.0)]
    assert expected(vocabulary, 0, ["xx", "xxx"]) == [[1], [0]]
    assert encode(UnigramViterbi(vocabulary, 0), ["xx", "xxx", "x"]) == [None, None, [0]]


def test_unknown_characters_without_an_id_are_left():
    viterbi = UnigramViterbi([("a", -1.0), ("ab", -1.0)], None)
    assert encode(viterbi, ["a", "ab", "b", "aba"]) == [[0], [1], None, [1, 0]]
