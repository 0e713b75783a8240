"""Alignment and uniformity against their definitions."""

import itertools
import shutil

import numpy as np
import polars as pl
import pytest
from small_build import generated_sentences

from st_static.distill.distillation import read_checkpoint
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.built_model import BuiltModel
from st_static.evaluate.models import load_model
from st_static.lab.sphere import Sphere, draw_sphere, measure_all
from st_static.model.static_model import StaticModel


@pytest.mark.parametrize("n", [2, 3, 30])
def test_alignment_and_uniformity_follow_their_definitions(n):
    x, y = np.random.default_rng(n).normal(size=(2, n, 4))
    sphere = Sphere([(f"text {i}", "a paraphrase") for i in range(n)])
    row = sphere.measure(lambda texts: x if texts[0] == "text 0" else y)
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    assert row["alignment"] == pytest.approx(np.square(x - y).sum(axis=1).mean(), rel=1e-5)
    every = [np.exp(-2 * np.sum((a - b) ** 2)) for a, b in itertools.combinations(x, 2)]
    assert row["uniformity"] == pytest.approx(np.log(np.mean(every)), rel=1e-5)


def test_uniformity_is_over_pairs_of_different_texts():
    """Orthogonal vectors have the squared distance 2, so that each pair has exp(-4)."""
    words = [f"word {i}" for i in range(100)]
    # The last ten begin with the first text again.
    pairs = [*zip(words, reversed(words), strict=True), *((words[0], w) for w in words[:10])]
    row = Sphere(pairs).measure(lambda texts: np.eye(100)[[words.index(text) for text in texts]])
    assert row["uniformity"] == pytest.approx(-4, abs=1e-5)
    assert row["alignment"] == pytest.approx(2 * 109 / 110, abs=1e-5)


def test_of_many_texts_uniformity_is_over_some_and_alignment_over_all(monkeypatch):
    monkeypatch.setattr("st_static.lab.sphere._MOST_TEXTS", 3)
    angles = np.linspace(0, 3, 8) ** 2 / 3  # no two subsets have the same distances
    first = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    second = -first[::-1]
    names = [f"text {i}" for i in range(8)]
    sphere = Sphere([(name, "a paraphrase") for name in names])
    row = sphere.measure(lambda texts: first if texts == names else second)
    assert row["alignment"] == pytest.approx(np.square(first - second).sum(axis=1).mean())

    def uniformity(three):
        pairs = itertools.combinations(first[list(three)], 2)
        return np.log(np.mean([np.exp(-2 * np.sum((a - b) ** 2)) for a, b in pairs]))

    of_three = [uniformity(three) for three in itertools.combinations(range(8), 3)]
    assert sum(row["uniformity"] == pytest.approx(value, rel=1e-6) for value in of_three) == 1


@pytest.fixture(scope="module")
def pairs():
    first, second = (generated_sentences(30, seed=seed) for seed in (3, 4))
    return list(zip(first, second, strict=True))


def alignment(model, table, pairs):
    """By the encoder that users have."""
    encode = FastEncoder(StaticModel(model.tokenizer, table, normalize=True)).encode
    first, second = (encode(list(side)) for side in zip(*pairs, strict=True))
    return np.square(first - second).sum(axis=1).mean()


def test_the_way_of_a_build_has_its_stages_and_kept_checkpoints_in_order(built, pairs, tmp_path):
    """A distillation keeps its last checkpoint and its best, which is what the stage left."""
    work = tmp_path / "work"
    shutil.copytree(built / "work", work)
    [stage] = work.glob("distillation-*")
    [best] = {BuiltModel(built / "model", work).work.figures("distillation")["best_step"]}
    shutil.copytree(stage / f"checkpoints/checkpoint-{best}", stage / "checkpoints/checkpoint-5")
    steps = sorted(int(f.name[11:]) for f in (stage / "checkpoints").glob("checkpoint-*"))
    model = BuiltModel(built / "model", work)
    rows = measure_all(model, {}, Sphere(pairs)).to_dicts()
    of_steps = [f"distillation, step {n}" if n != best else "distillation" for n in steps]
    assert [row["model"] for row in rows] == ["extraction", "pca", *of_steps]
    assert {row["kind"] for row in rows if "step" in row["model"]} == {"checkpoint"}
    folders = [stage / f"checkpoints/checkpoint-{step}" for step in steps]
    tables = [*(model.tables[s] for s in ("extraction", "pca"))]
    tables += [read_checkpoint(folder, has_head=False)[0] for folder in folders]
    found = [row["alignment"] for row in rows]
    assert found == pytest.approx([alignment(model, table, pairs) for table in tables], rel=1e-5)


def test_other_models_are_measured_by_their_names(built, pairs):
    name = str(built / "model")
    model = BuiltModel(built / "model", built / "work")
    row = measure_all(model, {"peer": {name: load_model(name)}}, Sphere(pairs)).to_dicts()[-1]
    assert (row["model"], row["kind"]) == (name, "peer")
    assert row["alignment"] == pytest.approx(alignment(model, model.table, pairs), rel=1e-5)


def test_the_figure_shows_all_models_and_below_the_training_alone(tmp_path, monkeypatch):
    panels = []
    record = lambda axes, points: panels.append(points)  # noqa: E731
    monkeypatch.setattr("st_static.evaluate.figures.label_points", record)
    steps = [f"distillation, step {step}" for step in (5, 6)]
    kinds = {"extraction": "stage", "pca": "stage"}
    kinds |= {**dict.fromkeys(steps, "checkpoint"), "distillation": "stage"}
    kinds |= {"the teacher": "teacher", "a peer": "peer"}
    places = np.linspace(0, 1, len(kinds))
    columns = {"model": list(kinds), "kind": list(kinds.values()), "alignment": places}
    measured = pl.DataFrame(columns).with_columns(uniformity=-pl.col("alignment"))
    svg = draw_sphere(measured, tmp_path / "figure")[0].read_text("utf-8")
    at = {name: (-place, place) for name, place in zip(kinds, places, strict=True)}
    labels = [{name: (x, y) for x, y, name, _ in points if name} for points in panels]
    training = ("pca", steps[0], "distillation")
    assert labels == [
        {name: at[name] for name in kinds if name not in steps},
        {name: at[name] for name in training},
    ]
    assert [len(points) for points in panels] == [7, 4]
    for kind in ("checkpoints", "stages", "teacher", "peer"):
        assert f"<!-- {kind} -->" in svg


def test_a_way_without_checkpoints_has_one_panel(tmp_path, monkeypatch):
    panels = []
    record = lambda axes, points: panels.append(points)  # noqa: E731
    monkeypatch.setattr("st_static.evaluate.figures.label_points", record)
    columns = {"model": ["extraction", "pca"], "kind": "stage", "alignment": [0.1, 0.2]}
    draw_sphere(pl.DataFrame(columns).with_columns(uniformity=-0.5), tmp_path / "figure")
    assert len(panels) == 1
