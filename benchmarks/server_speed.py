"""How many texts a second the server of examples/openai_server.py encodes, and how soon.

    python benchmarks/server_speed.py [--texts 1 32] [--connections 1 8 64] [--seconds 4]

serves the model in the package in one process, by FastEncoder, and then by sentence-transformers
behind the same handler. A client on this machine asks for vectors in base64, as `openai` does, over
connections that stay open; on each, the next request follows the answer. Prints for each number of
texts in a request and of connections: texts a second, the median and the 99th percentile of the
milliseconds to an answer, and the share of a processor that the client took. Where that is near 1,
the client is what was measured. Texts are sentences of Python's documentation. Both servers use
httptools and uvloop where they are installed.
"""

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from measuring import parser_of, print_heading, print_row
from numpy.typing import NDArray

from st_static import FastEncoder
from st_static.evaluate.speed import speed_texts

EXAMPLES = Path(__file__).parents[1] / "examples"
MODEL = "st-static/english-384"
HOST = "127.0.0.1"
N_TEXTS = 10_000
PATIENCE = 120  # seconds
WARM_UP = 1  # seconds that do not count


class BySentenceTransformers:
    """What the handler asks of an encoder; FastEncoder's tokenizer counts the tokens."""

    def __init__(self, folder: str) -> None:
        from sentence_transformers import SentenceTransformer

        self._model = SentenceTransformer(folder, device="cpu")
        self.tokenize = FastEncoder.from_pretrained(MODEL, dtype="int8", mmap=True).tokenize
        self.tokenize.prepare()
        self.dimension = self._model.get_embedding_dimension()

    def encode(self, texts: list[str], **options: Any) -> NDArray[np.float32]:
        """Encode texts as sentence-transformers does."""
        return self._model.encode(texts, show_progress_bar=False, **options)


def serve(folder: str, port: int) -> None:
    """Serve a model's folder by sentence-transformers."""
    import uvicorn

    sys.path.insert(0, str(EXAMPLES))
    from openai_server import create_app

    app = create_app(MODEL, BySentenceTransformers(folder))
    uvicorn.run(app, host=HOST, port=port, access_log=False)


@contextmanager
def serving(*command: str) -> Iterator[int]:
    """Run a server; gives its port."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, *command, str(port)])
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            try:
                socket.create_connection((HOST, port)).close()
                break
            except ConnectionRefusedError:
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"{' '.join(command)} did not start.")
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


class Asking(asyncio.Protocol):
    """A connection that asks as soon as it is answered; notes when answers came, and how late."""

    def __init__(self, requests: Iterator[bytes], answers: list[tuple[float, float]]) -> None:
        self._requests, self._answers = requests, answers
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Ask for the first time."""
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._start = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        """Note an answer that is whole, and ask again."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(maxsplit=1)[0])
        if len(body) < length:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(self._buffer.decode())
        now = time.perf_counter()
        self._answers.append((now, now - self._start))
        self._buffer = b""
        self._ask()


def request_of(texts: Sequence[str], port: int) -> bytes:
    """A request for the vectors of texts, as it is sent."""
    query = {"model": MODEL, "input": texts, "encoding_format": "base64"}
    body = json.dumps(query).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Length: {len(body)}"
    return f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body


async def measure(port: int, requests: Iterator[bytes], connections: int, seconds: float) -> Any:
    """Ask over so many connections; gives the seconds to each answer, and the client's share."""
    answers: list[tuple[float, float]] = []
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(partial(Asking, requests, answers), HOST, port)
        for _ in range(connections)
    ]
    await asyncio.sleep(WARM_UP)
    start, processor = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    share = (time.process_time() - processor) / (time.perf_counter() - start)
    for transport, _ in opened:
        transport.abort()
    return np.array([late for end, late in answers if start <= end < start + seconds]), share


def print_rows(encoder: str, port: int, options: argparse.Namespace) -> None:
    """Measure a server, and print its rows."""
    texts = speed_texts(N_TEXTS)
    for n in options.texts:
        parts = (texts[start : start + n] for start in range(0, len(texts), n))
        requests = cycle([request_of(part, port) for part in parts])
        for connections in options.connections:
            late, share = asyncio.run(measure(port, requests, connections, options.seconds))
            median, last = 1_000 * np.percentile(late, [50, 99])
            speed = f"{len(late) * n / options.seconds:,.0f}"
            print_row(encoder, n, connections, speed, float(median), float(last), share)


def main() -> None:
    """Measure both encoders."""
    parser = parser_of(__doc__)
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 32], help="in a request")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64], help="at a time")
    parser.add_argument("--seconds", type=float, default=4, help="for each row")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve[0], int(options.serve[1]))
        return
    print_heading(["encoder", "texts", "connections", "texts/s", "p50, ms", "p99, ms", "client"])
    with serving(str(EXAMPLES / "openai_server.py"), "--port") as port:
        print_rows("FastEncoder", port, options)
    with tempfile.TemporaryDirectory() as folder:
        export = [sys.executable, "-m", "st_static.cli", "export", MODEL, "--output", folder]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        with serving(__file__, "--serve", folder) as port:
            print_rows("sentence-transformers", port, options)


if __name__ == "__main__":
    main()
