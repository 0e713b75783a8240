"""YAML: read as recipes have it, with texts as keys and numbers such as 3e-3; written for all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.constructor import ConstructorError

_TAG = "tag:yaml.org,2002:"
# libyaml takes a little more than PyYAML's own parser.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What begins with a letter is text to all readers, but for these words. Some readers take 1,000,
# 1:30, 0o7 or :name for something else, too.
_PLAIN = re.compile(r"[^\W\d_]")
_NO_TEXTS = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "infinity", "nan"}
_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")


class _Loader(_SafeLoader):  # type: ignore[misc]  # which of the two is not known
    """Tells what cannot be read by a `MarkedYAMLError`, whatever the constructors raise."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Name the place of a value, such as a date with a thirteenth month."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            kind, said = node.tag.removeprefix(_TAG), str(node.value)[:60]
            problem = f"{said!r} is no {kind}: put text in quotes"
            raise ConstructorError(None, None, problem, node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        """Refuse a key that is no text, or is given twice."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            line, problem = key.start_mark.line + 1, ""
            if not isinstance(key, yaml.ScalarNode):
                problem = f"a key must be text, but it is a {key.id}"
            elif key.tag not in (f"{_TAG}str", f"{_TAG}merge"):
                problem = f"the key {key.value} is not text: put it in quotes"
            elif key.value in lines:
                problem = f"{key.value} is given twice, first in line {lines[key.value]}"
            if problem:
                raise ConstructorError(None, None, problem, key.start_mark)
            lines[key.value] = line
        mapping: dict[str, Any] = super().construct_mapping(node, deep)
        return mapping


class _Dumper(yaml.SafeDumper):
    """Writes texts so that every reader, of YAML 1.1 or 1.2, takes them for texts."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Put a text in quotes if some reader could take it for a number, a date or the like, and
        escape the line breaks of Unicode, which PyYAML would write raw and read as spaces."""
        style = None if _PLAIN.match(text) and text.lower() not in _NO_TEXTS else "'"
        if _LINE_BREAKS.search(text):
            style = '"'
        return self.represent_scalar(f"{_TAG}str", text, style)


_Dumper.add_representer(str, _Dumper.represent_str)
_Loader.add_implicit_resolver(
    f"{_TAG}float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def load_yaml(text: Any) -> Any:
    """Read the value of a text or an open file; a yaml.YAMLError if it cannot be read."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error


def dump_yaml(
    values: Mapping[str, Any] | list[Any], width: float | None = None, in_brackets: bool = False
) -> str:
    """Write values so that `load_yaml` gives the same, and other readers no other texts; each on
    a line of its own, or `in_brackets`, as `[{a: 1, b: 2}]`."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": width}
    text: str = yaml.dump(values, Dumper=_Dumper, default_flow_style=in_brackets, **options)
    return text
