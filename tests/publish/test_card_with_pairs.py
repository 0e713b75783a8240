"""The card of a model that was trained on pairs says how many, and where they are from."""

import shutil

import pytest
from card_results import complete_record, write_results

from st_static.files import read_json, write_json
from st_static.publish.check_card import check_card

SOURCES = {
    "files": ({"files": ["clicks.jsonl"]}, "(clicks.jsonl)"),
    "dataset": ({"dataset": "org/pairs"}, "(dataset org/pairs)"),
    "mined": ({"mined": 5000}, "(mined from the corpus with the teacher)"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_it_says_so(write, built, tmp_path, source):
    pairs, said = SOURCES[source]
    model = tmp_path / "tiny"
    shutil.copytree(built / "model", model)
    complete_record(model)
    record = read_json(model / "st_static.json")
    record["recipe"]["pairs"] |= pairs
    figures = {"steps": 300, "pairs": 5000, "teacher_agreement": 12.34, "hash": "0" * 12}
    record["stages"]["pairs"] = figures
    write_json(model / "st_static.json", record)
    write_results(model)
    assert write(model) == 0
    card = (model / "README.md").read_text("utf-8")
    assert check_card(card) == []
    assert f"300 steps train in turns on batches out of 5,000 pairs of texts {said}" in card
    assert "pairs 12.34" in " ".join(card.split())
    assert ("- org/pairs" in card.partition("---\n\n")[0]) == (source == "dataset")
    assert ("--pairs.files PATH/TO/clicks.jsonl" in card) == (source == "files")
