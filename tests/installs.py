"""Which packages an install has, as `pyproject.toml` and the packages' own metadata say.

Also other environments: `ST_STATIC_ENVIRONMENTS` names a folder of virtual environments, one for
each file of pins in `tests/environments`; `.ci/run` makes them.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))[
    "project"
]

VARIABLE = "ST_STATIC_ENVIRONMENTS"


def python_of(environment: str) -> Path:
    """The Python of another environment; without one, the test is skipped."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"Set {VARIABLE} to a folder of environments, as .ci/run does.")
    python = Path(folder, environment, "bin", "python")
    assert python.is_file(), f"{VARIABLE} is set, but there is no {python}."
    return python


def plain(name: str) -> str:
    """A package's name as all spell it: sentence-transformers."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_with(extra: str = "") -> set[str]:
    """The packages that the project brings, with an extra or without: its own and theirs."""
    found: dict[tuple[str, str], None] = {}
    waiting = [Requirement(f"st-static[{extra}]" if extra else "st-static")]
    while waiting:
        requirement = waiting.pop()
        for part in ("", *requirement.extras):
            key = (plain(requirement.name), part)
            if key not in found:
                found[key] = None
                waiting.extend(_requirements(*key))
    return {name for name, _ in found}


def _requirements(package: str, extra: str) -> Iterator[Requirement]:
    """What a package needs, or what one of its extras adds."""
    if package == "st-static":
        lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    else:
        lines = metadata.requires(package) or []
    for requirement in map(Requirement, lines):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def modules_beyond(packages: set[str]) -> set[str]:
    """The top-level modules that are installed here and come from none of these packages."""
    owners = metadata.packages_distributions()
    return {module for module, names in owners.items() if not packages & set(map(plain, names))}


def modules_of(packages: set[str]) -> set[str]:
    """The top-level modules of these packages."""
    return metadata.packages_distributions().keys() - modules_beyond(packages)


_HIDE = """
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


def hide(modules: Iterable[str]) -> str:
    """Code after which modules are not found, as if they were not installed."""
    return _HIDE.format(modules=sorted(modules))
