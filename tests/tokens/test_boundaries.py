"""Whether and where texts are cut, decided from each part of a tokenizer."""

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.model.tokenizer import Normalization
from st_static.tokens import boundaries
from st_static.tokens.boundaries import boundaries_of


def word_level(**parts):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    for name, value in parts.items():
        setattr(tokenizer, name, value)
    return tokenizer


def found_in(tokenizer):
    return boundaries_of(json.loads(tokenizer.to_str()))


p, n = pre_tokenizers, normalizers
AT_SPACES, BEFORE_SPACES = boundaries._AT_SPACES, boundaries._BEFORE_SPACES
PRE_TOKENIZERS = {
    # Those that drop spaces,
    AT_SPACES: [
        p.BertPreTokenizer(),
        p.WhitespaceSplit(),
        p.Sequence([p.WhitespaceSplit(), p.Digits(True), p.Punctuation()]),
        p.Sequence([p.Punctuation("merged_with_next"), p.Whitespace()]),
        p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")]),
        p.Sequence([p.WhitespaceSplit(), p.ByteLevel(use_regex=False)]),
        p.Sequence([p.WhitespaceSplit(), p.Split("-", "isolated")]),
        p.Sequence([p.WhitespaceSplit(), p.Split(Regex(r"^a|(?<=b)\s|c$"), "removed", True)]),
    ],
    # that keep them,
    BEFORE_SPACES: [
        p.Metaspace(),
        p.Metaspace(prepend_scheme="first"),
        p.ByteLevel(),
        p.Sequence([p.Digits(), p.ByteLevel(add_prefix_space=False)]),
    ],
    # and others.
    None: [
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
}


@pytest.mark.parametrize(
    ("part", "border"),
    [(part, border) for border, parts in PRE_TOKENIZERS.items() for part in parts],
)
def test_pre_tokenizers_say_where_texts_are_cut(part, border):
    assert found_in(word_level(pre_tokenizer=part)).border is border


@pytest.mark.parametrize(
    ("part", "border"),
    [
        # Of single characters.
        (n.BertNormalizer(), AT_SPACES),
        (n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]), AT_SPACES),
        (n.Sequence([n.NFKC(), n.Strip(), n.Replace("``", '"'), n.Nmt()]), AT_SPACES),
        (Normalization(dotless_i=True).normalizer_of_words(), AT_SPACES),
        # What may see spaces.
        (n.Replace("a b", "c"), None),
        (n.Replace(Regex("a."), "c"), None),
        (n.Prepend("_"), None),
    ],
)
def test_normalizers_may_keep_texts_from_being_cut(part, border):
    assert found_in(word_level(normalizer=part)).border is border


@pytest.mark.parametrize("part", [n.Strip(), n.Replace("a", " "), n.BertNormalizer()])
def test_normalizers_that_make_or_strip_spaces_where_spaces_count(part):
    assert found_in(word_level(normalizer=part, pre_tokenizer=p.ByteLevel())).border is None


def test_a_character_map_is_trusted_between_letters_only():
    description = json.loads(word_level(pre_tokenizer=p.Metaspace()).to_str())
    description["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": ""}
    found = boundaries_of(description)
    assert found.border is boundaries._BETWEEN_LETTERS


def test_padded_texts_are_not_cut():
    tokenizer = word_level()
    tokenizer.enable_padding()
    assert found_in(tokenizer).border is None


def test_merges_dropped_at_random_are_not_cut():
    tokenizer = Tokenizer(models.BPE({"a": 0}, [], dropout=0.1))
    tokenizer.pre_tokenizer = p.Whitespace()
    assert found_in(tokenizer).border is None


def test_normalized_added_tokens_that_may_become_spaces_are_not_cut():
    for content, normalizer in (("\n", n.BertNormalizer()), ("a\xa0b", n.NFKC()), ("¨", n.NFKC())):
        tokenizer = word_level(normalizer=normalizer)
        tokenizer.add_tokens([AddedToken(content, normalized=True)])
        assert found_in(tokenizer).border is None
    tokenizer = word_level(normalizer=n.Replace("_", " "))
    tokenizer.add_tokens([AddedToken("a_b", normalized=True)])
    assert found_in(tokenizer).border is None
    tokenizer = word_level(normalizer=n.Lowercase())
    tokenizer.add_tokens([AddedToken("<q>", normalized=True)])
    assert found_in(tokenizer).border is boundaries._AT_SPACES


@pytest.mark.parametrize("flags", [{"lstrip": True}, {"rstrip": True}, {"content": "new york"}])
def test_added_tokens_with_spaces_keep_their_texts_whole(flags):
    content = flags.pop("content", "<mask>")
    special, normalized = word_level(), word_level()
    special.add_tokens([AddedToken(content, normalized=False, **flags)])
    normalized.add_tokens([AddedToken(content, normalized=True, **flags)])
    assert found_in(special).kept_whole == (content,)
    assert found_in(normalized).border is None
