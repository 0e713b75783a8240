"""Forked processes encode as their parent does, and never wait for threads that only it has.

Run as a program, this file makes models, encodes with them and then does the same in forked
processes. Pytest's own process would not do: it has torch compute with one thread.
"""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pytest

PATIENCE = 100  # seconds for what takes one, before it counts as hanging
WORDS = ["a", "csv", "text", *(f"w{i}" for i in range(1_000))]
TEXTS = ["a csv text"] * 100
MANY = [f"a text w{i % 1_000}" for i in range(5_000)]
LONG = "a long csv text " * 5_000
SCENARIOS = (
    *("one block", "several blocks", "several blocks, one thread", "one block, one thread"),
    *("a long text", "a text of several pieces", "float16", "float16, loaded in the child"),
    *("int8", "a head", "another prompt", "distances", "StaticWordEmbedding", "pairs of texts"),
    *("in a thread, then in the main thread", "a child of the child"),
)
POOLS = ("multiprocessing.Pool", "Dataset.map")


def write_models(home: Path) -> None:
    """A model, another with a head, and one with a prompt and distances."""
    from st_static.model.export import export_model
    from st_static.model.head import Head
    from st_static.model.modules import CONFIG_FILE
    from st_static.model.tokenizer import build_tokenizer

    tokenizer, rng = build_tokenizer(WORDS), np.random.default_rng(0)
    table = rng.normal(size=(tokenizer.get_vocab_size(), 256)).astype(np.float32)
    head = Head(
        *(rng.normal(size=shape).astype(np.float32) / 9 for shape in [(64, 256), (256, 64)])
    )
    export_model(home / "model", table, tokenizer, {})
    export_model(home / "head", table, tokenizer, {}, head=head)
    shutil.copytree(home / "model", home / "distances")
    file = home / "distances" / CONFIG_FILE
    settings = {"prompts": {"query": "a w7 "}, "similarity_fn_name": "euclidean"}
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def scenarios(home: Path) -> dict[str, Callable[[], np.ndarray]]:
    """What is encoded in the parent, and then in a child."""
    from sentence_transformers import SentenceTransformer

    from st_static import FastEncoder, StaticWordEmbedding
    from st_static.tokens import fast_tokenizer

    fast_tokenizer._CHARACTERS_WITHOUT_NATIVE = 0  # as many texts do, few use nanotoken
    folder = home / "model"
    load = FastEncoder.from_pretrained
    encoder, alone = load(folder, threads=4), load(folder, threads=1)
    half, small = load(folder, dtype="float16"), load(folder, dtype="int8")
    with_head, other = load(home / "head"), load(home / "distances")
    module = StaticWordEmbedding.load(str(folder))
    ours = SentenceTransformer(modules=[module], device="cpu")
    many, program = encoder.encode(MANY[:500]), os.getpid()

    def in_a_thread() -> np.ndarray:
        found: list[np.ndarray] = []
        thread = threading.Thread(target=lambda: found.append(encoder.encode(TEXTS)))
        thread.start()
        thread.join()
        return np.vstack([*found, encoder.encode(TEXTS)])

    def in_a_child() -> np.ndarray:
        vectors = encoder.encode(TEXTS)
        if os.getpid() != program:
            child = os.fork()
            if child == 0:
                run_child(lambda: encoder.encode(TEXTS), vectors)
            assert os.waitpid(child, 0)[1] == 0
        return vectors

    encode: list[Callable[[], np.ndarray]] = [
        lambda: encoder.encode(TEXTS),
        lambda: encoder.encode(MANY),
        lambda: alone.encode(MANY),
        lambda: alone.encode(TEXTS),
        lambda: encoder.encode(LONG),
        lambda: encoder.encode([LONG * 110]),
        lambda: half.encode(TEXTS),
        lambda: load(folder, dtype="float16").encode(TEXTS),
        lambda: small.encode(TEXTS),
        lambda: with_head.encode(TEXTS),
        lambda: other.encode_query(TEXTS),
        lambda: other.similarity(many, many),
        lambda: ours.encode(TEXTS, batch_size=100),
        lambda: ours.encode([("a csv text", "a text")] * 100, batch_size=100),
        in_a_thread,
        in_a_child,
    ]
    return dict(zip(SCENARIOS, encode, strict=True))


