"""A card's figures show what they are drawn from, and are the same each time."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib import font_manager
from PIL import Image

from st_static.evaluate.analysis.explain import Explanation, Word, explain
from st_static.evaluate.speed import MeasuredSpeed
from st_static.model.static_model import read_static_model
from st_static.publish.card import figures
from st_static.publish.card.facts import CardFacts
from st_static.publish.card.figures import draw_all


@pytest.fixture
def facts():
    columns = ["model", "origin", "STS (2/10)", "Avg (2/56)"]
    rows = [
        dict(zip(columns, (name, "measured", score, score), strict=True))
        for name, score in (("tiny", 70.0), ("org/teacher", 80.0), ("peer", 60.0))
    ]
    return CardFacts(
        name="tiny",
        hub_id=None,
        fingerprint=None,
        license="mit",
        dimension=8,
        tokens=100,
        dtype="float32",
        bytes_on_disk=1,
        bytes_in_memory=1,
        recipe={},
        recipe_hash="",
        stages={"distillation": {"losses": [[10, 3.5], [20, 3.25]]}},
        seconds={},
        versions={},
        teacher_id="org/teacher",
        results=[],
        n_tasks=2,
        scores={"columns": columns, "rows": rows},
        left_out=[],
        benchmark="MTEB(eng, v1)",
        published_source="",
        speed=[
            MeasuredSpeed("tiny", "one", 90_000),
            MeasuredSpeed("tiny", "two", 9_000),
            MeasuredSpeed("org/teacher", "one", 100),
        ],
        processor="a processor",
        threads=2,
        load=0.5,
        limits=[],
        lengths=[
            {"tokens": "1-5", "sentences": 30, "agreement": 61.25},
            {"tokens": "6-10", "sentences": 3, "agreement": None},
            {"tokens": "all", "sentences": 33, "agreement": 60.0},
        ],
        variances=[4.0, *np.linspace(2, 1, 8).tolist()],
    )


@pytest.fixture
def explanation(built):
    return explain(read_static_model(built / "model"), "Baba $bade figo", "bade kuku$")


def test_each_figure_has_its_numbers_in_the_alt_text(facts, explanation, tmp_path):
    alts = {f.file: f.alt for f in draw_all(facts, explanation, tmp_path)}
    assert list(alts) == [
        f"{n}.png" for n in ("scores", "speed", "lengths", "variance", "distillation", "words")
    ]
    assert "tiny 70.0, org/teacher 80.0, peer 60.0" in alts["scores.png"]
    assert "tiny by one 90,000; tiny by two 9,000; org/teacher by one 100" in alts["speed.png"]
    assert alts["lengths.png"].endswith(": 1-5 tokens 61.2.")
    assert "first 1, with 25.0 % of the variance" in alts["variance.png"]
    assert "from 3.500 at step 10 to 3.250 at step 20" in alts["distillation.png"]
    assert f"cosine of {explanation.similarity:.2f}" in alts["words.png"]


@pytest.fixture
def saved(monkeypatch):
    """The figures that are saved, by name, instead of files."""
    figures_of = {}
    monkeypatch.setattr(figures, "save", lambda figure, file: figures_of.update({file: figure}))
    return figures_of


def test_the_scores_figure_tells_partial_means_and_the_teacher(facts, saved):
    figures.draw_scores(facts, "scores")
    [axes] = saved["scores"].axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["STS\n(2/10)", "Avg\n(2/56)"]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["tiny", "org/teacher (teacher)", "peer"]


def test_each_encoder_has_a_marker_and_each_model_one_label_in_its_colour(facts, saved):
    """Also where speeds are nearly equal: no label has to be matched with one of several points."""
    near = [
        *(MeasuredSpeed("tiny", "one", 4300),),
        *(MeasuredSpeed("tiny", "two", 4290),),
        *(MeasuredSpeed("org/teacher", "one", 100),),
    ]
    figures.draw_speed(replace(facts, speed=near), "speed")
    [axes] = saved["speed"].axes
    drawn = [line for line in axes.lines if len(line.get_xdata())]
    markers = {entry.encoder: line.get_marker() for entry, line in zip(near, drawn, strict=True)}
    assert drawn[2].get_marker() == drawn[0].get_marker() != drawn[1].get_marker()
    named = zip(axes.get_legend().get_texts(), axes.get_legend().legend_handles, strict=True)
    assert {text.get_text(): line.get_marker() for text, line in named} == markers
    labels = {text.get_text(): text.get_color() for text in axes.texts}
    assert labels == {
        "tiny": drawn[0].get_color(),
        "org/teacher (teacher)": drawn[2].get_color(),
    }
    assert drawn[0].get_color() == drawn[1].get_color() != drawn[2].get_color()


def test_one_step_is_no_curve(facts, explanation, tmp_path):
    one = replace(facts, stages={"distillation": {"losses": [[600, 4.314]]}})
    drawn = {f.file for f in draw_all(one, explanation, tmp_path)}
    assert "distillation.png" not in drawn
    assert not (tmp_path / "distillation.png").exists()
    assert "scores.png" in drawn


def test_figures_stand_on_a_white_plate_and_are_the_same_each_time(facts, explanation, tmp_path):
    draw_all(facts, explanation, tmp_path / "one")
    draw_all(facts, explanation, tmp_path / "two")
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
        pixels = np.asarray(Image.open(path).convert("RGBA"))
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert (edge == 255).all()
        assert pixels.min() < 100  # something is drawn


def test_what_there_are_no_facts_for_is_not_drawn(facts, explanation, tmp_path, built):
    bare = replace(facts, lengths=[], stages={}, variances=[], speed=[])
    nothing = explain(read_static_model(built / "model"), "北", "baba")
    assert [f.file for f in draw_all(bare, nothing, tmp_path)] == ["scores.png"]


def test_a_heat_map_of_boxes_is_left_out(facts, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    tower = [Word("タワー", ["タワー"], [2], True)]
    japanese = Explanation(tower, tower, np.ones((1, 1)))
    assert "words.png" not in {figure.file for figure in draw_all(facts, japanese, tmp_path)}
    [record] = caplog.records
    assert "no heat map of words: no installed font has all characters of タワー" in record.message
    assert "apt-get install fonts-noto-cjk" in record.message
