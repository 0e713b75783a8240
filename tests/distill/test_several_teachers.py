"""Several teachers at once: their vectors side by side, and the mean of their cosines."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sentence_transformers import SentenceTransformer
from small_build import model_bytes

from st_static.commands.build import parse_build
from st_static.distill import pipeline
from st_static.distill.agreement import Target, fit_target
from st_static.distill.config import BuildConfig, DistillationConfig, SelectionConfig
from st_static.distill.pipeline import build
from st_static.distill.report import report_table
from st_static.distill.sentence_pca import SentencePCA, side_by_side
from st_static.distill.stages import BuildResult, JoinedVectors, WorkDirectory
from st_static.distill.teacher_config import TeacherConfig
from st_static.evaluate.built_model import BuiltModel, held_out_agreement
from st_static.files import read_json
from st_static.lab.norms import word_norms, write_norms
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.ragged import ragged_of


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def cosines(vectors):
    return unit(vectors) @ unit(vectors).T


# -- the target ------------------------------------------------------------------------


@given(
    arrays(np.float32, (6, 3), elements=st.floats(0.125, 2, width=32)),
    arrays(np.float32, (6, 5), elements=st.floats(-2, 2, width=32)),
    st.floats(0.1, 0.9),
)
def test_the_joint_cosines_are_the_weighted_mean_of_the_centred_ones(high, low, share):
    low += np.eye(6, 5, dtype=np.float32) * 3  # no vector of zeros
    low[5] += 3
    high += np.eye(6, 3, dtype=np.float32) / 4  # not all the same, so that some spread is left
    high[3:] += np.float32([[0.1, 0.9, 0.5], [0.7, 0.3, 0.1], [0.2, 0.4, 1.5]])
    rows = np.arange(6)
    parts = [high.astype(np.float16), low.astype(np.float16)]
    vectors = JoinedVectors(parts, [share, 1 - share])
    target = fit_target(vectors, rows, "auto")
    expected = np.zeros((6, 6))
    for weight, part in zip(vectors.weights, parts, strict=True):
        directions = unit(part.astype(np.float64))
        mean = directions.mean(axis=0)
        centred = directions - mean if mean @ mean > 0.3 else directions
        expected += weight * cosines(centred)
    np.testing.assert_allclose(cosines(target(vectors[rows])), expected, atol=2e-3)


def test_joined_vectors_have_the_mean_cosine_as_their_dot_product():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(9, d)).astype(np.float16) for d in (4, 7)]
    vectors = JoinedVectors(parts, [0.25, 0.75])
    assert (len(vectors), vectors.shape) == (9, (9, 11))
    some = vectors[np.array([8, 2, 5])]
    expected = 0.25 * cosines(parts[0][[8, 2, 5]].astype(float))
    expected += 0.75 * cosines(parts[1][[8, 2, 5]].astype(float))
    np.testing.assert_allclose(some @ some.T, expected, atol=1e-3)


def test_one_teacher_has_its_own_target():
    vectors = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float16)
    assert isinstance(fit_target(vectors, np.arange(9)), Target)


# -- the tables ------------------------------------------------------------------------


def test_each_table_has_its_weight_as_the_variance_of_its_sentence_means():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 3)).astype(np.float32), rng.normal(3, 9, (20, 5))]
    tables[1] = tables[1].astype(np.float32)
    sentences = ragged_of([rng.choice(20, 4) for _ in range(50)])
    joined, scales = side_by_side(tables, [0.2, 0.8], sentences)
    np.testing.assert_allclose(joined, np.hstack(tables) * scales, rtol=1e-6)
    means = sentence_means(joined, sentences)
    variances = means.var(axis=0)
    np.testing.assert_allclose([variances[:3].sum(), variances[3:].sum()], [0.2, 0.8], rtol=1e-4)


def test_a_token_that_one_teacher_lacks_lies_at_the_middle_of_its_sentences():
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(9, d)).astype(np.float32) for d in (2, 3)]
    tables[0][4] = 0
    tables[0][7] = tables[1][7] = 0
    sentences = ragged_of([[0, 1, 2], [3, 5], [6, 8, 1]])
    joined, scales = side_by_side(tables, [0.5, 0.5], sentences)
    middle = sentence_means(tables[0], sentences).mean(axis=0)
    np.testing.assert_allclose(joined[4], np.append(middle, tables[1][4]) * scales, rtol=1e-5)
    assert not joined[7].any()


def test_one_table_stays_as_it_is():
    table = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    joined, scales = side_by_side([table], [], ragged_of([[1, 2]]))
    np.testing.assert_array_equal(joined, table)
    np.testing.assert_array_equal(scales, 1)


# -- whole builds ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def config(config_of_two) -> BuildConfig:
    return config_of_two


@pytest.fixture(scope="module")
def both(built_by_two) -> BuildResult:
    return built_by_two


def weights_of(folder: Path) -> dict[str, bytes]:
    """All files but the record, which has the recipe."""
    return {name: data for name, data in model_bytes(folder).items() if name != "st_static.json"}


def n_passes(folder: Path) -> int:
    return len(list(folder.glob("extraction-*")))


def test_each_pass_is_a_stage_and_the_model_loads(both, config):
    record = read_json(both.output / "st_static.json")
    assert list(record["stages"]) == [
        *("sentences", "vocabulary", "selection", "extraction", "extraction_2", "pca"),
        "distillation",
    ]
    assert n_passes(Path(config.work_dir)) == 2
    last = record["stages"]["distillation"]
    assert len(last["agreement_with_each"]) == 2
    assert "teacher" not in record["recipe"]
    assert [t["weight"] for t in record["recipe"]["teachers"]] == [2, 1]
    assert SentenceTransformer(str(both.output)).encode("Ba de fi.").shape == (8,)


def test_the_agreement_is_with_the_mean_of_the_cosines(both, config):
    work: WorkDirectory = both.work
    rows = np.flatnonzero(work.is_held_out)
    model = BuiltModel(both.output, Path(config.work_dir))
    table = held_out_agreement(model)
    measured = read_json(both.output / "st_static.json")["stages"]["distillation"]
    of_all = table.filter(table["tokens"] == "all")["agreement"].item()
    assert of_all == pytest.approx(measured["teacher_agreement"], abs=0.01)
    assert len(rows) == table.filter(table["tokens"] == "all")["sentences"].item()


def test_the_transform_maps_the_vectors_of_the_teachers_side_by_side(both):
    work = both.work
    tables = [work.table(name) for name in work.extractions]
    reduced = work.table("pca")
    has_both = np.flatnonzero(tables[0].any(axis=1) & tables[1].any(axis=1))[:100]
    pca = SentencePCA.load(work.folder("pca") / "sentence_pca.safetensors")
    found = pca.transform(np.hstack(tables)[has_both])
    np.testing.assert_allclose(found, reduced[has_both], atol=1e-4)


def test_another_weight_runs_no_pass_again(both, config, monkeypatch, tmp_path):
    def refuse(*_: object) -> None:
        raise AssertionError("a teacher read again")

    monkeypatch.setattr(pipeline, "extracted_table", refuse)
    heavier = [replace(config.teachers[0], weight=5.0), config.teachers[1]]
    other = build(replace(config, output=str(tmp_path / "heavier"), teachers=heavier))
    assert model_bytes(other.output) != model_bytes(both.output)
    again = [replace(teacher, weight=3 * teacher.weight) for teacher in config.teachers]
    same = build(replace(config, output=str(tmp_path / "same"), teachers=again))
    assert weights_of(same.output) == weights_of(both.output)
    build(replace(config, output=str(tmp_path / "alone"), teachers=config.teachers[:1]))


def test_a_list_of_one_builds_what_the_teacher_alone_does(both, built, config, tmp_path):
    alone = build(replace(config, output=str(tmp_path / "alone"), teachers=config.teachers[:1]))
    assert weights_of(alone.output) == weights_of(built / "model")


def test_a_build_that_ends_in_a_pass_goes_on_there(both, config, monkeypatch, tmp_path):
    passes = iter([pipeline.extracted_table])

    def fail(*arguments: object) -> object:
        whole = next(passes, None)
        if whole is None:
            raise OSError("no power")
        return whole(*arguments)

    anew = replace(config, output=str(tmp_path / "model"), work_dir=str(tmp_path / "work"))
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "extracted_table", fail)
        with pytest.raises(OSError, match="no power"):
            build(anew)
    done = build(anew)
    assert model_bytes(done.output) == model_bytes(both.output)


def test_passages_are_as_long_as_the_teacher_reads_that_cuts_first(config, monkeypatch, tmp_path):
    limits = []
    monkeypatch.setattr(
        pipeline,
        "write_selection",
        lambda *_, max_tokens, **__: limits.append(max_tokens) or pytest.skip("seen"),
    )
    selection = SelectionConfig(sentences_per_word=4, held_out=64, passages=0.1)
    with pytest.raises(pytest.skip.Exception):
        build(replace(config, selection=selection, work_dir=str(tmp_path)))
    assert limits == [38]  # of the second one's 40 tokens, without special ones; the first has 64


def test_the_report_shows_the_agreement_with_each(both):
    table = report_table(both, {})
    names, agreements, of_each, seconds = (list(column.cells) for column in table.columns)
    figures = {stage.name: stage.figures for stage in both.stages}
    for name in ("pca", "distillation"):
        numbers = figures[name]["agreement_with_each"]
        assert of_each[names.index(name)] == ", ".join(f"{number:.2f}" for number in numbers)
    row = names.index("extraction_2")
    assert agreements[row] == f"{figures['extraction_2']['teacher_agreement']:.2f}"
    assert (of_each[row], len(seconds)) == ("", len(names))
    assert "with its teacher alone, later with the teachers' mean" in str(table.caption)


def test_an_analysis_has_one_table_of_the_extraction(both, tmp_path):
    model = BuiltModel(both.output, both.work.path)
    work = both.work
    assert list(model.tables) == ["extraction", "pca", "distillation"]
    dimensions = [work.table(stage).shape[1] for stage in work.extractions]
    assert model.tables["extraction"].shape[1] == sum(dimensions)
    assert [s.name for s in model.students() if s.kind == "stage"] == list(model.tables)
    # As the build's sentence PCA has it: each teacher's vectors by one factor.
    has_both = has_vector(work.table("extraction")) & has_vector(work.table("extraction_2"))
    side = np.hstack([work.table(stage) for stage in work.extractions])
    ratios = model.tables["extraction"][has_both] / side[has_both]
    factors = np.repeat([ratios[0, 0], ratios[0, -1]], dimensions)
    np.testing.assert_allclose(ratios, np.tile(factors, (len(ratios), 1)), rtol=1e-3)
    norms = word_norms(model.words, {k: model.rows_of_words(t) for k, t in model.tables.items()})
    files = write_norms(norms, tmp_path)
    assert any("extraction_to_pca" in file.name for file in files)


# -- recipes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"teachers": [{"modle": "a/b"}]}, "teachers: a teacher has no key modle. Its keys are mo"),
        ({"teachers": [{"weight": -1.0}]}, "weight: expected a number above 0, but got -1"),
        ({"teachers": [{"model": 1}]}, "model: expected text, but got 1"),
        ({"teachers": ["a/b"]}, "expected a list of teachers, each with keys such as model"),
        (
            {"teachers": [{"model": "a/b"}], "teacher": TeacherConfig("c/d")},
            "teacher and teachers are both given",
        ),
        (
            {
                "teachers": [{"model": "a/b"}, {"model": "c/d"}],
                "distillation": DistillationConfig(target="vectors"),
            },
            "vectors, which are those of one teacher, but teachers has 2",
        ),
    ],
)
def test_what_a_list_of_teachers_cannot_be(values, message):
    with pytest.raises(ValueError, match=message):
        BuildConfig(**values)


def test_the_documented_recipe_is_one(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "recipes.md"
    [recipe] = re.findall(r"```yaml\n(teachers:.*?)```", page.read_text("utf-8"), re.DOTALL)
    (tmp_path / "recipe.yaml").write_text(recipe)
    assert [t.weight for t in parse_build([str(tmp_path / "recipe.yaml")]).all_teachers] == [1, 2]


def test_a_list_of_teachers_takes_the_place_of_the_recipes_teacher_and_back(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("teachers: [{model: a/b, weight: 2}, {model: c/d}]\n")
    assert [t.weight for t in parse_build([str(recipe)]).all_teachers] == [2, 1]
    assert parse_build([str(recipe), "--teacher.model", "e/f"]).all_teachers == [
        TeacherConfig("e/f")
    ]
    given = parse_build(["minilm-256", "--teachers", "[{model: a/b}, {model: c/d}]"])
    assert [teacher.model for teacher in given.all_teachers] == ["a/b", "c/d"]
    with pytest.raises(ValueError, match="teacher and teachers are both given"):
        parse_build([str(recipe), "--teacher.batch_tokens", "64"])  # of which one?
