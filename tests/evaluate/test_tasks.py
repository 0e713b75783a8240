"""The subsets of a task that are run are those in the model's languages, or in those asked for."""

import json

import mteb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from random_model import write_random_model

from st_static.cli import main
from st_static.evaluate.tasks import choose_subsets, language_tag, languages_of_model, subsets_in
from st_static.files import write_json
from st_static.model.tokenizer import build_tokenizer

TASK = "STS17"
COUNTERFACTUAL = "AmazonCounterfactualClassification"
WORDS = ["would", "could", "have", "been", "good", "bad", "cheap", "dear"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A local copy of a task with subsets in several languages."""
    home = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(80)]
    pairs = {"sentence1": texts[::2], "sentence2": texts[1::2], "score": rng.uniform(0, 5, 40)}
    languages = np.repeat(["en-en", "en-de", "es-es", "ar-ar"], 10)
    (home / TASK).mkdir()
    pq.write_table(pa.table({**pairs, "lang": languages}), home / TASK / "test.parquet")
    return home


@pytest.fixture
def model(tmp_path):
    """Makes a model whose record names a language."""

    def make(language):
        folder = write_random_model(tmp_path / "ours", build_tokenizer(WORDS), 8, seed=1)
        recipe = {"language": language, "corpus": {}}
        write_json(folder / "st_static.json", {"recipe": recipe})
        return folder

    return make


@pytest.fixture
def score(data, tmp_path, capsys):
    """Scores a model; gives what is printed, and the subsets in its results."""

    def run(model, *options):
        home = tmp_path / "results"
        arguments = ["--data", str(data), "--folder", str(tmp_path), "--tasks", TASK, *options]
        assert main(["evaluate", str(model), *arguments]) == 0
        [file] = home.rglob(f"{TASK}.json")
        splits = json.loads(file.read_text())["scores"].values()
        return capsys.readouterr(), {row["hf_subset"] for rows in splits for row in rows}

    return run


@pytest.mark.parametrize(
    ("code", "tag"),
    [
        *(("eng-Latn", "en"), ("jpn", "ja"), ("ja", "ja"), ("pt-BR", "pt"), ("gsw", "gsw")),
        # Macrolanguages, and Norwegian, which has two codes below it.
        *(("cmn-Hans", "zh"), ("zh-Hant", "zh"), ("swh", "sw"), ("arb-Arab", "ar")),
        *(("nob-Latn", "no"), ("nno", "no"), ("nb", "no"), ("no", "no")),
        ("python-Code", "code"),
    ],
)
def test_tags_of_codes(code, tag):
    assert language_tag(code) == tag


def test_the_codes_of_all_tasks_have_tags():
    for task in mteb.get_tasks():
        for subset in task.hf_subsets:
            assert all(map(language_tag, task.metadata.hf_subsets_to_langscripts[subset]))


@pytest.mark.parametrize(
    ("task", "languages", "subsets"),
    [
        *((COUNTERFACTUAL, ["ja"], {"ja"}), (COUNTERFACTUAL, ["en"], {"en", "en-ext"})),
        (COUNTERFACTUAL, ["de", "ja"], {"de", "ja"}),
        (COUNTERFACTUAL, ["multilingual"], {"de", "en", "en-ext", "ja"}),
        (COUNTERFACTUAL, ["fr"], set()),
        (TASK, ["en"], {"en-en"}),  # not en-de, half of which the model does not know
        (TASK, ["en", "de-AT"], {"en-en", "en-de"}),
        ("JSTS", ["ja"], {"default"}),
    ],
)
def test_subsets_are_wholly_in_the_languages(task, languages, subsets):
    task = mteb.get_task(task)
    everything = set(task.hf_subsets)
    assert set(subsets_in(task, languages)) == subsets
    assert choose_subsets([task], languages) == ([] if subsets else [task.metadata.name])
    assert set(task.hf_subsets) == (subsets or everything)


@pytest.mark.parametrize(
    ("language", "languages"), [("ja", ["ja"]), (["en", "zh-Hant"], ["en", "zh"]), (None, ["en"])]
)
def test_a_record_names_the_languages_of_a_model(model, language, languages):
    assert languages_of_model(str(model(language))) == languages
    assert languages_of_model(f"model2vec:{model(language)}") == languages


def test_models_without_a_recipe_have_no_languages(model, tmp_path):
    write_json(model("ja") / "st_static.json", {"ensemble": {}})
    assert languages_of_model(str(tmp_path / "ours")) == []
    assert languages_of_model("wordllama:256") == languages_of_model("glove:org/model") == []


@pytest.mark.parametrize(
    ("header", "languages"),
    [
        ("language: ja", ["ja"]),
        ("language:\n- en\n- zh-Hant\n- pt_br\n- zh", ["en", "zh", "pt"]),
        ("language: no", ["no"]),  # which is false to YAML
        ("language: [multilingual, fr]", ["multilingual", "fr"]),
        ("language: English", []),
        ("license: mit", []),
        ("language: [", []),
    ],
)
def test_a_card_names_the_languages_of_a_model_without_a_record(tmp_path, header, languages):
    (tmp_path / "README.md").write_text(f"---\n{header}\n---\n# A model\n", "utf-8")
    assert languages_of_model(str(tmp_path)) == languages


def test_a_model_is_scored_in_its_own_languages(model, score):
    printed, subsets = score(model(["ar", "es-MX"]))
    assert subsets == {"ar-ar", "es-es"}
    assert "(mean of 2 subsets and splits)" in printed.out
    assert printed.err == ""


def test_the_score_printed_is_that_of_the_languages_asked_for(model, score):
    """Also where an earlier run left results of other subsets in the same file."""
    folder = model(None)
    first, subsets = score(folder)
    assert subsets == {"en-en"}
    both, subsets = score(folder, "--language", "en", "ar")
    assert subsets == {"en-en", "ar-ar"}
    assert "(mean of 2 subsets and splits)" in both.out
    last, subsets = score(folder, "--language", "en")
    assert subsets == {"en-en", "ar-ar"}
    assert last.out == first.out != both.out
    assert "Finished before" in last.err


def test_a_task_in_another_language_is_run_whole_and_said(model, score):
    printed, subsets = score(model("ja"))
    assert subsets == {"en-en", "en-de", "es-es", "ar-ar"}
    assert printed.err == f"No subset of {TASK} is in the model's ja: all are run.\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tasks", TASK, "--language", "fr", "ja"], f"No subset of {TASK} is in fr or ja."),
        (["--tasks", TASK, "--language", "Japanese"], "a BCP 47 tag"),
        (["--benchmark", "JMTEB(v2)", "--language", "ja"], "A benchmark has languages of its own"),
    ],
)
def test_languages_that_cannot_be(model, options, says, capsys):
    assert main(["evaluate", str(model("ja")), *options]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
