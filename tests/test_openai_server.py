"""The example of a server speaks OpenAI's API: to OpenAI's own client, LangChain's, and others."""

import asyncio
import base64
import contextlib
import json
import re
import socket
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import openai
import pytest
import server_speed
from openai_serving import PATIENCE, SERVER, serving
from random_model import write_random_model
from scripts import load_script

from st_static import FastEncoder
from st_static.model.head import Head
from st_static.model.tokenizer import build_tokenizer

MODEL = "st-static/english-384"
# Words, signs, a word of several pieces, and words that are unknown, once without others.
TEXTS = ["Read rows from a file.", "Unbelievably, zyxwvutology!", "the ᚠᛇᚻ of Kraków", "ᚠᛇᚻ"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server")) as served:
        yield served
    assert "Traceback" not in served.log.read_text()


@pytest.fixture(scope="module")
def encoder():
    return FastEncoder.from_pretrained(MODEL, dtype="int8")


@pytest.fixture
def client(served):
    url = f"http://{served.address}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def create_app():
    return load_script(SERVER).create_app


def vectors_of(response) -> np.ndarray:
    assert [one.index for one in response.data] == [*range(len(response.data))]
    return np.array([one.embedding for one in response.data], np.float32)


def post(address: str, body: bytes | str) -> tuple[int, dict]:
    """The status and the JSON of an answer."""
    connection = HTTPConnection(address, timeout=PATIENCE)
    connection.request("POST", "/v1/embeddings", body)
    response = connection.getresponse()
    assert response.headers["content-type"] == "application/json"
    return response.status, json.loads(response.read())


@pytest.mark.parametrize("encoding", [openai.omit, "float"])  # by default it asks for base64
def test_the_openai_client_gets_the_encoders_vectors(client, encoder, encoding):
    response = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format=encoding)
    np.testing.assert_allclose(vectors_of(response), encoder.encode(TEXTS), atol=1e-7)
    assert response.model == MODEL
    n_tokens = sum(len(encoder.tokenize.ids_of(text)) for text in TEXTS)
    assert (response.usage.prompt_tokens, response.usage.total_tokens) == (n_tokens, n_tokens)
    alone = client.embeddings.create(model=MODEL, input=TEXTS[0], encoding_format=encoding)
    np.testing.assert_array_equal(vectors_of(alone), vectors_of(response)[:1])


def test_base64_has_the_numbers_of_float(served):
    query = {"model": MODEL, "input": TEXTS[:1], "user": "somebody", "dimensions": None}
    found = [
        post(served.address, json.dumps({**query, "encoding_format": encoding}))[1]["data"]
        for encoding in ("float", "base64")
    ]
    [[numbers], [text]] = ([one["embedding"] for one in data] for data in found)
    assert np.frombuffer(base64.b64decode(text), "<f4").tolist() == numbers


def test_the_first_dimensions_have_length_1(client, encoder):
    response = client.embeddings.create(model=MODEL, input=TEXTS, dimensions=7)
    expected = encoder.encode(TEXTS, truncate_dim=7, normalize_embeddings=True)
    np.testing.assert_array_equal(vectors_of(response), expected)
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), [1, 1, 1, 0], rtol=1e-6)


def test_token_ids_are_those_of_the_models_tokenizer(client, encoder):
    ids = [list(map(int, encoder.tokenize.ids_of(text))) for text in TEXTS]
    assert len(ids[1]) > 4  # pieces
    of_texts = vectors_of(client.embeddings.create(model=MODEL, input=TEXTS))
    of_ids = client.embeddings.create(model=MODEL, input=ids)
    np.testing.assert_array_equal(vectors_of(of_ids), of_texts)
    assert of_ids.usage.total_tokens == sum(map(len, ids))
    alone = client.embeddings.create(model=MODEL, input=ids[0])
    np.testing.assert_array_equal(vectors_of(alone), of_texts[:1])


def test_the_client_lists_the_model(client):
    assert [model.id for model in client.models.list()] == [MODEL]


ALLOWED = "Expected 1 to 2048 nonempty texts or lists of ids."


