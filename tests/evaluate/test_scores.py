"""Table 1 for any models: hand-made scores, and averages that never pass for a benchmark's."""

import csv
import json
import re
import runpy
import shutil
from pathlib import Path

import mteb
import numpy as np
import polars as pl
import pytest

from st_static.cli import main
from st_static.evaluate.scores import (
    METRICS,
    PUBLISHED_FILE,
    S2S_TASKS,
    ModelScores,
    compare,
    compare_by_task,
    find_published,
    read_published,
    read_results,
    sources_of,
)
from st_static.evaluate.tables import as_markdown

UPDATE = Path(__file__).parents[2] / "benchmarks/update_published.py"
V1, V2 = "MTEB(eng, v1)", "MTEB(eng, v2)"
MINILM = "sentence-transformers/all-MiniLM-L6-v2"
WHOLE = [
    *("Class.", "Clust.", "PairClass.", "Rerank.", "Retr.", "STS", "Summ."),
    *("Avg-s2s", "Avg (56)"),
]
# Table 1 of Wada et al. (2025), in the order of WHOLE.
TABLE_1 = {
    "SimCSE-supervised": [67.32, 33.43, 74.90, 47.54, 21.82, 79.12, 31.17, 62.86, 48.93],
    "GTE-base": [77.17, 46.82, 85.33, 57.66, 54.09, 81.97, 31.17, 71.51, 64.11],
    "LLM2Vec-LLaMa3": [75.92, 46.45, 87.80, 59.68, 56.63, 83.58, 30.94, 72.94, 65.01],
    "GloVe": [57.29, 27.73, 70.92, 43.29, 21.62, 61.85, 28.87, 52.63, 41.97],
    "Sent2Vec": [61.16, 31.75, 71.88, 47.31, 27.79, 65.80, 29.51, 56.33, 46.29],
    "WordLlama-256": [60.06, 35.87, 73.59, 52.68, 32.41, 72.25, 30.12, 59.99, 49.74],
    "Model2Vec-256": [64.67, 32.94, 76.62, 49.72, 30.43, 73.24, 29.20, 60.67, 49.74],
    "SWE-256": [67.21, 36.76, 78.72, 50.86, 31.03, 75.88, 30.04, 63.76, 51.87],
    "SWE-512": [68.07, 36.17, 79.14, 50.90, 31.50, 75.65, 29.82, 63.82, 52.04],
    "SWE-256+WordLlama": [66.23, 37.25, 79.14, 52.61, 33.36, 75.61, 30.22, 63.82, 52.48],
    "SWE-256+WordLlama+Model2Vec": [67.12, 37.17, 79.03, 52.09, 33.97, 75.28, 30.27, 63.86, 52.72],
}


@pytest.fixture(scope="module")
def add_to_published():
    """What the maintainer's script does with each folder."""
    return runpy.run_path(str(UPDATE))["add_to_published"]


def write_result(folder, task, scores, revision="abc"):
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "task_name": task,
        "dataset_revision": revision,
        "mteb_version": "2.26.24",
        "scores": scores,
    }
    (folder / f"{task}.json").write_text(json.dumps(result))


def row(score, subset="default"):
    return {"hf_subset": subset, "main_score": score}


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results/org__model/1234"
    write_result(folder, "STS12", {"test": [row(0.5)]})
    write_result(folder, "STS17", {"test": [row(0.9, "en-en"), row(0.1, "ko-ko")]})
    write_result(folder, "Banking77Classification", {"test": [row(0.25)], "train": [row(1.0)]})
    (folder / "model_meta.json").write_text("{}")
    return folder


def test_the_benchmarks_splits_and_subsets_count(results):
    model = read_results(results, V1)
    assert (model.name, model.origin) == ("org/model", "measured")
    assert model.scores == pytest.approx({"STS12": 50, "STS17": 90, "Banking77Classification": 25})


def test_other_splits_count_where_there_are_no_official_ones(results):
    write_result(results, "STSBenchmark", {"validation": [row(0.8)]}, revision="local")
    model = read_results(results, V1)
    assert model.scores["STSBenchmark"] == pytest.approx(80)
    assert model.origin == "measured, local data, STSBenchmark on validation"


def test_subsets_in_other_languages_never_count(results):
    write_result(results, "STS17", {"test": [row(0.1, "ko-ko")]})
    write_result(results, "MTOPDomainClassification", {"test": [row(0.9, "de")]})
    assert set(read_results(results, V1).scores) == {"STS12", "Banking77Classification"}


