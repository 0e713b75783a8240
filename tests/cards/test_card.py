"""A model's card: what is on it comes from files, and what a person wrote on it stays."""

import re
import shlex
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import yaml
from card_results import STS12_REVISION, change_weights, facts_of, read_facts, with_recipe
from editing import add_notes, card_of, replace_in, set_in
from huggingface_hub import ModelCard
from small_build import model_bytes, small_config

from st_static import export_onnx
from st_static.cards import card_figures as figures
from st_static.cards.check_card import check_card
from st_static.cards.gather import load_teacher
from st_static.cards.plan_card import CardInputs, plan_card
from st_static.cards.render import render
from st_static.cli import main
from st_static.commands.build import parse_build
from st_static.evaluate.figures import new_axes
from st_static.evaluate.models import revision_of
from st_static.files import read_json, write_json
from st_static.model.card_file import NOTES_START, notes_of
from st_static.model.model_folder import ModelFolder

ROOT = Path(__file__).parents[2]
CARDS = sorted((ROOT / "model_cards").glob("*.json"))
FIGURES = {"scores", "speed", "lengths", "variance", "distillation", "words"}


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def refused(status, capsys):
    """What is said on stderr of a command that is refused."""
    assert status == 1
    return capsys.readouterr().err


def test_the_card_is_valid_and_the_same_in_both_places(written):
    card, cards = card_of(written), written.parent / "model_cards"
    assert check_card(card) == []
    assert card == (cards / "tiny.md").read_text("utf-8")
    assert card == render(facts_of(written))
    linked = set(re.findall(r"\]\((figures/[^)]*)\)", card))
    assert linked == {f"figures/tiny/{name}.png" for name in FIGURES}
    assert all((home / link).is_file() for link in linked for home in (written, cards))


@pytest.fixture
def recipe(model, built):
    """The recipe of the model, beside it."""
    config = small_config(built / "teacher" / "teacher", built / "corpus.txt", built)
    file = model.parent / "recipe.yaml"
    file.write_text(yaml.safe_dump({**asdict(config), "output": str(model)}), "utf-8")
    return file


def test_a_second_build_and_card_keep_the_notes_and_what_else_is_there(write, model, built, recipe):
    """As a user does: build, card, notes and other formats; then build and card again."""
    add_notes(model, "Mine.")
    (model / "onnx").mkdir()
    (model / "onnx" / "model.onnx").write_bytes(b"converted")
    before = model_bytes(model)
    assert main(["build", str(recipe)]) == 0
    assert model_bytes(model) == before
    shutil.copyfile(model / "README.md", model.parent / "model_cards" / "tiny.md")
    assert write(model, "--work_dir", built / "work") == 0
    assert notes_of(card_of(model)) == "Mine."
    assert (model / "onnx" / "model.onnx").read_bytes() == b"converted"


def test_a_build_tells_of_a_card_that_was_written_for_an_earlier_one(model, recipe, capsys):
    (model / "README.md").write_text(f"<!-- st_static: model={ModelFolder(model).fingerprint} -->")
    assert main(["build", str(recipe)]) == 0
    assert "earlier build" not in capsys.readouterr().out
    assert main(["build", str(recipe), "--export.normalize", "false"]) == 0
    assert "README.md was written for an earlier build. Write it again" in capsys.readouterr().out


def test_results_on_the_hubs_own_data_are_in_the_model_index(written):
    data = ModelCard.load(written / "README.md").data
    index = {
        (r.dataset_name, r.dataset_split): (r.metric_value, r.dataset_revision, r.dataset_type)
        for r in data.eval_results
    }
    assert index == {("MTEB STS12", "test"): (0.612345, STS12_REVISION, "mteb/sts12-sts")}
    assert (data.license, data.library_name) == ("unknown", "sentence-transformers")
    assert {r.metric_type for r in data.eval_results} == {"cosine_spearman"}
    assert "mteb" in data.tags


