"""The command `st-static`: its subcommands, and how their errors are reported."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence

from st_static import __version__
from st_static.commands.options import nearest
from st_static.commands.signals import EndedBySignal, unwound_by_signals
from st_static.commands.terminal import drop_stdout, require_utf8
from st_static.dependencies import extra_of, needed_by
from st_static.tokens.panics import is_panic, panic_told

DESCRIPTION = "Static sentence encoders from a SentenceTransformer."
COMMANDS = {
    "build": "Build a static model from a teacher and text, as a recipe says.",
    "convert": "Make a static model of text vectors, such as GloVe's.",
    "evaluate": "Score a model on MTEB tasks.",
    "compare": "Put measured and published scores side by side.",
    "encode": "Encode a file of texts into a file of vectors.",
    "analyse": "Write tables and figures about a built model.",
    "card": "Write a model's card with its figures.",
    "explain": "Show which words make two texts similar.",
    "export": "Write a model's ONNX files, for other programs.",
    "demo": "Write a page on which a model runs in the browser.",
    "publish": "Put a model on the Hugging Face Hub.",
}
"""Each command's purpose; its module in `commands` has its name, and is imported when it runs."""


def _help() -> str:
    """Format the help of the bare command: a line for each subcommand."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {purpose}" for name, purpose in COMMANDS.items()]
    return "\n".join(
        [
            DESCRIPTION,
            "",
            "usage: st-static COMMAND ...",
            "",
            *lines,
            "",
            "st-static COMMAND --help lists a command's options; st-static --version, the version.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; print an error that the user can mend without a traceback."""
    if arguments is None:
        require_utf8()
        arguments = sys.argv[1:]
    arguments = list(arguments)
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (until the end)
    if not arguments or arguments[0] in ("-h", "--help"):
        return run_command(_say, [_help()])
    if arguments[0] == "--version":
        return run_command(_say, [f"st-static {__version__}"])
    if arguments[0] not in COMMANDS:
        expected = ", ".join(COMMANDS)
        hint = nearest(arguments[0], COMMANDS)
        print(
            f"Error: There is no command {arguments[0]!r}.{hint} Expected one of {expected}.",
            file=sys.stderr,
        )
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


def run_command(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run a command, turning errors that the user can mend into one line and exit status 1."""
    # Otherwise Python collects garbage in all loaded modules at exit: two seconds with mteb.
    atexit.register(gc.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot write a language shows its characters as Python spells them.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with unwound_by_signals():
            return command(arguments)
    except EndedBySignal as ended:
        with contextlib.suppress(OSError):  # the terminal is gone
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
        if not is_panic(error):
            raise
        print("Error:", panic_told(error), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