def test_s2s_tasks_are_the_33_of_the_paper():
    """Those that mteb called s2s. What it calls t2t today are 33 others."""
    tasks = {task.metadata.name: task.metadata for task in mteb.get_benchmark(V1).tasks}
    assert len(S2S_TASKS) == 33
    assert set(tasks) >= S2S_TASKS
    assert {name for name, about in tasks.items() if about.category == "t2t"} != S2S_TASKS


@pytest.mark.parametrize(
    ("model", "means"),
    [
        # Means by type of the same table, in the paper's own order (plotstables/avg_table.txt).
        ("princeton-nlp/unsup-simcse-bert-base-uncased", [62.5, 29.04, 70.33, 46.47, 20.29, 74.33]),
        ("princeton-nlp/sup-simcse-bert-base-uncased", [67.32, 33.43, 73.68, 47.54, 21.82, 79.12]),
    ],
)
def test_scores_by_task_add_up_to_the_means_that_were_published(model, means):
    [row] = compare(find_published([model], V1), V1).to_dicts()
    assert row["origin"] == "published by Muennighoff et al. 2022"
    found = [row[heading] for heading in WHOLE[:6]]
    # Rounded twice: each score, and then their mean.
    assert found == pytest.approx(means, abs=0.0101)


def test_published_means_stand_under_the_headings_of_the_whole_benchmark(results):
    models = [read_results(results, V1), *find_published(["SWE-256", MINILM], V1)]
    ours, swe, minilm = compare(models, V1).to_dicts()
    assert swe["origin"] == "published by Wada et al. 2025"
    assert (swe["Avg-s2s"], swe["Avg (56)"]) == (63.76, 51.87)
    # They are over other tasks than those that the others have in common.
    partly = [heading for heading in swe if "/" in heading]
    assert partly == ["Class. (1/12)", "STS (2/10)", "Avg-s2s (3/33)", "Avg (3/56)"]
    assert {swe[heading] for heading in partly} == {None}
    assert {ours[heading] for heading in WHOLE} == {None}
    assert ours["Avg (3/56)"] == pytest.approx((50 + 90 + 25) / 3)
    scores = read_published()[V1, MINILM].scores
    assert minilm["Avg (56)"] == pytest.approx(sum(scores.values()) / 56)


def test_the_whole_of_table_1_is_published():
    """Whole benchmarks, whether by type or by task: GloVe's means are computed from its scores."""
    table = compare(find_published([*TABLE_1, MINILM], V1), V1)
    assert table.columns == ["model", "origin", *WHOLE]
    *rows, minilm = table.to_dicts()
    for row in rows:
        found = [row[heading] for heading in WHOLE]
        assert found == pytest.approx(TABLE_1[row["model"]], abs=0.0051), row["model"]
    scores = read_published()[V1, MINILM].scores
    assert minilm["Avg (56)"] == pytest.approx(sum(scores.values()) / 56)
    assert minilm["Avg-s2s"] == pytest.approx(sum(scores[t] for t in S2S_TASKS) / 33)
    assert minilm["Summ."] == pytest.approx(scores["SummEval"])


@pytest.mark.parametrize(
    ("in_table", "by_task", "differ"),
    [
        ("GTE-base", "Alibaba-NLP/gte-base-en-v1.5", {"PairClass.": (85.33, 85.35)}),
        (
            "SimCSE-supervised",
            "princeton-nlp/sup-simcse-bert-base-uncased",
            {
                **{"PairClass.": (74.90, 73.68), "Summ.": (31.17, 23.31)},
                **{"Avg-s2s": (62.86, 62.75), "Avg (56)": (48.93, 48.72)},
            },
        ),
        (
            "Model2Vec-256",
            "minishlab/potion-base-8M",
            {
                **{"Class.": (64.67, 64.38), "Summ.": (29.20, 29.28)},
                **{"Avg-s2s": (60.67, 60.56), "Avg (56)": (49.74, 49.68)},
            },
        ),
    ],
)
def test_the_encoders_of_the_paper_are_those_whose_scores_by_task_give_its_means(
    in_table, by_task, differ
):
    table, tasks = compare(find_published([in_table, by_task], V1), V1).to_dicts()
    for heading in WHOLE:
        if heading in differ:
            found = (table[heading], round(tasks[heading], 2))
            assert found == differ[heading], heading
        else:
            assert tasks[heading] == pytest.approx(table[heading], abs=0.0101), heading


