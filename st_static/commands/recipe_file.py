"""The keys of a recipe, checked in its YAML: what is wrong is told with its line."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from st_static.commands.options import UsageError, nearest

# As jsonargparse reads YAML: libyaml takes a little more than PyYAML's own parser.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "<<"  # YAML's key for the keys of another section


def read_yaml(text: str) -> Any:
    """What a text is in YAML; the text itself if it is not YAML."""
    try:
        return yaml.load(text, _LOADER)
    except yaml.YAMLError:
        return text


def check_recipe(file: str, recipe: type) -> None:
    """Check that a recipe is YAML whose keys are those of a dataclass.

    Raises:
        UsageError: It is not; names the file, and the line or the key.
    """
    path = Path(file)
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"The recipe {file} {kind}. Expected a YAML file.{_similar(path)}")
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


def _similar(recipe: Path) -> str:
    """ " Did you mean …?" with the recipe in the same folder that has the most similar name."""
    by_stem = {file.stem: file for file in sorted(recipe.parent.glob("*.y*ml"))}
    found = [stem for stem in by_stem if stem.startswith(recipe.stem)]
    found = found or difflib.get_close_matches(recipe.stem, by_stem, n=1)
    return f" Did you mean {by_stem[found[0]]}?" if found else ""


def check_section_text(text: str, name: str, recipe: type) -> None:
    """Check the keys of one section of a recipe, given as `--NAME TEXT`.

    Raises:
        UsageError: The text is not a section in YAML, or has unknown keys.
    """
    section = get_type_hints(recipe)[name]
    if not isinstance(read_yaml(text), dict):
        first = dataclasses.fields(section)[0].name
        raise UsageError(
            f"--{name} is a section, and cannot be {text!r}: give its values, such as "
            f"--{name}.{first}."
        )
    node = yaml.compose(text, _LOADER)
    if node:
        _check_section(node, f"--{name}", f"{name}.", section, _keys(recipe))


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


def types_of(recipe: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The key and the type of each value, those of the recipe itself before its sections'."""
    hints = get_type_hints(recipe)
    sections = {name for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    yield from ((prefix + name, hint) for name, hint in hints.items() if name not in sections)
    for name in sorted(sections):
        yield from types_of(hints[name], f"{prefix}{name}.")


def _keys(recipe: Any) -> list[str]:
    """The keys of a recipe: of its values, and of its sections."""
    return [*(key for key, _ in types_of(recipe)), *get_type_hints(recipe)]
