"""The format of a file of texts, and its compression, as its name says."""

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
    """Split off the suffixes of a file's format and of its compression; "" for none.

    Example:
        >>> split_name(Path("a.csv.GZ")), split_name(Path("b.parquet")), split_name(Path("c"))
        (('csv', 'gz'), ('parquet', ''), ('', ''))
    """
    suffix = path.suffix.lower().removeprefix(".")
    if suffix in _DECOMPRESS:
        return path.with_suffix("").suffix.lower().removeprefix("."), suffix
    return suffix, ""


def decompressed(stream: IO[bytes], compression: str) -> IO[bytes]:
    """Decompress a stream, if it is compressed."""
    if not compression:
        return stream
    return cast("IO[bytes]", io.BufferedReader(_DECOMPRESS[compression](stream), _BUFFER))


def input_format_of(path: Path | None, given: InputFormat | None = None) -> InputFormat:
    """Find the format of a file of texts: the given one, or what its name ends with.

    Standard input, None, is txt by default.

    Raises:
        ValueError: Neither says the format, or Parquet is compressed as a whole.
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
    """List suffixes in words: ".a, .b or .c"."""
    dotted = [f".{suffix}" for suffix in suffixes]
    return " or ".join([", ".join(dotted[:-1]), dotted[-1]])
