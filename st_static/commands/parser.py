"""What is wrong with a command line or a recipe, each in one sentence, before any work."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

import yaml
from jsonargparse import ArgumentParser

from st_static.arguments import in_words

# As jsonargparse reads YAML: libyaml takes a little more than PyYAML's own parser.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What jsonargparse and argparse say, with what our sentences need of it.
_OF_A_KEY = re.compile(r'Parser key "(?P<key>[^"]+)":(.*(Got|Given) value: (?P<value>.*))?', re.S)
_WITHOUT_A_VALUE = re.compile(r"argument (?P<option>--[\w./-]+): expected (one|at least one) arg")
_MISSING = "the following arguments are required: "
_SURPLUS = "unrecognized arguments: "
_MERGE = "<<"  # YAML's key for the keys of another section


class UsageError(ValueError):
    """A command line or a recipe that cannot be; the message is one sentence or two."""


class CommandParser(ArgumentParser):
    """An `ArgumentParser` whose errors say in one line what is expected, what came, what to do.

    Args:
        recipe: The dataclass of a recipe, whose fields are options and keys of a YAML file.
        kwargs: What `jsonargparse.ArgumentParser` takes.
    """

    def __init__(self, *args: Any, recipe: type | None = None, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self.recipe = recipe
        self._given: list[str] = []

    @property
    def option_names(self) -> list[str]:
        """The options, as they are typed."""
        return list(self._option_string_actions)

    def read(self, arguments: Sequence[str]) -> Any:
        """Parse a command line; what is wrong with it is printed, with exit status 2."""
        self._given = list(arguments)
        try:
            _check_options(self._given, self)
            if self.recipe:
                for file in _values_of("--config", self._given):
                    _check_recipe(file, self.recipe)
                _check_sections(self._given, self.recipe)
            options = self.parse_args(self._given)
            for key, hint in _values(self.recipe) if self.recipe else ():
                # jsonargparse takes null for anything.
                if options.get(key) is None and NoneType not in get_args(hint):
                    where = _where(key, "null", self._given)
                    raise UsageError(f"{where}: expected {in_words(hint)}, but got null.")
        except UsageError as error:
            self._refuse(str(error))
        return options

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print an error of the libraries in our words, and exit with status 2."""
        self._refuse(_reworded(message, self._given, self))

    def _refuse(self, sentence: str) -> NoReturn:
        sys.stderr.write(f"Error: {sentence} See {self.prog} --help.\n")
        self.exit(2)
        raise AssertionError("exit returned")


def nearest(name: str, known: Iterable[str]) -> str:
    """ " Did you mean …?" with the known name that is most like this one; empty if none is."""
    known = list(known)
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not found:  # a key of a section without the section, or in another
        last = name.rpartition(".")[2].lstrip("-")
        by_last = {other.rpartition(".")[2].lstrip("-"): other for other in known}
        found = [by_last[near] for near in difflib.get_close_matches(last, by_last, 1, 0.75)]
    return f" Did you mean {found[0]}?" if found else ""


# -- the command line ------------------------------------------------------------------


def _check_options(arguments: Sequence[str], parser: CommandParser) -> None:
    """Refuse options that are unknown or given twice."""
    known = parser._option_string_actions
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


def options_in(arguments: Sequence[str]) -> Iterator[str]:
    """The names of the options on a command line, known or not."""
    for argument in arguments:
        if argument == "--":
            return
        name = argument.partition("=")[0]
        if name.startswith("--") and " " not in name:  # else it is a text
            yield name


def _values_of(option: str, arguments: Sequence[str]) -> Iterator[str]:
    """What an option is given, each time."""
    for position, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name != option:
            continue
        if equals:
            yield value
        elif position + 1 < len(arguments):
            yield arguments[position + 1]


def _check_sections(arguments: Sequence[str], recipe: type) -> None:
    """Refuse `--SECTION VALUE`, unless the value is a file or the section in YAML."""
    for name, hint in get_type_hints(recipe).items():
        for value in _values_of(f"--{name}", arguments) if dataclasses.is_dataclass(hint) else ():
            if Path(value).is_file():
                continue
            if not isinstance(read_yaml(value), dict):
                first = dataclasses.fields(hint)[0].name
                raise UsageError(
                    f"--{name} is a section, and cannot be {value!r}: give its values, such as "
                    f"--{name}.{first}."
                )
            node = yaml.compose(value, _LOADER)
            if node:
                _check_section(node, f"--{name}", f"{name}.", hint, _keys(recipe))


def read_yaml(text: str) -> Any:
    """What a text is in YAML; the text itself if it is not YAML."""
    try:
        return yaml.load(text, _LOADER)
    except yaml.YAMLError:
        return text


# -- what the libraries say ------------------------------------------------------------


