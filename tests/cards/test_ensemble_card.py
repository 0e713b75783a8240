"""An ensemble's card: how to use it, its members, what was measured, and scores when given."""

import re
import shutil

import pytest
from card_results import write_result
from huggingface_hub import ModelCard
from random_model import write_random_model
from small_model import WORDS

from st_static.cards.check_card import check_card
from st_static.cards.check_folder import check_folder
from st_static.cards.plan_card import CardInputs, plan_card
from st_static.cli import main
from st_static.ensemble import build_ensemble as ensemble_recipe
from st_static.ensemble.build_ensemble import build_ensemble
from st_static.ensemble.config import EnsembleConfig
from st_static.evaluate.models import revision_of
from st_static.evaluate.tasks import languages_of_model
from st_static.files import read_json, write_json
from st_static.model import replacement
from st_static.model.card_file import NOTES_START
from st_static.model.model_folder import ModelFolder
from st_static.model.model_name import read_named
from st_static.model.tokenizer import build_tokenizer


def save_member(folder, dimension, seed, license_id, language=None):
    record = {"recipe": {"export": {"license": license_id}, "language": language}}
    write_random_model(folder, build_tokenizer(WORDS), dimension, seed, record)


@pytest.fixture(scope="module", autouse=True)
def few_pairs():
    """Of texts that are at hand: the standard library's documentation takes seconds to read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble_recipe, "_measured_pairs", lambda: (WORDS[:5], WORDS[5:]))
        yield


@pytest.fixture(scope="module")
def built_ensemble(tmp_path_factory, few_pairs):
    """A folder with the ensemble `models/both` of two members; not to be changed."""
    folder = tmp_path_factory.mktemp("ensemble")
    for seed, (name, license_id) in enumerate([("one", "mit"), ("two", "cc-by-nc-4.0")]):
        save_member(folder / name, 4 + seed, seed, license_id)
    members = [str(folder / "one"), str(folder / "two")]
    build_ensemble(EnsembleConfig(members, [1.0, 0.5], output=str(folder / "models/both")))
    return folder


@pytest.fixture
def home(built_ensemble, tmp_path, monkeypatch):
    """A copy, in which the commands run."""
    shutil.copytree(built_ensemble, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def card_of(home):
    return (home / "models/both/README.md").read_text("utf-8")


def test_the_licence_of_a_member_without_a_card_comes_from_its_recipe(built_ensemble):
    one = built_ensemble / "one"
    assert not (one / "README.md").exists()
    assert read_named(str(one)).license == "mit"
    card = (built_ensemble / "models/both/README.md").read_text("utf-8")
    assert "| one | 4 | 1 | mit |" in card
    assert "- two (cc-by-nc-4.0) may not be used commercially." in card


def test_a_card_that_names_no_licence_is_not_believed_over_the_recipe(home):
    (home / "one/README.md").write_text("---\nlicense: unknown\n---\n", "utf-8")
    assert read_named(str(home / "one")).license == "mit"
    (home / "one/README.md").write_text("---\nlicense: isc\n---\n", "utf-8")
    assert read_named(str(home / "one")).license == "isc"


def test_the_agreement_that_was_measured_is_recorded_and_on_the_card(built_ensemble):
    record = read_json(built_ensemble / "models/both/st_static.json")
    measured = record["ensemble"]["agreement"]
    assert measured["random_pairs"] == 5
    card = (built_ensemble / "models/both/README.md").read_text("utf-8")
    assert "On 5 random pairs" in card
    assert f"{measured['fused_agreement']:.4f} for the fused table" in card
    assert f"{measured['model_agreement']:.4f} for this model" in card


def test_the_example_on_the_card_runs(built_ensemble, monkeypatch, capsys):
    card = (built_ensemble / "models/both/README.md").read_text("utf-8")
    example = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    assert "trust_remote_code=True" in example
    monkeypatch.chdir(built_ensemble)
    exec(example, {})
    assert "tensor(" in capsys.readouterr().out
    assert "English" not in card
    assert ModelCard(card).data.language is None
    assert check_card(card) == []


@pytest.mark.parametrize("option", ["--work_dir", "--peer_models"])
def test_what_only_cards_of_built_models_have_is_refused(home, option, capsys):
    assert main(["card", "models/both", option, "one"]) == 1
    assert f"built from text have. Leave {option} out." in capsys.readouterr().err


def test_a_card_without_results_is_ready_to_be_published(home):
    marked = card_of(home).replace(NOTES_START, f"{NOTES_START}\nMind the gap.")
    (home / "models/both/README.md").write_text(marked, "utf-8")
    assert main(["card", "models/both", "--hub_id", "org/both-9"]) == 0
    card = card_of(home)
    assert "\n# both-9\n" in card
    assert "Mind the gap." in card
    assert "## Scores" not in card
    assert 'SentenceTransformer("org/both-9", trust_remote_code=True)' in card
    assert check_folder(
        ModelFolder.local(home / "models/both"), allow_remote_code=True, repo_id="org/both-9"
    )


def test_scores_are_on_the_card_when_they_are_given(home):
    place = home / f"results/local__both/{revision_of('models/both')}-local"
    write_result(place, "STS12", "local", {"test": [("default", 0.612345)]})
    results = ["--results", str(place), "--published", "minishlab/potion-base-8M"]
    assert main(["card", "models/both", *results, "--cards", "cards"]) == 0
    card = card_of(home)
    assert "| **both** | measured, local data | 61.23 |" in card
    assert "| minishlab/potion-base-8M | published |" in card
    assert "| STS12 (local copy) | STS | default | English | test |" in card
    assert check_card(card) == []
    assert card == (home / "cards/both.md").read_text("utf-8")
    assert read_json(home / "cards/both.json")["record"]["ensemble"]["form"] == "exact"
    # Again, in place; but not by another ensemble of that name.
    assert main(["card", "models/both", *results, "--cards", "cards"]) == 0


def test_an_ensemble_of_another_build_needs_a_new_card(home):
    assert main(["card", "models/both"]) == 0
    record = read_json(home / "models/both/st_static.json")
    record["ensemble"]["members"][1]["weight"] = 0.9
    write_json(home / "models/both/st_static.json", record)
    with pytest.raises(ValueError, match="was written for another build"):
        check_folder(ModelFolder.local("models/both"), allow_remote_code=True)


def test_notes_stay_when_what_was_measured_is_added(home):
    marked = card_of(home).replace(NOTES_START, f"{NOTES_START}\nMind the gap.")
    (home / "models/both/README.md").write_text(marked, "utf-8")
    figures = {"random_pairs": 9, "fused_agreement": 0.5, "model_agreement": 0.25}
    ensemble_recipe.record_agreement(home / "models/both", figures)
    assert "Mind the gap." in card_of(home)
    assert "0.2500 for this model" in card_of(home)
    (home / "models/both/README.md").write_text("# My own card", "utf-8")
    ensemble_recipe.record_agreement(home / "models/both", figures)
    assert card_of(home) == "# My own card"


def test_while_another_process_replaces_the_model_its_record_is_left_alone(home, monkeypatch):
    monkeypatch.setattr(replacement, "PATIENCE", 0.1)
    before = read_json(home / "models/both/st_static.json")
    with (
        replacement.held(home / "models/both"),
        pytest.raises(ValueError, match=r"Another process is writing .*models/both"),
    ):
        ensemble_recipe.record_agreement(home / "models/both", {"random_pairs": 9})
    assert read_json(home / "models/both/st_static.json") == before


@pytest.fixture
def build_in(tmp_path, monkeypatch):
    """Builds an ensemble of members with languages; gives its folder."""

    def build(*languages):
        folders = [tmp_path / f"member{number}" for number in range(len(languages))]
        for number, (folder, language) in enumerate(zip(folders, languages, strict=True)):
            save_member(folder, 4, number, "mit", language)
        monkeypatch.chdir(tmp_path)
        build_ensemble(EnsembleConfig([*map(str, folders)], output="models/both"))
        return tmp_path / "models/both"

    return build


def test_an_ensembles_languages_are_those_of_its_members(build_in):
    folder = build_in("ja", ["en-GB", "ja"])
    members = read_json(folder / "st_static.json")["ensemble"]["members"]
    assert [member["languages"] for member in members] == [["ja"], ["en", "ja"]]
    assert languages_of_model(str(folder)) == ["ja", "en"]
    assert read_named(str(folder)).languages == ("ja", "en")
    place = folder.parents[1] / f"results/local__both/{revision_of(str(folder))}-local"
    write_result(place, "STS17", "local", {"test": [("en-en", 0.9), ("ko-ko", 0.1)]})
    for command in (None, ["card", str(folder), "--results", str(place)]):
        assert command is None or main(command) == 0
        card = (folder / "README.md").read_text("utf-8")
        assert ModelCard(card).data.language == ["ja", "en"]
        assert 'model.encode(["ファイルから' in card
        assert check_card(card) == []
    assert "those in Japanese and English count" in card
    assert "| **both** | measured, local data | 90.00 |" in card


@pytest.mark.parametrize("languages", [("ja", None), (None, None)])
def test_of_an_unknown_member_an_ensemble_states_no_language(build_in, languages):
    folder = build_in(*languages)
    assert languages_of_model(str(folder)) == []
    card = (folder / "README.md").read_text("utf-8")
    assert ModelCard(card).data.language is None
    assert (
        'model.encode(["Read rows from a file.", "Parse a CSV file.", "It rains today."])' in card
    )


def test_an_ensemble_of_one_language_is_compared_on_its_benchmark(build_in):
    folder = build_in("ja", "ja")
    assert "\nlanguage: ja\n" in (folder / "README.md").read_text("utf-8")
    assert (
        plan_card(ModelFolder(folder), CardInputs(results=()), None).inputs.benchmark == "JMTEB(v2)"
    )
