"""What to install where a package is missing: the base encodes, extras bring what other jobs need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# A module has its own line where it differs from its room. The others need the base only.
MODULES_WITH_EXTRAS = {
    "st_static.distill": "build",
    "st_static.encode.accelerate": "build",
    "st_static.ensemble.distilled": "build",
    "st_static.ensemble.recipe": "build",
    "st_static.evaluate": "eval",
    "st_static.model.static_word_embedding": "build",
    "st_static.publish": "publish",
}


class MissingExtraError(ImportError):
    """A job needs a package that the base install does not have."""


def extra_of(module: str) -> str | None:
    """The extra that brings the packages a module imports; None for the base install.

    Args:
        module: The module's full name, as in `st_static.distill.loss`.
    """
    while module and module not in MODULES_WITH_EXTRAS:
        module = module.rpartition(".")[0]
    return MODULES_WITH_EXTRAS.get(module)


@contextmanager
def needed_by(user: str, extra: str | None) -> Iterator[None]:
    """Say in one line which extra brings a package that an import inside does not find.

    Args:
        user: What needs the package, as the message begins: `This command`.
        extra: The extra; None if the base install has all.

    Raises:
        MissingExtraError: A package is missing, and the extra brings it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if extra is None or package == "st_static":  # a mistake of ours
            raise
        install = f'pip install "st-static[{extra}]"'
        raise MissingExtraError(f"{user} needs {package}: {install}.", name=package) from error
