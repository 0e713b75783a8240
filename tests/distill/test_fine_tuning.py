"""Training on pairs of texts after the distillation."""

import functools
import gzip
import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from small_build import generated_sentences, model_bytes
from torch.utils.data import ConcatDataset

from st_static.distill import fine_tuning, pipeline
from st_static.distill.batches import RandomBatches
from st_static.distill.config import PairsConfig
from st_static.distill.distillation import SparseTrainer
from st_static.distill.fine_tuning import PairBatches, PairIds, Turns, pairs_loss
from st_static.distill.pairs import given_pairs
from st_static.distill.pipeline import build
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import unit_rows
from st_static.tokens.ragged import Ragged

TRAINING = {"max_steps": 60}


@pytest.fixture(scope="module")
def config(built_config, built, tmp_path_factory):
    """A recipe of its own, whose stages before the distillation are there."""
    folder = tmp_path_factory.mktemp("fine-tuning")
    shutil.copytree(built / "work", folder / "work")
    training = replace(built_config.distillation, batch_size=8)
    own = {"output": str(folder / "model"), "work_dir": str(folder / "work")}
    return replace(built_config, distillation=training, **own)


@pytest.fixture(scope="module")
def plain(config):
    """The build before any pairs."""
    return build(config)


def write_pairs(file, pairs):
    text = "".join(json.dumps(pair) + "\n" for pair in pairs)
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


@pytest.fixture(scope="module")
def sentence_pairs(config):
    """Texts paired at random."""
    texts = generated_sentences(160, seed=3)
    return [
        {"anchor": a, "positive": b} for a, b in zip(texts[:80], texts[80:], strict=True) if a != b
    ]


def with_pairs(config, folder, **pairs):
    return replace(config, output=str(folder / "model"), pairs=PairsConfig(**pairs))


def rank_of_positives(model, pairs):
    sides = (model.encode([pair[side] for pair in pairs]) for side in ("anchor", "positive"))
    cosines = np.matmul(*(side if i == 0 else side.T for i, side in enumerate(sides)))
    return float((cosines > np.diag(cosines)[:, None]).sum(axis=1).mean())


@pytest.mark.parametrize("head", [0, 4])
def test_pairs_come_nearer_by_training(config, sentence_pairs, tmp_path, head, monkeypatch):
    monkeypatch.setattr(fine_tuning, "_LEARNING_RATE", 0.03)
    # Of a teacher with random weights, sentences from many candidates leave only noise.
    few = functools.partial(pipeline.write_selection, max_candidates=50)
    monkeypatch.setattr(pipeline, "write_selection", few)
    config = replace(config, work_dir=str(tmp_path / "work"))
    plain = build(replace(config, output=str(tmp_path / "plain")))
    file = write_pairs(tmp_path / "pairs.jsonl.gz", sentence_pairs)
    own = with_pairs(config, tmp_path, files=str(file), max_steps=200)
    own = replace(
        own, distillation=replace(own.distillation, head=head, terms="full" if head else "paper")
    )
    own = replace(own, pca=replace(own.pca, continuations=0.0))  # few words, spelled as by pieces
    result = build(own)
    figures = result.stage("pairs").figures
    assert figures["steps"] == 200
    assert figures["pairs"] == len(sentence_pairs)
    before = SentenceTransformer(str(plain.output), device="cpu")
    after = SentenceTransformer(str(result.output), device="cpu")
    ranks = [rank_of_positives(model, sentence_pairs) for model in (before, after)]
    assert ranks[1] < 0.75 * ranks[0]
    distilled = result.stage("distillation").figures["teacher_agreement"]
    assert figures["teacher_agreement"] > 0.85 * distilled
    last, stage = result.work.head("pairs"), result.work.head("distillation")
    assert (last is None) == (stage is None) == (not head)
    record = json.loads((result.output / "st_static.json").read_text())
    assert record["recipe"]["pairs"]["files"] == ["pairs.jsonl.gz"]


