"""A card states what is so: of the model's text, teacher, name, weights and of the machine."""

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from card_results import (
    change_weights,
    complete_record,
    facts_of,
    with_recipe,
    with_stages,
    write_result,
)
from editing import add_notes, card_of, is_fit, problems_of, replace_in, set_in
from huggingface_hub import ModelCard
from small_model import CARD, write_model

from st_static.cards import gather
from st_static.cards.check_card import check_card, check_recipe
from st_static.cards.plan_card import check_same_model
from st_static.cards.render import SLOW_MARK, render
from st_static.cli import main
from st_static.evaluate.models import load_model, revision_of
from st_static.evaluate.speed import FAST, SENTENCE_TRANSFORMERS, MeasuredSpeed, is_believable
from st_static.files import read_json, write_json
from st_static.model.model_folder import ModelFolder
from st_static.model.vectors import unit_rows

ROOT = Path(__file__).parents[2]


# -- language --------------------------------------------------------------------------


def test_a_card_says_nothing_of_a_language_that_is_not_known(written):
    card = card_of(written)
    assert facts_of(written).record["recipe"]["language"] is None
    assert ModelCard(card).data.language is None
    said = card.partition("## Scores")[0].replace("a few English sentences", "")
    assert "English" not in said
    assert check_card(card) == []


@pytest.mark.parametrize(
    ("language", "in_yaml", "says"),
    [
        ("en", "en", "sentence encoder for English:"),
        ("ja", "ja", "paragraphs in Japanese,"),
        (["de", "en", "fr"], ["de", "en", "fr"], "for German, English and French:"),
        ("gsw", "gsw", "for Swiss German:"),
        (["pt-BR", "pt-PT", "zh-Hant"], ["pt", "zh"], "for Portuguese and Chinese:"),
    ],
)
def test_a_card_names_the_languages_of_its_text(written, language, in_yaml, says):
    card = render(with_recipe(facts_of(written), language=language))
    assert ModelCard(card).data.language == in_yaml
    assert says in card
    assert check_card(card) == []


# -- text and teacher ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("teacher", "says"),
    [
        ({"model": "package:some_package/model"}, "a model in the Python package `some_package`"),
        ({"model": "bert"}, "a local model, `bert`"),
    ],
)
def test_a_teacher_that_is_not_named_on_the_hub(written, teacher, says):
    card = render(with_recipe(facts_of(written), teacher=teacher))
    assert f"distilled from {says} by" in card
    assert f"| teacher | {says} |" in card
    assert ModelCard(card).data.base_model is None


@pytest.mark.parametrize(
    ("names", "says"), [("jpn_Jpan", ", jpn_Jpan"), (["en", "ja"], ", en, ja"), (None, "")]
)
def test_a_dataset_is_named_with_its_configurations(written, names, says):
    corpus = {"files": None, "docstrings": None, "dataset": "org/web", "dataset_config": names}
    card = render(with_recipe(facts_of(written), corpus=corpus | {"description": None}))
    assert f"(https://huggingface.co/datasets/org/web){says} " in card.replace("\n", " ")


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ({"files": ["clicks.jsonl"]}, "(clicks.jsonl)"),
        ({"files": None, "mined": 5000}, "(see the recipe)"),  # as version 0.2 had it
    ],
)
def test_a_card_says_on_how_many_pairs_a_model_was_trained_and_where_they_are_from(
    written, pairs, says
):
    facts = with_recipe(facts_of(written), pairs=pairs)
    figures = {"steps": 300, "pairs": 5000, "teacher_agreement": 12.34, "hash": "0" * 12}
    card = render(with_stages(facts, pairs=figures))
    assert check_card(card) == []
    assert f"300 steps train in turns on batches out of 5,000 pairs of texts {says}" in card
    assert "pairs 12.34" in " ".join(card.split())
    assert ("--pairs.files PATH/TO/clicks.jsonl" in card) == bool(pairs["files"])


# Options that recipes of version 0.2 had, with the values by default.
OPTIONS_OF_0_2 = {
    "teacher": {"code_revision": None, "description": None, "check": True},
    "corpus": {"redistributable": True, "text_column": "text"},
    "sentences": {"max_words": 64},
    "vocabulary": {"units": "auto", "nfkc": None, "strip_accents": None, "dotless_i": None},
    "selection": {"max_candidates": 2000, "further": 0.0},
    "pca": {"n_remove": "auto"},
    "distillation": {
        "word_dropout": 0.0,
        "batches": "clustered",
        "max_grad_norm": 0.0,
        "development": "corpus",
        "schedule": "linear",
    },
    "pairs": {
        "dataset": None,
        "mined": 0,
        "columns": ["anchor", "positive"],
        "symmetric": False,
    },
    "export": {"dtype": "float32", "onnx": False},
}