def _reworded(message: str, arguments: Sequence[str], parser: CommandParser) -> str:
    """A message of argparse or jsonargparse as one sentence."""
    if message.startswith(_SURPLUS):
        return _surplus(message.removeprefix(_SURPLUS), arguments, parser)
    if message.startswith(_MISSING):
        names = message.removeprefix(_MISSING).split(", ")
        return f"Missing: {', '.join(_shown(name, parser) for name in names)}."
    if match := _WITHOUT_A_VALUE.match(message):
        option = match["option"]
        return f"{option} needs a value: {in_words(_hint_of(option, parser))}."
    if match := _OF_A_KEY.match(message):
        key, value = match["key"], match["value"]
        if key == "config":
            return f"There is no recipe {next(_values_of('--config', arguments), '')!r}."
        value = "null" if value == "None" else value
        shown = value if value == "null" else repr(value)
        where = _where(key, value, arguments)
        hint = _hint_of(key, parser)
        is_text = hint is str or str in get_args(hint)
        takes_list = any(get_origin(part) is list for part in (hint, *get_args(hint)))
        advice = ""
        if takes_list:
            advice = " Write a list as '[one, two]'."
        elif is_text and not where.startswith("--"):
            advice = " Put it in quotes."
        return f"{where}: expected {in_words(hint)}, but got {shown}.{advice}"
    return f"{' '.join(message.split()).rstrip('.')}."


def _surplus(rest: str, arguments: Sequence[str], parser: CommandParser) -> str:
    """Values that no option takes, most often the files of a pattern that the shell expanded."""
    for position, argument in enumerate(arguments[:-2]):
        action = parser._option_string_actions.get(argument)
        takes_one = action is not None and action.nargs in (None, "?", 1)
        if takes_one and not any(a.startswith("-") for a in arguments[position + 1 :][:2]):
            given = arguments[position + 2]
            if given in rest.split():
                return (
                    f"{argument} takes one value, but got {arguments[position + 1]!r} and "
                    f"{given!r}. Quote a pattern, so that the shell does not expand it: "
                    f"{argument} 'data/*.txt'."
                )
    return f"Expected no more arguments, but got {rest}."


def _shown(name: str, parser: CommandParser) -> str:
    """A missing argument as the usage shows it."""
    for action in parser._actions:
        if action.dest == name and not action.option_strings:
            return str(action.metavar or name.upper())
    return name if name.startswith("-") else f"--{name}"


def _hint_of(name: str, parser: CommandParser) -> Any:
    """The type of an option or a key."""
    for action in parser._actions:
        if action.dest == name or name in action.option_strings:
            return _type_of(action)
    return str


def _type_of(action: argparse.Action) -> Any:
    hint = getattr(action, "_typehint", None) or action.type or str
    return getattr(hint, "_typehint", hint)


def _where(key: str, value: str | None, arguments: Sequence[str]) -> str:
    """The recipe's key or the option that has a value."""
    option = f"--{key}"
    if value in list(_values_of(option, arguments)):
        return option
    for file in _values_of("--config", arguments):
        found: Any = read_yaml(Path(file).read_text("utf-8"))
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None or (value == "null" and option not in options_in(arguments)):
            return f"{file}, {key}"
    return option if option in options_in(arguments) else key


# -- recipes ---------------------------------------------------------------------------


def _check_recipe(file: str, recipe: type) -> None:
    """Check that a recipe is YAML whose keys are those of a dataclass.

    Raises:
        UsageError: It is not; names the file, and the line or the key.
    """
    path = Path(file)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"The recipe {file} {kind}. Expected a YAML file.")
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, _LOADER)
        if root is None:  # or comments only
            raise UsageError(f"The recipe {file} is empty. Expected a YAML file with values.")
        _check_section(root, file, "", recipe, _keys(recipe))
    except UnicodeDecodeError as error:
        raise UsageError(f"The recipe {file} is not text in UTF-8.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UsageError(f"{file}{line} is not YAML: {error.problem}.") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}.") from error


def _check_section(
    node: yaml.Node, file: str, prefix: str, section: type, known: Sequence[str]
) -> None:
    """Check the keys of a section, and of the sections in it."""
    if not isinstance(node, yaml.MappingNode):
        what = f"the section {prefix[:-1]}" if prefix else "a recipe"
        got = repr(node.value) if isinstance(node, yaml.ScalarNode) else "a list"
        raise UsageError(
            f"{file}, line {node.start_mark.line + 1}: expected {what} with keys such as "
            f"{dataclasses.fields(section)[0].name}, but got {got}."
        )
    hints = get_type_hints(section)
    lines: dict[str, int] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            raise UsageError(
                f"{file}, line {line}: {prefix}{name} is given twice, first in line {lines[name]}."
            )
        lines[name] = line
        if name not in hints and name != _MERGE:
            raise UsageError(
                f"{file}, line {line}: there is no key {prefix}{name}."
                f"{nearest(prefix + name, known)}"
            )
        if dataclasses.is_dataclass(hints.get(name)):
            _check_section(value, file, f"{prefix}{name}.", hints[name], known)


def _values(recipe: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The key and the type of each value, those of the recipe itself before its sections'."""
    hints = get_type_hints(recipe)
    sections = {name for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    yield from ((prefix + name, hint) for name, hint in hints.items() if name not in sections)
    for name in sorted(sections):
        yield from _values(hints[name], f"{prefix}{name}.")


def _keys(recipe: Any) -> list[str]:
    """The keys of a recipe: of its values, and of its sections."""
    return [*(key for key, _ in _values(recipe)), *get_type_hints(recipe)]
