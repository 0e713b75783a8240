"""Whole builds of other languages than English: what is published, and what carries over."""

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import yaml
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from small_build import small_config
from terminals import run_at_a_terminal

from st_static.distill.config import SentencePCAConfig
from st_static.distill.pipeline import build
from st_static.distill.report import report_table
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.vectors import unit_rows

NOUNS = ["彼女", "先生", "友達", "学生", "東京タワー", "本", "手紙", "新聞", "映画", "iPhone"]
PARTICLES = ["は", "が", "を", "に", "も", "の", "と", "では", "から", "まで"]
VERBS = ["読みます", "書きました", "見ていました", "がんばって直した", "食べなかった"]
GERMAN = ["Die Größe der Straße überrascht alle.", "Ein Mädchen hört schöne Lieder im Garten."]


def japanese_sentences(n_sentences):
    rng = np.random.default_rng(0)
    return [
        "".join(str(rng.choice(words)) for words in (NOUNS, PARTICLES, NOUNS, PARTICLES, VERBS))
        + "。"
        for _ in range(n_sentences)
    ]


def recipe_in(language, texts, teacher, folder, **changes):
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join(texts), "utf-8")
    config = small_config(teacher, corpus, folder, language=language, **changes)
    # Words of few sentences of text; a small table for a small vocabulary.
    distillation = replace(config.distillation, center="auto")
    pca = SentencePCAConfig(n_components=4)
    return replace(config, pca=pca, distillation=distillation)


def build_in(language, texts, teacher, folder, **changes):
    return build(recipe_in(language, texts, teacher, folder, **changes))


@pytest.fixture(scope="module")
def teacher_folder(make_model, tmp_path_factory):
    """A tiny teacher that reads bytes, and so any script."""
    folder = tmp_path_factory.mktemp("teacher")
    make_model("byte_level").save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def japanese(teacher_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("japanese")
    return build_in("ja", japanese_sentences(600), teacher_folder, folder)


def test_a_japanese_model_is_of_pieces_and_knows_its_text(japanese):
    description = json.loads((japanese.output / "tokenizer.json").read_text("utf-8"))
    assert description["model"]["type"] == "Unigram"
    record = json.loads((japanese.output / "st_static.json").read_text("utf-8"))
    assert record["recipe"]["language"] == "ja"
    assert japanese.stage("sentences").figures["too_short"] == 0
    encoder = FastEncoder.from_pretrained(japanese.output)
    known = encoder.encode(["先生が手紙を書きました。", "、。"]).any(axis=1)
    assert known.tolist() == [True, False]


def test_it_loads_in_sentence_transformers_and_model2vec(japanese):
    texts = [*japanese_sentences(20), "ＡＩと ｶﾞﾝﾊﾞﾙ。", "今日は 雨", "", "知らない漢字鬱"]
    expected = FastEncoder.from_pretrained(japanese.output).encode(texts)
    ours = SentenceTransformer(str(japanese.output), device="cpu").encode(texts)
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    theirs = StaticModel.from_pretrained(str(japanese.output), normalize=True).encode(texts)
    np.testing.assert_allclose(theirs, expected, atol=1e-6)


def test_the_target_is_centered_where_cosines_are_high_and_the_figures_say_so(japanese):
    vectors = unit_rows(japanese.work.sentence_vectors)
    assert (vectors @ vectors.T).mean() > 0.3
    assert japanese.stage("distillation").figures["centered"] is True
    assert japanese.stage("pca").figures["teacher_centered"] is True
    assert "the mean of the teacher vectors removed" in str(report_table(japanese, {}).caption)


def test_every_piece_has_a_vector_in_context_or_alone(japanese):
    table = japanese.work.table("extraction")
    assert not table[:2].any()
    assert table[2:].any(axis=1).all()
    alone = japanese.stage("extraction").figures["words_alone"]
    assert 0 < alone < 0.3 * len(table)  # characters that stand inside longer pieces only


def test_what_can_be_done_next_is_told_for_the_language_on_any_terminal(japanese, teacher_folder):
    folder = japanese.output.parent
    config = recipe_in("ja", japanese_sentences(600), teacher_folder, folder)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(asdict(config)), "utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "st_static.cli", "build", str(folder / "recipe.yaml")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert f"evaluate {japanese.output} --pairs PAIRS.csv" in result.stdout
    [line] = [line for line in result.stdout.splitlines() if "model.encode(" in line]
    assert "ファイル" in ast.literal_eval(line.partition("encode(")[2][:-1])[0]


def recipe_file(teacher, folder):
    """A recipe of Japanese, none of whose stages is there."""
    config = recipe_in("ja", japanese_sentences(300), teacher, folder)
    (folder / "recipe.yaml").write_text(yaml.safe_dump(asdict(config)), "utf-8")
    return str(folder / "recipe.yaml")


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
def test_learning_pieces_shows_its_progress_at_a_terminal(teacher_folder, tmp_path):
    command = ["-m", "st_static.cli", "build", recipe_file(teacher_folder, tmp_path)]
    status, shown = run_at_a_terminal([sys.executable, *command])
    assert status == 0
    begin, end = (shown.index(f" vocabulary: {what}") for what in ("learning", "running"))
    assert end < begin < shown.index("EM training") < shown.index(" pieces learnt in ")


def test_learning_pieces_tells_a_log_file_what_it_does(teacher_folder, tmp_path):
    command = ["-m", "st_static.cli", "build", recipe_file(teacher_folder, tmp_path)]
    result = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=True, timeout=120
    )
    lines = [line.partition(" vocabulary: ")[2] for line in result.stderr.splitlines()]
    told = [line for line in lines if line]
    assert len(told) == 4
    assert re.match(r"learning pieces from \d+ sentences", told[1])
    assert re.match(r"[\d,]+ pieces learnt in \d+\.\d s$", told[2])
    assert not result.stdout.startswith("\n")  # which the trainer's bars leave