@pytest.mark.parametrize(
    ("change", "status", "param", "says"),
    [
        ({"model": "text-embedding-3-small"}, 404, "model", f"No such model, only '{MODEL}'."),
        ({"model": 1}, 400, None, "Expected `str`, got `int` - at `$.model`"),
        ({"input": ""}, 400, "input", ALLOWED),
        ({"input": []}, 400, "input", ALLOWED),
        ({"input": ["a", ""]}, 400, "input", ALLOWED),
        ({"input": [[]]}, 400, "input", ALLOWED),
        ({"input": ["a", 1]}, 400, "input", ALLOWED),
        ({"input": ["a"] * 2049}, 400, "input", ALLOWED),
        ({"input": 1}, 400, None, "Expected `str | array`, got `int` - at `$.input`"),
        ({"input": [[1, "a"]]}, 400, None, "Expected `int`, got `str` - at `$.input[0][1]`"),
        ({"input": [True]}, 400, None, "got `bool`"),
        ({"input": [57_847]}, 400, "input", "ids of the model's tokenizer, 0 to 57846."),
        ({"input": [[3], [1, -1]]}, 400, "input", "ids of the model's tokenizer, 0 to 57846."),
        ({"input": [10**30]}, 400, "input", "ids of the model's tokenizer, 0 to 57846."),
        ({"dimensions": 0}, 400, "dimensions", "Expected 1 to 384 dimensions."),
        ({"dimensions": 385}, 400, "dimensions", "Expected 1 to 384 dimensions."),
        ({"dimensions": 1.5}, 400, None, "got `float` - at `$.dimensions`"),
        ({"encoding_format": "hex"}, 400, None, "Invalid enum value 'hex'"),
    ],
)
def test_what_is_wrong_is_told_in_openais_format(served, change, status, param, says):
    given, answer = post(served.address, json.dumps({"model": MODEL, "input": "a", **change}))
    message = answer["error"].pop("message")
    code = "model_not_found" if status == 404 else None
    assert answer == {"error": {"type": "invalid_request_error", "param": param, "code": code}}
    assert given == status
    assert says in message


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '{"model": "a"}',
        b'{"model": "\xff"}',
        '{"model": "\\ud800"}',
        '{"x":' + "[" * 10**5,
    ],
    ids=["empty", "broken", "array", "no-input", "latin-1", "surrogate", "deep"],
)
def test_a_body_that_is_no_query_is_refused(served, body):
    status, answer = post(served.address, body)
    assert status == 400
    assert answer["error"]["message"].startswith("The request is invalid: ")


def test_the_clients_raise_their_own_errors(client):
    with pytest.raises(openai.NotFoundError, match="No such model"):
        client.embeddings.create(model="other", input="a")
    with pytest.raises(openai.BadRequestError, match="Expected 1 to 384 dimensions"):
        client.embeddings.create(model=MODEL, input="a", dimensions=600)


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("GET", "/v1/embeddings", 405)]
)
def test_other_paths_and_methods_are_refused(served, method, path, status):
    connection = HTTPConnection(served.address, timeout=PATIENCE)
    connection.request(method, path)
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("header", ["Transfer-Encoding: chunked", "Content-Length: 1000000000"])
def test_a_body_without_end_ends_the_connection(served, header):
    host, port = served.address.split(":")
    part = b"a" * 1_000_000
    if "chunked" in header:
        part = b"%x\r\n%b\r\n" % (len(part), part)
    sent = 0
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.sendall(f"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n".encode())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(part)
                sent += 1
    assert 16 <= sent < 200


def test_a_body_is_refused_while_it_is_read(create_app, encoder):
    received = 0

    async def receive():
        nonlocal received
        received += 1
        return {"type": "http.request", "body": b" " * 1_000_000, "more_body": True}

    status, answer = asyncio.run(ask(create_app("m", encoder), receive))
    assert (status, received) == (413, 17)
    assert answer["error"]["message"] == "Expected a body of at most 16000000 bytes."


def test_a_body_of_the_largest_size_is_answered(served, encoder):
    text = "Read rows from a file. " * 690_000
    query = json.dumps({"model": MODEL, "input": text, "dimensions": 2})
    status, answer = post(served.address, query + " " * (16_000_000 - len(query)))
    assert status == 200
    expected = encoder.encode(text, truncate_dim=2, normalize_embeddings=True)
    np.testing.assert_allclose(answer["data"][0]["embedding"], expected, atol=1e-6)