def run_child(encode: Callable[[], np.ndarray], expected: np.ndarray) -> None:
    """Encode in a child, and end it: its status is 0 if the vectors are the parent's."""
    status = 2
    try:
        status = 0 if np.array_equal(encode(), expected) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def outcomes(children: dict[str, int]) -> dict[str, str]:
    """What became of children, which are killed if they hang."""
    told = {0: "equal vectors", 1: "other vectors", -signal.SIGKILL: "hangs"}
    found = {}
    deadline = time.monotonic() + PATIENCE
    while children:
        for name, child in list(children.items()):
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            process, status = os.waitpid(child, os.WNOHANG)
            if process:
                del children[name]
                found[name] = told.get(os.waitstatus_to_exitcode(status), "an error")
        time.sleep(0.05)
    return found


def in_pools(home: Path) -> dict[str, str]:
    """The same for processes that libraries fork, after a second model was loaded and used."""
    from datasets import Dataset

    from st_static import FastEncoder

    for name in ("model", "head"):
        encoder = FastEncoder.from_pretrained(home / name)
        expected = encoder.encode(TEXTS)
    found = dict.fromkeys(POOLS, "hangs")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        parts = pool.map_async(encoder.encode, [TEXTS] * 4)
        parts.wait(PATIENCE)
        if parts.ready():
            equal = all(np.array_equal(part, expected) for part in parts.get())
            found[POOLS[0]] = "equal vectors" if equal else "other vectors"
    signal.alarm(PATIENCE)  # ends this program
    mapped = Dataset.from_dict({"text": TEXTS}).map(
        lambda rows: {"vector": encoder.encode(rows["text"])},
        batched=True,
        batch_size=50,
        num_proc=2,
    )
    equal = np.array_equal(np.array(mapped["vector"], np.float32), expected)
    found[POOLS[1]] = "equal vectors" if equal else "other vectors"
    return found


def main(home: Path) -> None:
    """Write `outcomes.json`: for each scenario, what became of it."""
    write_models(home)
    encode = scenarios(home)
    expected = {name: function() for name, function in encode.items()}
    children = {}
    for name, function in encode.items():
        children[name] = os.fork()
        if children[name] == 0:
            run_child(function, expected[name])
    found = outcomes(children)
    (home / "outcomes.json").write_text(json.dumps(found))
    (home / "outcomes.json").write_text(json.dumps(found | in_pools(home)))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("forks")


def several_threads(home: Path) -> dict[str, str]:
    """An environment in which torch computes with two threads on any machine."""
    return {**os.environ, "OMP_NUM_THREADS": "2", "HF_DATASETS_CACHE": str(home / "datasets")}


@pytest.fixture(scope="module")
def found(home: Path) -> dict[str, str]:
    command = [sys.executable, __file__, str(home)]
    with subprocess.Popen(command, env=several_threads(home), start_new_session=True) as program:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(4 * PATIENCE)
        with contextlib.suppress(ProcessLookupError):  # of children that hang
            os.killpg(program.pid, signal.SIGKILL)
    return json.loads((home / "outcomes.json").read_text())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("scenario", [*SCENARIOS, *POOLS])
def test_a_forked_process_encodes_as_its_parent(found: dict[str, str], scenario: str) -> None:
    assert found.get(scenario, "hangs") == "equal vectors"


APP = """
import os
from pathlib import Path
from st_static import FastEncoder

encoder = FastEncoder.from_pretrained(Path(__file__).parent / "model")
expected = encoder.encode(["a csv text"] * 100)
parent = os.getpid()

def app(environ, start_response):
    equal = (encoder.encode(["a csv text"] * 100) == expected).all()
    start_response("200 OK", [])
    return [b"equal in a child" if equal and os.getpid() != parent else b"other"]
"""


@pytest.mark.slow
def test_workers_of_gunicorn_use_a_preloaded_model(tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    write_models(tmp_path)
    (tmp_path / "service.py").write_text(APP)
    address = tmp_path / "socket"
    options = ["--preload", "--workers", "2", "--bind", "unix:socket"]
    command = [sys.executable, "-m", "gunicorn", *options, "service:app"]
    with subprocess.Popen(command, cwd=tmp_path, env=several_threads(tmp_path)) as server:
        try:
            deadline = time.monotonic() + PATIENCE
            while not address.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            for _ in range(4):
                connection = HTTPConnection("localhost", timeout=PATIENCE)
                connection.sock = connected(address)
                connection.request("GET", "/")
                assert connection.getresponse().read() == b"equal in a child"
        finally:
            server.terminate()


def connected(address: Path) -> socket.socket:
    """A connection to a socket of Unix."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(os.path.relpath(address))  # such names are short
    return connection


if __name__ == "__main__":
    main(Path(sys.argv[1]))