def test_results_on_local_copies_which_may_be_rebuilt_are_in_the_tables_alone(written):
    facts = facts_of(written)
    local = [entry for entry in facts.results if entry.is_local]
    assert {entry.task for entry in local} == {"STS12", "STS17", "STSBenchmark"}
    card = render(replace(facts, results=local))
    data = ModelCard(card).data
    assert (data.eval_results, "mteb" in data.tags) == (None, False)
    assert not re.search("mteb/|local", card.split("---\n")[1])
    for entry in local:
        assert f"| {entry.task} (local copy) |" in card
    assert check_card(card) == []


def test_the_newer_results_are_mtebs_own_and_official_ones_only(written):
    [file] = (written / ".eval_results").iterdir()
    entries = yaml.safe_load(file.read_text("utf-8"))
    assert file.name == "STS12.yaml"
    found = {(entry["dataset"]["id"], entry["value"]) for entry in entries}
    assert found == {("mteb/sts12-sts", 61.2345)}


def test_results_of_the_former_card_go_and_others_stay(write, model, capsys):
    place = model / ".eval_results"
    (place / "mine.yaml").write_text("[]")
    results = model.parent / "results/local__tiny"
    [official] = (path for path in results.iterdir() if not path.name.endswith("-local"))
    official.rename(model.parent / official.name)
    assert write(model) == 0
    assert {file.name for file in place.iterdir()} == {"mine.yaml"}  # and STS12.yaml is gone
    (model.parent / official.name).rename(official)
    (place / "STS12.yaml").write_text("[]")
    before = contents(model)
    assert "STS12.yaml was not written with this card" in refused(write(model), capsys)
    assert contents(model) == before


def test_the_table_of_scores_is_that_of_the_results(written):
    table = facts_of(written).scores
    ours, peer, published = table["rows"]
    # STSBenchmark was scored on another split than published: left out. Official before local.
    assert ours["STS (2/10)"] == pytest.approx(100 * (0.612345 + 0.712345) / 2, abs=1e-3)
    assert (peer["model"], peer["STS (2/10)"]) == ("peer", 50)
    assert published["model"] == "minishlab/potion-base-8M"
    assert "| **tiny** | measured, local data | 66.23 |" in card_of(written)
    assert "Left out, because some of these models were scored on another" in card_of(written)
    assert "local copies of the datasets" in card_of(written)


def test_a_card_says_who_published_scores(model, write, capsys):
    simcse = "princeton-nlp/sup-simcse-bert-base-uncased"
    assert write(model, "--published", simcse) == 0
    facts = facts_of(model)
    assert facts.scores["rows"][-1]["origin"] == "published by Muennighoff et al. 2022"
    assert facts.published_source.startswith("Muennighoff et al. 2022 (arXiv 2210.07316)")
    before = contents(model)
    assert f"Published scores: {facts.published_source}.\n" in card_of(model)
    # A mean over 56 tasks cannot stand beside one over two.
    said = refused(write(model, "--published", simcse, "SWE-256"), capsys)
    assert "Of SWE-256, only means over the whole benchmark were published, not the" in said
    assert contents(model) == before


def test_what_the_card_says_of_the_build_is_the_record(written, built):
    card = card_of(written)
    record = read_json(written / "st_static.json")
    assert f"{record['stages']['vocabulary']['words']:,} words" in card
    seconds = [
        read_json(built / "work" / f"{name}-{stage['hash']}" / "stage.json")["seconds"]
        for name, stage in record["stages"].items()
    ]
    assert f"| build time | {sum(seconds):,.0f} s" in card
    assert f"distillation {record['stages']['distillation']['teacher_agreement']:.2f}." in card


def test_the_command_on_the_card_rebuilds_the_same_recipe(written, tmp_path):
    card = card_of(written)
    recipe = re.search(r"```yaml\n(.*?)```", card, re.DOTALL)[1]
    (tmp_path / "recipe.yaml").write_text(recipe, "utf-8")
    command = re.search(r"st-static build (recipe\.yaml .*)", card)[1]
    assert "--corpus.files PATH/TO/corpus.txt" in command
    assert "--teacher.model PATH/TO/teacher" in command
    config = parse_build([str(tmp_path / "recipe.yaml")])
    assert config.recipe() == read_json(written / "st_static.json")["recipe"]


