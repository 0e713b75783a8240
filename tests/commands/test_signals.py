"""SIGTERM and SIGHUP end a command as an exception does: nothing temporary stays."""

import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_model import write_model

from st_static import cli
from st_static.cli import run_command
from st_static.model.text_vectors import convert

PATIENCE = 100  # seconds for what takes a few
# Runs a command that stops as soon as something temporary is there, until the file `go` is.
PROGRAM = """
import os, sys, time
from pathlib import Path

home, temporary = Path.cwd(), Path(os.environ["TMPDIR"])
is_waiting = False

def wait(event, arguments):
    global is_waiting
    if is_waiting or event not in ("open", "os.rename", "subprocess.Popen"):
        return
    is_waiting = True
    if [*home.rglob(".*.tmp"), *home.rglob(".*.partial"), *temporary.glob("st_static-*")]:
        (home / "ready").touch()
        while not (home / "go").exists():
            time.sleep(0.01)
    is_waiting = False

from st_static.cli import main

sys.addaudithook(wait)
sys.exit(main(sys.argv[1:]))
"""
COMMANDS = {
    "encode a file": "encode model --input texts.txt --output vectors.npy",
    "encode a folder": "encode model --input tables --output vectors",
    "export": "export model --onnx --quantize int8",
    "demo": "demo model --output page",
    "convert": "convert v.txt words",
    "card": "card converted",
    "publish": "publish model org/ours-256 --dry_run",
}


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    for folder in (home, home / "tables", tmp_path / "temporary"):
        folder.mkdir()
    write_model(home / "model")
    (home / "texts.txt").write_text("read rows\nfrom a file\n")
    pq.write_table(pa.table({"text": ["read rows"]}), home / "tables" / "a.parquet")
    (home / "v.txt").write_text("read 1 0\nrows 0 1\n")
    source = {"teacher": "", "license": "mit", "languages": ["en"]}
    convert(str(home / "v.txt"), str(home / "converted"), **source)
    return home


def hear_hang_ups():
    """Undo what a test run under nohup would hand down."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(home, command, before=None):
    """Start a command, and wait until something temporary is there."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command.split()],
        cwd=home,
        env={**os.environ, "TMPDIR": str(home.parent / "temporary")},
        preexec_fn=before or hear_hang_ups,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not (home / "ready").exists() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def temporary_files(home):
    names = [*home.rglob(".*.tmp"), *home.rglob(".*.partial"), *home.parent.glob("temporary/st_*")]
    return [str(name) for name in names]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_cleans_up_when_it_is_ended(home, name):
    number = signal.SIGHUP if name in ("encode a file", "publish") else signal.SIGTERM
    with start(home, COMMANDS[name]) as process:
        assert temporary_files(home), process.communicate()[1]
        process.send_signal(number)
        error = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 128 + number
    assert error.endswith(f"Ended by {number.name}.\n")
    assert "Traceback" not in error
    assert temporary_files(home) == []
    assert not (home / "vectors.npy").exists()


def test_a_hang_up_that_is_ignored_stays_so(home):
    """As under nohup."""
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with start(home, COMMANDS["encode a file"], ignore) as process:
        process.send_signal(signal.SIGHUP)
        (home / "go").touch()
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert (home / "vectors.npy").exists()


@pytest.mark.parametrize("name", ["encode a file", "publish"])
def test_the_next_run_removes_what_a_killed_one_left(home, name):
    with start(home, COMMANDS[name]) as process:
        process.kill()
    assert temporary_files(home)
    (home / "go").touch()
    with start(home, COMMANDS[name]) as process:
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert temporary_files(home) == []


@pytest.fixture
def default_handlers():
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_handlers")
def test_further_signals_do_not_stop_the_cleaning_up():
    """A terminal that closes sends several."""
    cleaned = []

    def command(arguments):
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            return 3
        finally:
            for number in (signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), number)
            cleaned.append(True)

    with pytest.raises(SystemExit) as ended:
        run_command(command, [])
    assert ended.value.code == 128 + signal.SIGHUP
    assert cleaned


@pytest.mark.usefixtures("default_handlers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_that_a_finalizer_loses_does_not_stop_later_ones(monkeypatch):
    class Finalized:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0)  # where the signal is handled

    def command(arguments):
        Finalized()
        monkeypatch.setattr(cli, "_PAUSE", 0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        return 3

    with pytest.raises(SystemExit) as ended:
        run_command(command, [])
    assert ended.value.code == 128 + signal.SIGTERM


@pytest.mark.usefixtures("default_handlers")
def test_signals_are_handled_while_a_command_runs_only():
    def command(arguments):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is own
        return 3

    def own(number, frame):
        """A handler of the program that runs the command."""

    signal.signal(signal.SIGHUP, own)
    assert run_command(command, []) == 3
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGHUP) is own
