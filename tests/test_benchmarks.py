"""Benchmarks that no other test runs still start, and print what they promise."""

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scripts import error_of, run_script
from small_build import small_config, write_corpus

from st_static.distill.config import BuildConfig
from st_static.distill.pipeline import build

Configs = dict[str, BuildConfig]

FOLDER = Path(__file__).parents[1] / "benchmarks"


def run(script: str, *arguments: str) -> str:
    return run_script(FOLDER / script, *arguments)


# The baseline runs in an environment of its own, with another transformers.
HERE = sorted({path.name for path in FOLDER.glob("*.py")} - {"model2vec_baseline.py"})


@pytest.mark.parametrize("script", HERE)
def test_a_benchmark_tells_how_it_is_run(script: str) -> None:
    assert "usage:" in run(script, "--help")


def test_extraction_of_the_gpu_benchmark_runs_on_a_processor() -> None:
    arguments = ["--device", "cpu", "--sentences", "40", "--batch-tokens", "256"]
    lines = run("gpu_extraction.py", *arguments).splitlines()
    assert lines[-2].startswith("bare model: ")
    assert lines[-1].startswith("extraction: ")


def test_second_order_collapse_of_many_pairs() -> None:
    assert "190 pairs" in run("socm_speed.py", "--texts", "20")


@pytest.mark.parametrize("unknown", ["pieces", "prefix"])
def test_columns_of_unknown_words_that_cannot_differ(
    built: Path, tmp_path: Path, unknown: str
) -> None:
    """What follows a prefix has no vector in a table that was trained with prefixes."""
    recipe = small_config(built / "teacher/teacher", built / "corpus.txt", tmp_path)
    build(replace(recipe, vocabulary=replace(recipe.vocabulary, unknown=unknown)))
    texts = write_corpus(tmp_path / "new.txt", seed=9)
    folders = [str(tmp_path / "model"), "--work_dir", str(tmp_path / "work")]
    # The record names the teacher's folder without what it is in.
    arguments = [FOLDER / "unknown_words.py", *folders, "--texts", str(texts)]
    heading, _, row, *said = run_script(*arguments, folder=built / "teacher").splitlines()
    names, values = ([cell.strip() for cell in line.split("|")] for line in (heading, row))
    cells = dict(zip(names, values, strict=True))
    assert float(cells["unknown words"].split()[0]) > 0
    pieces, prefix = (cells[f"distillation: {way}"] for way in ("pieces", "prefix"))
    is_said = any("of `pieces`, `prefix` cannot differ" in line for line in said)
    assert (is_said, pieces == prefix) == ((unknown == "prefix"),) * 2


def test_look_ups_by_each_way_find_the_same() -> None:
    sizes = ["--table", "300", "--chunks", "200", "--repeats", "1"]
    lines = run("key_table_speed.py", *sizes).splitlines()
    assert [line.split()[0] for line in lines] == ["KeyTable", "dict", "index_in"]
    assert lines[0].endswith(" 1.00")


@pytest.fixture
def configs_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Configs]:
    """Makes the recipe of each switch, by the switch's name."""
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("paper_switches")
    return lambda *overrides: {
        name: module.config_of(name, Path("texts"), overrides) for name in module.SWITCHES
    }


def test_a_switch_keeps_what_is_not_overridden(configs_of: Callable[..., Configs]) -> None:
    options = ["--vocabulary.unknown", "pieces", "--distillation.max-steps=7"]
    before, after = configs_of(), configs_of(*options)
    assert len({config.output for config in after.values()}) == len(after)
    for name, config in after.items():
        expected = before[name].recipe()
        expected["vocabulary"]["unknown"] = "pieces"
        expected["distillation"]["max_steps"] = 7
        assert config.recipe() == expected
    schedule = after["batches and schedule of the paper"].distillation
    assert (schedule.batch_size, schedule.max_steps) == (128, 7)
    assert before["all, and no pieces"].distillation.max_steps == 30_000


def test_other_files_than_those_of_the_folder(configs_of: Callable[..., Configs]) -> None:
    configs = configs_of("--corpus.files", "mine.txt", "--work-dir", "here")
    assert {(c.corpus.files, c.work_dir) for c in configs.values()} == {("mine.txt", "here")}


def test_an_option_that_is_not_there_is_told_before_the_first_build(tmp_path: Path) -> None:
    paths = ["--corpus", str(tmp_path), "--data", str(tmp_path)]
    options = [*paths, "--switches", "default", "dense Adam", "--vocabulary.sise", "9"]
    said = error_of(FOLDER / "paper_switches.py", *options, folder=tmp_path, status=2)
    assert "no option --vocabulary.sise. Did you mean --vocabulary.size?" in said
    assert list(tmp_path.iterdir()) == []
