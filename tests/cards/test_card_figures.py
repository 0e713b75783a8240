"""A card's figures show what they are drawn from, and are the same each time."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from st_static.cards import card_figures as figures
from st_static.cards.card_figures import draw_all
from st_static.cards.facts import CardFacts
from st_static.encode.explain import Explanation, Word, explain
from st_static.evaluate.figures import ENCODER_MARKS, new_axes
from st_static.evaluate.speed import FAST, MODEL2VEC, SENTENCE_TRANSFORMERS, MeasuredSpeed
from st_static.model.model_folder import read_static_model


@pytest.fixture
def facts():
    columns = ["model", "origin", "STS (2/10)", "Avg (2/56)"]
    rows = [
        dict(zip(columns, (name, "measured", score, score), strict=True))
        for name, score in (("tiny", 70.0), ("org/teacher", 80.0), ("peer", 60.0))
    ]
    return CardFacts(
        name="tiny",
        record={
            "recipe": {"teacher": {"model": "org/teacher"}},
            "stages": {
                "pca": {"teacher_agreement": 55.25},
                "distillation": {
                    "teacher_agreement": 66.5,
                    "best_step": 20,
                    "losses": [[10, 3.5], [20, 3.25], [30, 3.5]],
                    "agreements": [[10, 60.0], [20, 66.5], [30, 65.0]],
                },
            },
        },
        dimension=8,
        scores={"columns": columns, "rows": rows},
        speed=[
            MeasuredSpeed("tiny", FAST, 90_000),
            MeasuredSpeed("tiny", SENTENCE_TRANSFORMERS, 9_000),
            MeasuredSpeed("org/teacher", SENTENCE_TRANSFORMERS, 100),
        ],
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
    assert (
        "tiny by FastEncoder 90,000; tiny by sentence-transformers 9,000; "
        "org/teacher by sentence-transformers 100." in alts["speed.png"]
    )
    assert alts["lengths.png"].endswith(": 1-5 tokens 61.2.")
    assert "first 1, with 25.0 % of the variance" in alts["variance.png"]
    assert "from 55.2 before the distillation to 66.5 at step 20" in alts["distillation.png"]
    assert f"cosine of {explanation.similarity:.2f}" in alts["words.png"]


@pytest.fixture
def axes():
    return new_axes()[1]


def test_the_scores_figure_has_a_dot_for_each_model_and_type(facts, axes):
    figures.draw_scores(facts, axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["STS (2/10)", "Avg (2/56)"]
    of_models, of_shares = (
        [text.get_text() for text in legend.get_texts()] for legend in axes.figure.legends
    )
    assert of_models == ["tiny", "org/teacher (teacher)", "peer"]
    assert len(of_shares) == len(figures._FILLED)
    rings, disks = axes.lines[::2], axes.lines[1::2]
    drawn = [ring.get_xdata()[0] for ring in rings]
    assert drawn == [70, 80, 60] * 2 == [disk.get_xdata()[0] for disk in disks]
    assert len({ring.get_ydata()[0] for ring in rings}) == len(rings)  # each in a place of its own
    filled = [
        disk.get_markersize() ** 2 / ring.get_markersize() ** 2
        for ring, disk in zip(rings, disks, strict=True)
    ]
    assert filled == pytest.approx([2 / 10] * 3 + [2 / 56] * 3)


def test_many_models_are_told_apart(facts, axes):
    [first, *_] = facts.scores["rows"]
    rows = [{**first, "model": f"peer {number}"} for number in range(20)]
    figures.draw_scores(replace(facts, scores={**facts.scores, "rows": rows}), axes)
    assert len({(ring.get_color(), ring.get_marker()) for ring in axes.lines[:40:2]}) == 20


def test_each_encoder_has_its_marker_and_each_model_one_label_in_its_colour(facts, axes):
    """Also where speeds are nearly equal: no label has to be matched with one of several points."""
    near = [
        MeasuredSpeed("tiny", FAST, 4300),
        MeasuredSpeed("tiny", MODEL2VEC, 4290),
        MeasuredSpeed("org/teacher", MODEL2VEC, 100),
    ]
    figures.draw_speed(replace(facts, speed=near), axes)
    drawn = [
        line for line in axes.lines if line.get_linestyle() == "None" and len(line.get_xdata())
    ]
    markers = [ENCODER_MARKS[entry.encoder] for entry in near]
    assert [line.get_marker() for line in drawn] == markers
    named = zip(axes.get_legend().get_texts(), axes.get_legend().legend_handles, strict=True)
    assert {text.get_text(): line.get_marker() for text, line in named} == {
        f"by {entry.encoder}": marker for entry, marker in zip(near, markers, strict=True)
    }
    labels = {text.get_text(): text.get_color() for text in axes.texts}
    assert labels == {"tiny": drawn[0].get_color(), "org/teacher (teacher)": drawn[2].get_color()}
    assert drawn[0].get_color() == drawn[1].get_color() != drawn[2].get_color()


def test_the_distillation_is_drawn_as_agreement_of_each_step_on_a_whole_axis(facts, axes):
    figures.draw_distillation(facts, axes)
    [curve] = axes.lines
    assert curve.get_xydata().tolist() == [[0, 55.25], [10, 60], [20, 66.5], [30, 65]]
    assert [text.get_text() for text in axes.texts] == ["55.2", "66.5 (kept)"]
    assert axes.get_ylim() == (0, 100)


@pytest.mark.parametrize(
    ("speed", "stage", "left_out"),
    [
        (8_000, {}, "speed.png"),  # slower than what does more
        (90_000, {"agreements": [[600, 66.5]]}, "distillation.png"),  # one point is no curve
        (90_000, {"agreements": []}, "distillation.png"),
    ],
)
def test_what_is_not_believed_or_not_known_is_not_drawn(
    facts, explanation, tmp_path, speed, stage, left_out
):
    known = facts.record["stages"]
    stages = {**known, "distillation": {**known["distillation"], **stage}}
    facts = replace(facts, record={**facts.record, "stages": stages})
    speeds = [MeasuredSpeed("tiny", FAST, speed), *facts.speed[1:]]
    drawn = {f.file for f in draw_all(replace(facts, speed=speeds), explanation, tmp_path)}
    assert set(figures.FIGURE_FILES) - drawn == {left_out}
    assert not (tmp_path / left_out).exists()


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
    record = {**facts.record, "stages": {}}
    bare = replace(facts, lengths=[], record=record, variances=[], speed=[])
    nothing = explain(read_static_model(built / "model"), "北", "baba")
    assert [f.file for f in draw_all(bare, nothing, tmp_path)] == ["scores.png"]


def test_a_heat_map_of_boxes_is_left_out(facts, tmp_path, monkeypatch, caplog):
    """As where no font for Japanese is installed."""
    monkeypatch.setattr("st_static.evaluate.figures._FALLBACK_FONTS", ())
    tower = [Word("タワー", ["タワー"], [2], True, 0)]
    japanese = Explanation(tower, tower, np.ones((1, 1)))
    assert "words.png" not in {figure.file for figure in draw_all(facts, japanese, tmp_path)}
    [record] = caplog.records
    assert "no heat map of words: no installed font has all characters of タワー" in record.message
    assert "apt-get install fonts-noto-cjk" in record.message
