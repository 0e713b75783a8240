"""Values in mteb's result files that are no scores, and the metrics of translations."""

import json
from pathlib import Path

import pytest

from st_static.cli import main
from st_static.evaluate.scores import compare_by_task, read_result, read_results

NAN, INF = float("nan"), float("inf")


def write_result(folder: Path, task: str, **metrics: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"hf_subset": "default", **metrics}]
    result = {"task_name": task, "dataset_revision": "abc", "scores": {"test": rows}}
    file = folder / f"{task}.json"
    file.write_text(json.dumps(result))
    return file


@pytest.mark.parametrize("options", [[], ["--by_task"], ["--by_task", "--metrics"]])
@pytest.mark.parametrize("value", [NAN, INF, -INF, 1.7, -1.1])
def test_what_is_no_score_is_refused(tmp_path, capsys, value, options) -> None:
    folder = tmp_path / "results/org__model/1"
    write_result(folder, "STS13", main_score=0.5)
    file = write_result(folder, "STS12", main_score=value)
    assert main(["compare", str(folder), *options]) == 1
    [line] = capsys.readouterr().err.splitlines()
    where = f"{file}, STS12 on test, default: main_score is {value}"
    assert line.startswith(f"Error: {where}, but expected a score from -1 to 1.")


@pytest.mark.parametrize("metric", ["f1", "accuracy", "ap"])
def test_further_metrics_may_be_undefined_but_not_too_large(tmp_path, metric) -> None:
    file = write_result(tmp_path, "Banking77Classification", main_score=0.5, **{metric: NAN})
    assert read_result(file) is not None
    file = write_result(tmp_path, "Banking77Classification", main_score=0.5, **{metric: 50.0})
    with pytest.raises(ValueError, match=f"{metric} is 50.0, but expected a score from -1 to 1"):
        read_result(file)
    file = write_result(tmp_path, "Banking77Classification", main_score=0.5, evaluation_time=50.0)
    assert read_result(file) is not None


def test_the_main_metric_of_jmteb_must_be_defined(tmp_path) -> None:
    folder = tmp_path / "results/org__model/1"
    folder.mkdir(parents=True)
    rows = [{"hf_subset": "ja", "main_score": 0.5, "accuracy": 0.5, "f1": NAN}]
    scores = {"task_name": "MassiveIntentClassification", "dataset_revision": "abc"}
    file = folder / "MassiveIntentClassification.json"
    file.write_text(json.dumps({**scores, "scores": {"test": rows}}))
    with pytest.raises(ValueError, match=r"MassiveIntentClassification\.json: f1 is nan"):
        read_results(folder, "JMTEB(v1)")


def test_translations_show_precision_and_recall(tmp_path) -> None:
    folder = tmp_path / "results/org__model/1"
    folder.mkdir(parents=True)
    metrics = {"main_score": 0.5, "f1": 0.5, "precision": 0.4, "recall": 0.7, "accuracy": 0.7}
    rows = [{"hf_subset": "eng_Latn-jpn_Jpan", **metrics}]
    result = {"task_name": "FloresBitextMining", "dataset_revision": "abc"}
    content = json.dumps({**result, "scores": {"devtest": rows}})
    (folder / "FloresBitextMining.json").write_text(content)
    benchmark = "MTEB(Multilingual, v2)"
    table = compare_by_task([read_results(folder, benchmark)], benchmark, with_metrics=True)
    assert [row[2:] for row in table.rows()] == [
        ("f1", pytest.approx(50)),
        ("precision", pytest.approx(40)),
        ("recall", pytest.approx(70)),
    ]
