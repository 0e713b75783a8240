"""Sentences to a vocabulary: counts as the tokenizer's own steps give them, and what is kept."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus import vocabulary
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.sentences import split_sentences
from st_static.distill.corpus.vocabulary import (
    choose_pieces,
    choose_words,
    count_shards,
    count_words,
    merge_counts,
    single_characters,
)
from st_static.distill.engines import Processes
from st_static.files import write_table
from st_static.tokens.tokenizer import ENGLISH, are_continuations, build_tokenizer, split_words


def reference_counts(texts: Iterable[str]) -> Counter[str]:
    """Words by the tokenizer's normaliser and pre-tokenizer, one text at a time."""
    tokenizer = build_tokenizer([])
    return Counter(word for text in texts for word in split_words(tokenizer, text))


def as_dict(counts: pa.Table) -> dict[str, int]:
    words = counts["text"].to_pylist()
    assert len(set(words)) == len(words)
    return dict(zip(words, counts["count"].to_pylist(), strict=True))


def table_of(counts: dict[str, int]) -> pa.Table:
    """Counts in the order that `count_shards` gives them."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return pa.table({"text": [r[0] for r in rows], "count": [r[1] for r in rows]})


def write_shards(folder: Path, shards: list[list[str]]) -> list[Path]:
    paths = [folder / f"sentences-{number:05d}.arrow" for number in range(len(shards))]
    for path, texts in zip(paths, shards, strict=True):
        write_table(path, pa.table({"text": pa.array(texts, pa.string())}))
    return paths


# -- counting --------------------------------------------------------------------------


def test_words_are_lower_cased_and_split_from_punctuation() -> None:
    counts = count_words(["The café's CAFE, the Über-cafe.", "世界 x2"])
    assert as_dict(counts) == reference_counts(["the cafe's cafe, the uber-cafe.", "世界 x2"])
    assert as_dict(counts) == {
        **{"the": 2, "cafe": 3, "'": 1, "s": 1, ",": 1, "uber": 1, "-": 1, ".": 1},
        **{"世": 1, "界": 1, "x2": 1},
    }


@settings(max_examples=200)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=8))
def test_counts_equal_those_of_each_text_alone(texts: list[str]) -> None:
    assert as_dict(count_words(texts)) == reference_counts(texts)


@settings(max_examples=100)
@given(st.text(st.sampled_from("aÄ ́  \u2801\u2802\u28ff\u200b.'-世"), max_size=30))
def test_counts_are_exact_around_odd_characters(text: str) -> None:
    assert as_dict(count_words([text])) == reference_counts([text])


def test_counts_are_exact_where_every_braille_pattern_occurs() -> None:
    texts = [" ".join(map(chr, range(0x2800, 0x2900))), "and words"]
    assert as_dict(count_words(texts)) == reference_counts(texts)


def test_counts_of_real_text_equal_the_reference() -> None:
    sentences = split_sentences(read_docstrings(["json", "logging", "argparse"]))
    assert len(sentences) > 300
    assert as_dict(count_words(sentences)) == reference_counts(sentences)


def test_arrow_arrays_count_as_lists_do() -> None:
    texts = ["one two", "", "two  three ", " two"]
    expected = {"one": 1, "two": 3, "three": 1}
    assert as_dict(count_words(texts)) == as_dict(count_words(pa.array(texts))) == expected
    assert as_dict(count_words(pa.array(texts)[1:3])) == {"two": 1, "three": 1}


@pytest.mark.parametrize("texts", [[], [""], [" "]])
def test_nothing_has_no_words(texts: list[str]) -> None:
    assert as_dict(count_words(texts)) == {}


# -- merging ---------------------------------------------------------------------------

parts_of_text = st.lists(st.lists(st.text("ab ", max_size=6), max_size=4), max_size=5)


@given(parts_of_text, st.randoms(use_true_random=False))
def test_merging_parts_gives_the_whole_in_any_order_and_grouping(parts, random) -> None:
    whole = reference_counts(text for part in parts for text in part)
    partials = [count_words(part) for part in parts]
    random.shuffle(partials)
    assert as_dict(merge_counts(partials)) == whole
    cut = random.randint(0, len(partials))
    grouped = merge_counts([merge_counts(partials[:cut]), merge_counts(partials[cut:])])
    assert as_dict(grouped) == whole


def test_merging_nothing_gives_nothing() -> None:
    assert as_dict(merge_counts([])) == {}


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_counted_in_the_order_of_frequency_then_alphabet(
    tmp_path: Path, workers: int
) -> None:
    shards = [["b a c", "d b"], [], ["a b c e"], ["f f f f"]]
    counts = count_shards(write_shards(tmp_path, shards), Processes(workers), tmp_path, ENGLISH)
    assert counts.to_pydict() == {
        "text": ["f", "b", "a", "c", "d", "e"],
        "count": [4, 3, 2, 2, 1, 1],
    }


@pytest.mark.parametrize("cut", [1, 7, 50])
def test_the_cut_into_shards_makes_no_difference(tmp_path: Path, cut: int) -> None:
    sentences = split_sentences(read_docstrings(["json"]))[:200]
    whole = table_of(reference_counts(sentences))
    shards = [sentences[start::cut] for start in range(cut)]
    counts = count_shards(write_shards(tmp_path, shards), Processes(1), tmp_path, ENGLISH)
    assert counts.to_pydict() == whole.to_pydict()


def test_counting_that_was_interrupted_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = write_shards(tmp_path, [["b a c", "d b"], [], ["a b c e"], ["f f f f"]])
    counted: list[int] = []
    count = vocabulary.count_chunks

    def interrupt_third(texts: pa.Array, pattern: str | None) -> pa.Table:
        counted.append(len(texts))
        if len(counted) == 3:
            raise KeyboardInterrupt
        return count(texts, pattern)

    monkeypatch.setattr(vocabulary, "count_chunks", interrupt_third)
    with pytest.raises(KeyboardInterrupt):
        count_shards(shards, Processes(1), tmp_path, ENGLISH)
    counts = count_shards(shards, Processes(1), tmp_path, ENGLISH)
    assert counted == [2, 0, 1, 1, 1]
    assert dict(zip(*counts.to_pydict().values(), strict=True))["b"] == 3
    assert sorted(tmp_path.iterdir()) == shards


# -- choosing --------------------------------------------------------------------------


def chosen(counts: dict[str, int], **options: int) -> list[str]:
    return choose_words(table_of(counts), VocabularyConfig(**options))["text"].to_pylist()


def test_the_most_frequent_words_are_kept() -> None:
    counts = {"rare": 5, "often": 50, "some": 20}
    assert chosen(counts, size=2) == ["often", "some"]
    assert chosen(counts, size=3) == ["often", "some", "rare"]


def test_min_count_is_included() -> None:
    counts = {"four": 4, "five": 5, "six": 6}
    assert chosen(counts, size=2, min_count=5) == ["six", "five"]
    assert chosen(counts, size=3, min_count=4) == ["six", "five", "four"]
    with pytest.raises(ValueError, match="offers only 1 words that occur at least 6 times"):
        chosen(counts, size=2, min_count=6)


def test_of_equally_frequent_words_the_alphabet_decides() -> None:
    assert chosen({"c": 5, "a": 5, "b": 5}, size=2) == ["a", "b"]


def test_words_of_punctuation_only_take_no_place() -> None:
    counts = {",": 99, "the": 50, "...": 40, "—": 30, "«": 30, "$": 20, "£": 10, "a1": 6}
    assert chosen(counts, size=3) == ["the", "£", "a1"]


@pytest.mark.parametrize("counts", [{}, {"rare": 4}, {".": 50, "rare": 4}])
def test_a_corpus_without_any_vocabulary_word_is_an_error(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"No word .* at least 5 times \(vocabulary\.min_count\)"):
        chosen(counts, size=9, min_count=5)


def test_a_vocabulary_larger_than_the_corpus_offers_is_an_error() -> None:
    assert chosen({"a": 9, "b": 9}, size=2) == ["a", "b"]
    with pytest.raises(
        ValueError, match=r"vocabulary\.size is 3, but .* only 2 words .* at most 2"
    ):
        chosen({"a": 9, "b": 9}, size=3)


def test_words_longer_than_the_tokenizer_looks_at_take_no_place() -> None:
    assert chosen({"a" * 101: 9, "b" * 100: 8, "c": 7}, size=2) == ["b" * 100, "c"]


# -- single characters -----------------------------------------------------------------


def test_every_character_seen_begins_a_word_and_those_seen_inside_continue_one() -> None:
    assert single_characters(["ba", "c", "."]) == ["a", "b", "c", "##a"]


def test_no_word_of_the_corpus_is_unknown_to_the_tokenizer() -> None:
    """Whatever the vocabulary is, characters spell every word that was seen."""
    counts = reference_counts(["Ünïcode Wörter, 世界 and naïve £5 x²"])
    tokenizer = build_tokenizer(["and"], single_characters(counts))
    unknown = [word for word in counts if "[UNK]" in tokenizer.encode(word).tokens]
    assert unknown == [","]


# -- pieces ----------------------------------------------------------------------------

SEEN = ["walk", "walking", "unwalked", "naïve", "世界", "x²"]
PIECES = ["walk", "un", "##walk", "##ed", "##ing", "##ings", "zebra", "##ß"]


def spelling(
    kind: Literal["all", "used", "none"], unknown: Literal["pieces", "prefix"] = "pieces"
) -> Tokenizer:
    config = VocabularyConfig(pieces=kind, unknown=unknown).with_defaults_of(["en"])
    return build_tokenizer(
        ["walk"], choose_pieces(["walk"], PIECES, pa.chunked_array([SEEN]), config)
    )


def test_all_pieces_are_kept_unless_told_otherwise() -> None:
    assert VocabularyConfig().pieces == "all"
    assert set(PIECES) <= spelling("all").get_vocab().keys()


def test_used_pieces_spell_the_corpus_as_all_pieces_do() -> None:
    every, used = spelling("all"), spelling("used")
    for word in SEEN:
        assert used.encode(word).tokens == every.encode(word).tokens
    assert set(PIECES) & used.get_vocab().keys() == {"walk", "un", "##walk", "##ed", "##ing", "##ß"}


def test_without_pieces_characters_spell_words_outside_the_vocabulary() -> None:
    tokenizer = spelling("none")
    assert tokenizer.encode("walking").tokens == ["walk", "##i", "##n", "##g"]
    left = {token.removeprefix("##") for token in tokenizer.get_vocab()}
    assert {token for token in left if len(token) > 1} == {"[PAD]", "[UNK]", "walk"}


@pytest.mark.parametrize("kind", ["used", "none"])
def test_no_word_that_all_pieces_spell_is_unknown(kind: Literal["used", "none"]) -> None:
    every, tokenizer = spelling("all"), spelling(kind)
    for word in [*SEEN, "zebra", "walkings", "unß"]:
        assert "[UNK]" not in every.encode(word).tokens
        assert "[UNK]" not in tokenizer.encode(word).tokens


@pytest.mark.parametrize("kind", ["all", "used", "none"])
def test_behind_the_longest_prefix_of_an_unknown_word_stand_single_characters(
    kind: Literal["all", "used", "none"],
) -> None:
    """The prefix is what the tokenizer with pieces begins with: a word, a piece or a character."""
    pieces, prefix = spelling(kind), spelling(kind, "prefix")
    for word in ["walking", "unwalked", "naive", "zebra", "walkings", "unß"]:
        [first, *others] = prefix.encode(word).tokens
        assert first == pieces.encode(word).tokens[0]
        assert others == [f"##{character}" for character in word[len(first) :]]
    continuations = np.flatnonzero(are_continuations(prefix))
    assert {len(prefix.id_to_token(i)) for i in continuations} == {len("##c")}
    assert len(continuations) == sum(t.startswith("##") for t in prefix.get_vocab())