def test_limits_are_what_the_models_say(written):
    facts = facts_of(written)
    order = next(row for row in facts.limits if row.limit == "word order")
    assert order.cosine == pytest.approx(1, abs=1e-6)
    assert {row.limit for row in facts.limits} == {*("word order", "negation", "other languages")}
    # The teacher was found, so that its cosines and speed stand beside the model's.
    assert all(-1.001 <= row.teacher <= 1.001 for row in facts.limits)
    assert [entry.model for entry in facts.speed].count("tiny") == 3
    assert facts.processor
    assert facts.threads >= 1


def test_notes_stay_when_the_card_is_written_again(model, write):
    path, other = model / "README.md", model.parent / "model_cards/tiny.md"
    notes = "Mind the *gap*.\n\n| a | b |\n| - | - |"
    replace_in(other, NOTES_START, f"{NOTES_START}\n{notes}")
    replace_in(other, "# tiny", "# changed by hand")
    path.unlink()  # as when the model is built again, which replaces its folder
    assert write(model) == 0
    again = card_of(model)
    assert notes_of(again) == notes_of(other.read_text("utf-8")) == notes
    assert "changed by hand" not in again
    assert "build time" not in again  # without the stages
    assert not (model / "figures/tiny/lengths.png").exists()


def write_own_card(model):
    (model / "README.md").write_text("# My own card\n", "utf-8")


def write_other_notes(model):
    add_notes(model, "one")
    replace_in(model.parent / "model_cards/tiny.md", NOTES_START, f"{NOTES_START}\ntwo")


def misspell_licence(model):
    set_in(model / "st_static.json", {"recipe.export.license": "no-such-licence"})


def forget_the_recipe(model):
    write_json(model / "st_static.json", {"versions": {}})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (write_own_card, "would be overwritten"),
        (write_other_notes, "differ"),
        (misspell_licence, "would not be valid"),
        (forget_the_recipe, "names no recipe, ensemble, training or file of text"),
        (change_weights, "results of another model"),
    ],
)
def test_a_card_that_cannot_be_written_leaves_everything_as_it_was(
    model, write, capsys, change, says
):
    change(model)
    before = contents(model.parent)
    assert says in refused(write(model), capsys)
    assert contents(model.parent) == before


@pytest.mark.parametrize("parent", ["results/local__tiny", "results"])
def test_results_that_lie_deeper_are_named(model, parent, capsys):
    home, revision = model.parent, revision_of(str(model))
    said = refused(main(["card", str(model), "--results", str(home / parent)]), capsys)
    assert f"The results of {model} lie deeper in {home / parent}." in said
    named = shlex.split(said.partition("give --results ")[2].strip().removesuffix("."))
    own = home / "results/local__tiny"
    assert named == [f"{own}/{revision}", f"{own}/{revision}-local"]
    inputs = CardInputs(results=[*map(Path, named)])
    assert plan_card(ModelFolder(model), inputs, None).name == "tiny"


def test_results_stay_valid_when_only_the_record_changes(model, write):
    set_in(model / "st_static.json", {"recipe.corpus.description": "diaries"})
    assert write(model) == 0
    assert "| corpus | diaries |" in card_of(model)


def test_results_of_another_build_beside_the_right_ones_are_left_out(model, write, caplog):
    results = model.parent / "results/local__tiny"
    shutil.copytree(next(iter(sorted(results.iterdir()))), results / "0ther")
    before = facts_of(model)
    assert write(model) == 0
    assert "another model or build" in caplog.text
    assert "0ther" in caplog.text
    assert facts_of(model).results == before.results


def test_the_models_own_results_among_the_peers_are_left_out(model, write):
    own = sorted((model.parent / "results/local__tiny").iterdir())
    before = facts_of(model).scores
    assert write(model, *own) == 0  # after --peers
    assert facts_of(model).scores == before


def test_a_teacher_with_other_weights_is_left_out(built, caplog):
    config = {"model": str(built / "teacher/teacher"), "revision": None, "sha256": "53aa"}
    assert load_teacher(config) is None
    assert "SHA-256" in caplog.text
    assert load_teacher({**config, "sha256": None}) is not None


