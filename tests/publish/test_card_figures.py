"""A card's figures show what they are drawn from, and are the same each time."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from st_static.model.static_model import read_static_model
from st_static.publish.explain import explain
from st_static.publish.facts import CardFacts
from st_static.publish.figures import draw_all


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
            {"model": "tiny", "encoder": "one", "speed": 90_000},
            {"model": "tiny", "encoder": "two", "speed": 9_000},
            {"model": "org/teacher", "encoder": "one", "speed": 100},
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
    alts = {f["file"]: f["alt"] for f in draw_all(facts, explanation, tmp_path)}
    assert list(alts) == [
        f"{n}.png" for n in ("scores", "speed", "lengths", "variance", "distillation", "words")
    ]
    assert "tiny 70.0, org/teacher 80.0, peer 60.0" in alts["scores.png"]
    assert "tiny by one 90,000; tiny by two 9,000; org/teacher by one 100" in alts["speed.png"]
    assert alts["lengths.png"].endswith(": 1-5 tokens 61.2.")
    assert "first 1, with 25.0 % of the variance" in alts["variance.png"]
    assert "from 3.500 at step 10 to 3.250 at step 20" in alts["distillation.png"]
    assert f"cosine of {explanation.similarity:.2f}" in alts["words.png"]


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
    assert [f["file"] for f in draw_all(bare, nothing, tmp_path)] == ["scores.png"]
