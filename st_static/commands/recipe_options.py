"""The options of a recipe: each value of a dataclass is one, as it is a key of a YAML file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import jsonargparse

from st_static.arguments import in_words
from st_static.commands.options import CommandParser, UsageError, options_in, type_of, values_of
from st_static.commands.recipe_file import check_recipe, check_section_text, read_yaml, types_of
from st_static.texts.columns import is_broken

# What jsonargparse says of a value.
_OF_A_KEY = re.compile(r'Parser key "(?P<key>[^"]+)":(.*(Got|Given) value: (?P<value>.*))?', re.S)


class RecipeParser(CommandParser, jsonargparse.ArgumentParser):
    """A parser of recipes, in YAML files and on the command line.

    Args:
        recipe: The dataclass of a recipe, whose fields are options and keys of a YAML file.
        kwargs: What `jsonargparse.ArgumentParser` takes.
    """

    def __init__(self, recipe: type | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._recipe: Any = recipe
        if recipe is None:  # jsonargparse makes such parsers for the sections of a recipe
            return
        self.add_argument(
            "--config", action="config", help="A recipe: a YAML file; the same as RECIPE."
        )
        self.add_class_arguments(recipe)

    def with_values_of_switches(self, arguments: Sequence[str]) -> list[str]:
        """The arguments, where a switch of a recipe that stands alone is `true`."""
        following = [*arguments[1:], "--"]
        return [
            f"{argument}=true" if self._is_bool(argument) and after.startswith("--") else argument
            for argument, after in zip(arguments, following, strict=False)
        ]

    def _is_bool(self, name: str) -> bool:
        action = self._option_string_actions.get(name)
        return action is not None and type_of(action) is bool

    def check(self, arguments: Sequence[str]) -> None:
        """Check the options, and the keys of all recipes and sections that they give."""
        super().check(arguments)
        for argument in arguments:
            if is_broken(argument):
                raise UsageError(f"A recipe is text in UTF-8, but {argument!r} is not.")
        for file in values_of("--config", arguments):
            check_recipe(file, self._recipe)
        for name, hint in get_type_hints(self._recipe).items():
            if dataclasses.is_dataclass(hint):
                for value in values_of(f"--{name}", arguments):
                    if not Path(value).is_file():
                        check_section_text(value, name, self._recipe)

    def check_values(self, options: Any) -> None:
        """Check that null stands only where its type allows it: jsonargparse takes it always.

        Raises:
            UsageError: It stands elsewhere.
        """
        for key, hint in types_of(self._recipe):
            if options.get(key) is None and NoneType not in get_args(hint):
                where = self._where(key, "null")
                raise UsageError(f"{where}: expected {in_words(hint)}, but got null.")

    def dump(self, cfg: Any, **options: Any) -> str:
        """A recipe in YAML, as `--print_config` prints it: the values that are a recipe's."""
        if self._recipe is not None:
            keys = get_type_hints(self._recipe)
            cfg = type(cfg)(**{k: v for k, v in vars(cfg).items() if k in keys})
        return str(super().dump(cfg, **options))

    def reworded(self, message: str) -> str:
        """A message of jsonargparse or argparse as one sentence."""
        match = _OF_A_KEY.match(message)
        if not match:
            return super().reworded(message)
        key, value = match["key"], match["value"]
        if key == "config":
            return f"There is no recipe {next(values_of('--config', self._given), '')!r}."
        value = "null" if value == "None" else value
        where, hint = self._where(key, value), self._hint_of(key)
        got = value if value == "null" else repr(value)
        return f"{where}: expected {in_words(hint)}, but got {got}.{_advice(hint, where, got)}"

    def _hint_of(self, key: str) -> Any:
        return next((type_of(action) for action in self._actions if action.dest == key), str)

    def _where(self, key: str, value: str | None) -> str:
        """The recipe's key or the option that has a value."""
        option = f"--{key}"
        if value in list(values_of(option, self._given)):
            return option
        is_option = option in options_in(self._given)
        for file in values_of("--config", self._given):
            found = _value_at(key, read_yaml(Path(file).read_text("utf-8")))
            if found is not None or (value == "null" and not is_option):
                return f"{file}, {key}"
        return option if is_option else key


def _value_at(key: str, recipe: Any) -> Any:
    """The value of a key such as `vocabulary.size`; None if the recipe does not have it."""
    for part in key.split("."):
        recipe = recipe.get(part) if isinstance(recipe, dict) else None
    return recipe


def _advice(hint: Any, where: str, got: str) -> str:
    """How a value would be taken as it was meant."""
    kinds = (hint, *get_args(hint))
    if not where.startswith("--"):
        # In YAML, no is false, and the language no is "no".
        if str in kinds and not got.strip("\"'").startswith(("[", "{")):
            return " Put it in quotes."
        if list[str] in kinds and re.search(r"\b(True|False)\b", got):
            return " Put each text in quotes."
    return " Write a list as '[one, two]'." if any(get_origin(k) is list for k in kinds) else ""
