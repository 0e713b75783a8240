"""Files of text: which there are, how much they hold, and the documents in them."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from glob import glob
from pathlib import Path
from typing import IO, cast

import pyarrow as pa

from st_static.encode.file_names import decompressed, split_name
from st_static.texts.columns import holds_text, strings_of

_FORMATS = (".txt", ".jsonl", ".parquet")
_COMPRESSION = 5  # of text, for an estimate
_BUFFER = 2**18  # of bytes; lzma and gzip are slow when asked line by line


def find_files(
    patterns: list[str], option: str = "corpus.files", formats: Sequence[str] = _FORMATS
) -> list[Path]:
    """Expand paths, glob patterns and folders into a sorted list of files.

    A folder stands for all files of known formats in it, and in the folders in it.

    Args:
        patterns: The paths and patterns.
        option: Where they are from, for messages.
        formats: The formats that can be read there.

    Raises:
        ValueError: A pattern matches no file, or a file is of an unknown format.
    """
    files: list[Path] = []
    for pattern in patterns:
        if Path(pattern).is_dir():
            files.extend(_files_in(Path(pattern), option, formats))
            continue
        literal = [pattern] if Path(pattern).is_file() else glob(pattern, recursive=True)
        matches = [Path(p) for p in literal if Path(p).is_file()]
        if not matches:
            raise ValueError(f"{option}: no file matches {pattern!r}. Check the path.")
        files.extend(matches)
    for file in files:
        if format_of(file) not in formats:
            raise ValueError(
                f"{option}: {file} is not {_listed(formats)}. Convert it, or leave it out of the "
                "pattern."
            )
    return sorted(set(files))


def _listed(formats: Sequence[str]) -> str:
    """Formats in words, with how they may be compressed."""
    packed = " and ".join(format_ for format_ in formats if format_ != ".parquet")
    return f"{' or '.join(formats)} ({packed} also with .gz, .xz or .zst)"


def _files_in(folder: Path, option: str, formats: Sequence[str]) -> list[Path]:
    """The files of known formats in a folder, at any depth; hidden ones are left out."""
    found = [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and format_of(path) in formats
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    if not found:
        raise ValueError(
            f"{option}: the folder {folder} holds no file of the format {_listed(formats)}. Check "
            "the path."
        )
    return found


def format_of(file: Path) -> str:
    """The format that a file's name says, with its dot, such as ".txt"."""
    suffix, compression = split_name(file)
    return "" if suffix == "parquet" and compression else f".{suffix}"


def text_bytes(file: Path) -> int:
    """About how much text a file holds."""
    return file.stat().st_size * (_COMPRESSION if split_name(file)[1] else 1)


def read_files(
    files: Sequence[Path], column: str, undecodable: Callable[[str], None]
) -> Iterator[str]:
    """Read the documents of files, in their order.

    Args:
        files: Files of known formats.
        column: Column or key that holds the text, in .jsonl or .parquet.
        undecodable: Is told the path of a file that is not UTF-8, maybe several times; its
            undecodable bytes are replaced.

    Raises:
        ValueError: A file is damaged, or has no such column.
    """
    for file in files:
        with reading(file):
            yield from _read_file(file, column, undecodable)


def _read_file(file: Path, column: str, undecodable: Callable[[str], None]) -> Iterator[str]:
    format_ = format_of(file)
    if format_ == ".parquet":
        yield from _read_parquet(file, column)
        return
    with file.open("rb") as stream, decompressed(stream, split_name(file)[1]) as whole:
        lines = io.BufferedReader(cast("io.RawIOBase", whole), _BUFFER)
        for number, text in enumerate(_decode_lines(lines, file, undecodable), 1):
            if format_ == ".txt":
                yield text
            elif text.strip():
                document = _json_text(text, column, file, number)
                if document is not None:
                    yield document


def _decode_lines(
    lines: IO[bytes], file: Path, undecodable: Callable[[str], None]
) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            undecodable(str(file))
            yield line.decode("utf-8", errors="replace")


@contextlib.contextmanager
def reading(file: Path) -> Iterator[None]:
    """Say which file it is that cannot be read to its end.

    Raises:
        ValueError: It is damaged, or of another kind.
    """
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError, pa.ArrowInvalid) as error:
        raise ValueError(
            f"{file} cannot be read ({error}): it is damaged, or no {file.suffix} file."
        ) from error


def _read_parquet(file: Path, column: str) -> Iterator[str]:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(file)
    if column not in parquet.schema_arrow.names:
        raise missing_column(column, str(file), parquet.schema_arrow.names)
    kind = parquet.schema_arrow.field(column).type
    if not holds_text(kind):
        raise ValueError(f"Expected text in the column {column!r} of {file}, but it holds {kind}.")
    for batch in parquet.iter_batches(columns=[column]):
        texts = strings_of(batch.column(0)).to_pylist()
        yield from (text for text in texts if text is not None)


def _json_text(line: str, key: str, file: Path, number: int) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}, line {number} is not JSON ({error}). Mend it.") from error
    if isinstance(value, dict) and key in value and value[key] is None:
        return None
    if isinstance(value, dict) and key in value and not isinstance(value[key], str):
        raise ValueError(
            f"{file}, line {number}: expected a text as {key!r}, but got {repr(value[key])[:60]}. "
            "Set corpus.text_column to the key that holds the text, or mend the line."
        )
    if not isinstance(value, dict) or key not in value:
        found = list(value) if isinstance(value, dict) else [type(value).__name__]
        raise missing_column(key, f"{file}, line {number}", found)
    # JSON may spell half of a surrogate pair, which is not text.
    return str(value[key]).encode("utf-8", "replace").decode("utf-8")


def missing_column(column: str, source: str, found: list[str]) -> ValueError:
    """The error that a source of text has no such text column."""
    return ValueError(
        f"Expected a text {column!r} in {source}, but it holds {found}. Set corpus.text_column to "
        "the one that holds the text."
    )
