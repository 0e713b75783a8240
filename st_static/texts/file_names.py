"""What the name of a file of texts says: its format, and whether it is compressed."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, Literal, cast, get_args

import pyarrow as pa

InputFormat = Literal["txt", "jsonl", "csv", "tsv", "parquet"]


_DECOMPRESS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gz": gzip.open,
    "xz": lzma.open,
    "zst": lambda stream: pa.CompressedInputStream(stream, "zstd"),
}
_BUFFER = 2**18  # of bytes; all are slow when asked line by line


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
    if not compression:
        return stream
    return cast("IO[bytes]", io.BufferedReader(_DECOMPRESS[compression](stream), _BUFFER))


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
            f"{path}: expected a name that ends with {listed(known)} (all but .parquet also with "
            f"{listed(_DECOMPRESS)} behind). Say what it holds with --input_format."
        )
    found: InputFormat = given or cast("InputFormat", suffix)
    if found == "parquet" and compression:
        raise ValueError(
            f"{path}: Parquet is compressed inside, not as a whole. Decompress the file first."
        )
    return found


def listed(suffixes: Iterable[str]) -> str:
    """Give suffixes as text: ".a, .b or .c"."""
    dotted = [f".{suffix}" for suffix in suffixes]
    return " or ".join([", ".join(dotted[:-1]), dotted[-1]])
