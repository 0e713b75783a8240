"""The Hub is asked once, for ten seconds at most, and what it cannot give ends in one line."""

import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import datasets
import httpx2
import huggingface_hub
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hub_server import READ_TOKEN, Hub
from hub_store import Blob, Repository, goes_to_lfs
from random_model import write_random_model
from transformers.utils import hub as transformers_hub

from st_static import hub as hub_module
from st_static.cards import load_alone
from st_static.cards.publish import load_fresh
from st_static.cli import main, run_command
from st_static.distill.config import CorpusConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.benchmark import run_tasks
from st_static.evaluate.models import EvaluatedModel, load_model
from st_static.evaluate.tasks import find_tasks, languages_of_model
from st_static.hub import (
    NO_HOME,
    HubUnavailableError,
    looks_like_path,
    offline,
    require_dataset,
    require_hub,
    require_model,
    symptom,
)
from st_static.model.model_name import ModelName, read_named
from st_static.model.tokenizer import build_tokenizer

constants = huggingface_hub.constants
REVISION = "0123456789" * 4
CLOSED = "http://127.0.0.1:9"


@pytest.fixture
def online(monkeypatch, tmp_path):
    """Let this process ask a Hub, with empty caches and no token; the other tests may not."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(hub_module, "_answers", {})
    monkeypatch.delenv("HF_TOKEN", raising=False)


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    # transformers keeps the address of its first request, and asks a closed port for 45 s.
    monkeypatch.setattr(transformers_hub, "_hf_api", None)


@pytest.fixture
def hub(online, monkeypatch):
    with Hub().running() as running:
        point_to(running.url, monkeypatch)
        yield running


def put(hub: Hub, name: str, folder: Path) -> None:
    """Put a folder on the Hub."""
    repository = Repository(name, private=False)
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content, place = path.read_bytes(), path.relative_to(folder).as_posix()
            files[place] = Blob(content, goes_to_lfs(place, len(content), content[:512]))
            repository.objects[files[place].sha256] = content
    repository.heads["main"] = repository._store(None, files, "all")
    hub.repositories[name] = repository


def go_away(hub: Hub) -> None:
    """Let the Hub be out of order from now on, some time after its last answer."""
    hub.requests.clear()
    hub.fail("", status=503, times=99)
    hub_module._answers.clear()


def static_model(folder: Path) -> Path:
    return write_random_model(folder, build_tokenizer(["a", "ship"]), 4)


# -- a Hub that cannot be asked --------------------------------------------------------


def test_a_closed_port_is_named(online, monkeypatch):
    point_to(CLOSED, monkeypatch)
    with pytest.raises(
        ValueError,
        match=rf"^The Hugging Face Hub at {CLOSED} cannot be reached \(.*refused\), and the model "
        r"'org/x' is neither a folder here nor in the cache\. .*HF_ENDPOINT.*HF_HUB_OFFLINE=1, or "
        r"name a local folder",
    ):
        require_model("org/x")


@pytest.fixture
def slow_server():
    """A server that answers a byte now and then, so that no wait for one byte is long."""
    connections: list[socket.socket] = []
    server = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        while True:
            try:
                connection.sendall(b"H")
            except OSError:
                return
            time.sleep(0.05)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}", connections
    for part in (server, *connections):
        part.close()


def test_the_limit_is_for_the_whole_answer_and_it_is_asked_once(online, slow_server, monkeypatch):
    url, connections = slow_server
    point_to(url, monkeypatch)
    monkeypatch.setattr(hub_module, "_LIMIT", 0.3)
    for require in (require_model, require_dataset):
        with pytest.raises(ValueError, match=r"does not answer within 0\.3 s, and the"):
            require("org/x")
    assert len(connections) == 1


def test_ten_seconds_are_the_limit():
    assert hub_module._LIMIT == 10


def test_the_limit_that_was_in_force_is_named() -> None:
    limits = {"connect": 5.0, "read": 60.0, "write": None}
    request = httpx2.Request("POST", "https://hub.example", extensions={"timeout": limits})
    assert symptom(httpx2.ReadTimeout("", request=request)) == "does not answer within 60 s"
    assert symptom(httpx2.ConnectTimeout("", request=request)) == "does not answer within 5 s"
    errors = [httpx2.WriteTimeout("", request=request), httpx2.ReadTimeout(""), TimeoutError()]
    assert {symptom(error) for error in errors} == {"does not answer in time"}


@pytest.mark.parametrize("status", [429, 500, 503, 404])
def test_an_answer_that_may_pass_is_named_and_not_asked_for_again(hub, status):
    hub.fail("GET", status=status, times=9)
    with pytest.raises(ValueError, match=rf"^The Hugging Face Hub at .* answers {status} .*, and"):
        require_model("org/x")
    assert hub.requests == ["GET /api/models/org/x"]


def test_a_page_of_something_else_is_not_the_hub(hub):
    hub.fail("GET", status=200)
    with pytest.raises(ValueError, match="gives an answer that is not the Hub's"):
        require_model("org/x")


def test_what_is_to_be_published_needs_a_hub_that_answers(hub):
    require_hub("org/new")
    hub_module._answers.clear()
    hub.fail("GET", status=503)
    with pytest.raises(HubUnavailableError, match=r"answers 503 .*HF_ENDPOINT"):
        require_hub("org/new")


# -- a connection that is lost in a download -------------------------------------------

LOADS = {
    "fast": FastEncoder.from_pretrained,
    "sentence-transformers": load_model,
    "model2vec": lambda name: load_model(f"model2vec:{name}"),
    "words": StaticWordEmbedding.load,
    "languages": languages_of_model,
    "teacher": lambda name: Teacher.load(TeacherConfig(model=name, device="cpu", expect={})),
    "dataset": lambda name: list(Corpus(CorpusConfig(dataset=name))),
}


@pytest.mark.parametrize(
    ("load", "asked"),
    [
        ("fast", "GET .*/revision/main"),
        ("fast", "HEAD .*/config.json"),
        ("sentence-transformers", "HEAD .*/modules.json"),
        ("sentence-transformers", "HEAD .*/model.safetensors"),
        ("model2vec", "GET .*/revision/main"),
        ("model2vec", "HEAD .*/tokenizer.json"),
        ("words", "HEAD .*/tokenizer.json"),
        ("words", "HEAD .*/model.safetensors"),
        ("languages", "HEAD .*/st_static.json"),
        ("teacher", "HEAD .*/modules.json"),
        ("teacher", "HEAD .*/model.safetensors"),
        ("dataset", "HEAD .*/README.md"),
    ],
)
def test_a_connection_that_is_lost_is_told_in_a_sentence(
    hub, tmp_path, monkeypatch, small_teacher, load, asked
):
    monkeypatch.setattr(datasets.config, "HF_ENDPOINT", hub.url)
    if load == "dataset":
        pq.write_table(pa.table({"text": ["One."]}), tmp_path / "train.parquet")
        hub.add("datasets/org/x", {"train.parquet": (tmp_path / "train.parquet").read_bytes()})
    else:
        put(hub, "org/x", small_teacher if load == "teacher" else static_model(tmp_path / "x"))
    fault = hub.fail(asked, kind="lose")
    what = "dataset" if load == "dataset" else "model"
    with pytest.raises(
        HubUnavailableError,
        match=rf"^The Hugging Face Hub at {hub.url} breaks off the connection \(Server "
        rf"disconnected .*\), and the {what} 'org/x' was not downloaded\. Try again: .* kept\.$",
    ):
        LOADS[load]("org/x")
    assert not fault.times


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", "org/x", "--output", "x.npy"],
        ["explain", "org/x", "a ship", "a"],
        ["demo", "org/x", "--output", "page"],
        ["evaluate", "org/x", "--tasks", "STS12", "--data", "."],
        ["build", "--members", "[org/x]"],
        ["build", "--teacher.model", "org/x", "--corpus.docstrings", "[json]"],
    ],
)
def test_a_lost_connection_is_a_line_of_each_command(hub, tmp_path, monkeypatch, capsys, arguments):
    put(hub, "org/x", static_model(tmp_path / "x"))
    monkeypatch.chdir(tmp_path)
    Path("STS12").mkdir()  # the data that --data names
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a ship\n")))
    hub.fail("(GET|HEAD) .*/(revision|resolve)/", kind="lose", times=99)
    assert main(arguments) == 1
    [line] = capsys.readouterr().err.splitlines()[-1:]
    assert line.startswith(f"Error: The Hugging Face Hub at {hub.url} breaks off the connection")


def test_a_hub_that_is_out_of_order_in_a_download_is_told_in_a_sentence(hub, tmp_path):
    put(hub, "org/x", static_model(tmp_path / "x"))
    hub.fail("GET .*/(revision|tree)/", status=503, times=99)
    with pytest.raises(HubUnavailableError, match=r"answers 503 .*, and the model 'org/x' was not"):
        FastEncoder.from_pretrained("org/x")


def test_files_that_a_gated_model_does_not_give_are_told_as_such(hub, tmp_path):
    put(hub, "org/x", static_model(tmp_path / "x"))
    hub.fail("HEAD", status=403, headers={"X-Error-Code": "GatedRepo"}, times=99)
    with pytest.raises(ValueError, match=r"^The model 'org/x' is gated: ask for access"):
        FastEncoder.from_pretrained("org/x")


# -- answers for good ------------------------------------------------------------------


def test_a_name_that_the_hub_does_not_know(hub):
    with pytest.raises(
        ValueError, match=r"'org/x' is not a folder here, and the Hub at .* has no model of .*log"
    ):
        require_model("org/x")
    hub.fail("GET", status=404, headers={"X-Error-Code": "RepoNotFound"})
    with pytest.raises(ValueError, match="has no dataset of that name"):
        require_dataset("org/x")


def test_a_revision_that_is_not_there(hub, tmp_path):
    put(hub, "org/x", static_model(tmp_path / "x"))
    assert require_model("org/x", "main") is None
    with pytest.raises(ValueError, match=r"^The model 'org/x' has no revision 'v9'"):
        require_model("org/x", "v9")


@pytest.mark.parametrize(
    ("status", "headers", "says"),
    [
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, "not valid"),
        (403, {}, "not valid for it"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access"),
        (401, {"X-Error-Code": "RepoNotFound"}, "or it is private"),
    ],
)
def test_a_refusal_says_to_log_in(hub, status, headers, says):
    hub.fail("GET", status=status, headers=headers)
    with pytest.raises(ValueError, match=rf"{says}.*hf auth login"):
        require_model("org/x", token=READ_TOKEN)
    assert len(hub.requests) == 1


def test_a_name_that_the_hub_does_not_have_may_be_meant_for_a_model_of_the_package(hub):
    says = "or it is private. Did you mean st-static/english-384? Check the name; for a private one"
    with pytest.raises(ValueError, match=re.escape(says)):
        require_model("english-384")


@pytest.mark.parametrize("name", ["a b", "org/x:y", "-x"])
def test_what_is_no_id_is_not_asked_for(hub, name):
    with pytest.raises(ValueError, match="is neither a folder here nor an id on the Hub"):
        require_model(name)
    assert not hub.requests


# -- paths -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["./x", "/x/y", "../x", "~/x", "x/", "a/b/c", "models/nothere"])
def test_a_name_that_looks_like_a_path_is_a_path(hub, name, tmp_path, monkeypatch):
    (tmp_path / "models/quickstart").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert looks_like_path(name)
    for load in (FastEncoder.from_pretrained, load_model):
        with pytest.raises(ValueError, match=f"^There is no folder {name}"):
            load(name)
    with pytest.raises(ValueError, match=f"^There is no folder {name}"):
        Teacher.load(TeacherConfig(model=name))
    assert not hub.requests


LOAD_FOLDERS = """
from st_static.distill.teacher_config import TeacherConfig
from st_static.distill.teacher import Teacher
from st_static.evaluate.models import load_model
load_model("models/ours")
Teacher.load(TeacherConfig(model="teachers/teacher", device="cpu"))
"""


def test_the_hub_is_not_asked_for_a_folder_that_is_spelt_like_an_id(
    hub, tmp_path, monkeypatch, small_teacher
):
    static_model(tmp_path / "models/ours")
    shutil.copytree(small_teacher, tmp_path / "teachers/teacher")
    monkeypatch.chdir(tmp_path)
    # In a process of its own: a part of huggingface_hub reads the address when it is imported.
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    subprocess.run([sys.executable, "-c", LOAD_FOLDERS], check=True)
    # huggingface_hub may look up, for a moment, by which program it is called.
    assert not [request for request in hub.requests if "/models/" in request]


IS_OFFLINE = """
import json, os, sys, numpy
numpy.save(json.load(sys.stdin)["output"], [os.environ["HF_HUB_OFFLINE"] == "1"])
"""


def test_nor_is_it_asked_by_the_process_that_loads_a_folder_alone(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(IS_OFFLINE)
    monkeypatch.setattr(load_alone, "__file__", str(program))
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    for model, is_offline in ((str(tmp_path), True), ("org/x", False)):
        assert load_fresh(model, ["a text"]).tolist() == [is_offline]


def test_the_nearest_folder_is_named(tmp_path, monkeypatch):
    (tmp_path / "models/quickstart").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"\. Did you mean models/quickstart\?$"):
        require_model("models/quikstart")
    with pytest.raises(ValueError, match=r"there is a folder models here, .* not taken for a Hub"):
        require_model("models/xyz")
    for name in ("../xyz", "/xyz", "./xyz", "xyz/"):
        with pytest.raises(ValueError, match=rf"^There is no folder {name}\.$"):
            require_model(name)
    assert not looks_like_path("org/x")
    assert not looks_like_path("gpt2")


# -- the cache -------------------------------------------------------------------------


def test_a_cached_model_serves_while_the_hub_is_away(hub, tmp_path, caplog):
    put(hub, "org/x", static_model(tmp_path / "x"))
    expected = FastEncoder.from_pretrained("org/x").encode(["a ship"])
    go_away(hub)
    for load in (FastEncoder.from_pretrained, load_model, lambda x: load_model(f"model2vec:{x}")):
        np.testing.assert_allclose(load("org/x").encode(["a ship"]), expected, atol=1e-6)
    assert hub.requests == ["GET /api/models/org/x"]
    [message] = {record.getMessage() for record in caplog.records}
    assert "answers 503 Service Unavailable. Using the cached copy of the model 'org/x'" in message


def test_a_loaded_revision_is_the_one_that_results_name(hub, tmp_path, monkeypatch):
    put(hub, "org/x", static_model(tmp_path / "x"))
    repository = hub.repositories["org/x"]
    old = repository.tags["v1"] = repository.heads["main"]
    later = {"notes.txt": Blob(b"Later.", is_lfs=False)}
    files = {**repository.commits[old].files, **later}
    new = repository.heads["main"] = repository._store(old, files, "more")
    assert old != new
    for revision, commit in ((None, new), ("v1", old), (old, old), ("main", new)):
        assert load_model("org/x", revision=revision).revision == commit
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert load_model("org/x", revision="v1").revision == old


def test_a_name_with_a_kind_is_one_model_for_all_that_take_names(hub, tmp_path, monkeypatch):
    folder = static_model(tmp_path / "x")
    put(hub, "org/x", folder)
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed/__init__.py").touch()
    shutil.copytree(folder, tmp_path / "packed/model")
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds = ("org/x", "model2vec:org/x", "sentence-transformers:org/x", "package:packed/model")
    for name in (*kinds, str(folder)):
        ModelName.parse(name).require()
        vectors = FastEncoder(read_named(name)).encode(["a ship"])
        np.testing.assert_allclose(load_model(name).encode(["a ship"]), vectors, atol=1e-6)
    assert hub.asked("GET /api/models/org/x") > 0
    for name in ("org/none", "model2vec:org/none", "package:packed/none", "./none"):
        with pytest.raises(ValueError, match="none"):
            ModelName.parse(name).require()


def test_the_word_table_asks_once_before_it_is_read(hub, tmp_path):
    put(hub, "org/words", static_model(tmp_path / "model"))
    expected = StaticWordEmbedding.load(str(tmp_path / "model")).embedding.weight
    assert hub.requests == []
    cache = str(tmp_path / "cache")
    found = StaticWordEmbedding.load("org/words", cache_folder=cache).embedding.weight
    assert torch.equal(found, expected)
    go_away(hub)
    again = StaticWordEmbedding.load("org/words", cache_folder=cache).embedding.weight
    assert torch.equal(again, expected)
    assert hub.requests == ["GET /api/models/org/words"]


def test_a_word_table_that_is_not_there_is_told_at_once(hub, tmp_path):
    (tmp_path / "models").mkdir()
    with pytest.raises(ValueError, match=r"^There is no folder .*nothere\."):
        StaticWordEmbedding.load(str(tmp_path / "models" / "nothere"))
    assert hub.requests == []
    hub.fail("GET", status=503, times=99)
    with pytest.raises(ValueError, match=r"^The Hugging Face Hub at .* answers 503"):
        StaticWordEmbedding.load("org/nothere")
    assert hub.requests == ["GET /api/models/org/nothere"]


def test_a_cached_teacher_serves_while_the_hub_is_away(hub, small_teacher):
    put(hub, "org/teacher", small_teacher)
    config = TeacherConfig(model="org/teacher", device="cpu")
    fingerprint = Teacher.load(config).fingerprint()
    go_away(hub)
    assert Teacher.load(config).fingerprint() == fingerprint
    assert hub.requests == ["GET /api/models/org/teacher"]


def test_offline_the_cache_alone_is_looked_at(hub, tmp_path, monkeypatch, caplog):
    put(hub, "org/x", static_model(tmp_path / "x"))
    FastEncoder.from_pretrained("org/x")
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert FastEncoder.from_pretrained("org/x").dimension == 4
    with pytest.raises(ValueError, match=r"^HF_HUB_OFFLINE is set, and .*'org/y' is neither"):
        require_model("org/y")
    with pytest.raises(ValueError, match=r"'org/x' at the revision 'v2' is neither"):
        require_model("org/x", "v2")
    assert not hub.requests
    assert not caplog.records


def write_cached_dataset(name: str, folder: Path, revision: str, table: pa.Table, split: str):
    """Leave a dataset in the cache of the package `datasets` as if it had come from the Hub."""
    source = folder / name.rpartition("/")[2]
    source.mkdir()
    pq.write_table(table, source / f"{split}.parquet")
    datasets.load_dataset(str(source), cache_dir=str(folder / "loaded"))
    [copy] = (path for path in (folder / "loaded").glob("*/*/*/*") if path.is_dir())
    place = Path(datasets.config.HF_DATASETS_CACHE) / name.replace("/", "___")
    (place / "default/0.0.0").mkdir(parents=True)
    copy.rename(place / "default/0.0.0" / revision)


def test_a_cached_dataset_serves_without_the_hub(online, tmp_path, monkeypatch):
    point_to(CLOSED, monkeypatch)
    texts = pa.table({"text": ["One.", "Two."]})
    write_cached_dataset("org/web", tmp_path, REVISION, texts, "train")
    for revision in (None, REVISION):
        corpus = Corpus(CorpusConfig(dataset="org/web", revision=revision))
        assert list(corpus) == ["One.", "Two."]
    with pytest.raises(ValueError, match=r"cannot be reached .* or give local text as corpus\.fil"):
        list(Corpus(CorpusConfig(dataset="org/web", revision="9" * 40)))
    assert not constants.HF_HUB_OFFLINE


def test_offline_ends_with_its_block(online):
    with offline():
        assert constants.HF_HUB_OFFLINE
        assert datasets.config.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    assert not datasets.config.HF_HUB_OFFLINE


# -- evaluation ------------------------------------------------------------------------


@pytest.fixture
def two_tasks():
    return find_tasks(tasks=["STS13", "STS12"])


def plain_model() -> EvaluatedModel:
    lengths = lambda texts: np.eye(3)[[len(text) % 3 for text in texts]]  # noqa: E731
    return EvaluatedModel("test/plain", "1", lengths, 3)


def test_tasks_ask_the_hub_once_and_are_not_tried_without_it(hub, tmp_path, two_tasks):
    hub.fail("", status=503, times=99)
    says = r"dataset 'mteb/sts13-sts' at .* or give local .* with --data"
    with pytest.raises(HubUnavailableError, match=says):
        run_tasks(plain_model(), two_tasks, tmp_path)
    assert len(hub.requests) == 1


def test_a_task_whose_data_are_cached_runs_without_the_hub(hub, tmp_path, two_tasks):
    hub.fail("", status=503, times=99)
    scores = np.arange(30.0)
    texts = ["a" * (1 + i * i) for i in range(30)]
    table = pa.table({"sentence1": texts, "sentence2": texts[::-1], "score": scores})
    dataset = two_tasks[1].metadata.dataset
    write_cached_dataset(dataset["path"], tmp_path, dataset["revision"], table, "test")
    outcome = run_tasks(plain_model(), two_tasks, tmp_path)
    assert list(outcome.scores) == ["STS12"]
    assert "answers 503" in outcome.failures["STS13"]
    assert len(hub.requests) == 1
    result = json.loads((outcome.folder / "STS12.json").read_text())
    assert result["dataset_revision"] == dataset["revision"]
    # Its results are there now, so that nothing is asked for.
    hub_module._answers.clear()
    assert run_tasks(plain_model(), two_tasks[1:], tmp_path).scores == outcome.scores
    assert len(hub.requests) == 1


def test_local_data_and_a_local_model_touch_no_network(online, tmp_path, monkeypatch, capsys):
    asked: list[object] = []

    def ask(*arguments: object, **_: object) -> None:
        asked.append(arguments)
        raise OSError("no network")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(socket.socket, "connect", ask)
    pairs = {"sentence1": ["a ship", "a"], "sentence2": ["ship", "a"], "score": [1.0, 2.0]}
    for task, split in (("STS12", "test"), ("STSBenchmark", "validation")):
        (tmp_path / "data" / task).mkdir(parents=True)
        pq.write_table(pa.table(pairs), tmp_path / f"data/{task}/{split}.parquet")
    model = static_model(tmp_path / "ours")
    arguments = ["evaluate", str(model), "--data", str(tmp_path / "data"), "--folder"]
    assert main([*arguments, str(tmp_path), "--tasks", "STS12", "STSBenchmark"]) == 0
    assert not asked
    assert capsys.readouterr().err == ""


# -- commands --------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["org/ours", "model2vec:org/ours"])
@pytest.mark.parametrize(
    ("files", "subsets"),
    [
        ({"README.md": "---\nlanguage:\n- es\n- ar\n---\n"}, {"es-es", "ar-ar"}),
        # An English model of ours, whose card names no language.
        ({"st_static.json": '{"recipe": {"corpus": {}}}'}, {"en-en"}),
        ({"README.md": "---\nlicense: mit\n---\n"}, {"en-en", "es-es", "ar-ar"}),
    ],
)
def test_a_model_of_the_hub_is_scored_in_languages_it_states(hub, tmp_path, spec, files, subsets):
    model = static_model(tmp_path / "ours")
    (model / "st_static.json").unlink()
    for name, text in files.items():
        (model / name).write_text(text, "utf-8")
    put(hub, "org/ours", model)
    languages = ["en-en", "es-es", "ar-ar"] * 4
    pairs = {"sentence1": ["a ship", "a", "ship"] * 4, "sentence2": ["ship", "a ship", "a"] * 4}
    table = pa.table({**pairs, "score": np.arange(12.0), "lang": languages})
    (tmp_path / "data/STS17").mkdir(parents=True)
    pq.write_table(table, tmp_path / "data/STS17/test.parquet")
    arguments = ["--data", str(tmp_path / "data"), "--folder", str(tmp_path)]
    assert main(["evaluate", spec, "--tasks", "STS17", *arguments]) == 0
    [file] = (tmp_path / "results").rglob("STS17.json")
    [rows] = json.loads(file.read_text())["scores"].values()
    assert {row["hf_subset"] for row in rows} == subsets


def test_the_languages_of_a_cached_model_are_known_without_the_hub(hub, tmp_path):
    model = static_model(tmp_path / "ours")
    (model / "README.md").write_text("---\nlanguage: es\n---\n", "utf-8")
    put(hub, "org/ours", model)
    load_model("org/ours")
    go_away(hub)
    assert languages_of_model("org/ours") == ["es"]


def test_a_build_asks_for_its_dataset_before_its_teacher(online, tmp_path, monkeypatch, capsys):
    point_to(CLOSED, monkeypatch)
    monkeypatch.setattr(Teacher, "load", lambda config: pytest.fail("loaded"))
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "modules.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    assert main(["build", "--corpus.dataset", "org/web", "--teacher.model", "teacher"]) == 1
    assert "the dataset 'org/web' is neither" in capsys.readouterr().err


def test_an_ensemble_asks_for_all_members_before_one_is_read(online, tmp_path, monkeypatch, capsys):
    point_to(CLOSED, monkeypatch)
    monkeypatch.chdir(tmp_path)
    read = "st_static.ensemble.build_ensemble.read_named"
    monkeypatch.setattr(read, lambda name: pytest.fail("read"))
    assert main(["build", "--members", "[wordllama:256, org/x]"]) == 1
    assert "the model 'org/x' is neither" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "--teacher.model", "org/x", "--corpus.docstrings", "[json]"],
        ["evaluate", "org/x", "--tasks", "STS12"],
        ["encode", "org/x", "--output", "x.npy"],
    ],
)
def test_without_the_hub_a_command_ends_in_one_line(
    online, arguments, tmp_path, monkeypatch, capsys
):
    point_to(CLOSED, monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    assert line.startswith(f"Error: The Hugging Face Hub at {CLOSED} cannot be reached (")
    assert "the model 'org/x' is neither a folder here nor in the cache" in line


@pytest.mark.skipif(os.name == "nt", reason="homes of Windows are not in a password file")
def test_a_user_without_a_home_directory_is_told_in_a_line():
    """As in a container that runs under a number that /etc/passwd lacks."""
    program = (
        "import os, pwd, sys\n"
        "pwd.getpwuid = {}.__getitem__\n"
        "from st_static.cli import main\n"
        "sys.exit(main(['explain', sys.argv[1], 'ships', 'boats']))"
    )
    no_home = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HOME", "XDG_"))}
    for model, status in (("st-static/english-384", 0), ("org/x", 1)):
        command = [sys.executable, "-c", program, model]
        done = subprocess.run(command, env=no_home, capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert done.stderr == (f"Error: {NO_HOME}\n" if status else "")


def test_libraries_that_look_for_a_home_are_told_in_a_line(monkeypatch, capsys):
    def refuse(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", refuse)
    assert run_command(lambda _: len(str(Path("~").expanduser())), []) == 1  # as mteb's import does
    assert capsys.readouterr().err == f"Error: {NO_HOME}\n"
