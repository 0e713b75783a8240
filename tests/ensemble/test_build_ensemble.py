"""Ensembles tuned, distilled and built from recipes, with small tables and generated text."""

import dataclasses
import functools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from random_model import write_random_model
from sentence_transformers import SentenceTransformer
from small_build import generated_sentences, save_tiny_teacher

import st_static.ensemble.build_ensemble as recipe
from st_static import (
    DistillationConfig,
    Ensemble,
    FastEncoder,
    TeacherAgreement,
    TeacherConfig,
    cosine_agreement,
    distill_into,
)
from st_static.cli import main
from st_static.commands.build import parse_build
from st_static.distill.config import CorpusConfig
from st_static.ensemble.build_ensemble import build_ensemble
from st_static.ensemble.config import EnsembleConfig
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.model_name import read_named
from st_static.model.tokenizer import build_tokenizer, split_words

TEXTS = list(dict.fromkeys(generated_sentences(1500, seed=3)))
QUICK = DistillationConfig(max_steps=60, batch_size=16, groups_per_batch=4, eval_steps=30)


@pytest.fixture(scope="module", autouse=True)
def documentation_read_once():
    """The standard library's documentation takes seconds to read, for each ensemble anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe, "_measured_pairs", functools.cache(recipe._measured_pairs))
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("members")
    splitter = build_tokenizer([])
    words = sorted({word for text in TEXTS for word in split_words(splitter, text)})
    tokenizer = build_tokenizer(words)
    return [
        write_random_model(folder / "a", tokenizer, 8, seed=0),
        write_random_model(folder / "b", tokenizer, 6, seed=1),
    ]


@pytest.fixture(scope="module")
def ensemble(folders):
    return Ensemble([FastEncoder.from_pretrained(folder) for folder in folders])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    file.write_text("\n".join(TEXTS))
    return CorpusConfig(files=str(file))


@pytest.mark.parametrize("weights", [[1.0, 0.4], [1.0, 3.0]])
def test_tuning_finds_the_weights_that_a_teacher_was_made_of(ensemble, weights):
    teacher = Ensemble(ensemble.members, weights)
    agreement = TeacherAgreement(TEXTS[:300], teacher.encode(TEXTS[:300]))
    tuning = ensemble.tune(agreement)
    assert tuning.ensemble.weights == pytest.approx(weights, rel=0.05)
    assert tuning.trials[0].weights == [1.0, 1.0]
    assert tuning.score == max(trial.score for trial in tuning.trials) > tuning.trials[0].score
    assert tuning.score == pytest.approx(100, abs=0.05)
    assert tuning.ensemble.members == ensemble.members
    assert ensemble.tune(agreement).trials == tuning.trials  # deterministic


def test_tuning_three_members_encodes_texts_once(ensemble):
    class Counted:
        calls = 0

        def encode(self, texts):
            Counted.calls += 1
            return np.random.default_rng(len(texts)).normal(size=(len(texts), 3))

    target = np.log([1.0, 0.5, 2.0])
    tuning = Ensemble([*ensemble.members, Counted()]).tune(
        lambda e: -float(np.square(np.log(e.weights) - target).sum() + 0 * e.encode(["x"]).sum())
    )
    assert tuning.ensemble.weights == pytest.approx([1, 0.5, 2], rel=0.05)
    assert Counted.calls == 1


def test_tuning_one_member_or_a_broken_objective(ensemble):
    alone = Ensemble(ensemble.members[:1]).tune(lambda e: 3.0)
    assert (alone.ensemble.weights, alone.score) == ([1.0], 3.0)
    with pytest.raises(ValueError, match=r"The objective is nan for the weights \[1.0, 1.0\]"):
        ensemble.tune(lambda e: float("nan"))


def test_cosine_agreement_is_pearsons_correlation(ensemble):
    first, second = TEXTS[:200], TEXTS[200:400]
    assert cosine_agreement(ensemble, ensemble, first, second) == pytest.approx(1)
    other = ensemble.members[0]
    x, y = (
        [m.encode([a]) @ m.encode([b])[0] for a, b in zip(first, second, strict=True)]
        for m in (ensemble, other)
    )
    expected = np.corrcoef(np.ravel(x), np.ravel(y))[0, 1]
    assert cosine_agreement(ensemble, other, first, second) == pytest.approx(expected, abs=1e-4)


def test_agreement_wants_a_vector_a_text_and_two_pairs(ensemble):
    with pytest.raises(ValueError, match=r"but got 5 texts .* and 4 vectors"):
        TeacherAgreement(TEXTS[:5], np.ones((4, 2)))
    with pytest.raises(ValueError, match="got 2 and 1 texts"):
        cosine_agreement(ensemble, ensemble, ["a", "b"], ["c"])


def test_a_distilled_table_agrees_better_than_its_start(ensemble, tmp_path):
    figures = distill_into(
        ensemble.fuse(), tmp_path / "model", 4, TEXTS, ensemble, tmp_path / "work", QUICK, 64
    )
    before, after = figures["target_agreement"]
    assert after > before + 1
    model = SentenceTransformer(str(tmp_path / "model"))  # built-ins only
    assert model.encode(TEXTS[:3]).shape == (3, 4)
    assert "was distilled from" in (tmp_path / "model" / "README.md").read_text("utf-8")
    again = distill_into(
        ensemble.fuse(), tmp_path / "again", 4, TEXTS, ensemble, tmp_path / "work", QUICK, 64
    )
    assert again == figures  # taken from there
    np.testing.assert_array_equal(
        read_static_model(tmp_path / "again").table, read_static_model(tmp_path / "model").table
    )


def test_an_interrupted_target_goes_on(ensemble, tmp_path, monkeypatch):
    monkeypatch.setattr("st_static.ensemble.distill_ensemble._FILE_TEXTS", 100)

    class Target:
        encoded = 0

        def encode(self, texts):
            if self.encoded > 500:
                raise KeyboardInterrupt
            self.encoded += len(texts)
            return ensemble.encode(texts)

    target, resumed = Target(), Target()
    resumed.encoded = -len(TEXTS)
    arguments = (ensemble.fuse(), tmp_path / "model", 4, TEXTS)
    with pytest.raises(KeyboardInterrupt):
        distill_into(*arguments, target, tmp_path / "work", QUICK, 64)
    figures = distill_into(*arguments, resumed, tmp_path / "work", QUICK, 64)
    # All but the first files of 100, and the first texts, by which the target is known.
    whole = (target.encoded - 64) // 100 * 100
    assert whole >= 400
    assert resumed.encoded == 64 - whole
    assert figures == distill_into(*arguments, ensemble, tmp_path / "other", QUICK, 64)


@pytest.mark.parametrize(
    ("n_texts", "dim", "batch_size", "says"),
    [
        (100, 4, 16, r"at least 128 sentences, twice held_out \(64\) .*, but got 100 different"),
        (130, 4, 65, r"batch_size is 65, but there are only 64 held-out"),
    ],
)
def test_too_few_sentences_to_distil_are_told_of_before_the_target_encodes(
    ensemble, tmp_path, n_texts, dim, batch_size, says
):
    config = dataclasses.replace(QUICK, batch_size=batch_size, groups_per_batch=0)
    target = SimpleNamespace(encode=lambda texts: pytest.fail("encoded"))
    texts = TEXTS[:n_texts]
    with pytest.raises(ValueError, match=says):
        distill_into(ensemble.fuse(), tmp_path / "m", dim, texts, target, tmp_path, config, 64)
    assert list(tmp_path.iterdir()) == []


def test_distilling_into_fewer_dimensions_than_matryoshka_wants(ensemble, tmp_path):
    config = dataclasses.replace(QUICK, matryoshka_dims=[8, 2])
    with pytest.raises(ValueError, match=r"matryoshka_dims \(\[8, 2\]\) must be at most 4"):
        distill_into(ensemble.fuse(), tmp_path / "m", 4, TEXTS, ensemble, tmp_path, config, 64)
    assert list(tmp_path.iterdir()) == []


def config_of(folders, corpus, tmp_path, **changes):
    config = EnsembleConfig(
        members=[str(folder) for folder in folders],
        weights=[1.0, 0.5],
        output=str(tmp_path / "out"),
        work_dir=str(tmp_path / "work"),
        corpus=corpus,
        n_sentences=1000,
        dimension=4,
        distillation=QUICK,
        held_out=64,
        workers=1,
    )
    return dataclasses.replace(config, **changes)


@pytest.mark.parametrize(("form", "least"), [("exact", 0.9999), ("calibrated", 0.98)])
def test_a_recipe_gives_the_ensemble(folders, corpus, tmp_path, form, least):
    config = config_of(folders, corpus, tmp_path, form=form)
    figures = build_ensemble(config)
    assert figures["fused_agreement"] > 0.9999
    assert figures["model_agreement"] > least
    record = json.loads((Path(config.output) / "st_static.json").read_text("utf-8"))
    assert [m["weight"] for m in record["ensemble"]["members"]] == [1.0, 0.5]


def test_a_member_is_not_overwritten(folders, tmp_path):
    before = {f: f.read_bytes() for f in folders[0].rglob("*") if f.is_file()}
    config = config_of(folders, CorpusConfig(), tmp_path, output=str(folders[0]))
    with pytest.raises(ValueError, match="which is a member"):
        build_ensemble(config)
    assert {f: f.read_bytes() for f in folders[0].rglob("*") if f.is_file()} == before


def test_a_poor_fusion_is_said(folders, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(recipe, "_ENOUGH", 1.1)
    build_ensemble(config_of(folders, CorpusConfig(), tmp_path))
    assert "not quite itself" in caplog.text


def test_an_exact_recipe_needs_no_text(folders, tmp_path):
    config = config_of(folders, CorpusConfig(), tmp_path)
    figures = build_ensemble(config)
    assert set(figures) == {"random_pairs", "fused_agreement", "model_agreement"}
    assert figures["random_pairs"] == 5000
    expected = Ensemble([FastEncoder.from_pretrained(f) for f in folders], [1, 0.5])
    written = FastEncoder.from_pretrained(config.output)
    np.testing.assert_allclose(written.encode(TEXTS), expected.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize("target", ["ensemble", "teacher", "mean"])
def test_a_distilled_recipe(folders, corpus, tmp_path, target, monkeypatch):
    teacher = TeacherConfig(model=str(save_tiny_teacher(tmp_path / "teacher")), dtype="float32")
    seen = {}
    monkeypatch.setattr(
        recipe, "distill_into", lambda *a, **k: seen.update(k) or distill_into(*a, **k)
    )
    config = config_of(folders, corpus, tmp_path, form="distilled", target=target, teacher=teacher)
    build_ensemble(config)
    assert read_static_model(config.output).table.shape[1] == 4
    own = Ensemble([FastEncoder.from_pretrained(f) for f in folders], [1, 0.5]).encode(TEXTS[:9])
    theirs = SentenceTransformer(teacher.model).encode(TEXTS[:9], normalize_embeddings=True)
    expected = {
        "ensemble": own @ own.T,
        "teacher": theirs @ theirs.T,
        "mean": (own @ own.T + theirs @ theirs.T) / 2,
    }[target]
    vectors = seen["target"].encode(TEXTS[:9])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-4)


def test_a_distilled_recipe_with_a_head(folders, corpus, tmp_path):
    training = dataclasses.replace(QUICK, head=3)
    config = config_of(folders, corpus, tmp_path, form="distilled", distillation=training)
    figures = build_ensemble(config)
    assert read_static_model(config.output).head.units == 3
    record = json.loads((Path(config.output) / "st_static.json").read_text("utf-8"))
    assert record["ensemble"]["head_units"] == 3
    card = (Path(config.output) / "README.md").read_text("utf-8")
    assert "a head of 3 hidden units, a small network. Model2Vec" in card
    assert "No transformer runs" in card
    assert figures["model_agreement"] > 0.5


def test_a_member_with_a_head_is_refused_before_the_text_is_read(folders, tmp_path):
    model = read_static_model(folders[0])
    head = Head(np.ones((1, 8), np.float32), np.ones((8, 1), np.float32))
    export_model(tmp_path / "member", model.table, model.tokenizer, {}, head=head)
    text = CorpusConfig(docstrings=["stdlib"])
    members = [folders[0], tmp_path / "member"]
    config = config_of(members, text, tmp_path / "new", form="calibrated")
    with pytest.raises(ValueError, match=r"Member 1 \(member\) cannot be fused: .* or a head"):
        build_ensemble(config)
    assert not (tmp_path / "new").exists()


def test_more_dimensions_than_the_ensembles_are_refused_before_the_text_is_read(folders, tmp_path):
    text = CorpusConfig(docstrings=["stdlib"])
    config = config_of(folders, text, tmp_path, form="distilled", dimension=99)
    with pytest.raises(ValueError, match=r"Expected a dimension of 1 to \d\d, .* but got 99"):
        build_ensemble(config)
    assert not (tmp_path / "work").exists()


def test_the_sentences_do_not_depend_on_their_order(folders, corpus, tmp_path):
    shuffled = tmp_path / "shuffled.txt"
    shuffled.write_text("\n".join(TEXTS[::-1]))
    figures = [
        build_ensemble(config_of(folders, c, tmp_path / str(i), form="calibrated", n_sentences=50))
        for i, c in enumerate([corpus, CorpusConfig(files=str(shuffled))])
    ]
    assert figures[0] == figures[1]


def test_the_papers_ensemble_is_built_of_local_members(folders, tmp_path):
    """Its cosines are the means of its members', on texts that WordLlama splits as its words."""
    members = [str(folders[0]), "wordllama:256", str(folders[1])]
    places = ["--output", str(tmp_path / "out"), "--work_dir", str(tmp_path / "work")]
    recipe_file = Path(__file__).parents[2] / "recipes/ensemble-768.yaml"
    build_ensemble(parse_build([str(recipe_file), "--members", json.dumps(members), *places]))
    texts = [text.lower().rstrip(".") for text in TEXTS[:20]]
    cosines = []
    for name in members:
        vectors = FastEncoder(read_named(name)).encode(texts)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines.append(vectors @ vectors.T)
    built = SentenceTransformer(str(tmp_path / "out"), trust_remote_code=True).encode(texts)
    assert built.shape == (20, 8 + 256 + 6)
    np.testing.assert_allclose(built @ built.T, np.mean(cosines, axis=0), atol=1e-5)


