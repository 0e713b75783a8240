"""The wheel alone is enough: outside a clone, in an environment that had nothing.

`.ci/run` builds it and makes the environment `wheel`, with the extras quickstart and publish.
"""

import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from card_results import write_result
from installs import VARIABLE, python_of

from st_static.evaluate.models import revision_of

pytestmark = pytest.mark.slow

SMALL = {
    "corpus.docstrings": "[stdlib]",
    "vocabulary.size": 500,
    "vocabulary.pieces": "used",
    "selection.sentences_per_word": 1,
    "selection.held_out": 256,
    "pca.n_components": 16,
    "distillation.max_steps": 20,
    "distillation.eval_steps": 10,
}


@pytest.fixture(scope="module")
def python() -> Path:
    return python_of("wheel")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def command(python: Path, home: Path):
    """Run `st-static` in an empty home, without the Hub."""

    def run(*arguments: object, stdin: bytes = b"") -> bytes:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        done = subprocess.run(
            [python.with_name("st-static"), *map(str, arguments)],
            cwd=home,
            env={**kept, "HOME": str(home), "HF_HUB_OFFLINE": "1"},
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.fixture(scope="module")
def model(command, home: Path) -> Path:
    """The quickstart's model, a small one."""
    options = [part for key, value in SMALL.items() for part in (f"--{key}", value)]
    command("build", "quickstart", *options)
    return home / "models" / "quickstart"


def contents(wheels: Path) -> dict[str, bytes]:
    [wheel] = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_sdist_gives_the_wheel_of_the_checkout(python: Path) -> None:
    folder = Path(os.environ[VARIABLE])
    of_sdist = contents(folder / "dist")
    assert of_sdist == contents(folder / "dist-of-checkout")
    assert "st_static/recipes/quickstart.yaml" in of_sdist
    assert "st_static/recipes/build.py" not in of_sdist


def test_a_model_in_the_package_encodes(command) -> None:
    names = contents(Path(os.environ[VARIABLE], "dist"))
    models = {name.split("/")[2] for name in names if name.startswith("st_static/models/")}
    assert models == {"english-384", "ja-256"}
    [wheel] = Path(os.environ[VARIABLE], "dist").glob("*.whl")
    assert wheel.stat().st_size < 45_000_000
    text = b"Read rows from a file.\n"
    command("encode", "st-static/english-384", "--output", "vectors.npy", stdin=text)


def test_the_recipes_are_listed(command) -> None:
    assert b"\nquickstart  " in command("build", "--list")


def test_a_model_is_built_and_encodes(command, home: Path, model: Path) -> None:
    command("encode", model, "--output", "vectors.npy", stdin=b"Read rows from a file.\n")
    vectors = np.load(home / "vectors.npy")
    assert vectors.shape == (1, SMALL["pca.n_components"])
    assert np.linalg.norm(vectors) == pytest.approx(1)


def test_it_gets_a_card(command, home: Path, model: Path) -> None:
    results = home / "results" / "local__quickstart" / f"{revision_of(str(model))}-local"
    write_result(results, "STS12", "local", {"test": [("default", 0.5)]})
    command("card", model, "--results", results)
    assert "# quickstart" in (model / "README.md").read_text("utf-8")


def test_it_runs_on_a_page(command, home: Path, model: Path) -> None:
    command("demo", model, "--output", "demo")
    assert (home / "demo" / "index.html").is_file()
    assert (home / "demo" / "model" / "table.safetensors").is_file()