def test_nothing_to_make_a_card_from(capsys):
    with pytest.raises(SystemExit):
        main(["card"])
    assert "Missing: " in capsys.readouterr().err
    assert refused(main(["card", "nothing", "--results", "nothing"]), capsys)


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_committed_cards_are_what_their_facts_give(path):
    card = path.with_suffix(".md").read_text("utf-8")
    facts = read_facts(path)
    assert render(facts, notes_of(card)) == card
    assert facts.to_json() == path.read_text("utf-8")
    assert check_card(card) == []
    for link in re.findall(r"\]\((figures/[^)]*)\)", card):
        assert (path.parent / link).is_file()


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_figures_of_committed_cards_say_what_their_facts_give(path):
    """So they were drawn again when what they show, or how, was changed."""
    facts = read_facts(path)
    drawn = {
        f"{name}.png": draw(facts, new_axes()[1])
        for name, _, draw, has_facts in figures.FIGURES
        if has_facts(facts)
    }
    assert {f.file: f.alt for f in facts.figures if f.file != "words.png"} == drawn


def test_a_teacher_that_cannot_be_had(written):
    facts = facts_of(written)
    limits = [replace(row, teacher=None) for row in facts.limits]
    bare = replace(facts, limits=limits, lengths=[], seconds={}, figures=[])
    card = render(bare)
    assert check_card(card) == []
    assert "| test of | texts | the cosine should be | this model |\n" in card
    assert "base_model" not in card


def test_a_teacher_and_a_corpus_of_the_hub(written):
    facts = facts_of(written)
    corpus = {"files": None, "dataset": "org/text"}
    facts = with_recipe(facts, corpus=corpus, teacher={"hub_id": "org/teacher"})
    card = render(replace(facts, hub_id="org/tiny"))
    data = ModelCard(card).data
    assert (data.base_model, data.base_model_relation) == ("org/teacher", "finetune")
    assert data.datasets == ["org/text"]
    assert 'SentenceTransformer("org/tiny")' in card
    assert "[org/teacher](https://huggingface.co/org/teacher)" in card
    assert "--teacher.model PATH/TO/teacher" in card  # it was a folder, whatever its Hub id
    assert "--corpus.files" not in card
    assert "--teacher.model" not in render(with_recipe(facts, teacher={"model": "org/teacher"}))


def test_vectors_that_keep_their_lengths_are_to_be_compared_by_their_cosine(written):
    facts = facts_of(written)
    says = "The vectors do not have length 1"
    assert says not in render(facts)
    assert says in render(with_recipe(facts, export={"normalize": False}))


def test_the_card_of_a_model_with_onnx_files_says_how_to_use_them(written, model, write):
    assert "transformers.js" not in render(facts_of(written))
    export_onnx(model, quantize="int8")
    assert write(model) == 0
    card, facts = card_of(model), facts_of(model)
    assert facts.bytes_on_disk == facts_of(written).bytes_on_disk
    assert f'AutoModel.from_pretrained("models/{facts.name}", {{ dtype: "q8" }})' in card


def test_the_command_on_the_card_names_every_file_of_the_corpus(written, tmp_path):
    facts = facts_of(written)
    facts = with_recipe(facts, corpus={"files": ["a, b.txt", "*.xz"]})
    card = render(facts)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(facts.record["recipe"]), "utf-8")
    _, _, _, *options = shlex.split(re.search(r"st-static build recipe\.yaml .*", card)[0])
    config = parse_build([str(tmp_path / "recipe.yaml"), *options])
    assert config.corpus.patterns == ["PATH/TO/a, b.txt", "PATH/TO/*.xz"]


