"""A small model that is really built, with its stages, and results as mteb writes them."""

import json
import shutil
from pathlib import Path

import pytest
from small_build import save_tiny_teacher, small_config, write_corpus

from st_static.build.recipe import build
from st_static.evaluate.encoders import revision_of

STS12_REVISION = "a0d554a64d88156834ff5ae9920b964011b16384"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with `model`, `work` and `teacher/teacher`; not to be changed."""
    folder = tmp_path_factory.mktemp("published")
    teacher = save_tiny_teacher(folder / "teacher")
    build(small_config(teacher, write_corpus(folder / "corpus.txt"), folder))
    return folder


def write_result(
    folder: Path, task: str, revision: str, scores: dict[str, list[tuple[str, float]]]
) -> None:
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


@pytest.fixture
def model(built: Path, tmp_path: Path) -> Path:
    """A copy of the model, to write a card into."""
    return Path(shutil.copytree(built / "model", tmp_path / "tiny"))


@pytest.fixture
def results(model: Path) -> list[Path]:
    """Its results: on the Hub's datasets, and on local copies."""
    home, revision = model.parent / "results/local__tiny", revision_of(str(model))
    write_result(home / revision, "STS12", STS12_REVISION, {"test": [("default", 0.612345)]})
    local = home / f"{revision}-local"
    write_result(local, "STS12", "local", {"test": [("default", 0.1)]})
    write_result(local, "STS17", "local", {"test": [("en-en", 0.712345)]})
    write_result(local, "STSBenchmark", "local", {"validation": [("default", 0.8)]})
    return [home / revision, local]


@pytest.fixture
def peers(model: Path) -> list[Path]:
    """Another model's results."""
    folder = model.parent / "results/local__peer/1-local"
    for task, split, subset in (
        *(("STS12", "test", "default"), ("STS17", "test", "en-en")),
        ("STSBenchmark", "validation", "default"),
    ):
        write_result(folder, task, "local", {split: [(subset, 0.5)]})
    return [folder]