def test_a_record_of_version_0_2_gives_the_same_card_with_its_own_recipe(written):
    facts = facts_of(written)
    now, then = render(facts), render(with_recipe(facts, **OPTIONS_OF_0_2))
    assert check_card(then) == []
    before, _, recipe = then.partition("<summary>The recipe</summary>")
    assert before == now.partition("<summary>The recipe</summary>")[0]
    printed = yaml.safe_load(recipe.split("```")[1].removeprefix("yaml"))
    for section, options in OPTIONS_OF_0_2.items():
        assert options.items() <= printed[section].items()


def test_a_printed_recipe_has_the_values_of_the_record(written):
    corpus = {"description": "one\n\n\n\ntwo: 'a' \"b\"", "files": ["a\n\n\nb.txt"]}
    facts = with_recipe(facts_of(written), corpus=corpus, teacher={"prompt": "\n\n\nours"})
    printed = re.search(r"```yaml\n(.*?)```", render(facts), re.DOTALL)[1]
    assert yaml.safe_load(printed) == facts.record["recipe"]


@pytest.mark.parametrize("name", ['a "b"', "it's", "back\\slash", "\\", "日本"])
def test_the_program_on_a_card_loads_a_model_of_any_name(written, name):
    card = render(replace(facts_of(written), name=name))
    program = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    constants = [node for node in ast.walk(ast.parse(program[1])) if isinstance(node, ast.Constant)]
    assert f"models/{name}" in [constant.value for constant in constants]


FULL = {
    "corpus": {"files": ["a.txt"], "description": "diaries", "license": "mit"},
    "teacher": {"model": "org/teacher"},
}


@pytest.mark.parametrize(
    ("part", "changes", "says"),
    [
        ("corpus", {}, None),
        ("corpus", {"description": None}, r"--corpus\.description"),
        ("corpus", {"license": None}, r"--corpus\.license LICENCE: no stage"),
        ("corpus", {"files": None, "description": None}, None),  # named by itself
        ("corpus", {"redistributable": False}, "may not be redistributed"),
        ("teacher", {"model": "package:x/y"}, r"package:x/y is\. .*--teacher\.hub_id ORG/NAME"),
        ("teacher", {"model": "package:x/y", "hub_id": "org/teacher"}, None),
        (
            "teacher",
            {"model": "bert"},
            r"not on the Hub, write the card, describe it between the card",
        ),
    ],
)
def test_what_a_recipe_must_say_before_others_get_the_model(part, changes, says):
    problems = check_recipe({**FULL, part: {**FULL[part], **changes}})
    assert bool(problems) == bool(says)
    if says:
        assert re.search(says, " ".join(problems))


def test_publish_asks_for_what_the_record_does_not_say(written, tmp_path):
    model = shutil.copytree(written, tmp_path / "tiny")
    of_text, of_teacher = (p for p in problems_of(model) if p.startswith("st_static.json"))
    assert "--corpus.description" in of_text
    assert "--teacher.hub_id" in of_teacher
    assert "does not say which model of the Hub the teacher" in of_teacher
    add_notes(model, "The teacher is our own transformer.")
    assert of_teacher not in problems_of(model)


# -- name ------------------------------------------------------------------------------


def test_the_name_is_that_of_the_repository(model, write):
    notes = "![mine](figures/mine/scores.png)\n\n![kept](figures/tiny/words.png)"
    (model / "figures/mine").mkdir()
    (model / "figures/mine/scores.png").write_bytes(b"mine")
    (model / "figures/tiny/own.png").write_bytes(b"mine, too")
    add_notes(model, notes)
    assert write(model, "--hub_id", "org/ours-8") == 0
    card = card_of(model)
    assert "\n# ours-8\n" in card
    assert ModelCard(card).data.model_name == "ours-8"
    assert "| **ours-8** | measured" in card
    assert "![" in card
    linked = set(re.findall(r"\]\((figures/[^)]*)\)", card))
    assert {link.split("/")[1] for link in linked} == {"ours-8", "mine", "tiny"}
    assert all((model / link).is_file() for link in linked)
    # Those of the former name are gone, but for what is the user's.
    left = {path.name for path in (model / "figures/tiny").iterdir()}
    assert left == {"own.png", "words.png"}
    assert (model / "figures/mine/scores.png").read_bytes() == b"mine"


