"""The server of examples/openai_server.py in a process of its own, at a port that is free."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

SERVER = Path(__file__).parents[1] / "examples" / "openai_server.py"
PATIENCE = 60  # seconds


class Served(NamedTuple):
    """A server: its address, such as 127.0.0.1:8000, its process, and what it logs."""

    address: str
    process: int
    log: Path


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    """Run the server until it is no longer needed; its log is in the folder."""
    log = folder / "server.log"
    command = [sys.executable, str(SERVER), "--port", "0", *options]
    with log.open("wb") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            while not (address := _address(log)):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
            yield Served(address, process.pid, log)
        finally:
            process.terminate()


def _address(log: Path) -> str | None:
    """Where the server answers, as soon as it does."""
    told = re.search(r"running on http://([\d.]+:\d+)", log.read_text())
    if told is None:
        return None
    try:
        connection = HTTPConnection(told[1], timeout=PATIENCE)
        connection.request("GET", "/v1/models")
        connection.getresponse().read()
    except ConnectionRefusedError:  # no worker has started
        return None
    return told[1]
