"""Word counts to a vocabulary: which words are kept, and what spells the others."""

from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_files import reference_counts, write_shards
from tokenizers import Tokenizer

from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.vocabulary import (
    choose_pieces,
    choose_words,
    most_frequent,
    single_characters,
    tokens_of,
    write_vocabulary,
)
from st_static.distill.engines import Processes
from st_static.files import read_arrow
from st_static.model.tokenizer import build_tokenizer


def table_of(counts):
    columns = pa.array(counts, pa.string()), pa.array(counts.values(), pa.int64())
    return pa.table(columns, names=["text", "count"])


def chosen(counts, **options):
    return choose_words(table_of(counts), VocabularyConfig(**options))["text"].to_pylist()


PUNCTUATED = {",": 99, "the": 50, "...": 40, "—": 30, "«": 30, "$": 20, "£": 10, "a1": 6}


@pytest.mark.parametrize(
    ("counts", "options", "words"),
    [
        ({"rare": 5, "often": 50, "some": 20}, {"size": 2}, ["often", "some"]),
        ({"c": 5, "a": 5, "b": 5}, {"size": 2}, ["a", "b"]),  # the alphabet decides
        ({"four": 4, "five": 5, "six": 6}, {"size": 2, "min_count": 5}, ["six", "five"]),
        (PUNCTUATED, {"size": 3}, ["the", "£", "a1"]),
        # The tokenizer looks at no longer word.
        ({"a" * 101: 9, "b" * 100: 8, "c": 7}, {"size": 2}, ["b" * 100, "c"]),
    ],
)
def test_the_most_frequent_words_are_kept(counts, options, words):
    assert chosen(counts, **options) == words


@pytest.mark.parametrize(
    ("counts", "options", "says"),
    [
        *(
            (counts, {"size": 9}, r"only 0 words .* at least 5 .* Lower vocabulary\.min_count")
            for counts in ({}, {"rare": 4}, {".": 50, "rare": 4})
        ),
        ({"five": 5, "six": 6}, {"size": 2, "min_count": 6}, "only 1 words that occur at least 6"),
        ({"a": 9, "b": 9}, {"size": 3}, r"vocabulary\.size is 3, but .* only 2 words .* at most 2"),
    ],
)
def test_a_vocabulary_larger_than_the_corpus_offers_is_an_error(counts, options, says):
    with pytest.raises(ValueError, match=says):
        chosen(counts, **{"min_count": 5, **options})


def in_order(counts):
    return sorted(counts.items(), key=lambda row: (-row[1], row[0]))


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(1, 5), max_size=30),
    st.integers(1, 6),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
def test_the_most_frequent_of_parts_are_those_of_the_whole(counts, n_parts, size, rng):
    rows = list(counts.items())
    rng.shuffle(rows)
    parts = [table_of(dict(rows[number::n_parts])) for number in range(n_parts)]
    kept = most_frequent(parts, size)
    assert list(zip(*kept.to_pydict().values(), strict=True)) == in_order(counts)[:size]


TEXTS = [f"Walking {'again ' * (i % 3)}with ünï{i % 7}wörld, Nr. {i % 40}" for i in range(240)]


def run_stage(folder, n_shards, workers):
    """The files of the stage, of a corpus in so many shards."""
    folder.mkdir()
    shards = write_shards(folder, [TEXTS[number::n_shards] for number in range(n_shards)])
    config = VocabularyConfig(size=20, min_count=2, pieces="used")
    teacher, pieces = build_tokenizer(["a"]), ["##ing", "##king", "walk", "zebra", "un"]
    corpus = Shards(shards, Processes(workers))
    figures = write_vocabulary(folder, corpus, teacher, pieces, config=config)
    assert figures["distinct_words"] == len(reference_counts(TEXTS))
    files = set(folder.iterdir()) - set(shards)
    names = {"words.arrow", "tokenizer.json", "teacher_tokenizer.json"}
    assert {file.name for file in files} == names
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize(("n_shards", "n_ranges", "workers"), [(5, 3, 1), (3, 5, 2), (12, 1, 1)])
def test_the_vocabulary_does_not_depend_on_shards_ranges_and_workers(
    tmp_path, monkeypatch, n_shards, n_ranges, workers
):
    whole = run_stage(tmp_path / "whole", 1, 1)
    words = read_arrow(tmp_path / "whole/words.arrow")
    spoken = {w: n for w, n in reference_counts(TEXTS).items() if w not in ",."}
    assert list(zip(*words.to_pydict().values(), strict=True)) == in_order(spoken)[:20]
    kept = Tokenizer.from_file(str(tmp_path / "whole/tokenizer.json")).get_vocab()
    assert {"##ing", "##king", "walk", "zebra", "un"} & kept.keys() == set()  # a prefix is enough
    monkeypatch.setattr("st_static.distill.corpus.word_counts.n_ranges_of", lambda _: n_ranges)
    assert run_stage(tmp_path / "other", n_shards, workers) == whole


def test_no_word_of_the_corpus_is_unknown_to_the_tokenizer():
    """Whatever the vocabulary is, characters spell every word that was seen."""
    assert single_characters(["ba", "c", "."]) == ["a", "b", "c", "##a"]
    counts = reference_counts(["Ünïcode Wörter, 世界 and naïve £5 x²"])
    tokenizer = build_tokenizer(["and"], single_characters(counts))
    unknown = [word for word in counts if "[UNK]" in tokenizer.encode(word).tokens]
    assert unknown == [","]


SEEN = ["walk", "walking", "unwalked", "naïve", "世界", "x²"]
PIECES = ["walk", "un", "##walk", "##ed", "##ing", "##ings", "zebra", "##ß"]


def spelling(kind):
    config = VocabularyConfig(pieces=kind)
    used_by = partial(tokens_of, words=pa.chunked_array([SEEN]))
    characters = single_characters(SEEN)
    pieces = choose_pieces(["walk"], PIECES, characters, used_by, config=config)
    return build_tokenizer(["walk"], pieces)


def test_used_pieces_spell_the_corpus_as_all_pieces_do():
    every, used = spelling(VocabularyConfig().pieces), spelling("used")
    assert set(PIECES) <= every.get_vocab().keys()
    for word in SEEN:
        assert used.encode(word).tokens == every.encode(word).tokens
    assert set(PIECES) & used.get_vocab().keys() == {"walk", "un", "##walk", "##ed", "##ing", "##ß"}


def test_without_pieces_characters_spell_words_outside_the_vocabulary():
    tokenizer = spelling("none")
    assert tokenizer.encode("walking").tokens == ["walk", "##i", "##n", "##g"]
    left = {token.removeprefix("##") for token in tokenizer.get_vocab()}
    assert {token for token in left if len(token) > 1} == {"[PAD]", "[UNK]", "walk"}


@pytest.mark.parametrize("kind", ["used", "none"])
def test_no_word_that_all_pieces_spell_is_unknown(kind):
    every, tokenizer = spelling("all"), spelling(kind)
    for word in [*SEEN, "zebra", "walkings", "unß"]:
        assert "[UNK]" not in every.encode(word).tokens
        assert "[UNK]" not in tokenizer.encode(word).tokens
