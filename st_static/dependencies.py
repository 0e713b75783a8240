"""What may be missing: packages of extras, libraries' private names, add-ons of st_static."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import Any

# A module has its own line where it differs from its package. The others need the base only.
MODULES_WITH_EXTRAS: dict[str, str | None] = {
    "st_static.cards": "publish",
    "st_static.cards.facts": None,
    "st_static.cards.render": None,
    "st_static.cluster.ray_cluster": "cluster",
    "st_static.commands.build": "build",
    "st_static.commands.recipe": "build",
    "st_static.distill": "build",
    "st_static.encode.torch_sums": "build",
    "st_static.ensemble.distill_ensemble": "build",
    "st_static.ensemble.build_ensemble": "build",
    "st_static.ensemble.config": "build",
    "st_static.ensemble.tuning_figure": "eval",
    "st_static.evaluate": "eval",
    "st_static.evaluate.speed": None,
    "st_static.web.onnx_export": "onnx",
    "st_static.lab": "eval",
    "st_static.model.segment_normalize": "build",
}


# A package that each extra brings, and the base install lacks.
_BROUGHT = {"build": "pydantic", "cluster": "ray", "eval": "mteb", "onnx": "onnx"}
_BROUGHT["publish"] = "language_data"

GONE = "This installation of st_static has no add-on {}: install the package again."


class DependencyError(ImportError, ValueError):
    """A package is missing, or its release lacks what is needed; the message says what to do."""


def extra_of(module: str) -> str | None:
    """Return the extra that installs the packages a module imports; None for the base install."""
    while module and module not in MODULES_WITH_EXTRAS:
        module = module.rpartition(".")[0]
    return MODULES_WITH_EXTRAS.get(module)


def is_installed(extra: str | None) -> bool:
    """Tell whether an extra is installed, without importing anything of it."""
    return extra is None or importlib.util.find_spec(_BROUGHT[extra]) is not None


@contextmanager
def needed_by(user: str, extra: str | None) -> Iterator[None]:
    """Name what `user`, as `This command`, has to install where an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        # Our own mistake, or a package that third-party code needs, such as a teacher's.
        if extra is None or package == "st_static" or not _is_missed_by_us(error):
            raise
        install = f'pip install "st-static[{extra}]"'
        raise DependencyError(f"{user} needs {package}: {install}.", name=package) from error


def _is_missed_by_us(error: ModuleNotFoundError) -> bool:
    """Tell whether the import that failed is in this package."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    importing = [name for name in modules if name.partition(".")[0] != "importlib"]
    return not importing or importing[-1].partition(".")[0] == "st_static"


@contextmanager
def loading() -> Iterator[None]:
    """Import large packages in an eighth less time: do not look for garbage in what they make,
    neither meanwhile nor later."""
    gc.collect()  # what an earlier command in this process left
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def has_room(module: str) -> bool:
    """Tell whether the room of one of our modules is there: an add-on's may have been deleted."""
    return importlib.util.find_spec(module.rpartition(".")[0]) is not None


def has_add_on(name: str) -> bool:
    """Tell whether `add_on` finds the module."""
    return _entry_of(name) is not None


def add_on(name: str) -> Any:
    """Load the module that an add-on registers as an entry point: the core imports no add-on."""
    if entry := _entry_of(name):
        return entry.load()
    raise DependencyError(GONE.format(name))


def _entry_of(name: str) -> Any:
    from importlib.metadata import entry_points  # slow to import, and asked for by few

    entries = entry_points(group="st_static.add_ons", name=name)
    return next((entry for entry in entries if has_room(entry.module)), None)


def require_packages(*names: str) -> None:
    """Check now, without importing them, that packages which are used much later are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def private_name(owner: Any, name: str, tested: str) -> Any:
    """Get a library's private attribute, which another release than the `tested` may lack."""
    if hasattr(owner, name):
        return getattr(owner, name)
    library, _, release = tested.partition(" ")
    raise DependencyError(
        f"The installed release of {library} has no {name}, which st_static needs. {release} was "
        f'tested: pip install "{library}=={release}.*".'
    )
