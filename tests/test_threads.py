"""What is made once, beside forks, and work in threads, also after the main thread has ended."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from st_static.threads import Workers, made_once

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
PATIENCE = 100  # seconds for what takes a few, before it counts as hanging

PREPARED = """
import atexit, os, sys, threading, time
import numpy as np
from st_static import FastEncoder

encoder = FastEncoder.from_pretrained("st-static/english-384", threads=2)
texts = [f"a text about dog {i % 1000} and house {i}, which says no more" for i in range(6_000)]
many = texts * 10
"""


def run(program: str, folder: Path) -> str:
    """What a program prints; an error if it hangs or fails."""
    command = [sys.executable, "-W", "ignore", "-c", PREPARED + program]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class Slow:
    """Has a property that takes long to make."""

    @made_once
    def process(self) -> int:
        """Where it was made."""
        time.sleep(0.5)
        return os.getpid()


def status_of_child(function: Callable[[], bool]) -> int:
    """Fork, and return 0 if the function is true there; kill a child that hangs."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if function() else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + PATIENCE / 4
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


@needs_fork
def test_a_fork_waits_for_what_another_thread_makes() -> None:
    one, other, parent = Slow(), Slow(), os.getpid()
    thread = threading.Thread(target=lambda: one.process)
    thread.start()
    while not thread.is_alive():
        time.sleep(0.001)
    time.sleep(0.1)
    assert status_of_child(lambda: one.process == parent and other.process == os.getpid()) == 0
    thread.join()


FORK = """
thread = threading.Thread(target=make)
thread.start()
while not has_begun():
    time.sleep(0.001)
child = os.fork()
if child == 0:
    import faulthandler
    faulthandler.dump_traceback_later(40, exit=True)
    make()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
thread.join()
print("both are done")
"""


@needs_fork
def test_a_fork_while_another_thread_makes_the_encoder_ready(tmp_path: Path) -> None:
    begin = """
make = lambda: encoder.encode(many)
has_begun = lambda: "scipy" in sys.modules
"""
    assert run(begin + FORK, tmp_path) == "both are done\n"


@needs_fork
@pytest.mark.parametrize(
    "work",
    [
        "encoder.encode(tuple(texts))",
        'encoder.encode_to(f"{os.getpid()}.npy", texts)',
        'encoder.encode(texts, null="empty")',
        "import st_static; st_static.SearchIndex",
    ],
)
def test_a_fork_while_another_thread_imports_what_work_needs(tmp_path: Path, work: str) -> None:
    begin = f"""
def make():
    {work}
has_begun = lambda: "pyarrow" in sys.modules
"""
    assert run(begin + FORK, tmp_path) == "both are done\n"


@needs_fork
def test_a_fork_while_another_thread_makes_the_index_ready(tmp_path: Path) -> None:
    build = "from st_static import SearchIndex\n"
    run(f'{build}SearchIndex.build(encoder, texts[:99]).save("index")', tmp_path)
    begin = """
from st_static import SearchIndex
index = SearchIndex.open("index", encoder)
make = lambda: index.search("a dog")
has_begun = lambda: "simsimd" in sys.modules
"""
    assert run(begin + FORK, tmp_path) == "both are done\n"


WORK = """
from st_static import SearchIndex

def work():
    print(encoder.encode(many).shape, encoder.encode_to("vectors.npy", texts))
    index = SearchIndex.build(encoder, texts)
    print(index.search(texts[5])[0].position)

def drain():
    threading.main_thread().join()
    work()
"""


@pytest.mark.parametrize(
    ("way", "is_ready"),
    [("atexit.register(work)", False), ("threading.Thread(target=drain).start()", True)],
)
def test_work_goes_on_after_the_main_thread(way: str, is_ready: bool, tmp_path: Path) -> None:
    before = "work()\n" if is_ready else ""
    printed = "(60000, 384) 6000\n5\n"
    assert run(f"{WORK}\n{before}{way}", tmp_path) == printed * (1 + is_ready)


def test_calls_run_once_where_no_further_thread_can_be_started(monkeypatch) -> None:
    start, started, calls = threading.Thread.start, [], []

    def limited(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def call(number: int) -> int:
        time.sleep(0.01)
        calls.append(number)
        return -number

    monkeypatch.setattr(threading.Thread, "start", limited)
    with Workers(4) as workers:
        assert list(workers.map(call, range(20))) == [-number for number in range(20)]
    assert sorted(calls) == list(range(20))
    with Workers(4) as workers:  # no thread at all
        assert list(workers.map(call, range(20))) == [-number for number in range(20)]
        failed = workers.submit(int, "no number")
        with pytest.raises(ValueError, match="no number"):
            failed.result()