def test_a_fine_tuning_that_was_interrupted_gives_the_same_bytes(
    config, sentence_pairs, tmp_path, monkeypatch
):
    file = write_pairs(tmp_path / "pairs.jsonl", sentence_pairs)
    own = with_pairs(config, tmp_path, files=str(file), **TRAINING)
    result = build(own)
    expected = model_bytes(result.output)
    shutil.rmtree(result.stage("pairs").folder)
    function = pipeline.fine_tune

    def interrupted(*args, **options):
        function(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as fault:
        fault.setattr(pipeline, "fine_tune", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(own)
    assert model_bytes(build(own).output) == expected


def test_another_margin_gives_another_table_and_the_same_bytes_after_a_kill(
    config, plain, sentence_pairs, tmp_path, monkeypatch
):
    file = write_pairs(tmp_path / "pairs.jsonl", sentence_pairs)
    changes = [{}, {"margin": 0.1}, {"margin": 0.2}]
    own = [with_pairs(config, tmp_path, files=str(file), **TRAINING, **more) for more in changes]
    results = [build(each) for each in own]
    folders = [result.stage("pairs").folder for result in results]
    tables = {(folder / "table.safetensors").read_bytes() for folder in folders}
    assert len(set(folders)) == len(tables) == len(own)
    expected = model_bytes(results[-1].output)
    shutil.rmtree(folders[-1])
    steps, training_step = itertools.count(1), SparseTrainer.training_step

    def breaking(self, *args, **kwargs):
        if next(steps) == 25:
            raise KeyboardInterrupt
        return training_step(self, *args, **kwargs)

    with monkeypatch.context() as fault:
        fault.setattr(SparseTrainer, "training_step", breaking)
        with pytest.raises(KeyboardInterrupt):
            build(own[-1])
    assert model_bytes(build(own[-1]).output) == expected


@pytest.mark.parametrize("margin", [0.0, 0.3])
@pytest.mark.parametrize("n_sides", [2, 3])
def test_the_loss_of_pairs_is_that_of_labse(margin, n_sides):
    sides = np.random.default_rng(0).normal(size=(n_sides, 7, 5))
    config = PairsConfig(files="pairs.jsonl", margin=margin)
    words = StaticWordEmbedding(build_tokenizer(["a"]), embedding_dim=5)
    loss = pairs_loss(SentenceTransformer(modules=[words], device="cpu"), config)
    found = loss.compute_loss_from_embeddings(list(torch.from_numpy(sides)), torch.empty(0))
    anchors, positives, *negatives = (unit_rows(side) for side in sides)

    # Hard negatives are texts of the second side, which no text has to find.
    wrong = [text for side in negatives for text in side]
    losses = []
    for i, anchor in enumerate(anchors):
        own = np.exp((anchor @ positives[i] - margin) / 0.05)
        others = [text for j, text in enumerate(positives) if j != i] + wrong
        all_others = sum(np.exp(anchor @ text / 0.05) for text in others)
        losses.append(-np.log(own / (own + all_others)))
    assert float(found) == pytest.approx(np.mean(losses), rel=1e-6)


def test_few_queries_with_many_answers_are_trained_on_to_the_last_step(config, tmp_path):
    texts = generated_sentences(90, seed=5)
    pairs = [
        {"anchor": texts[i % 12], "positive": text, "negative": texts[-1 - i]}
        for i, text in enumerate(texts[12:60])
    ]
    file = write_pairs(tmp_path / "pairs.jsonl", pairs)
    own = with_pairs(config, tmp_path, files=str(file), **TRAINING)
    assert build(own).stage("pairs").figures["steps"] == TRAINING["max_steps"]


def test_other_pairs_make_another_stage_and_no_others(config, plain, sentence_pairs, tmp_path):
    folders = []
    for name, pairs in (("a", sentence_pairs), ("b", sentence_pairs[:-1]), ("c", sentence_pairs)):
        file = write_pairs(tmp_path / f"{name}.jsonl", pairs)
        result = build(with_pairs(config, tmp_path, files=str(file), **TRAINING | {"max_steps": 2}))
        folders.append(result.stage("pairs").folder)
        before = result.stage("distillation").folder
        assert before == plain.stage("distillation").folder
    assert folders[0] == folders[2] != folders[1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), max_size=60), st.integers(2, 5))
def test_no_text_is_twice_in_a_batch(sides, batch_size):
    batches = PairBatches(np.array(sides, np.int64).reshape(-1, 2), batch_size)
    seen = list(batches)
    for batch in seen:
        texts = [text for pair in batch for text in sides[pair]]
        assert len(batch) == batch_size
        assert len(texts) == len(set(texts))
    pairs = [pair for batch in seen for pair in batch]
    assert len(pairs) == len(set(pairs))
    if len({text for pair in sides for text in pair}) == 2 * len(sides):
        assert len(seen) == len(sides) // batch_size


def test_pairs_and_sentences_take_turns_in_new_orders():
    pairs = PairBatches(np.arange(10).reshape(5, 2), 2, seed=1)
    sentences = RandomBatches(7, 2, seed=1)
    both = ConcatDataset([range(5), range(7)])  # type: ignore[list-item]
    turns = list(Turns(both, [pairs, sentences], steps=13))
    assert len(turns) == 13
    assert [max(batch) < 5 for batch in turns] == [i % 2 == 0 for i in range(13)]
    orders = [tuple(map(tuple, turns[i : i + 4 : 2])) for i in (0, 4, 8)]
    assert len(set(orders)) > 1
    assert list(Turns(both, [pairs, sentences], steps=13)) == turns


