"""What a file's name says: the format that it holds, and whether it is compressed."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, cast, get_args

import pyarrow as pa

from st_static.files import check_folder, check_path

InputFormat = Literal["txt", "jsonl", "csv", "tsv", "parquet"]
OutputFormat = Literal["npy", "parquet"]


def _open_zst(stream: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", io.BufferedReader(pa.CompressedInputStream(stream, "zstd")))


_DECOMPRESS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    "gz": lambda stream: cast("IO[bytes]", gzip.open(stream)),  # noqa: SIM115 (read by others)
    "xz": lambda stream: cast("IO[bytes]", lzma.open(stream)),  # noqa: SIM115
    "zst": _open_zst,
}
COMPRESSIONS = tuple(_DECOMPRESS)


def split_name(path: Path) -> tuple[str, str]:
    """The suffix that names a file's format, and that of its compression; "" for none.

    Example:
        >>> split_name(Path("a.csv.GZ")), split_name(Path("b.parquet")), split_name(Path("c"))
        (('csv', 'gz'), ('parquet', ''), ('', ''))
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix in _DECOMPRESS:
        return path.with_suffix("").suffix.lower().removeprefix("."), suffix
    return suffix, ""


def decompressed(stream: IO[bytes], compression: str) -> IO[bytes]:
    """A stream of what a compressed one holds; itself if there is no compression."""
    return _DECOMPRESS[compression](stream) if compression else stream


def input_format_of(path: Path | None, given: InputFormat | None = None) -> InputFormat:
    """The format of a file of texts: the one that is given, or what its name ends with.

    Args:
        path: The file; None is standard input, which is txt by default.
        given: The format, where the name does not say it.

    Raises:
        ValueError: The name does not say it either, or Parquet is compressed as a whole.
    """
    suffix, compression = split_name(path) if path else ("txt", "")
    known = get_args(InputFormat)
    if given is None and suffix not in known:
        raise ValueError(
            f"{path}: expected a name that ends with {_listed(known)} (all but .parquet also with "
            f"{_listed(COMPRESSIONS)} behind). Say what it holds with --input_format."
        )
    found: InputFormat = given or cast("InputFormat", suffix)
    if found == "parquet" and compression:
        raise ValueError(
            f"{path}: Parquet is compressed inside, not as a whole. Decompress the file first."
        )
    return found


def output_format_of(path: Path | None, given: str | None = None) -> OutputFormat:
    """The format of a file of vectors: what its name ends with, or the one that is given.

    Args:
        path: The file; None is standard output, which is npy by default.
        given: The format, where the name does not say it.

    Raises:
        ValueError: There is no such format, the name does not say it either, or says another.
    """
    known = get_args(OutputFormat)
    if given is not None and given not in known:
        raise ValueError(f"Expected the format {' or '.join(known)}, but got {given!r}.")
    suffix = path.suffix.lower().removeprefix(".") if path else (given or "npy")
    if suffix in known and given not in (None, suffix):
        raise ValueError(f"{path} would hold {given}: let its name end with .{given}.")
    if suffix not in known and given is None:
        raise ValueError(
            f"{path}: expected a name that ends with {_listed(known)}. Rename it, or say what it "
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
    """Tell whether a file is named or begins as one of vectors, or is empty."""
    if path.suffix.lower().removeprefix(".") in get_args(OutputFormat):
        return True
    with path.open("rb") as file:
        start = file.read(6)
    return not start or start.startswith((b"\x93NUMPY", b"PAR1"))


def _listed(suffixes: tuple[str, ...]) -> str:
    """Suffixes as text: ".a, .b or .c"."""
    dotted = [f".{suffix}" for suffix in suffixes]
    return " or ".join([", ".join(dotted[:-1]), dotted[-1]])