@pytest.fixture(scope="module")
def german(teacher_folder, tmp_path_factory):
    texts = [f"{text} {i}" for i in range(150) for text in GERMAN]
    return build_in("de", texts, teacher_folder, tmp_path_factory.mktemp("german"))


def test_german_words_keep_their_umlauts(german):
    words = set(german.work.words["text"].to_pylist())
    assert {"größe", "straße", "mädchen", "hört", "schöne"} <= words
    assert "grosse" not in words


def test_a_turkish_word_is_one_with_capitals_and_without(teacher_folder, tmp_path):
    """A vocabulary with both would be two rows; the published tokenizer needs no st_static."""
    lines = ["İstanbul IŞIK ile doldu", "istanbul gece ışık saçar", "ILIK istanbul izmir ilk"]
    texts = [f"{line} {i}" for i in range(150) for line in lines]
    built = build_in("tr", texts, teacher_folder, tmp_path)
    counts = dict(zip(*built.work.words.to_pydict().values(), strict=True))
    assert (counts["istanbul"], counts["ışık"], counts["ılık"]) == (450, 300, 150)
    assert not {"i\u0307stanbul", "işik", "ilik"} & counts.keys()
    texts = ["İSTANBUL", "I\u0307stanbul", "i\u0307stanbul", "istanbul", "IŞIK", "ışık"]
    for encoder in (
        FastEncoder.from_pretrained(built.output),
        SentenceTransformer(str(built.output), device="cpu"),
        StaticModel.from_pretrained(built.output),
    ):
        vectors = encoder.encode(texts)
        np.testing.assert_allclose(vectors[:4], vectors[[3] * 4], atol=1e-6)
        np.testing.assert_allclose(vectors[4], vectors[5], atol=1e-6)
        assert np.abs(vectors).max(axis=1).min() > 0


def test_an_accented_piece_has_the_vector_of_the_teachers_own(german, teacher_folder):
    transformer = SentenceTransformer(str(teacher_folder), device="cpu")[0]
    # One token with the space before it; without one, it would be spelled by several.
    ids = transformer.tokenizer.backend_tokenizer.encode(" über").ids
    assert len(ids) == 3
    with torch.inference_mode():
        vectors = transformer.auto_model(torch.tensor([ids])).last_hidden_state[0]
    row = german.work.tokenizer.token_to_id("über")
    assert row is not None
    np.testing.assert_allclose(german.work.table("extraction")[row], vectors[1], atol=1e-4)


def test_several_languages_share_one_table_of_pieces(teacher_folder, tmp_path):
    texts = [*japanese_sentences(300), *(f"{text} {i}" for i in range(100) for text in GERMAN)]
    result = build_in(["de", "ja"], texts, teacher_folder, tmp_path)
    pieces = set(result.work.words["text"].to_pylist())
    assert {"▁schöne", "▁mädchen", "▁lieder"} <= pieces
    assert any(piece.startswith("先生") for piece in pieces)
