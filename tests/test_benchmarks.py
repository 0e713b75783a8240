"""Benchmarks that no other test runs still start, and print what they promise."""

from pathlib import Path

import pytest
from scripts import run_script

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


def test_look_ups_by_each_way_find_the_same() -> None:
    sizes = ["--table", "300", "--chunks", "200", "--repeats", "1"]
    lines = run("key_table_speed.py", *sizes).splitlines()
    assert [line.split()[0] for line in lines] == ["KeyTable", "dict", "index_in"]
    assert lines[0].endswith(" 1.00")