@pytest.mark.parametrize("hub_id", ["ours", "org/..", "a/b/c"])
def test_a_name_that_no_repository_can_have_is_refused(model, write, capsys, hub_id):
    before = contents(model)
    assert write(model, "--hub_id", hub_id) == 1
    assert f"Expected the repository as ORG/NAME, but got {hub_id!r}" in capsys.readouterr().err
    assert contents(model) == before


# -- results ---------------------------------------------------------------------------


def test_results_in_other_languages_stand_apart_and_do_not_count(model, write):
    home = model.parent / f"results/local__tiny/{revision_of(str(model))}-local"
    peer = next((model.parent / "results/local__peer").iterdir())
    before = facts_of(model).scores
    name = "AmazonCounterfactualClassification"
    write_result(home, name, "local", {"test": [("en", 0.7), ("de", 0.1), ("ja", 0.2)]})
    write_result(peer, name, "local", {"test": [("en", 0.6)]})
    # Only in another language: no task of an English benchmark.
    write_result(home, "MTOPDomainClassification", "local", {"test": [("de", 0.9)]})
    write_result(peer, "MTOPDomainClassification", "local", {"test": [("de", 0.9)]})
    for file in home.glob("*Classification.json"):
        result = json.loads(file.read_text("utf-8"))
        for row in result["scores"]["test"]:
            codes = {"en": "eng-Latn", "de": "deu-Latn", "ja": "jpn-Jpan"}
            row["languages"] = [codes[row["hf_subset"]]]
        file.write_text(json.dumps(result), "utf-8")
    assert write(model, "--published") == 0
    rows = facts_of(model).scores["rows"]
    assert [row["Class. (1/12)"] for row in rows] == [70, 60]
    assert "Class. (1/12)" not in before["columns"]
    counted, others = card_of(model).partition("All results")[2].split("Other subsets and splits")
    assert f"| {name} (local copy) | Classification | en | English | test |" in counted
    assert "German" not in counted
    assert f"| {name} (local copy) | Classification | de | German | test |" in others
    assert f"| {name} (local copy) | Classification | ja | Japanese | test |" in others
    assert "| STSBenchmark (local copy) | STS | default | English | validation |" in others


# -- stale cards -----------------------------------------------------------------------


def test_publish_refuses_a_card_of_another_build(model, write):
    complete_record(model)
    assert "was written for another build" in problems_of(model)[0]  # the record has changed
    assert write(model) == 0
    assert is_fit(model)
    change_weights(model)
    [problem] = problems_of(model)
    assert "README.md was written for another build: weights" in problem
    assert problem.endswith("st-static card.")


@pytest.fixture
def with_card(written, tmp_path):
    """Gives a model whose recipe was changed, with its card."""

    def make(path, value):
        model = shutil.copytree(written, tmp_path / "tiny")
        complete_record(model)
        set_in(model / "st_static.json", {path: value})
        facts = replace(facts_of(written), record=read_json(model / "st_static.json"))
        card = render(replace(facts, fingerprint=ModelFolder(model).fingerprint))
        (model / "README.md").write_text(card, "utf-8")
        return model

    return make


@pytest.mark.parametrize(
    ("printed", "changed", "says"),
    [
        ("license: mit", "license: apache-2.0", "says license: apache-2.0, but the recipe mit."),
        ("base_model: org/teacher", "base_model: org/other", "says base_model: org/other, but"),
        ("language: ja", "language: en", "says language: en, but the recipe ja."),
    ],
)
def test_a_changed_card_may_not_contradict_the_recipe(with_card, printed, changed, says):
    model = with_card("recipe.language", "ja")
    assert is_fit(model)
    replace_in(model / "README.md", printed, changed)
    [problem] = problems_of(model)
    assert says in problem


def test_the_terms_of_another_licence_are_for_the_notes(with_card):
    model = with_card("recipe.export", {"license": "other"})
    assert check_card(card_of(model)) == []
    [problem] = problems_of(model)
    assert "has the license other: write its terms between" in problem
    add_notes(model, "For research only.")
    assert is_fit(model)


def test_a_card_written_by_hand_may_not_contradict_the_model(tmp_path):
    model = write_model(tmp_path / "model")
    card = model / "README.md"
    card.write_text(f"{CARD}\nDistilled from 768 dimensions into 4-dimensional vectors.", "utf-8")
    assert is_fit(model)
    card.write_text(f"{CARD}\nVectors of 256 dimensions.", "utf-8")
    assert problems_of(model) == ["README.md speaks of 256 dimensions, but the model has 4."]


# -- speed -----------------------------------------------------------------------------


