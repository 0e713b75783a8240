"""The command `st-static`: its commands, their errors, and signals that end them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from st_static import __version__
from st_static.commands.options import drop_stdout, nearest
from st_static.dependencies import extra_of, needed_by
from st_static.hub import NO_HOME
from st_static.tokens.panics import is_panic, panic_told

DESCRIPTION = "Static sentence encoders from a SentenceTransformer."
COMMANDS = {
    "build": "Build a static model from a teacher and text, as a recipe says.",
    "convert": "Make a static model of text vectors, such as GloVe's.",
    "evaluate": "Score a model on MTEB tasks, or models on data of your own.",
    "compare": "Put measured and published scores side by side.",
    "encode": "Encode a file of texts into a file of vectors.",
    "search": "Find the texts that are nearest to a query.",
    "analyse": "Write tables and figures about a built model, or about your labels.",
    "card": "Write a model's card with its figures.",
    "explain": "Show which words make two texts similar.",
    "export": "Write a model in another number format, or its ONNX files.",
    "demo": "Write a page on which a model runs in the browser.",
    "publish": "Put a model on the Hugging Face Hub.",
}
"""Each command's purpose; its module in `commands` has its name, and is imported when it runs."""

_MORE = "st-static COMMAND --help lists a command's options; st-static --version, the version."
# Seconds in which further signals are ignored: a terminal that closes sends several, and another
# would stop the cleaning up.
_PAUSE = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; print an error that the user can fix without a traceback."""
    if arguments is None:
        require_utf8()
        arguments = sys.argv[1:]
    arguments = list(arguments)
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
    if not arguments or arguments[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        commands = [f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items()]
        head = [DESCRIPTION, "", "usage: st-static COMMAND ...", ""]
        return run_command(_say, [*head, *commands, "", _MORE])
    if arguments[0] == "--version":
        return run_command(_say, [f"st-static {__version__}"])
    if arguments[0] not in COMMANDS:
        unknown = f"There is no command {arguments[0]!r}.{nearest(arguments[0], COMMANDS)}"
        print(f"Error: {unknown} Expected one of {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    return run_command(functools.partial(_run, arguments[0]), arguments[1:])


def _run(command: str, arguments: Sequence[str]) -> int:
    name = f"st_static.commands.{command}"
    with needed_by("This command", extra_of(name)):
        module = importlib.import_module(name)
    return int(module.run(arguments))


def _say(lines: Sequence[str]) -> int:
    print(*lines, sep="\n", flush=True)
    return 0


def require_utf8() -> None:
    """Start again in UTF-8 mode where Python takes all text for ASCII, as with LC_ALL=C and
    PYTHONUTF8=0: libraries would take no argument "Größe"."""
    if sys.getfilesystemencoding() == "ascii" and os.environ.get("PYTHONUTF8") != "1":
        program = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, program, {**os.environ, "PYTHONUTF8": "1"})


def run_command(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, turning errors that the user can fix into one line and exit status 1."""
    atexit.register(_leave_garbage)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot write a language shows its characters as Python spells them.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with _unwound_by_signals():
            return command(arguments)
    except _EndedBySignal as ended:
        with contextlib.suppress(OSError):  # of a terminal that is gone
            print(f"Ended by {ended.name}.", file=sys.stderr)
        raise
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # as with `| head`
        drop_stdout()
        return 141  # the status of a program that SIGPIPE ended
    except (ValueError, OSError) as error:
        print("Error:", " ".join(str(error).split()), file=sys.stderr)
        return 1
    except BaseException as error:
        # pathlib's, where a user has no home.
        is_homeless = isinstance(error, RuntimeError) and "home directory" in str(error)
        if not (is_homeless or is_panic(error)):
            raise
        print("Error:", NO_HOME if is_homeless else panic_told(error), file=sys.stderr)
        return 1


def _leave_garbage() -> None:
    """Keep Python from collecting garbage in all loaded modules at exit: two seconds with mteb."""
    if "duckdb" not in sys.modules:  # which would print a page about what is left
        gc.freeze()


class _EndedBySignal(SystemExit):
    """A signal has ended the command; its exit status is the one that shells report for it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextlib.contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does, so that all of it is cleaned up.

    A signal that is ignored, as SIGHUP is under nohup, stays so. One that comes some seconds later
    ends the block, too: the exception of the first is lost if a finalizer raised it.
    """
    if threading.current_thread() is not threading.main_thread():  # others cannot handle signals
        yield
        return
    names = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    ended_at = -_PAUSE

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended_at
        if time.monotonic() - ended_at >= _PAUSE:
            ended_at = time.monotonic()
            raise _EndedBySignal(number)

    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