def test_published_means_alone_are_a_table(capsys):
    assert main(["compare", "--published", "SWE-512", "Sent2Vec"]) == 0
    heading, _, *rows, _, source = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in (heading, *rows)]
    assert cells == [
        ["model", "origin", *WHOLE],
        *(
            [name, "published by Wada et al. 2025", *(f"{mean:.2f}" for mean in TABLE_1[name])]
            for name in ("SWE-512", "Sent2Vec")
        ),
    ]
    assert source == "Published scores: Wada et al. 2025 (arXiv 2506.04624), table 1."


def test_what_is_missing_is_an_empty_cell_and_a_word_is_a_word():
    table = pl.DataFrame({"word": ["null", "some"], "norm": [None, 1.0]})
    assert [row.split("|")[1:3] for row in as_markdown(table).splitlines()[2:]] == [
        [" null ", "      "],
        [" some ", " 1.00 "],
    ]


def test_each_published_row_is_of_a_known_source():
    rows = list(csv.DictReader(PUBLISHED_FILE.read_text("utf-8").splitlines()))
    assert len({(row["benchmark"], row["model"], row["task"]) for row in rows}) == len(rows)
    names = list(read_published())
    for benchmark in {benchmark for benchmark, _ in names}:
        of_benchmark = [model for in_benchmark, model in names if in_benchmark == benchmark]
        assert all(sources_of([model]) for model in find_published(of_benchmark, benchmark))


E5 = "intfloat/multilingual-e5-small"
MULTILINGUAL = "minishlab/potion-multilingual-128M"
LLM2VEC = "McGill-NLP/LLM2Vec-Meta-Llama-3-8B-Instruct-mntp-unsup-simcse"


@pytest.mark.parametrize(
    ("names", "benchmark", "there", "others"),
    [
        (["minishlab/potion-base-8M"], V1, ["results on GitHub, commit f4cc"], ["e5", "LLM2Vec"]),
        ([LLM2VEC], V1, ["results on GitHub, of LLM2Vec, commits 186d"], ["e5", "f4cc"]),
        ([E5, MULTILINGUAL], "JMTEB(v2)", ["commit f4cc", "; of multilingual-e5-small"], ["LLM"]),
        (["SWE-256", MINILM], V1, ["commit f4cc", "2026; Wada"], ["e5", "LLM", "Muennighoff"]),
        (["GloVe"], V1, ["Muennighoff"], ["embeddings-benchmark/results", "Wada"]),
    ],
)
def test_only_sources_of_the_rows_are_named(names, benchmark, there, others):
    source = sources_of(find_published(names, benchmark))
    assert all(part in source for part in there)
    assert not any(part in source for part in others)


@pytest.mark.parametrize(("benchmark", "name", "n"), [(V2, MINILM, 41), ("JMTEB(v2)", E5, 28)])
def test_means_of_others_are_over_tasks_and_over_types(benchmark, name, n):
    table = compare(find_published([name], benchmark), benchmark)
    [model] = table.to_dicts()
    scores = read_published()[benchmark, name].scores
    assert len(scores) == n
    assert model["Mean(Task)"] == pytest.approx(sum(scores.values()) / n)
    types = [model[c] for c in table.columns[2:] if not c.startswith("Mean")]
    if benchmark == V2:
        assert model["Mean(TaskType)"] == pytest.approx(sum(types) / len(types))


def test_partial_results_compare_over_common_tasks_and_say_so(results):
    models = [read_results(results, V1), *find_published([MINILM], V1)]
    table = compare(models, V1)
    assert table["origin"].to_list() == ["measured", "published"]
    assert table["Avg (3/56)"].to_list()[0] == pytest.approx((50 + 90 + 25) / 3)
    assert table["Avg-s2s (3/33)"].to_list()[0] == pytest.approx((50 + 90 + 25) / 3)
    published = read_published()[V1, MINILM].scores
    expected = (published["STS12"] + published["STS17"]) / 2
    assert table["STS (2/10)"].to_list()[1] == pytest.approx(expected)
    assert "Retr." not in table.columns
    assert not {"STS", "Avg", "Avg (56)", "Avg-s2s"} & set(table.columns)
    # Two revisions of a model are told apart.
    other = results.parent / "5678"
    write_result(other, "STS12", {"test": [row(0.7)]})
    table = compare([models[0], read_results(other, V1)], V1)
    assert table["model"].to_list() == ["org/model 1234", "org/model 5678"]