def test_speeds_that_cannot_be():
    def speeds(fast, other="sentence-transformers"):
        return [MeasuredSpeed("tiny", FAST, fast), MeasuredSpeed("tiny", other, 100)]

    assert is_believable(speeds(100), "tiny")
    assert not is_believable(speeds(99), "tiny")
    # A few texts of a new language, with all its characters, may well take longer than there.
    assert is_believable(speeds(99, "Model2Vec"), "tiny")
    assert is_believable(speeds(99)[:1], "tiny")  # nothing to judge by
    assert is_believable(speeds(99), "another")


def test_a_static_peer_is_measured_by_the_fast_encoder(model, write, monkeypatch, small_teacher):
    complete_record(model)
    vectors = {}

    def measure(makers, texts):
        vectors.update((name, make()(texts[:3])) for name, make in makers.items())
        vectors["expected"] = load_model("wordllama:256").encode(texts[:3])
        return dict.fromkeys(makers, 100.0)

    monkeypatch.setattr(gather.speed, "sentences_per_second", measure)
    assert write(model, "--peer_models", "wordllama:256", str(small_teacher)) == 0
    llama = "wordllama/l2_supercat_256"
    encoders = {(row.model, row.encoder) for row in facts_of(model).speed}
    assert {encoder for name, encoder in encoders if name == llama} == {FAST}
    assert (small_teacher.name, SENTENCE_TRANSFORMERS) in encoders
    assert (small_teacher.name, FAST) not in encoders
    found, expected = unit_rows(vectors[llama, FAST]), vectors["expected"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_peer_may_not_have_the_models_name(model, write, capsys):
    complete_record(model)
    assert write(model, "--peer_models", f"model2vec:{model}") == 1
    assert "has the model's own name: rename its folder." in capsys.readouterr().err


@pytest.mark.parametrize("has_model2vec", [True, False])
@pytest.mark.parametrize("busy_turns", [1, 2])
def test_a_busy_machine_is_measured_twice_and_then_said(
    model, write, monkeypatch, caplog, busy_turns, has_model2vec
):
    complete_record(model)
    turns = []
    monkeypatch.setattr(gather, "find_spec", lambda name: has_model2vec)

    def measure(makers, texts):
        turns.append(1)
        slow = len(turns) <= busy_turns
        return {name: 50 if FAST in name and slow else 100.0 for name in makers}

    monkeypatch.setattr(gather.speed, "sentences_per_second", measure)
    assert write(model) == 0
    assert len(turns) == 2
    is_said = busy_turns == 2
    for text, mark in (
        (card_of(model), "**Not to be relied on.**"),
        (card_of(model), SLOW_MARK),
        (caplog.text, "too busy"),
    ):
        assert (mark in text) == is_said
    if is_said:
        [problem] = problems_of(model)
        assert "measured while the machine was too busy" in problem
        assert "st-static card" in problem
    else:
        assert is_fit(model)


# -- before the work -------------------------------------------------------------------

REFUSALS = """
import sys
from st_static.cli import main
model, results = sys.argv[1:]
assert main(["card", model]) == 1
assert main(["card", model, "--results", results + "/local__peer/1-local"]) == 1
assert main(["card", model, "--results", results + "/nothing"]) == 1
assert main(["card", results, "--results", results]) == 1
assert main(["card", model, "--results", results, "--work_dir", "nothing"]) == 1
print(sorted({"torch", "mteb", "transformers"} & set(sys.modules)))
from tqdm import tqdm
print(tqdm(range(2)).disable)
"""


def test_what_the_files_alone_show_is_refused_before_libraries_are_loaded(written):
    """And the libraries' bars are off before any of them is loaded."""
    results = written.parent / "results"
    command = [sys.executable, "-c", REFUSALS, str(written), str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = [
        "Expected folders of results",
        "are results of another model",
        f"There is no folder {results}/nothing",
        "is not a model that st_static built",
        "There is no folder nothing. Expected the recipe's work_dir",
    ]
    for line, says in zip(done.stderr.splitlines(), expected, strict=True):
        assert says in line
    assert done.stdout.splitlines() == ["[]", "True"]


# -- where a card goes -----------------------------------------------------------------


@pytest.fixture
def clone(model, built, tmp_path, monkeypatch):
    """A clone of the repository with a quickstart that was built and scored."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "model_cards", clone / "model_cards")
    for name, source in (("models", built / "model"), ("work", built / "work")):
        shutil.copytree(source, clone / name / "quickstart")
    home = clone / f"results/local__quickstart/{revision_of(str(built / 'model'))}"
    write_result(home, "STS12", "local", {"test": [("default", 0.6)]})
    monkeypatch.chdir(clone)
    return clone


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command_of_the_docs():
    page = (ROOT / "docs/cards.md").read_text("utf-8")
    command = re.findall(r"^st-static (card models/quickstart .*)$", page, re.MULTILINE)[0]
    arguments = []
    for word in command.split():
        arguments += sorted(map(str, Path().glob(word))) if "*" in word else [word]
    return arguments


def test_the_command_of_the_docs_leaves_the_clones_cards_alone(clone):
    before = contents(clone / "model_cards")
    assert main(command_of_the_docs()) == 0
    assert contents(clone / "model_cards") == before
    assert "# quickstart" in card_of(clone / "models/quickstart")
    assert {path.name for path in clone.iterdir()} == {"models", "work", "results", "model_cards"}


@pytest.mark.parametrize(
    ("has_facts", "says"),
    [
        (True, "model_cards/quickstart.md is another model's card: teacher"),
        (False, "does not say whose card model_cards/quickstart.md is"),
    ],
)
def test_another_models_card_is_not_overwritten(clone, capsys, has_facts, says):
    if not has_facts:
        (clone / "model_cards/quickstart.json").unlink()
    before = contents(clone)
    assert main([*command_of_the_docs(), "--cards", "model_cards"]) == 1
    said = capsys.readouterr().err
    assert says in said
    assert "--cards OTHER" in said
    assert contents(clone) == before


RECIPE = {
    "teacher": {"model": "bert", "hub_id": None},
    "corpus": {"files": ["a.txt"], "docstrings": None, "dataset": None, "dataset_config": None},
    "pca": {"n_components": 256},
    "seed": 0,
}


def check_place(cards, hub_id=None, **changes):
    """Whether the card of a model with these changes may take the place of RECIPE's."""
    recipe = {**RECIPE, **{k: {**RECIPE[k], **v} for k, v in changes.items()}}
    check_same_model(cards, "ours", {"recipe": recipe}, hub_id)


@pytest.fixture
def cards(tmp_path):
    (tmp_path / "ours.md").write_text("# ours", "utf-8")
    write_json(tmp_path / "ours.json", {"hub_id": None, "record": {"recipe": RECIPE}})
    return tmp_path


def test_the_card_of_the_same_model_built_again_is_renewed(cards):
    before = contents(cards)
    check_place(cards)
    check_place(cards, corpus={"description": "diaries"}, hub_id="org/ours")
    check_place(cards, teacher={"hub_id": "org/bert"})  # added because publish asked for it
    check_same_model(cards, "another", {}, None)
    assert contents(cards) == before  # it is only asked whether it may be


@pytest.mark.parametrize(
    ("section", "value", "says"),
    [
        ("corpus", {"files": ["mine.txt"]}, "a.txt instead of from the files mine.txt."),
        (
            "corpus",
            {"files": None, "docstrings": ["json"]},
            "a.txt instead of from docstrings of json.",
        ),
        ("teacher", {"model": "org/other"}, "teacher bert instead of org/other"),
        ("pca", {"n_components": 64}, "dimension 256 instead of 64"),
    ],
)
def test_the_card_of_another_model_is_not(cards, section, value, says):
    with pytest.raises(ValueError, match=f"{re.escape(says)}.*--cards OTHER"):
        check_place(cards, **{section: value})


def test_a_model_is_known_by_its_repository(cards):
    write_json(cards / "ours.json", {"hub_id": "org/ours", "record": {"recipe": RECIPE}})
    check_place(cards, "org/ours", corpus={"files": ["mine.txt"]})
    with pytest.raises(ValueError, match="org/ours instead of other/ours on the Hub"):
        check_place(cards, "other/ours")


def test_the_place_of_an_ensembles_card(cards):
    ensemble = {"form": "exact", "members": [{"name": "a"}, {"name": "b"}]}
    record = {"ensemble": ensemble}
    said = "another model's card: that of a single model, not of an ensemble. It would be"
    with pytest.raises(ValueError, match=said):
        check_same_model(cards, "ours", record, None)
    write_json(cards / "ours.json", {"hub_id": None, "record": record})
    check_same_model(cards, "ours", record, "org/ours")
    with pytest.raises(ValueError, match="that of an ensemble, not of a single model"):
        check_place(cards)
    record = {"ensemble": {"form": "fused", "members": [{"name": "a"}, {"name": "c"}]}}
    said = "card: form exact instead of fused, members a, b instead of a, c. It would be"
    with pytest.raises(ValueError, match=said):
        check_same_model(cards, "ours", record, None)
