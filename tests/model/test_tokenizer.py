"""The student's tokenizer: greedy longest match, nothing of the text lost, nothing added."""

import json
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.distill.corpus.word_counts import split_all_words
from st_static.model.tokenizer import (
    ASCII_PUNCTUATION,
    CONTINUATION,
    SPECIAL_TOKENS,
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
    is_punctuation,
    split_words,
)

TURKISH = Normalization(dotless_i=True)


def test_ids_are_special_tokens_then_words_then_pieces():
    tokenizer = build_tokenizer(["b", "a"], ["c", "##d"])
    assert [tokenizer.id_to_token(i) for i in range(6)] == ["[PAD]", "[UNK]", "b", "a", "c", "##d"]
    assert tokenizer.get_vocab_size() == 6


def test_repeated_words_and_pieces_keep_their_first_id():
    tokenizer = build_tokenizer(["a", "b", "a"], ["b", "##c", "##c", "[UNK]"])
    assert tokenizer.get_vocab() == {"[PAD]": 0, "[UNK]": 1, "a": 2, "b": 3, "##c": 4}


def test_a_known_word_is_one_token_and_an_unknown_one_its_longest_pieces():
    tokenizer = build_tokenizer(["read", "reading"], ["re", "##a", "##d", "##er", "##reads"])
    assert tokenizer.encode("Reading").tokens == ["reading"]
    assert tokenizer.encode("reader").tokens == ["read", "##er"]
    assert tokenizer.encode("reada").tokens == ["read", "##a"]


def test_a_missing_character_makes_its_whole_word_unknown():
    tokenizer = build_tokenizer(["read"], ["##a"])
    assert tokenizer.encode("readx read").tokens == ["[UNK]", "read"]


def test_text_is_lower_cased_and_loses_its_accents():
    tokenizer = build_tokenizer(["cafe", "naive"])
    assert tokenizer.encode("CAFÉ nai\u0308ve").tokens == ["cafe", "naive"]


def test_special_tokens_are_not_matched_in_text():
    tokenizer = build_tokenizer(["unk", "pad"], ["[", "]"])
    assert tokenizer.encode("[UNK] [PAD]").tokens == ["[", "unk", "]", "[", "pad", "]"]


def test_nothing_is_added_around_the_text():
    tokenizer = build_tokenizer(["a"])
    assert tokenizer.encode("a", add_special_tokens=True).tokens == ["a"]
    assert tokenizer.encode("").ids == []


def test_words_are_no_added_tokens():
    description = json.loads(build_tokenizer(["a", "b"], ["##c"]).to_str())
    assert description["added_tokens"] == []
    assert description["truncation"] is None
    assert description["padding"] is None


def test_a_long_text_is_not_cut():
    assert len(build_tokenizer(["a"]).encode("a " * 5000).ids) == 5000


def test_decoder_joins_pieces():
    tokenizer = build_tokenizer(["stat"], ["##ic", "word"])
    assert tokenizer.decode(tokenizer.encode("static word").ids) == "static word"


@pytest.mark.parametrize("word", ["...", "!", "#", "$", "+", "<", "`", "—", "«", "。", "_"])
def test_punctuation(word):
    assert is_punctuation(word)


@pytest.mark.parametrize("word", ["a", "£", "5", "c++x", "😀", "東", "a.", "½"])
def test_no_punctuation(word):
    assert not is_punctuation(word)


@given(st.characters(exclude_categories=["Cs"]))
def test_punctuation_is_what_the_pre_tokenizer_splits_off(character):
    pre_tokenizer = build_tokenizer([]).pre_tokenizer
    pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(f"a{character}b")]
    if is_punctuation(character):
        assert pieces == ["a", character, "b"]
    else:
        # Kept inside the word, or dropped as white space.
        assert pieces in ([f"a{character}b"], ["a", "b"])


def test_ascii_punctuation_is_every_ascii_symbol():
    symbols = {c for c in map(chr, range(33, 127)) if not c.isalnum()}
    assert symbols == ASCII_PUNCTUATION
    assert all(unicodedata.category(c)[0] in "PS" for c in symbols)


@given(st.lists(st.text(max_size=20) | st.text("aB '.-\t\x00\x7f é", max_size=20), max_size=5))
def test_many_texts_are_split_like_one(texts):
    expected = [split_words(build_tokenizer([]), text) for text in texts]
    assert split_all_words(pa.array(texts, pa.string())).to_pylist() == expected


@given(st.lists(st.text("aIİiı'Ş\u0327\u0307 ", max_size=12), max_size=5))
def test_many_turkish_texts_are_split_like_one(texts):
    expected = [split_words(build_tokenizer([], normalization=TURKISH), text) for text in texts]
    assert split_all_words(pa.array(texts, pa.string()), TURKISH).to_pylist() == expected


@pytest.mark.parametrize("options", [{}, {"nfkc": False}, {"strip_accents": True}])
def test_i_has_its_dot_in_turkish_where_the_capital_has_it(options):
    """Composed or not, and after `str.lower`, which makes i and a combining dot of İ."""
    text = "İstanbul I\u0307zmir i\u0307ri ISLIK İLGİ ılık Iİ iI"
    expected = "istanbul izmir iri ıslık ilgi ılık ıi iı"
    normalization = Normalization(**options, dotless_i=True)
    words = build_tokenizer([], normalization=normalization)
    pieces = build_piece_tokenizer([("▁", -1.0)], normalization)
    assert split_words(words, text) == expected.split()
    assert pieces.normalizer.normalize_str(text) == expected
    assert Normalization.of(words) == Normalization.of(pieces) == normalization
    cased = normalization._replace(lowercase=False, strip_accents=False)
    assert split_words(build_tokenizer([], normalization=cased), "İIiı") == ["İIiı"]


@given(st.text(max_size=40))
def test_a_vocabulary_of_all_words_needs_no_pieces(text):
    words = split_words(build_tokenizer([]), text)
    tokenizer = build_tokenizer(words)
    expected = [word if len(word) <= 100 else SPECIAL_TOKENS[1] for word in words]
    assert tokenizer.encode(text).tokens == expected
    assert not any(token.startswith(CONTINUATION) for token in tokenizer.encode(text).tokens)
