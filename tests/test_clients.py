"""The page of clients and the script that measures them belong together."""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import error_of
from sentence_transformers import SentenceTransformer

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def clients(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("clients")


@pytest.fixture
def page(clients):
    return clients.PAGE.read_text("utf-8")


def test_the_table_has_a_row_for_each_client(clients, page):
    table = page.partition(clients.MARKERS[0])[2].partition(clients.MARKERS[1])[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert names == [client.name for client in clients.CLIENTS]


def test_every_program_of_the_page_is_run(clients, page):
    """Those of the zero vectors are no client's."""
    found = {
        (heading, i)
        for language in ("python", "js")
        for heading, programs in clients.programs(page, language).items()
        for i in range(len(programs))
    }
    run = {(client.heading, client.block) for client in clients.CLIENTS if not client.program}
    assert found - run == {("Texts without a known word", i) for i in range(3)}
    assert run <= found


def test_a_program_gets_another_model_and_other_texts(clients, page, built, tmp_path):
    texts = ["the old keeper", "", 'a "quoted"\n<b>text</b>']
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    [client] = [c for c in clients.CLIENTS if c.name == "FastEncoder"]
    output = tmp_path / "output.json"
    values = {"texts": str(tmp_path / "texts.json"), "output": str(output)}
    code = clients.program_of(client, page, model=str(built / "model"), **values)
    exec(compile(code, "program", "exec"), {})
    expected = SentenceTransformer(str(built / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(json.loads(output.read_text()), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["transformers.js", "Model2Vec, without `max_length`"])
def test_the_lines_of_the_page_are_replaced(clients, page, name):
    client = next(c for c in clients.CLIENTS if c.name == name)
    code = clients.program_of(client, page, model="M", texts="T", output="O")
    assert "models/minilm-256" not in code
    assert "max_length" not in code
    assert re.findall(r"^(?:const )?model = .*", code, re.M) in (
        ['model = "M"'],
        ['const model = "M";'],
    )


def test_bad_input_is_one_line(tmp_path):
    options = ("--environments", str(tmp_path))
    said = error_of(FOLDER / "clients.py", str(tmp_path), *options, folder=tmp_path, status=2)
    assert f"but {tmp_path} has no modules.json" in said


def test_texts_are_many_and_odd(clients):
    texts = clients.texts()
    assert len(set(texts)) == len(texts) == 200
    assert "" in texts
    assert max(len(text.split()) for text in texts) == 10_000


def test_what_differs_is_told_by_kind(clients):
    texts = ["a", "", "b " * 600, "c"]
    expected = np.array([[1, 0], [0, 0], [0, 1], [1, 1]], np.float32)

    def row(found: np.ndarray | str) -> str:
        return clients.row(clients.CLIENTS[0], "1.0", found, expected, texts)

    begin = "| sentence-transformers | 1.0 |"
    assert row(expected + 1e-7) == f"{begin} yes | 1e-07 | none |"
    with_nan = np.where(expected.any(axis=1, keepdims=True), expected, np.nan)
    assert row(with_nan) == f"{begin} yes | 0e+00 | 1 without a known word: NaN |"
    assert row(expected[::-1]) == (
        f"{begin} yes | 1e+00 | 1 without a known word, 1 of more than 512 words, 2 other |"
    )
    assert row(expected[:, :1]) == f"{begin} yes | shape (4, 1) | all |"
    assert row("KeyError: 'x'") == f"{begin} no: `KeyError: 'x'` | | |"


def test_an_environment_runs_a_program_and_tells_its_error(clients, built, tmp_path, monkeypatch):
    (tmp_path / "newest").mkdir()
    (tmp_path / "newest" / "complete.json").write_text(json.dumps(clients.ENVIRONMENTS["newest"]))
    environment = clients.Environment("newest", tmp_path)
    environment.python = Path(sys.executable)
    texts = ["the old keeper", ""]
    found = clients.vectors_of(clients.CLIENTS[0], environment, built / "model", texts)
    expected = SentenceTransformer(str(built / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    said = clients.vectors_of(clients.CLIENTS[0], environment, tmp_path / "none", texts)
    assert re.match(r"\S*(Error|NotFound)\S*: ", said)
    assert environment.version("numpy") == np.__version__
