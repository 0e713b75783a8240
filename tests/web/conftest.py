"""Demo pages of models of every form, and node to run their modules."""

import functools
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from demo_models import write_models

from st_static.web.write_demo import write_demo

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The folder of each model."""
    return write_models(tmp_path_factory.mktemp("demo_models"))


def _write(model: Path, demo: Path) -> None:
    write_demo(model, demo)
    # For node, to which .js is no module else; a browser needs no such file.
    (demo / "package.json").write_text('{"type": "module"}')


@pytest.fixture(scope="session")
def demos(models, tmp_path_factory):
    """The demo of each model."""
    parent = tmp_path_factory.mktemp("demos")
    for name, model in models.items():
        _write(model, parent / name)
    return {name: parent / name for name in models}


class Node:
    """A node process that runs a demo's modules: a line of JSON in, a line of JSON out."""

    def __init__(self, demo: Path) -> None:
        command = ["node", str(HERE / "run_demo.mjs"), str(demo)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, **request):
        """What the modules give; see run_demo.mjs."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer

    def stop(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)


@pytest.fixture(scope="session")
def start_node():
    """Starts the node process of a demo, which ends with the session."""
    if not shutil.which("node"):
        pytest.skip("install node: apt-get install nodejs")
    started = []

    def start(demo: Path) -> Node:
        started.append(Node(demo))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture(scope="session")
def node(demos, start_node):
    """The node process of each model, started when it is first asked for."""
    return functools.cache(lambda name: start_node(demos[name]))


@pytest.fixture
def node_of(start_node, tmp_path):
    """The node process of a demo that is written of a model's folder."""

    def write(model: Path) -> Node:
        _write(model, tmp_path / "demo")
        return start_node(tmp_path / "demo")

    return write
