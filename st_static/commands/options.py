"""Shared by all commands: their options, errors of a command line, and the terminal."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from st_static.arguments import require
from st_static.hub import DEFAULT_MODEL

MODEL = (
    f"A folder or Hub id of a static model, or one in this package: {DEFAULT_MODEL}, which is "
    "English and the default, or st-static/ja-256, which is Japanese."
)
"""Help on the model, for commands that take a default one."""

# What argparse says, and what we say instead.
_IN_OUR_WORDS = {
    "argument --": "--",
    "the following arguments are required": "Missing",
    ": ignored explicit argument": " takes no value, but got",
    ": expected one argument": " needs a value",
    ": expected at least one argument": " needs a value",
    "invalid int value:": "expected a whole number, but got",
    "invalid choice:": "got",
    "(choose from": "(expected one of",
}
_SURPLUS = "unrecognized arguments: "


class UsageError(ValueError):
    """A wrong command line or recipe; the message is one sentence or two."""


@contextlib.contextmanager
def refusing(program: str) -> Iterator[None]:
    """Print a `UsageError` of the block, and exit with status 2."""
    try:
        yield
    except UsageError as error:
        sys.stderr.write(f"Error: {error} See {program} --help.\n")
        raise SystemExit(2) from None


class CommandParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors say in one line what is expected, what came, what to do.
    Hyphens may stand for underscores; `surplus` is the likely option of a value without one."""

    def __init__(self, surplus: str = "", **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self._surplus_option = surplus
        self._arguments: list[str] = []

    def read(self, arguments: Sequence[str], check: Callable[[Any], None] | None = None) -> Any:
        """Parse a command line; on an error, or a `UsageError` of `check`, print it and exit."""
        self._arguments = with_underscores(arguments)
        actions, seen = self._option_string_actions, set()
        with refusing(self.prog):
            for name in options_in(self._arguments):
                if name not in actions:
                    raise UsageError(f"There is no option {name}.{nearest(name, actions)}")
                if name in seen and name != "--config":  # a later recipe adds to an earlier one
                    raise UsageError(f"{name} is given twice. Give it once.")
                seen.add(name)
            options = self.parse_intermixed_args(self._arguments)
            if check:
                check(options)
            return options

    def error(self, message: str) -> NoReturn:
        """Raise a `UsageError` that says in our words what argparse says."""
        if message.startswith(_SURPLUS):
            raise UsageError(self._surplus(message.removeprefix(_SURPLUS)))
        for theirs, ours in _IN_OUR_WORDS.items():
            message = message.replace(theirs, ours)
        raise UsageError(f"{' '.join(message.split()).rstrip('.')}.")

    def _surplus(self, values_left: str) -> str:
        """Explain values that no option takes: often files of a pattern that the shell expanded."""
        for position, name in enumerate(self._arguments[:-1]):
            following = self._arguments[position + 1 :]
            values = list(itertools.takewhile(lambda value: not value.startswith("-"), following))
            action = self._option_string_actions.get(name)
            if action is None or not values:
                continue
            if action.nargs == 0 and values[0] in values_left.split():
                return f"{name} takes no value, but got {values[0]!r}."
            if action.nargs in (None, "?") and len(values) > 1 and values[1] in values_left.split():
                return (
                    f"{name} takes one value, but got {values[0]!r} and {values[1]!r}. Quote "
                    f"a pattern, so that the shell does not expand it: {name} 'data/*.txt'."
                )
        option = self._surplus_option
        is_free = option and option not in options_in(self._arguments)
        hint = f" Did you mean {option} {values_left}?" if is_free else ""
        return f"Expected no more arguments, but got {values_left}.{hint}"


def named_model(name: str | None) -> str:
    """Return the model that a command line names; by default one in the package, and say which."""
    require(
        name is None or not Path(name).is_file(),
        f"{name} is a file, and no model. If it has the texts, say --input {name}.",
    )
    if name is None:
        print(f"No model is named: taking {DEFAULT_MODEL}.", file=sys.stderr)
    return name or DEFAULT_MODEL


def nearest(name: str, names: Iterable[str]) -> str:
    """Ask " Did you mean …?" with the most similar known name; empty if none is similar."""
    names = list(names)
    matches = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not matches:  # a key of a section without the section, or in another
        last = name.rpartition(".")[2].lstrip("-")
        by_last = {other.rpartition(".")[2].lstrip("-"): other for other in names}
        matches = [by_last[near] for near in difflib.get_close_matches(last, by_last, 1, 0.75)]
    return f" Did you mean {matches[0]}?" if matches else ""


def with_underscores(arguments: Sequence[str]) -> list[str]:
    """Spell the options of a command line with underscores: `--work_dir` for `--work-dir`."""
    options, spelled = set(options_in(arguments)), []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        spelling = f"--{name[2:].replace('-', '_')}" if name in options else name
        spelled.append(spelling + equals + value)
    return spelled


def options_in(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the names of the options on a command line, known or not."""
    for argument in itertools.takewhile("--".__ne__, arguments):
        name = argument.partition("=")[0]
        if name.startswith("--") and " " not in name:  # else it is a text
            yield name


def log_to_terminal() -> None:
    """Write log records to stderr: ours from INFO on, those of libraries from WARNING on, once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("httpx", "httpx2", "sentence_transformers", "datasets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # These have handlers of their own: with ours, each of their lines would come twice.
    for library in ("huggingface_hub", "datasets"):
        logging.getLogger(library).propagate = False


def hide_bars_of_libraries(downloads: bool = False) -> None:
    """Hide the progress bars of libraries, also of the Hub's downloads if wanted; what the user has
    set stays. Call it first: tqdm and the libraries read their settings when they are imported."""
    names = ["TQDM_DISABLE", "HF_DATASETS_DISABLE_PROGRESS_BARS"]
    for name in [*names, *["HF_HUB_DISABLE_PROGRESS_BARS"] * downloads]:
        os.environ.setdefault(name, "1")
    if "datasets" in sys.modules:  # which has read its setting
        sys.modules["datasets"].disable_progress_bars()


def drop_stdout() -> None:
    """Discard what standard output has not written yet: Python would complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