def test_updating_adds_a_models_results_once(results, tmp_path, add_to_published):
    file = tmp_path / "published.csv"
    shutil.copy(PUBLISHED_FILE, file)
    before = file.read_text().splitlines()
    assert add_to_published(results, V1, file) == 3
    assert add_to_published(results, V1, file) == 3
    after = file.read_text().splitlines()
    assert after[: len(before)] == before
    rows = list(csv.DictReader(after))[-3:]
    assert {r["task"]: r["main_score_x100"] for r in rows} == {
        "STS12": "50.00",
        "STS17": "90.00",
        "Banking77Classification": "25.00",
    }
    assert {(r["model"], r["revision"], r["mteb_version"]) for r in rows} == {
        ("org/model", "1234", "2.26.24")
    }


def test_updating_keeps_the_other_published_scores_of_a_model(tmp_path, add_to_published):
    file = tmp_path / "published.csv"
    shutil.copy(PUBLISHED_FILE, file)
    folder = tmp_path / "results" / MINILM.replace("/", "__") / "1234"
    folder.mkdir(parents=True)
    write_result(folder, "STS12", {"test": [row(0.5)]})
    assert add_to_published(folder, V1, file) == 1
    after, before = read_published(file)[V1, MINILM].scores, read_published()[V1, MINILM].scores
    assert after == {**before, "STS12": 50.0}


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", "[" * 100_000, '{"task_name": "STS12", "scores": {"test": []}}'),
        '{"task_name": "STS12", "dataset_revision": "1", "scores": {"test": [{"hf_subset": 5}]}}',
    ],
)
def test_a_broken_result_file_is_named(results, text):
    (results / "STS13.json").write_text(text)
    with pytest.raises(ValueError, match=r"STS13.json is not a complete result file"):
        read_results(results, V1)


def models_with(*scores):
    return [ModelScores(f"m{i}", one) for i, one in enumerate(scores)]


# What is asked for, with the results and an empty folder, and what is said of it.
REFUSED = [
    (lambda results, empty, add: read_results(empty, V1), "no result files of mteb"),
    (lambda *_: compare(models_with({}), V1), "m0 has 0"),
    (
        lambda *_: compare(models_with({"STS12": 1}, {"STS13": 1}), V1),
        r"no task of MTEB\(eng, v1\) to compare on",
    ),
    (
        lambda *_: compare_by_task(models_with({"STS12": 1}, {}), "JMTEB(v2)"),
        r"no task of JMTEB\(v2\) .* on: m0 has 1; m1",
    ),
    (
        lambda *_: find_published(["org/none"], V1),
        r"of org/none on .* There are: .*all-MiniLM-L6-v2",
    ),
    (
        lambda *_: find_published(["minishlab/potion-base-8m"], V1),
        r"Did you mean minishlab/potion-base-8M\?",
    ),
    (lambda results, empty, add: add(results, V1, empty / "published.csv"), "local copies"),
]


@pytest.mark.parametrize(("ask", "says"), REFUSED)
def test_what_cannot_be_compared_is_told(results, tmp_path, add_to_published, ask, says):
    write_result(results, "STS13", {"test": [row(0.5)]}, revision="local")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=says):
        ask(results, tmp_path / "empty", add_to_published)


def test_an_unknown_benchmark_lists_the_nearest(capsys):
    assert main(["compare", "--benchmark", "MTEB(eng,v1)", "--published", MINILM]) == 1
    assert "MTEB(eng, v1)" in capsys.readouterr().err
    assert main(["compare"]) == 1
    assert "Name folders of results" in capsys.readouterr().err