def test_pairs_are_read_by_their_keys(tmp_path):
    """In any order; other keys are ignored."""
    rows = [
        {"negative": "other", "id": i, "anchor": f"query {i}", "positive": f" text {i}\n"}
        for i in range(3)
    ]
    rows[1] = dict(reversed(rows[1].items()))
    file = write_pairs(tmp_path / "pairs.jsonl", rows)
    pairs = given_pairs(PairsConfig(files=str(file)), 2)
    assert pairs is not None
    assert pairs.to_pydict() == {
        "anchor": ["query 0", "query 1", "query 2"],
        "positive": ["text 0", "text 1", "text 2"],
        "negative": ["other"] * 3,
    }
    assert given_pairs(PairsConfig(), 2) is None


PAIR, TRIPLET = {"anchor": "x", "positive": "y"}, {"anchor": "x", "positive": "y", "negative": "z"}
KEYS = "expected the keys anchor and positive, .* in each line or in none, but the keys are"


@pytest.mark.parametrize(
    ("first", "line", "message"),
    [
        (
            PAIR,
            {"anchor": "a", "positive": ""},
            "expected a text as 'positive', but got ''",
        ),
        (PAIR, {"anchor": "  ", "positive": "b"}, "line 2: expected a text as 'anchor'"),
        (PAIR, {"anchor": 3, "positive": "b"}, "line 2: expected a text as 'anchor', but got 3"),
        (
            PAIR,
            {"anchor": "a", "positive": "a "},
            r"'anchor' and 'positive' are equal \('a'",
        ),
        (TRIPLET, TRIPLET | {"negative": "y"}, r"'positive' and 'negative' are equal \('y'\)"),
        (PAIR, {"query": "a", "positive": "b"}, f"line 2: {KEYS} query, positive. Rename"),
        (PAIR, TRIPLET, f"line 2: {KEYS} anchor, positive, negative"),
        (TRIPLET, PAIR, f"line 2: {KEYS} anchor, positive"),
        (PAIR, {}, f"line 2: {KEYS} none"),
        ({"text": "x"}, PAIR, f"line 1: {KEYS} text. Rename those that hold the sides"),
        ({"anchor": "x", "negative": "y"}, PAIR, f"line 1: {KEYS} anchor, negative"),
    ],
)
def test_what_is_no_pair_is_told_with_its_line(tmp_path, first, line, message):
    file = write_pairs(tmp_path / "pairs.jsonl", [first, line])
    with pytest.raises(ValueError, match=message):
        given_pairs(PairsConfig(files=str(file)), 2)


def test_too_few_pairs_are_told_before_any_work(config, tmp_path):
    file = write_pairs(tmp_path / "pairs.jsonl", [{"anchor": "a", "positive": "b"}])
    own = replace(with_pairs(config, tmp_path, files=str(file)), work_dir=str(tmp_path / "work"))
    with pytest.raises(ValueError, match=r"batch_size is 8, but there are only 1 pairs"):
        build(own)
    assert not list((tmp_path / "work").glob("sentences*"))


def test_pairs_that_share_a_text_fill_no_batch(config, tmp_path):
    texts = generated_sentences(40, seed=4)
    file = write_pairs(
        tmp_path / "pairs.jsonl", [{"anchor": texts[0], "positive": text} for text in texts[1:]]
    )
    with pytest.raises(ValueError, match=r"No 8 of 39 pairs .* have all texts"):
        build(with_pairs(config, tmp_path, files=str(file), **TRAINING))


def test_a_file_of_another_kind_or_without_pairs_is_refused(tmp_path):
    (tmp_path / "pairs.csv").write_text("a,b\n")
    with pytest.raises(ValueError, match=r"pairs\.files: .*pairs\.csv is not \.jsonl"):
        given_pairs(PairsConfig(files=str(tmp_path / "pairs.csv")), 2)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(ValueError, match=r"There are no pairs in .*empty\.jsonl"):
        given_pairs(PairsConfig(files=str(tmp_path / "empty.jsonl")), 2)
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=r"broken\.jsonl\.gz cannot be read"):
        given_pairs(PairsConfig(files=str(tmp_path / "broken.jsonl.gz")), 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"files": []}, r"pairs\.files must name a file, or be null"),
        ({"max_steps": 0}, "max_steps: expected a whole number of at least 1"),
        ({"margin": -0.1}, "margin: expected a number of at least 0, but got -0.1"),
        ({"margin": 0.1}, r"pairs\.margin needs pairs\. Give pairs\.files"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        PairsConfig(**values)


def test_a_pair_with_a_side_of_unknown_words_is_left_out():
    pairs = pa.table({"anchor": ["a", "b", "?"], "positive": ["b", "?", "a"]})

    def tokenize(texts):
        known = [[] if text == "?" else [ord(text)] for text in texts.to_pylist()]
        lengths = [len(ids) for ids in known]
        return Ragged(
            np.array([i for ids in known for i in ids]), np.concatenate([[0], np.cumsum(lengths)])
        )

    ids = PairIds.of(pairs, tokenize)
    assert ids.sides.shape == (1, 2)
    assert ids.texts.take(ids.sides[0]).values.tolist() == [ord("a"), ord("b")]
