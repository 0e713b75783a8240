"""Spans and passages: of the corpus's own sentences, none of them held out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_files import write_shards
from tokenizers import Tokenizer, models, pre_tokenizers

from st_static.distill.corpus.sentences import sentence_key
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.spans_and_passages import (
    PassagePlan,
    choose,
    draw_passages,
    draw_spans,
)
from st_static.distill.engines import Processes
from st_static.model.tokenizer import build_tokenizer

NEVER = np.uint64(2**64 - 1)
SENTENCES = [f"Sentence number {i} has {'very ' * (i % 7)}few words." for i in range(300)]


def shards_of(folder: Path, parts: list[list[str]]) -> Shards:
    return Shards(write_shards(folder, parts), Processes(1))


@pytest.fixture
def shards(tmp_path):
    return shards_of(tmp_path, [SENTENCES[:120], SENTENCES[120:]])


def test_a_span_is_a_run_of_words_of_a_sentence():
    tokenizer = build_tokenizer(["sentence", "number"], ["##s", "h", "##a"])
    spans = draw_spans(SENTENCES, 200, [2, 4], tokenizer)
    assert len(spans) > 50
    assert {len(span.replace(".", " .").split()) for span in spans} == {2, 3, 4}
    assert all(any(span in text for text in SENTENCES) for span in spans)
    assert all(span == span.strip() for span in spans)


@given(st.lists(st.text(max_size=30), max_size=8), st.integers(1, 4), st.integers(0, 3))
def test_of_any_text_a_span_is_a_part(texts, least, more):
    for span in draw_spans(texts, 8, [least, least + more], build_tokenizer(["a", "b"])):
        assert span
        assert any(span in text for text in texts)


def test_of_pieces_each_is_a_word():
    vocabulary = [("<unk>", 0.0), *((letter, -1.0) for letter in "猫が好き犬も")]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([])
    spans = draw_spans(["猫が好き", "犬も好き"], 2, [2, 3], tokenizer)
    assert {len(span) for span in spans} <= {2, 3}
    assert all(span in "猫が好き" or span in "犬も好き" for span in spans)


def test_spans_do_not_depend_on_the_order_of_the_sentences_and_come_once():
    tokenizer = build_tokenizer([])
    spans = draw_spans(SENTENCES, 50, [1, 5], tokenizer)
    assert spans == draw_spans(SENTENCES[::-1], 50, [1, 5], tokenizer)
    assert len(spans) == len(set(spans)) <= 50
    assert draw_spans(SENTENCES, 0, [1, 5], tokenizer) == []


def sentences_of(passage: str) -> list[str]:
    return [f"Sentence{part}" for part in passage.split("Sentence") if part]


def test_a_passage_is_a_run_of_sentences_of_a_shard(shards):
    passages = draw_passages(shards, 40, PassagePlan([15, 40], NEVER, []))
    assert len(passages) >= 40
    for passage in passages:
        parts = [part.strip() for part in sentences_of(passage)]
        numbers = [SENTENCES.index(part) for part in parts]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len({number < 120 for number in numbers}) == 1  # of one shard
        assert 15 <= len(passage.split()) <= 40
        assert passage == " ".join(SENTENCES[number] for number in numbers)


def test_passages_have_all_the_lengths_that_are_asked_for(shards):
    lengths = {len(p.split()) for p in draw_passages(shards, 300, PassagePlan([15, 40], NEVER, []))}
    assert min(lengths) < 20
    assert max(lengths) > 35


def test_no_passage_holds_a_sentence_that_is_held_out(shards):
    keys = np.array([sentence_key(text) for text in SENTENCES], np.uint64)
    bound = np.sort(keys)[-30]
    held_out = {SENTENCES[i] for i in np.flatnonzero(keys >= bound)}
    passages = draw_passages(shards, 100, PassagePlan([15, 40], bound, []))
    assert passages
    assert not any(text in passage for passage in passages for text in held_out)


def test_text_without_spaces_is_joined_without(tmp_path):
    texts = [f"これは{i}番目の短い文章です。" for i in range(50)]
    shards = shards_of(tmp_path, [texts])
    passages = draw_passages(shards, 10, PassagePlan([20, 40], NEVER, ["ja"]))
    assert passages
    assert not any(" " in passage for passage in passages)
    assert any(texts[i] + texts[i + 1] in p for p in passages for i in range(49))


def test_where_the_corpus_is_short_there_are_fewer(tmp_path):
    shards = shards_of(tmp_path, [["Too short."], []])
    assert draw_passages(shards, 5, PassagePlan([15, 40], NEVER, [])) == []
    assert draw_passages(Shards([], Processes(1)), 5, PassagePlan([15, 40], NEVER, [])) == []


def test_passages_that_the_teacher_does_not_read_to_their_end_are_left_out(shards):
    def fits(texts):
        return np.array([len(text) < 150 for text in texts.to_pylist()])

    every = draw_passages(shards, 40, PassagePlan([15, 40], NEVER, []))
    short = [text for text in every if len(text) < 150]
    assert 0 < len(short) < len(every)
    assert draw_passages(shards, 40, PassagePlan([15, 40], NEVER, [], fits)) == short


def test_two_workers_draw_what_one_does(tmp_path):
    shards = shards_of(tmp_path, [SENTENCES[start : start + 40] for start in range(0, 300, 40)])
    plan = PassagePlan([15, 40], NEVER, [])
    two = draw_passages(Shards(shards.files, Processes(2)), 60, plan)
    assert two == draw_passages(shards, 60, plan)
    assert len(two) > 60


def test_a_sample_is_the_same_in_any_order():
    assert choose(SENTENCES, 20) == choose(SENTENCES[::-1], 20)
    assert len(choose(SENTENCES, 1000)) == 300
