"""The card of a model that sentence-transformers trained further: what its Trainer recorded."""

import re

import pytest
from card_results import STS12_REVISION, write_result
from huggingface_hub import ModelCard

from st_static.cards.check_card import check_card
from st_static.cards.check_folder import UnfitFolderError, check_folder
from st_static.cli import main
from st_static.evaluate.models import revision_of
from st_static.files import read_json, write_json
from st_static.model.card_file import NOTES_START, header_of, training_of
from st_static.model.model_folder import ModelFolder
from st_static.model.records import FineTuning

TAGS = ["generated_from_trainer", "dataset_size:2", "loss:MultipleNegativesRankingLoss"]


def card_of(model):
    return (model / "README.md").read_text("utf-8")


def problems_of(model):
    with pytest.raises(UnfitFolderError) as caught:
        check_folder(ModelFolder.local(model))
    return str(caught.value)


def test_a_card_says_what_the_trainer_recorded_and_is_ready_to_be_published(fine_tuned):
    place = fine_tuned.parent / f"results/{revision_of(str(fine_tuned))}"
    write_result(place, "STS12", STS12_REVISION, {"test": [("default", 0.612345)]})
    arguments = ["card", str(fine_tuned), "--results", str(place), "--hub_id", "org/tuned"]
    assert main(arguments) == 0
    card = card_of(fine_tuned)
    data = ModelCard(card).data
    assert (data.base_model, data.license, data.language) == ("org/base", "mit", "en")
    assert (data.base_model_relation, data.eval_results[0].metric_value) == ("finetune", 0.612345)
    assert set(TAGS) < set(data.tags)
    assert "| base model | [org/base](https://huggingface.co/org/base) |" in card
    assert "| loss | `MultipleNegativesRankingLoss` |" in card
    assert "| data | not on the Hub, 2 examples |" in card
    assert "| **tuned** | measured | 61.23 |" in card
    assert check_card(card) == []
    assert check_folder(ModelFolder.local(fine_tuned), repo_id="org/tuned")
    assert main(arguments) == 0  # from what the card now says, where there is no record
    assert card_of(fine_tuned) == card


def test_the_example_on_the_card_runs(fine_tuned, monkeypatch, capsys):
    assert main(["card", str(fine_tuned)]) == 0
    (fine_tuned.parent / "models").mkdir()
    fine_tuned.rename(fine_tuned.parent / "models/tuned")
    monkeypatch.chdir(fine_tuned.parent)
    card = (fine_tuned.parent / "models/tuned/README.md").read_text("utf-8")
    exec(re.search(r"```python\n(.*?)```", card, re.DOTALL)[1], {})
    assert "tensor(" in capsys.readouterr().out


def test_notes_stay_on_the_card(fine_tuned):
    assert main(["card", str(fine_tuned)]) == 0
    noted = card_of(fine_tuned).replace(NOTES_START, f"{NOTES_START}\nMind the gap.")
    (fine_tuned / "README.md").write_text(noted, "utf-8")
    assert main(["card", str(fine_tuned)]) == 0
    assert card_of(fine_tuned) == noted


def test_only_the_card_that_sentence_transformers_wrote_is_replaced(fine_tuned, capsys, caplog):
    had_one = (fine_tuned / "README.md").exists()
    assert main(["card", str(fine_tuned)]) == 0
    assert ("README.md, which sentence-transformers wrote, is replaced" in caplog.text) == had_one
    without = card_of(fine_tuned).replace(NOTES_START, "")
    (fine_tuned / "README.md").write_text(without, "utf-8")
    assert main(["card", str(fine_tuned)]) == 1
    assert "Put them back, or move the card away" in capsys.readouterr().err
    assert card_of(fine_tuned) == without


def test_it_is_exported_with_its_record(fine_tuned, tmp_path):
    assert main(["export", str(fine_tuned), "--output", str(tmp_path / "out")]) == 0
    record = read_json(tmp_path / "out/st_static.json")["fine_tuning"]
    assert (record["tags"], record["base"]) == (TAGS, "org/base")


def test_a_model_without_a_licence_is_not_published(fine_tuned):
    file = fine_tuned / "st_static.json"
    if file.exists():
        record = read_json(file)
        record["fine_tuning"] |= {"license": None, "base": "my-model"}
        write_json(file, record)
    else:
        card = card_of(fine_tuned).replace("license: mit\n", "").replace("org/base", "my-model")
        (fine_tuned / "README.md").write_text(card, "utf-8")
    assert main(["card", str(fine_tuned)]) == 0
    assert "| base model | a local model, `my-model` |" in card_of(fine_tuned)
    assert header_of(card_of(fine_tuned))["license"] == "unknown"
    stated_in = "st_static.json" if file.exists() else "README.md"
    advice = f"or set license in {stated_in} and run `st-static card` again."
    assert f'model.model_card_data.set_license("…"); {advice}' in problems_of(fine_tuned)


@pytest.mark.parametrize(("key", "value"), [("license", "mit"), ("base_model", "org/other")])
def test_what_the_training_did_not_state_is_taken_from_where_it_is_set(fine_tuned, key, value):
    file = fine_tuned / "st_static.json"
    if file.exists():
        record = read_json(file)
        record["fine_tuning"] |= {"license": None, "base": None}
        write_json(file, record)
    else:
        card = card_of(fine_tuned).replace("license: mit\n", "")
        (fine_tuned / "README.md").write_text(card.replace("base_model: org/base\n", ""), "utf-8")
    assert main(["card", str(fine_tuned)]) == 0
    assert header_of(card_of(fine_tuned)).get(key, "unknown") == "unknown"
    if file.exists():
        record["fine_tuning"]["base" if key == "base_model" else key] = value
        write_json(file, record)
    else:
        card = card_of(fine_tuned).replace("license: unknown\n", "")
        (fine_tuned / "README.md").write_text(f"---\n{key}: {value}\n{card[4:]}", "utf-8")
    assert main(["card", str(fine_tuned)]) == 0
    assert header_of(card_of(fine_tuned))[key] == value


def test_a_model_that_was_not_trained_has_no_training():
    assert training_of({}) is None
    assert training_of({"tags": "loss:X"}) is None
    assert training_of({"tags": ["mteb", 1, None], "license": "mit"}) is None
    odd = {
        "tags": ["generated_from_trainer", 7],
        "language": False,
        "base_model": [{}],
        "datasets": 1,
    }
    assert training_of(odd) == FineTuning(["generated_from_trainer"], [], [], license=None)