def test_the_command_prints_and_writes_in_three_formats(results, tmp_path, capsys):
    arguments = [str(results), "--published", MINILM, "--output", str(tmp_path / "out/table")]
    assert main(["compare", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "| org/model" in printed
    assert "Published scores: embeddings-benchmark/results on GitHub" in printed
    markdown, csv_file, json_file = (tmp_path / f"out/table.{s}" for s in ("md", "csv", "json"))
    assert markdown.read_text().strip() in printed
    table = compare([read_results(results, V1), *find_published([MINILM], V1)], V1)
    assert json.loads(json_file.read_text()) == table.to_dicts()
    assert pl.read_csv(csv_file)["STS (2/10)"].to_list() == table["STS (2/10)"].to_list()


@pytest.mark.parametrize("suffix", [".md", ".csv", ".json"])
def test_a_file_that_is_no_table_is_not_overwritten(results, tmp_path, capsys, suffix):
    mine = tmp_path / f"README{suffix}"
    mine.write_text("Mine.")
    arguments = ["compare", str(results), "--output", str(tmp_path / "README")]
    assert main(arguments) == 1
    assert f"{mine} would be overwritten" in capsys.readouterr().err
    assert mine.read_text() == "Mine."
    mine.unlink()
    assert main(arguments) == 0
    assert main(arguments) == 0  # a table of its own is renewed


# -- by task ---------------------------------------------------------------------------

# In the order of the paper's types, which is not that of the alphabet's tasks.
MEASURED = {
    "Banking77Classification": ("accuracy", "f1"),
    "TwentyNewsgroupsClustering": ("v_measure",),
    "TwitterURLCorpus": ("max_ap", "max_f1", "max_accuracy"),
    "NFCorpus": ("ndcg_at_10", "map_at_10", "recall_at_100", "mrr_at_10"),
    "STS12": ("cosine_spearman", "cosine_pearson"),
    "STS17": ("cosine_spearman", "cosine_pearson"),
    "SummEval": ("cosine_spearman", "cosine_pearson"),
}
UNREAD = {"nauc_map_at_1000_std": 0.3, "v_measure_std": 0.1, "p_value": 0.0, "dot_pearson": 0.9}


def test_the_page_lists_the_metrics():
    page = (Path(__file__).parents[2] / "docs/evaluate.md").read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \| ((?:`\w+`(?:, )?)+) \|", page, re.MULTILINE)
    assert {kind: tuple(re.findall(r"\w+", listed)) for kind, listed in rows} == METRICS


@pytest.fixture
def two_models(tmp_path):
    """Results of two models with all metrics of mteb, at random; the second lacks a task."""
    rng = np.random.default_rng(0)
    folders = [tmp_path / "results" / f"org__{name}" / "1234" for name in ("ours", "teacher")]
    for folder in folders:
        for task, metrics in MEASURED.items():
            if (folder, task) == (folders[1], "SummEval"):
                continue
            subset = "en-en" if task == "STS17" else "default"
            values = dict(zip(metrics, rng.random(len(metrics)), strict=True))
            main = {"main_score": values[metrics[0]], "hf_subset": subset}
            write_result(folder, task, {"test": [{**values, **main, **UNREAD}]})
    return folders


def in_json(folder, task, metric):
    """A score x 100, read from mteb's file by json alone; None without a file."""
    file = folder / f"{task}.json"
    if not file.exists():
        return None
    [row] = json.loads(file.read_text())["scores"]["test"]
    return 100 * row[metric]


def by_task(folders, published=(), **options):
    models = [read_results(folder, V1) for folder in folders]
    return compare_by_task([*models, *find_published(published, V1, by_task=True)], V1, **options)


OURS, TEACHER = "org/ours (measured)", "org/teacher (measured)"


def test_by_task_has_a_row_for_each_task_in_the_order_of_types(two_models):
    table = by_task(two_models)
    assert table.columns == ["type", "task", "metric", OURS, TEACHER, "minus org/teacher"]
    assert [(row["task"], row["metric"]) for row in table.to_dicts()] == [
        (task, metrics[0]) for task, metrics in MEASURED.items()
    ]
    for row in table.to_dicts():
        ours, theirs = (in_json(folder, row["task"], row["metric"]) for folder in two_models)
        assert (row[OURS], row[TEACHER]) == (pytest.approx(ours), theirs and pytest.approx(theirs))
        assert row["minus org/teacher"] == (theirs and pytest.approx(ours - theirs))
    assert table["minus org/teacher"].null_count() == 1
    assert mteb.get_task("NFCorpus").metadata.type == table["type"][3] == "Retrieval"


def test_metrics_adds_rows_of_those_worth_reading(two_models):
    table = by_task(two_models, [MINILM], with_metrics=True)
    rows = table.to_dicts()
    assert [(row["task"], row["metric"]) for row in rows] == [
        (task, metric) for task, metrics in MEASURED.items() for metric in metrics
    ]
    published = read_published()[V1, MINILM].scores
    for row in rows:
        assert row[OURS] == pytest.approx(in_json(two_models[0], row["task"], row["metric"]))
        is_main = row["metric"] == MEASURED[row["task"]][0]
        assert row[f"{MINILM} (published)"] == (published[row["task"]] if is_main else None)


def test_a_metric_is_a_mean_over_subsets_if_all_have_it(tmp_path):
    folder = tmp_path / "results/org__ours/1"
    first = {"hf_subset": "default", "main_score": 0.5, "accuracy": 0.5, "f1": 0.2, "ap": 0.1}
    second = {"hf_subset": "default", "main_score": 0.7, "accuracy": 0.7, "f1": 0.6}
    write_result(folder, "Banking77Classification", {"test": [first, second]})
    rows = by_task([folder], with_metrics=True).rows()
    assert [row[2:] for row in rows] == [
        ("accuracy", pytest.approx(60)),
        ("f1", pytest.approx(40)),
    ]


def test_a_metric_that_is_not_defined_is_no_score(two_models):
    for folder, ap in zip(two_models, (float("nan"), 0.5), strict=True):
        values = {"main_score": 0.5, "accuracy": 0.5, "f1": float("nan"), "ap": ap}
        content = {"test": [{**values, "hf_subset": "default"}]}
        write_result(folder, "Banking77Classification", content)
    rows = by_task(two_models, with_metrics=True).rows()[:2]
    assert [row[2:] for row in rows] == [("accuracy", 50, 50, 0), ("ap", None, 50, None)]


def test_published_scores_by_task_alone():
    names = [MINILM, "minishlab/potion-base-32M"]
    table = by_task([], names)
    ours, theirs = (read_published()[V1, name].scores for name in names)
    assert (len(ours), len(theirs)) == (56, 25)
    assert dict(zip(table["task"], table[f"{MINILM} (published)"], strict=True)) == ours
    assert table[f"{names[1]} (published)"].count() == 25
    [row] = table.filter(task="FiQA2018").to_dicts()
    found = row["minus minishlab/potion-base-32M"]
    assert found == pytest.approx(ours["FiQA2018"] - theirs["FiQA2018"])


def test_scores_on_other_splits_are_not_subtracted(two_models):
    for folder, split in zip(two_models, ("validation", "test"), strict=True):
        write_result(folder, "STSBenchmark", {split: [row(0.8)]})
    rows = {row[1]: row[3:] for row in by_task(two_models).rows()}
    assert rows["STSBenchmark"] == (None, pytest.approx(80), None)
    assert rows["STSBenchmark on validation"] == (pytest.approx(80), None, None)


def test_two_revisions_are_told_apart_by_task(two_models):
    local = two_models[0].parent / "1234-local"
    shutil.copytree(two_models[0], local)
    for file in local.glob("*.json"):
        file.write_text(file.read_text().replace('"abc"', '"local"'))
    assert by_task([two_models[0], local]).columns[3:] == [
        "org/ours 1234 (measured)",
        "org/ours 1234-local (measured, local data)",
        "minus org/ours 1234-local",
    ]
    with pytest.raises(ValueError, match="Two folders hold results of org/ours 1234"):
        by_task([two_models[0], two_models[0]])


def test_the_command_by_task_prints_writes_and_draws(two_models, tmp_path, capsys):
    figure = tmp_path / "map.png"
    arguments = [*map(str, two_models), "--published", MINILM, "--by_task", "--metrics"]
    outputs = ["--output", str(tmp_path / "table"), "--figure", str(figure)]
    assert main(["compare", *arguments, *outputs]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text().strip() in printed
    assert "In an empty cell, a score is missing" in printed
    assert "Published scores: embeddings-benchmark/results on GitHub" in printed
    table = by_task(two_models, [MINILM], with_metrics=True)
    assert json.loads((tmp_path / "table.json").read_text()) == table.to_dicts()
    assert figure.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--published", MINILM, "--metrics"], "--metrics needs --by_task"),
        (["--published", MINILM, "--figure", "map.png"], "--figure needs --by_task"),
        (
            ["--published", MINILM, "--by_task", "--figure", "map.png"],
            "two models or more, but got 1",
        ),
    ],
)
def test_options_by_task_that_do_not_fit(options, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["compare", *options])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_nothing_is_written_where_only_means_were_published(two_models, tmp_path, capsys):
    outputs = ["--output", str(tmp_path / "table"), "--figure", str(tmp_path / "map.png")]
    arguments = [str(two_models[0]), "--published", "SWE-256", MINILM, "--by_task", *outputs]
    assert main(["compare", *arguments]) == 1
    error = capsys.readouterr().err
    assert "Of SWE-256, only means over the whole benchmark were published" in error
    assert [file.name for file in tmp_path.iterdir()] == ["results"]
