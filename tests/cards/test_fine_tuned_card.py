"""The card of a model that sentence-transformers trained further: what its Trainer recorded."""

import re
from pathlib import Path

import pytest
from card_results import STS12_REVISION, write_result
from editing import add_notes, card_of, is_fit, problems_of, replace_in, set_in
from huggingface_hub import ModelCard

from st_static.cards.check_card import check_card
from st_static.cli import main
from st_static.evaluate.models import revision_of
from st_static.files import read_json
from st_static.model.card_file import NOTES_START, header_of, training_of
from st_static.model.records import FineTuning

TAGS = ["generated_from_trainer", "dataset_size:2", "loss:MultipleNegativesRankingLoss"]


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
    assert is_fit(fine_tuned, "org/tuned")
    assert main(arguments) == 0  # from what the card now says, where there is no record
    assert card_of(fine_tuned) == card


def test_the_example_on_the_card_runs(fine_tuned, monkeypatch, capsys):
    assert main(["card", str(fine_tuned)]) == 0
    (fine_tuned.parent / "models").mkdir()
    fine_tuned.rename(fine_tuned.parent / "models/tuned")
    monkeypatch.chdir(fine_tuned.parent)
    example = re.search(r"```python\n(.*?)```", card_of(Path("models/tuned")), re.DOTALL)[1]
    exec(example, {})
    assert "tensor(" in capsys.readouterr().out


def test_notes_stay_on_the_card(fine_tuned):
    assert main(["card", str(fine_tuned)]) == 0
    add_notes(fine_tuned, "Mind the gap.")
    noted = card_of(fine_tuned)
    assert main(["card", str(fine_tuned)]) == 0
    assert card_of(fine_tuned) == noted


def test_only_the_card_that_sentence_transformers_wrote_is_replaced(fine_tuned, capsys, caplog):
    had_one = (fine_tuned / "README.md").exists()
    assert main(["card", str(fine_tuned)]) == 0
    assert ("README.md, which sentence-transformers wrote, is replaced" in caplog.text) == had_one
    replace_in(fine_tuned / "README.md", NOTES_START, "")
    without = card_of(fine_tuned)
    assert main(["card", str(fine_tuned)]) == 1
    assert "Put them back, or move the card away" in capsys.readouterr().err
    assert card_of(fine_tuned) == without


def test_it_is_exported_with_its_record(fine_tuned, tmp_path):
    assert main(["export", str(fine_tuned), "--output", str(tmp_path / "out")]) == 0
    record = read_json(tmp_path / "out/st_static.json")["fine_tuning"]
    assert (record["tags"], record["base"]) == (TAGS, "org/base")


def state(model, license_id, base):
    """Change what the training stated: in the record or, if there is none, in the card's header."""
    if (model / "st_static.json").exists():
        stated = {"fine_tuning.license": license_id, "fine_tuning.base": base}
        set_in(model / "st_static.json", stated)
        return
    body = re.sub(r"(license|base_model|base_model_relation): .*\n", "", card_of(model)[4:])
    header = {"license": license_id, "base_model": base}
    lines = [f"{key}: {value}\n" for key, value in header.items() if value]
    (model / "README.md").write_text("".join(["---\n", *lines, body]), "utf-8")


def test_a_model_without_a_licence_is_not_published(fine_tuned):
    state(fine_tuned, None, "my-model")
    stated_in = "st_static.json" if (fine_tuned / "st_static.json").exists() else "README.md"
    assert main(["card", str(fine_tuned)]) == 0
    assert "| base model | a local model, `my-model` |" in card_of(fine_tuned)
    assert header_of(card_of(fine_tuned))["license"] == "unknown"
    advice = f"or set license in {stated_in} and run `st-static card` again."
    problems = " ".join(problems_of(fine_tuned))
    assert f'model.model_card_data.set_license("…"); {advice}' in problems


@pytest.mark.parametrize(
    ("license_id", "base", "stated"),
    [
        ("mit", None, {"license": "mit"}),
        (None, "org/other", {"license": "unknown", "base_model": "org/other"}),
    ],
)
def test_what_the_training_did_not_state_is_taken_from_where_it_is_set(
    fine_tuned, license_id, base, stated
):
    state(fine_tuned, None, None)
    assert main(["card", str(fine_tuned)]) == 0
    header = header_of(card_of(fine_tuned))
    assert (header["license"], header.get("base_model")) == ("unknown", None)
    state(fine_tuned, license_id, base)
    assert main(["card", str(fine_tuned)]) == 0
    assert stated.items() <= header_of(card_of(fine_tuned)).items()


def test_a_model_that_was_not_trained_has_no_training():
    assert training_of({}) is None
    assert training_of({"tags": "loss:X"}) is None
    assert training_of({"tags": ["mteb", 1, None], "license": "mit"}) is None
    odd = {"tags": ["generated_from_trainer", 7], "language": False}
    odd |= {"base_model": [{}], "datasets": 1}
    assert training_of(odd) == FineTuning(["generated_from_trainer"], [], [], license=None)