async def ask(app: Callable, receive: Callable) -> tuple[int, dict]:
    """The status and the JSON of what an application in this process answers."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/embeddings", "headers": []}
    await app({**scope, "query_string": b"", "root_path": ""}, receive, send)
    return sent[0]["status"], json.loads(b"".join(message["body"] for message in sent[1:]))


async def embed(app: Callable, given: str | list) -> dict:
    """What an application answers if it serves the model `m`."""

    async def receive():
        return {"type": "http.request", "body": json.dumps({"model": "m", "input": given}).encode()}

    status, answer = await ask(app, receive)
    assert status == 200, answer
    return answer


def test_short_texts_are_answered_while_long_ones_are_encoded(create_app, encoder):
    class Waiting:
        """Encodes a long text only once a short one is encoded."""

        dimension, tokenize, short_is_done = 2, encoder.tokenize, threading.Event()

        def encode(self, texts, **options):
            if len(texts[0]) > 5:
                assert self.short_is_done.wait(PATIENCE)
            else:
                self.short_is_done.set()
            return np.ones((len(texts), 2), np.float32)

    async def ask_both(app):
        return await asyncio.gather(embed(app, "word " * 2_000), embed(app, "word"))

    answers = asyncio.run(ask_both(create_app("m", Waiting())))
    assert [answer["usage"]["prompt_tokens"] for answer in answers] == [2_000, 1]


@pytest.mark.parametrize("with_head", [False, True])
def test_token_ids_of_any_model_have_its_texts_vectors(create_app, tmp_path, with_head):
    tokenizer, rng = (
        build_tokenizer(["old", "boat", "red"], ["##s", "b", "##o"]),
        np.random.default_rng(1),
    )
    head = Head(*(rng.normal(size=shape).astype(np.float32) for shape in [(3, 4), (4, 3)]))
    options = {"head": head} if with_head else {"normalize": False}
    folder = write_random_model(tmp_path / "model", tokenizer, 4, **options)
    encoder = FastEncoder.from_pretrained(folder, mmap=True)
    app = create_app("m", encoder, "float32")
    texts = ["old boats", "red red x boo"]
    ids = [list(map(int, encoder.tokenize.ids_of(text))) for text in texts]
    of_ids, of_texts = (
        [one["embedding"] for one in asyncio.run(embed(app, given))["data"]]
        for given in (ids, texts)
    )
    assert of_ids == of_texts
    expected = encoder.encode(texts, normalize_embeddings=True)
    np.testing.assert_array_equal(np.array(of_texts, np.float32), expected)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what processes share.")
def test_workers_share_the_table(tmp_path):
    query = json.dumps(
        {"model": MODEL, "input": [[*range(i, i + 1_000)] for i in range(0, 57_000, 1_000)]}
    )
    with serving(tmp_path, "--workers", "3") as served:
        deadline = time.monotonic() + PATIENCE
        while True:  # each connection goes to any of the workers
            assert post(served.address, query)[0] == 200
            tables = [
                memory for pid in children_of(served.process) if (memory := table_memory(pid))
            ]
            if len(tables) == 3 and min(memory["Rss"] for memory in tables) > 10_000:
                break
            assert time.monotonic() < deadline, tables
    for memory in tables:
        assert memory["Private_Clean"] + memory["Private_Dirty"] < 1_000
        assert memory["Shared_Clean"] > 10_000
    assert "Traceback" not in served.log.read_text()


def children_of(process: int) -> list[int]:
    return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]


def table_memory(process: int) -> dict[str, int]:
    """The kB of the packaged model's file in the memory of a process, by kind."""
    maps = Path(f"/proc/{process}/smaps").read_text()
    parts = re.findall(r"english-384/model\.safetensors\n((?:\w+: .*\n)*)", maps)
    return {name: int(kb) for part in parts for name, kb in re.findall(r"(\w+): +(\d+) kB", part)}


def test_the_benchmark_prints_a_row_for_each_number(served, capsys, monkeypatch):
    monkeypatch.setattr(server_speed, "WARM_UP", 0.1)
    options = Namespace(texts=[1, 3], connections=[2], seconds=0.2)
    server_speed.print_rows("fast", int(served.address.split(":")[1]), options)
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2
    for n, row in zip(options.texts, rows, strict=True):
        assert re.fullmatch(rf"\| fast \| {n} \| 2 \| [\d,]+ (\| \d+\.\d\d ){{3}}\|", row), row


@pytest.mark.slow  # of the libraries that only `.ci/run` installs
def test_langchain_gets_the_encoders_vectors(served, encoder, monkeypatch):
    langchain_openai = pytest.importorskip("langchain_openai")
    connect = socket.socket.connect

    def connect_here(self, address):
        assert address[0] == "127.0.0.1", f"LangChain asks {address}."
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    embeddings = langchain_openai.OpenAIEmbeddings(
        model=MODEL,
        base_url=f"http://{served.address}/v1",
        api_key="none",
        check_embedding_ctx_length=False,
    )
    many = [f"{TEXTS[0]} {i}" for i in range(2_100)]  # more than a request may have
    found = embeddings.embed_documents(many)
    np.testing.assert_allclose(found, encoder.encode(many), atol=1e-6)
    np.testing.assert_allclose(
        embeddings.embed_query(TEXTS[1]), encoder.encode(TEXTS[1]), atol=1e-6
    )