def test_a_recipe_in_yaml_on_the_command_line(folders, tmp_path, capsys):
    values = {"members": [str(f) for f in folders], "output": str(tmp_path / "out")}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    config = parse_build([str(tmp_path / "recipe.yaml"), "--weights", "[1, 2]"])
    assert (config.weights, config.form) == ([1.0, 2.0], "exact")
    assert main(["build", str(tmp_path / "recipe.yaml")]) == 0
    assert f"Built {tmp_path / 'out'}" in capsys.readouterr().out
    assert main(["build", "--members", '["no/model"]', "--output", str(tmp_path / "two")]) == 1
    assert "no/model" in capsys.readouterr().err


DISTILLED = {"members": ["a"], "form": "distilled", "corpus": CorpusConfig(docstrings=["json"])}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "at least one model in members"),
        ({"members": ["a"], "form": "calibrated"}, "The form calibrated needs text"),
        ({"members": ["a"], "dimension": 0}, "dimension: expected a whole number of at least 1"),
        (DISTILLED | {"held_out": 200}, r"held_out \(200\) must be at least .*batch_size \(256\)"),
        (DISTILLED | {"n_sentences": 8191}, r"n_sentences \(8191\) must be at least 8192: twice"),
        (DISTILLED | {"dimension": 300_001}, r"at least 300001: .* dimension \(300001\)"),
    ],
)
def test_recipes_that_cannot_be(values, says):
    with pytest.raises(ValueError, match=says):
        EnsembleConfig(**values)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"sentences_per_word": 2}, "distillation.sentences_per_word is 2, but an ensemble is dis"),
        pytest.param(
            {"device": "cuda"},
            "distillation.device is cuda, but PyTorch finds only",
            marks=pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_training_that_cannot_be_is_refused_before_reading(
    ensemble, folders, tmp_path, option, says
):
    training = dataclasses.replace(QUICK, **option)
    config = EnsembleConfig(
        members=[str(folder) for folder in folders],
        form="distilled",
        distillation=training,
        corpus=CorpusConfig(files="no-such-file.txt"),
        output=str(tmp_path / "out"),
    )
    with pytest.raises(ValueError, match=says):
        build_ensemble(config)
    with pytest.raises(ValueError, match=says):
        distill_into(
            ensemble.fuse(), tmp_path / "out", 4, TEXTS, ensemble, tmp_path / "work", training
        )
    assert not list(tmp_path.iterdir())
