"""An ensemble's card: how to use it, its members, what was measured, and scores when given."""

import re
import shutil
from pathlib import Path

import pytest
from card_results import write_result
from editing import add_notes, card_of, is_fit, problems_of, set_in
from huggingface_hub import ModelCard
from random_model import write_random_model
from small_model import WORDS

from st_static.cards.check_card import check_card
from st_static.cards.plan_card import CardInputs, plan_card
from st_static.cli import main
from st_static.ensemble import build_ensemble as ensemble_recipe
from st_static.ensemble.build_ensemble import build_ensemble
from st_static.ensemble.config import EnsembleConfig
from st_static.evaluate.models import revision_of
from st_static.evaluate.tasks import languages_of_model
from st_static.files import read_json
from st_static.model import replacement
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
    save_member(folder / "one", 4, 0, "mit")
    save_member(folder / "two", 5, 1, "cc-by-nc-4.0")
    members = [str(folder / "one"), str(folder / "two")]
    build_ensemble(EnsembleConfig(members, [1.0, 0.5], output=str(folder / "models/both")))
    return folder


@pytest.fixture
def both(built_ensemble, tmp_path, monkeypatch):
    """A copy of the ensemble, `models/both` in the folder in which the commands run."""
    shutil.copytree(built_ensemble, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home/models/both"


def test_the_licence_of_a_member_without_a_card_comes_from_its_recipe(both):
    assert not Path("one/README.md").exists()
    assert read_named("./one").license == "mit"
    assert "| one | 4 | 1 | mit |" in card_of(both)
    assert "- two (cc-by-nc-4.0) may not be used commercially." in card_of(both)
    for stated, counts in (("unknown", "mit"), ("isc", "isc")):
        Path("one/README.md").write_text(f"---\nlicense: {stated}\n---\n", "utf-8")
        assert read_named("./one").license == counts


def test_the_agreement_that_was_measured_is_recorded_and_on_the_card(both):
    measured = read_json(both / "st_static.json")["ensemble"]["agreement"]
    assert measured["random_pairs"] == 5
    assert "On 5 random pairs" in card_of(both)
    assert f"{measured['fused_agreement']:.4f} for the fused table" in card_of(both)
    assert f"{measured['model_agreement']:.4f} for this model" in card_of(both)


def test_the_example_on_the_card_runs(both, capsys):
    card = card_of(both)
    example = re.search(r"```python\n(.*?)```", card, re.DOTALL)[1]
    assert "trust_remote_code=True" in example
    exec(example, {})
    assert "tensor(" in capsys.readouterr().out
    assert "English" not in card
    assert ModelCard(card).data.language is None
    assert check_card(card) == []


@pytest.mark.parametrize("option", ["--work_dir", "--peer_models"])
def test_what_only_cards_of_built_models_have_is_refused(both, option, capsys):
    assert main(["card", "models/both", option, "one"]) == 1
    assert f"built from text have. Leave {option} out." in capsys.readouterr().err


def test_a_card_without_results_is_ready_to_be_published(both):
    add_notes(both, "Mind the gap.")
    assert main(["card", "models/both", "--hub_id", "org/both-9"]) == 0
    card = card_of(both)
    assert "\n# both-9\n" in card
    assert "Mind the gap." in card
    assert "## Scores" not in card
    assert 'SentenceTransformer("org/both-9", trust_remote_code=True)' in card
    assert is_fit(both, "org/both-9", allow_remote_code=True)


def test_scores_are_on_the_card_when_they_are_given(both):
    place = Path(f"results/local__both/{revision_of('models/both')}-local")
    write_result(place, "STS12", "local", {"test": [("default", 0.612345)]})
    results = ["--results", str(place), "--published", "minishlab/potion-base-8M"]
    for _ in range(2):  # also in place; but not by another ensemble of that name
        assert main(["card", "models/both", *results, "--cards", "cards"]) == 0
    card = card_of(both)
    assert "| **both** | measured, local data | 61.23 |" in card
    assert "| minishlab/potion-base-8M | published |" in card
    assert "| STS12 (local copy) | STS | default | English | test |" in card
    assert check_card(card) == []
    assert card == Path("cards/both.md").read_text("utf-8")
    assert read_json(Path("cards/both.json"))["record"]["ensemble"]["form"] == "exact"


def test_an_ensemble_of_another_build_needs_a_new_card(both):
    assert main(["card", "models/both"]) == 0
    set_in(both / "st_static.json", {"ensemble.members.1.weight": 0.9})
    assert "was written for another build" in problems_of(both, allow_remote_code=True)[0]


def test_notes_stay_when_what_was_measured_is_added(both):
    add_notes(both, "Mind the gap.")
    figures = {"random_pairs": 9, "fused_agreement": 0.5, "model_agreement": 0.25}
    ensemble_recipe.record_agreement(both, figures)
    assert "Mind the gap." in card_of(both)
    assert "0.2500 for this model" in card_of(both)
    (both / "README.md").write_text("# My own card", "utf-8")
    ensemble_recipe.record_agreement(both, figures)
    assert card_of(both) == "# My own card"


def test_while_another_process_replaces_the_model_its_record_is_left_alone(both, monkeypatch):
    monkeypatch.setattr(replacement, "PATIENCE", 0.1)
    before = read_json(both / "st_static.json")
    says = r"Another process is writing .*models/both"
    with replacement.held(both), pytest.raises(ValueError, match=says):
        ensemble_recipe.record_agreement(both, {"random_pairs": 9})
    assert read_json(both / "st_static.json") == before


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
        card = card_of(folder)
        assert ModelCard(card).data.language == ["ja", "en"]
        assert 'model.encode(["ファイルから' in card
        assert check_card(card) == []
    assert "those in Japanese and English count" in card
    assert "| **both** | measured, local data | 90.00 |" in card


@pytest.mark.parametrize("languages", [("ja", None), (None, None)])
def test_of_an_unknown_member_an_ensemble_states_no_language(build_in, languages):
    folder = build_in(*languages)
    assert languages_of_model(str(folder)) == []
    assert ModelCard(card_of(folder)).data.language is None
    texts = '["Read rows from a file.", "Parse a CSV file.", "It rains today."]'
    assert f"model.encode({texts})" in card_of(folder)


def test_an_ensemble_of_one_language_is_compared_on_its_benchmark(build_in):
    folder = build_in("ja", "ja")
    assert "\nlanguage: ja\n" in card_of(folder)
    plan = plan_card(ModelFolder(folder), CardInputs(results=()), None)
    assert plan.inputs.benchmark == "JMTEB(v2)"
