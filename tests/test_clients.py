"""The page of clients and the script that measures them belong together."""

import json
import re
import sys
from pathlib import Path

import clients
import numpy as np
import pytest
from scripts import status_here
from sentence_transformers import SentenceTransformer

FOLDER = Path(__file__).parents[1] / "benchmarks"
PAGE = clients.PAGE.read_text("utf-8")


def test_the_table_has_a_row_for_each_client():
    table = PAGE.partition(clients.MARKERS[0])[2].partition(clients.MARKERS[1])[0]
    names = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]
    assert names == [client.name for client in clients.CLIENTS]


def test_every_program_of_the_page_is_run():
    """Those of the zero vectors are no client's; those of the server need one that runs."""
    found = {
        (heading, i)
        for language in ("python", "js")
        for heading, programs in clients.programs(PAGE, language).items()
        for i in range(len(programs))
    }
    run = {(client.heading, client.block) for client in clients.CLIENTS if not client.program}
    others = {("Texts without a known word", 3), ("An OpenAI-compatible server", 2)}
    assert found - run == {(heading, i) for heading, n in others for i in range(n)}
    assert run <= found


def client_of(name):
    return next(client for client in clients.CLIENTS if client.name == name)


def test_a_program_gets_another_model_and_other_texts(built, tmp_path):
    texts = ["the old keeper", "", 'a "quoted"\n<b>text</b>']
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    output = tmp_path / "output.json"
    values = {"texts": str(tmp_path / "texts.json"), "output": str(output)}
    code = clients.program_of(client_of("FastEncoder"), PAGE, model=str(built / "model"), **values)
    exec(compile(code, "program", "exec"), {})
    expected = SentenceTransformer(str(built / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(json.loads(output.read_text()), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["transformers.js", "Model2Vec, without `max_length`"])
def test_the_lines_of_the_page_are_replaced(name):
    code = clients.program_of(client_of(name), PAGE, model="M", texts="T", output="O")
    assert "models/english-384" not in code
    assert "max_length" not in code
    assert re.findall(r"^(?:const )?model = .*", code, re.M) in (
        ['model = "M"'],
        ['const model = "M";'],
    )


def test_a_folder_that_is_no_model_is_told_in_the_last_line(tmp_path, capsys):
    folder = str(tmp_path)
    assert status_here(FOLDER / "clients.py", folder, "--environments", folder) == 2
    assert f"but {folder} has no modules.json" in capsys.readouterr().err.splitlines()[-1]


def test_texts_are_many_and_odd():
    texts = clients.texts()
    assert len(set(texts)) == len(texts) == 200
    assert "" in texts
    assert max(len(text.split()) for text in texts) == 10_000


def test_what_differs_is_told_by_kind():
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


def test_an_environment_runs_a_program_and_tells_its_error(built, tmp_path):
    (tmp_path / "newest").mkdir()
    (tmp_path / "newest" / "complete.json").write_text(json.dumps(clients.ENVIRONMENTS["newest"]))
    environment = clients.Environment("newest", tmp_path)
    environment.python = Path(sys.executable)
    texts, client = ["the old keeper", ""], client_of("FastEncoder")  # it loads fastest
    found = clients.vectors_of(client, environment, built / "model", texts)
    expected = SentenceTransformer(str(built / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    said = clients.vectors_of(client, environment, tmp_path / "none", texts)
    assert re.match(r"\S*(Error|NotFound)\S*: ", said)
    assert environment.version("numpy") == np.__version__
