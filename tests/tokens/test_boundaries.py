"""Whether and where texts are cut, decided from each part of a tokenizer."""

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.tokens.boundaries import Cut, chunking_of
from st_static.tokens.tokenizer import Normalization


def word_level(**parts):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    for name, value in parts.items():
        setattr(tokenizer, name, value)
    return tokenizer


def chunking(tokenizer):
    return chunking_of(json.loads(tokenizer.to_str()))


p, n = pre_tokenizers, normalizers


@pytest.mark.parametrize(
    "part",
    [
        p.BertPreTokenizer(),
        p.WhitespaceSplit(),
        p.Sequence([p.WhitespaceSplit(), p.Digits(True), p.Punctuation()]),
        p.Sequence([p.Punctuation("merged_with_next"), p.Whitespace()]),
        p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")]),
        p.Sequence([p.WhitespaceSplit(), p.ByteLevel(use_regex=False)]),
        p.Sequence([p.WhitespaceSplit(), p.Split("-", "isolated")]),
        p.Sequence([p.WhitespaceSplit(), p.Split(Regex(r"^a|(?<=b)\s|c$"), "removed", True)]),
    ],
)
def test_pre_tokenizers_that_drop_spaces_are_cut_at_spaces(part):
    assert chunking(word_level(pre_tokenizer=part)).cut is Cut.AT_SPACES


@pytest.mark.parametrize(
    "part",
    [
        p.Metaspace(),
        p.Metaspace(prepend_scheme="first"),
        p.ByteLevel(),
        p.Sequence([p.Digits(), p.ByteLevel(add_prefix_space=False)]),
    ],
)
def test_pre_tokenizers_that_keep_spaces_are_cut_before_them(part):
    assert chunking(word_level(pre_tokenizer=part)).cut is Cut.BEFORE_SPACES


@pytest.mark.parametrize(
    "part",
    [
        None,
        p.Punctuation(),
        p.UnicodeScripts(),
        p.Metaspace(split=False),
        p.ByteLevel(use_regex=False),
        p.Split(" ", "isolated"),
        p.Sequence([p.Split(Regex("a b"), "isolated"), p.WhitespaceSplit()]),
        p.Sequence([p.Split("a b", "isolated"), p.WhitespaceSplit()]),
        p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")]),
        p.Sequence([p.WhitespaceSplit(), p.UnicodeScripts()]),
        p.Sequence([p.Punctuation(), p.ByteLevel()]),
    ],
)
def test_other_pre_tokenizers_are_not_cut(part):
    found = chunking(word_level(pre_tokenizer=part))
    assert found.cut is None
    assert "pre-tokenizer" in found.reason


@pytest.mark.parametrize(
    "part",
    [
        n.BertNormalizer(),
        n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]),
        n.Sequence([n.NFKC(), n.Strip(), n.Replace("``", '"'), n.Nmt()]),
        Normalization(dotless_i=True).normalizer_of_words(),
    ],
)
def test_normalizers_of_single_characters_are_cut(part):
    assert chunking(word_level(normalizer=part)).cut is Cut.AT_SPACES


@pytest.mark.parametrize(
    "part", [n.Replace("a b", "c"), n.Replace(Regex("a."), "c"), n.Prepend("_")]
)
def test_normalizers_that_may_see_spaces_are_not_cut(part):
    found = chunking(word_level(normalizer=part))
    assert found.cut is None
    assert "normalizer" in found.reason


@pytest.mark.parametrize(
    ("part", "joinable"),
    [
        (n.Replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"), True),
        (n.Replace("``", '"'), False),
        (n.Replace("_", ""), False),
        (n.Replace("_", " "), False),
        (n.Replace("_", "\N{COMBINING ACUTE ACCENT}"), False),
        (n.Replace(Regex("_"), "-"), False),
    ],
)
def test_chunks_are_joined_where_a_replacement_keeps_places(part, joinable):
    found = chunking(word_level(normalizer=n.Sequence([part, n.BertNormalizer()])))
    assert found.joinable == joinable


@pytest.mark.parametrize("part", [n.Strip(), n.Replace("a", " "), n.BertNormalizer()])
def test_normalizers_that_make_or_strip_spaces_where_spaces_count(part):
    found = chunking(word_level(normalizer=part, pre_tokenizer=p.ByteLevel()))
    assert found.cut is None


def test_a_character_map_is_trusted_with_ascii_only():
    description = json.loads(word_level(pre_tokenizer=p.Metaspace()).to_str())
    description["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": ""}
    found = chunking_of(description)
    assert (found.cut, found.ascii_only) == (Cut.BEFORE_SPACES, True)


def test_padding_and_truncation_from_the_left_are_not_cut():
    padding, left, right = word_level(), word_level(), word_level()
    padding.enable_padding()
    left.enable_truncation(8, direction="left")
    right.enable_truncation(8)
    assert chunking(padding).reason == "it pads texts"
    assert "beginning" in chunking(left).reason
    assert chunking(right).cut is Cut.AT_SPACES


def test_merges_dropped_at_random_are_not_cut():
    tokenizer = Tokenizer(models.BPE({"a": 0}, [], dropout=0.1))
    tokenizer.pre_tokenizer = p.Whitespace()
    assert chunking(tokenizer).cut is None


def test_normalized_added_tokens_that_may_become_spaces_are_not_cut():
    for content, normalizer in (("\n", n.BertNormalizer()), ("a\xa0b", n.NFKC()), ("¨", n.NFKC())):
        tokenizer = word_level(normalizer=normalizer)
        tokenizer.add_tokens([AddedToken(content, normalized=True)])
        assert chunking(tokenizer).cut is None
    tokenizer = word_level(normalizer=n.Replace("_", " "))
    tokenizer.add_tokens([AddedToken("a_b", normalized=True)])
    assert chunking(tokenizer).cut is None
    tokenizer = word_level(normalizer=n.Lowercase())
    tokenizer.add_tokens([AddedToken("<q>", normalized=True)])
    assert chunking(tokenizer).joinable


@pytest.mark.parametrize("flags", [{"lstrip": True}, {"rstrip": True}, {"content": "new york"}])
def test_added_tokens_with_spaces_keep_their_texts_whole(flags):
    content = flags.pop("content", "<mask>")
    special, normalized = word_level(), word_level()
    special.add_tokens([AddedToken(content, normalized=False, **flags)])
    normalized.add_tokens([AddedToken(content, normalized=True, **flags)])
    assert chunking(special).kept_whole == (content,)
    assert chunking(normalized).cut is None
