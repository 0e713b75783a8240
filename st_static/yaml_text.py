"""YAML as recipes have it: keys are texts that come once, and numbers may be written as 3e-3."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from yaml.constructor import ConstructorError

_TAG = "tag:yaml.org,2002:"
# libyaml takes a little more than PyYAML's own parser.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    """Puts texts in quotes that the loader would take for numbers."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Escape the line breaks of Unicode, which PyYAML would write raw and read as spaces."""
        style = '"' if re.search("[\x85\u2028\u2029]", text) else None
        return self.represent_scalar(f"{_TAG}str", text, style)


_Dumper.add_representer(str, _Dumper.represent_str)

for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        f"{_TAG}float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def load_yaml(text: Any) -> Any:
    """Read the value of a text or an open file; a yaml.YAMLError if it cannot be read."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply") from error


def dump_yaml(values: Mapping[str, Any], width: int | None = None) -> str:
    """Write values so that `load_yaml` gives the same."""
    text: str = yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width)
    return text
