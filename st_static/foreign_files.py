"""Read files of unknown origin: only if they are what is expected, and in bounded memory.

JSON is read into msgspec types: pydantic takes ten times as long to import, a good part of the
time to a model's first vector.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

# Larger than any JSON file of a model but its tokenizer.
MOST_BYTES = 10_000_000
# Bytes of a sparse file that were never written; even a table with many zeros has none.
_MOST_IN_HOLES = 1_000_000_000
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

Shape = TypeVar("Shape")


def check_regular(file: Path) -> int:
    """Check, before opening it, that a file is a regular one (a pipe would wait for its writer) and
    return its size. A sparse file would fill the memory with zeros: at most 1 GB may be holes."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise ValueError(f"Expected a regular file, but {file} is {kind}. Copy the file itself.")
    size = status.st_size
    if size <= _MOST_IN_HOLES or not hasattr(os, "SEEK_HOLE"):  # as on Windows
        return size
    # Not by `st_blocks`: compression makes it less, and some file systems state it late or never.
    in_holes = position = 0
    with file.open("rb") as stream, suppress(OSError):  # the file system may not know of holes
        while position < size and in_holes <= _MOST_IN_HOLES:
            hole = os.lseek(stream.fileno(), position, os.SEEK_HOLE)
            try:
                position = os.lseek(stream.fileno(), hole, os.SEEK_DATA)
            except OSError:  # no data follows
                position = size
            in_holes += position - hole
    if in_holes > _MOST_IN_HOLES:
        raise ValueError(
            f"{file} is a sparse file: more than {_MOST_IN_HOLES:,} of its {size:,} bytes were "
            "never written. Copy or build it again."
        )
    return size


def read_bounded(file: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes; errors as of `check_regular`."""
    size = check_regular(file)
    if size > most:
        raise ValueError(
            f"{file} has {size:,} bytes, but expected at most {most:,}. It is not read: copy it "
            "again."
        )
    return file.read_bytes()


def read_as(file: Path, shape: type[Shape], most: int = MOST_BYTES) -> Shape:
    """Read a JSON file of a declared msgspec type; a ValueError names a key of another shape."""
    return parse(read_bounded(file, most), shape, file)


def parse(content: bytes, shape: type[Shape], name: str | Path) -> Shape:
    """Parse the JSON content of a named file into a declared shape, as `read_as` does."""
    with _naming(name, content):
        return msgspec.json.decode(content, type=shape)


def read_object(file: Path, shape: type, most: int = MOST_BYTES) -> dict[str, Any]:
    """Read all keys of a JSON object, of which some are declared, as `read_as`; NaN is allowed."""
    content = read_bounded(file, most)
    with _naming(file, content):
        value: dict[str, Any] = json.loads(content.decode())
        msgspec.convert(value, shape)
        return value


@contextmanager
def _naming(name: str | Path, content: bytes) -> Iterator[None]:
    """Turn the libraries' errors into a sentence that names the file and, if known, the key."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise ValueError(
            f"{name} is not as expected: {misfit(error)}. Fix it, or copy it again."
        ) from error
    except RecursionError as error:
        raise ValueError(f"{name} is nested too deeply to be read. Copy it again.") from error
    except ValueError as error:  # from either decoder, or text that is not UTF-8
        reason = str(error)
        if content.startswith(_BYTE_ORDER_MARKS):
            reason = "it begins with a byte order mark: store it as UTF-8 without one"
        raise ValueError(f"{name} is not JSON ({reason}). Fix it, or copy it again.") from error


def misfit(error: msgspec.ValidationError) -> str:
    """Say what msgspec expected and where: expected `str`, got `int` at `prompts[...]`."""
    reason, _, key = str(error).partition(" - at ")
    location = f" at {key.replace('$.', '').replace('$', '')}" if key else ""
    return f"{reason[0].lower()}{reason[1:]}{location}"