VALID = """---
language: en
license: apache-2.0
library_name: sentence-transformers
pipeline_tag: sentence-similarity
base_model: org/teacher
base_model_relation: finetune
tags: [one]
model-index:
- name: tiny
  results:
  - task: {type: sentence-similarity}
    dataset: {type: mteb/sts12-sts, name: MTEB STS12, split: test}
    metrics: [{type: cosine_spearman, value: 0.5}]
---
# tiny

![text](a.png)
"""
RESULT = VALID[VALID.index("  - task") : VALID.rindex("---")]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("---\nlanguage", "language", "does not begin with YAML"),
        ("language: en", "language: [en", "cannot be read"),
        (VALID[4 : VALID.rindex("---")], "- a list\n", "not a mapping"),
        ("language: en", "language: []", "length >= 1 at `language`"),
        ("language: en", "language: null", "got `null` at `language`"),
        ("language: en", "language: english", "'english'"),
        ("license: apache-2.0\n", "", "license that the Hub knows"),
        ("apache-2.0", "apache", "'apache'"),
        ("license: apache-2.0", "license: other", "needs license_name"),
        ("library_name: sentence-transformers\n", "", "library_name"),
        ("pipeline_tag: sentence-similarity", "pipeline_tag: guess", "'guess'"),
        ("org/teacher", "a/b/c", "'a/b/c'"),
        ("finetune", "distilled", "'distilled'"),
        ("base_model: org/teacher\n", "", "without a base_model"),
        ("tags: [one]", "tags: one", "expected `array`, got `str` at `tags`"),
        ("tags:", "datasets: ['not an id']\ntags:", "'not an id'"),
        ("name: tiny\n", "names: tiny\n", "field `name` at `model-index[0]`"),
        (RESULT, "", "got `null` at `model-index[0].results`"),
        (RESULT, RESULT + RESULT, "2 results of MTEB STS12"),
        ("{type: sentence-similarity}", "{name: x}", "field `type` at `model-index[0].results[0]"),
        ("    dataset: {type: mteb/sts12-sts, name: MTEB STS12, split: test}\n", "", "`dataset`"),
        ("name: MTEB STS12, ", "", "field `name` at `model-index[0].results[0].dataset`"),
        ("mteb/sts12-sts", "'a b'", "'a b'"),
        ("value: 0.5", "value: .nan", "a cosine_spearman that is not a finite number"),
        ("value: 0.5", "value: high", "expected `float`, got `str`"),
        ("type: cosine_spearman, ", "", "field `type` at `model-index[0].results[0].metrics[0]`"),
        ("![text]", "![]", "Image 1 has no alt text"),
    ],
)
def test_each_kind_of_problem_is_found(old, new, problem):
    assert old in VALID
    problems = check_card(VALID.replace(old, new))
    assert any(problem in found for found in problems), problems


def test_all_problems_are_listed():
    assert check_card(VALID) == []
    card = VALID.replace("language: en", "language: x").replace("apache-2.0", "x")
    assert len(check_card(card.replace("![text]", "![]"))) == 3
    assert len(check_card("# nothing")) == 1


OWN_DATA = {
    "table": "| model | Spearman |\n|---|---|\n| tiny | 61.00 (55.00 to 66.00) |",
    "about": "On 300 pairs, x 100, with 95 % intervals from random halves.",
    "differences": ["Spearman: tiny above other by 9.00 (2.00 to 15.00)"],
}


def test_data_of_the_authors_stands_on_the_card(write, model, capsys):
    file = model.parent / "own_pairs.json"

    def write_with(values):
        write_json(file, values)
        return write(model, "--own_data", file)

    own = {**OWN_DATA, "revisions": [revision_of(str(model))]}
    assert write_with(own) == 0
    assert check_card(card_of(model)) == []
    _, _, section = card_of(model).partition("## Measured on the author's data\n\n")
    assert section.startswith(own["table"])
    difference = own["differences"][0]
    assert f"{own['about']} Differences that exceed chance:\n- {difference}" in section
    above = "| row | model | Spearman |\n|---|---|---|\n| 1 | a | 2 |"
    assert write_with({**own, "above": above}) == 0
    assert "is above by more than chance:\n\n| row | model | Spearman |\n|---|" in card_of(model)
    assert difference not in card_of(model)
    assert "is of other models than" in refused(write_with({**own, "revisions": ["x"]}), capsys)
    said = refused(write_with({"table": ""}), capsys)
    assert "expected what st-static evaluate wrote" in said
    write_json(file, own)
    assert main(["card", str(model), "--own_data", str(file)]) == 0  # without results of MTEB
    assert "## Measured on the author's data" in card_of(model)
