"""The options of a command, and what is wrong with a command line, each in one sentence."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from st_static.arguments import in_words

# What argparse says, with what our sentences need of it.
_OF_ANOTHER_KIND = re.compile(
    r"argument (?P<name>[^:]+): invalid (choice|\w+ value): (?P<value>.*?)( \(choose from .*)?",
    re.S,
)
_WITHOUT_A_VALUE = re.compile(r"argument (?P<option>--[\w./-]+): expected (one|at least one) arg")
_MISSING = "the following arguments are required: "
_SURPLUS = "unrecognized arguments: "


class UsageError(ValueError):
    """A command line or a recipe that cannot be; the message is one sentence or two."""


class CommandParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors say in one line what is expected, what came, what to do.

    Options are spelled with underscores, or with hyphens instead. A switch takes no value; `true`
    and `false` after it are understood, since some switches took them once.

    Args:
        surplus: The option that a value without one is most likely meant for, if there is any.
        kwargs: What `argparse.ArgumentParser` takes.
    """

    def __init__(self, surplus: str = "", **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self._surplus_option = surplus
        self._given: list[str] = []

    def read(self, arguments: Sequence[str]) -> Any:
        """Parse a command line; what is wrong with it is printed, with exit status 2."""
        try:
            self._given = self._without_values_of_switches(with_underscores(arguments))
            self.check(self._given)
            options = self.parse_args(self._given)
            self.check_values(options)
            return options
        except UsageError as error:
            self._refuse(str(error))

    def check(self, arguments: Sequence[str]) -> None:
        """Check a command line before it is parsed.

        Raises:
            UsageError: An option is unknown, or given twice.
        """
        known = self._option_string_actions
        seen: set[str] = set()
        for name in options_in(arguments):
            # `--list+` adds to a list, as often as one likes.
            if name.removesuffix("+") not in known:
                raise UsageError(f"There is no option {name}.{nearest(name, known)}")
            action = known[name.removesuffix("+")]
            # A later recipe adds to an earlier one.
            if action.dest in seen and not name.endswith("+") and name != "--config":
                raise UsageError(f"{name} is given twice. Give it once.")
            seen.add(action.dest)

    def check_values(self, options: Any) -> None:
        """Check what was parsed: nothing here, the values of a recipe in a parser of recipes.

        Raises:
            UsageError: A value cannot be.
        """

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print an error of the libraries in our words, and exit with status 2."""
        self._refuse(self.reworded(message))

    def reworded(self, message: str) -> str:
        """A message of argparse as one sentence."""
        if message.startswith(_SURPLUS):
            return self._surplus(message.removeprefix(_SURPLUS))
        if message.startswith(_MISSING):
            names = message.removeprefix(_MISSING).split(", ")
            return f"Missing: {', '.join(map(self._shown, names))}."
        if match := _WITHOUT_A_VALUE.match(message):
            return f"{match['option']} needs a value: {self._kind_of(match['option'])}."
        if match := _OF_ANOTHER_KIND.fullmatch(message):
            name = match["name"]
            return f"{name}: expected {self._kind_of(name)}, but got {match['value']}."
        return f"{' '.join(message.split()).rstrip('.')}."

    def _refuse(self, sentence: str) -> NoReturn:
        sys.stderr.write(f"Error: {sentence} See {self.prog} --help.\n")
        self.exit(2)

    def _without_values_of_switches(self, arguments: Iterable[str]) -> list[str]:
        """Drop `true` after a switch; drop `false` together with its switch."""
        kept: list[str] = []
        for argument in arguments:
            name, _, value = argument.partition("=")
            if value and self._is_switch(name):
                kept.append(name)
                argument = value
            if not (argument in ("true", "false") and kept and self._is_switch(kept[-1])):
                kept.append(argument)
            elif argument == "false":
                kept.pop()
        return kept

    def _is_switch(self, name: str) -> bool:
        action = self._option_string_actions.get(name)
        return action is not None and action.const is True

    def _surplus(self, rest: str) -> str:
        """Values that no option takes, often the files of a pattern that the shell expanded."""
        for position, argument in enumerate(self._given[:-1]):
            values = list(self._values_after(position))
            if self._is_switch(argument) and values and values[0] in rest.split():
                return f"{argument} takes no value, but got {values[0]!r}."
            if self._takes_one(argument) and len(values) > 1 and values[1] in rest.split():
                return (
                    f"{argument} takes one value, but got {values[0]!r} and {values[1]!r}. Quote "
                    f"a pattern, so that the shell does not expand it: {argument} 'data/*.txt'."
                )
        option = self._surplus_option
        is_free = option and option not in options_in(self._given)
        hint = f" Did you mean {option} {rest}?" if is_free else ""
        return f"Expected no more arguments, but got {rest}.{hint}"

    def _values_after(self, position: int) -> Iterator[str]:
        for argument in self._given[position + 1 :]:
            if argument.startswith("-"):
                return
            yield argument

    def _takes_one(self, name: str) -> bool:
        action = self._option_string_actions.get(name)
        return action is not None and action.nargs in (None, "?", 1)

    def _shown(self, name: str) -> str:
        """A missing argument as the usage shows it."""
        names = {action.dest: action.metavar or action.dest.upper() for action in self._positional}
        is_shown = name.startswith("-") or name in names.values()
        return name if is_shown else str(names.get(name, f"--{name}"))

    @property
    def _positional(self) -> list[argparse.Action]:
        return [action for action in self._actions if not action.option_strings]

    def _kind_of(self, name: str) -> str:
        """The values of an option in words, such as "a whole number"."""
        for action in self._actions:
            if name in action.option_strings or name in (action.dest, action.metavar):
                choices = " or ".join(map(str, action.choices or ()))
                return choices or in_words(type_of(action))
        return in_words(str)


def type_of(action: argparse.Action) -> Any:
    """The type of an option's values."""
    hint = getattr(action, "_typehint", None) or action.type or str
    return getattr(hint, "_typehint", hint)


def nearest(name: str, known: Iterable[str]) -> str:
    """ " Did you mean …?" with the known name that is most like this one; empty if none is."""
    known = list(known)
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not found:  # a key of a section without the section, or in another
        last = name.rpartition(".")[2].lstrip("-")
        by_last = {other.rpartition(".")[2].lstrip("-"): other for other in known}
        found = [by_last[near] for near in difflib.get_close_matches(last, by_last, 1, 0.75)]
    return f" Did you mean {found[0]}?" if found else ""


def with_underscores(arguments: Sequence[str]) -> list[str]:
    """A command line in which no name of an option has hyphens: `--work_dir` for `--work-dir`."""
    options = set(options_in(arguments))
    spelled = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in options:
            name = "--" + name[2:].replace("-", "_")
        spelled.append(name + equals + value)
    return spelled


def options_in(arguments: Sequence[str]) -> Iterator[str]:
    """The names of the options on a command line, known or not."""
    for argument in arguments:
        if argument == "--":
            return
        name = argument.partition("=")[0]
        if name.startswith("--") and " " not in name:  # else it is a text
            yield name


def values_of(option: str, arguments: Sequence[str]) -> Iterator[str]:
    """What an option is given, each time."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option and equals:
            yield value
        elif name == option and position + 1 < len(arguments):
            yield arguments[position + 1]
