"""Results as mteb writes them, made up for a small model."""

import json
from dataclasses import replace

from safetensors.numpy import load_file, save_file

from st_static.cards.facts import CardFacts, CardFigure, MeasuredLimit, ResultEntry
from st_static.evaluate.models import revision_of
from st_static.evaluate.speed import MeasuredSpeed, sentences_per_second
from st_static.files import read_json, write_json

STS12_REVISION = "a0d554a64d88156834ff5ae9920b964011b16384"


def write_result(folder, task, revision, scores):
    """Write a result as mteb does: scores as (subset, main score) by split."""
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "dataset_revision": revision,
        "task_name": task,
        "mteb_version": "2.26.24",
        "scores": {
            split: [
                {"main_score": score, "hf_subset": subset, "languages": ["eng-Latn"]}
                for subset, score in rows
            ]
            for split, rows in scores.items()
        },
        "evaluation_time": 1.0,
        "kg_co2_emissions": None,
        "date": 1795275729.0,
    }
    (folder / f"{task}.json").write_text(json.dumps(result), "utf-8")


def write_results(model):
    """Write the model's results, on the Hub's datasets and on local copies, and another model's."""
    home, revision = model.parent / "results", revision_of(str(model))
    official, local = home / f"local__tiny/{revision}", home / f"local__tiny/{revision}-local"
    write_result(official, "STS12", STS12_REVISION, {"test": [("default", 0.612345)]})
    write_result(local, "STS12", "local", {"test": [("default", 0.1)]})
    write_result(local, "STS17", "local", {"test": [("en-en", 0.712345)]})
    write_result(local, "STSBenchmark", "local", {"validation": [("default", 0.8)]})
    peer = home / "local__peer/1-local"
    for task, split, subset in (
        *(("STS12", "test", "default"), ("STS17", "test", "en-en")),
        ("STSBenchmark", "validation", "default"),
    ):
        write_result(peer, task, "local", {split: [(subset, 0.5)]})


def complete_record(model):
    """Give a record what publish asks for."""
    record = read_json(model / "st_static.json")
    record["recipe"]["corpus"] |= {"description": "invented words", "license": "cc0-1.0"}
    record["recipe"]["teacher"]["hub_id"] = "org/teacher"
    record["recipe"]["export"]["license"] = "mit"
    write_json(model / "st_static.json", record)


def change_weights(model):
    """Change one value of a model's table, as another build does."""
    table = load_file(model / "model.safetensors")
    table["embeddings"][5, 0] += 1
    save_file(table, model / "model.safetensors")


def facts_of(model):
    """The facts of a model's card among the cards beside it."""
    return read_facts(model.parent / f"model_cards/{model.name}.json")


def read_facts(file):
    """The facts of a card from their file."""
    values = json.loads(file.read_text("utf-8"))
    values["results"] = [ResultEntry(**entry) for entry in values["results"]]
    values["speed"] = [MeasuredSpeed(**entry) for entry in values["speed"]]
    values["limits"] = [MeasuredLimit(**entry) for entry in values["limits"]]
    values["figures"] = [CardFigure(**entry) for entry in values["figures"]]
    return CardFacts(**values)


def with_recipe(facts, **changes):
    """Facts whose recipe has other values: `language=...`, `corpus={...}`, `teacher={...}`."""
    recipe = dict(facts.record["recipe"])
    for key, value in changes.items():
        recipe[key] = {**recipe[key], **value} if isinstance(value, dict) else value
    return replace(facts, record={**facts.record, "recipe": recipe})


def with_stages(facts, **changes):
    """Facts whose stages have other values: `pca={"teacher_agreement": 55.0}`."""
    stages = facts.record["stages"]
    changed = {name: {**stages.get(name, {}), **values} for name, values in changes.items()}
    return replace(facts, record={**facts.record, "stages": {**stages, **changed}})


def as_if_idle(makers, texts):
    """Measures, and then says what a machine with time for it would have said."""
    speeds = sentences_per_second(makers, texts, rounds=1, round_seconds=0)
    fastest = max(speeds.values())
    return {n: 2 * fastest if "FastEncoder" in n else s for n, s in speeds.items()}
