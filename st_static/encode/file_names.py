"""Check the name of a file of vectors, and that the file can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast, get_args

from st_static.files import check_folder, check_path
from st_static.texts.input_format import listed

OutputFormat = Literal["npy", "parquet"]


def output_format_of(path: Path | None, given: str | None = None) -> OutputFormat:
    """Find the format of a file of vectors: the ending of its name, or the given one.

    Args:
        path: The file; None is standard output, which is npy by default.
        given: The format, if the name does not tell.

    Raises:
        ValueError: There is no such format, or the name and the given one do not tell, or differ.
    """
    known = get_args(OutputFormat)
    if given is not None and given not in known:
        raise ValueError(f"Expected the format {' or '.join(known)}, but got {given!r}.")
    suffix = path.suffix.lower().removeprefix(".") if path else (given or "npy")
    if suffix in known and given not in (None, suffix):
        raise ValueError(f"{path} would hold {given}: let its name end with .{given}.")
    if suffix not in known and given is None:
        raise ValueError(
            f"{path}: expected a name that ends with {listed(known)}. Rename it, or say what it "
            'is to hold with --output_format (in Python with format="npy" or "parquet").'
        )
    return cast("OutputFormat", given or suffix)


def check_target(path: Path) -> None:
    """Check that a file of vectors can be written.

    Raises:
        ValueError: It is a folder, a device, or a file of another kind, by its name and its first
            bytes; or its folder is a file or write-protected.
    """
    check_path(path, f"The output {path}")
    folder = path.parent.resolve().as_posix()
    # Not by its type alone: /dev/stdout is a link, and may lead to a file.
    is_device = folder == "/dev" or folder.startswith(("/dev/fd", "/proc/"))
    if not path.is_dir() and (is_device or (path.exists() and not path.is_file())):
        raise ValueError(
            f"{path} is a device or a pipe, in whose place a file would be put. Name a file (on "
            f"the command line, leave out --output, and redirect standard output: > {path})."
        )
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, such as {path / 'vectors.npy'}.")
    check_folder(path.parent, f"The output {path}")
    if path.exists() and not _may_be_replaced(path):
        raise ValueError(
            f"{path} is there, and holds no vectors: they would overwrite it. Name another file."
        )


def _may_be_replaced(path: Path) -> bool:
    """Tell whether a file holds vectors, by its name or first bytes, or is empty."""
    if path.suffix.lower().removeprefix(".") in get_args(OutputFormat):
        return True
    with path.open("rb") as file:
        start = file.read(6)
    return not start or start.startswith((b"\x93NUMPY", b"PAR1"))
