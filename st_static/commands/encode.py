"""The command `encode`: a file of texts into a file of vectors."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from st_static.addresses import without_secrets
from st_static.commands.encode_folder import (
    add_engine,
    counted,
    encode_folder,
    names_many,
    refuse_engine,
    summary,
)
from st_static.commands.options import CommandParser
from st_static.commands.terminal import drop_stdout
from st_static.encode.unknown import check_unknown
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from st_static.encode.encode_files import Written
    from st_static.encode.file_names import OutputFormat
    from st_static.texts.file_names import InputFormat
    from st_static.texts.file_rows import Rows
    from st_static.texts.text_files import TextReader


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="st-static encode",
        description="Encode texts with a static model: st-static encode MODEL < in.txt > out.npy",
        surplus="--input",
    )
    parser.add_argument("model", help="A folder or Hub id of a static model.")
    _add_options_of_files(parser)
    parser.add_argument(
        "--keep",
        action="store_true",
        help="Keep all columns of the input beside the embedding, in Parquet.",
    )
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16", "int8"),
        default="float32",
        help="Number format of the table in memory; by default float32. Vectors are float16 for "
        "float16, and else float32.",
    )
    parser.add_argument(
        "--null",
        choices=("error", "empty"),
        default="error",
        help="Whether a missing text is a row that cannot be read, as it is by default, or an "
        "empty text.",
    )
    parser.add_argument(
        "--on_error",
        choices=("fail", "null", "skip"),
        default="fail",
        help="What becomes of a row that cannot be read: fail, the default, stops at it, null "
        "writes zeros (in Parquet null), skip leaves it out; null and skip count such rows.",
    )
    parser.add_argument(
        "--unknown",
        choices=("zero", "null", "skip", "error"),
        default="zero",
        help="What becomes of a text without any word that the model knows: zero, the default, "
        "writes zeros, null writes null (in Parquet), skip leaves its row out, error stops at it; "
        "zero, null and skip count such texts.",
    )
    add_engine(parser)
    return parser


def _add_options_of_files(parser: CommandParser) -> None:
    parser.add_argument(
        "--input",
        help="File of texts; by default stdin. Or many Parquet files: a folder, or 'a path with "
        "*', here or in an object store (s3://…).",
    )
    parser.add_argument(
        "--input_format",
        choices=("txt", "jsonl", "csv", "tsv", "parquet"),
        help="txt is one text per line; the others have a column of texts. By default what the "
        "input's name ends with (all but .parquet also before .gz, .xz or .zst); of stdin txt.",
    )
    parser.add_argument("--column", help="Name of that column; by default text.")
    parser.add_argument(
        "--quoting",
        choices=("double", "none"),
        help="Of CSV and TSV: with none, quotes are text; with double, a cell in double quotes may "
        "hold delimiters and line breaks. By default double, but a cell that looks like several "
        "rows is an error in TSV, and a warning in CSV.",
    )
    parser.add_argument(
        "--output",
        help="File to write; by default stdout. Of many files a folder, which gets one of each, "
        "with all columns; files that are there already are left out.",
    )
    parser.add_argument(
        "--output_format",
        choices=("npy", "parquet"),
        help="npy is one array [N, D]; parquet has the columns text and embedding. By default "
        "what the output's name ends with; of stdout npy.",
    )


def run(arguments: Sequence[str]) -> int:
    """Run `encode`."""
    options = _parser().read(arguments)
    for name in ("input", "output"):
        if getattr(options, name) == "":
            raise ValueError(f"Expected the name of a file or folder as --{name}, but it is empty.")
    names_column, options.column = options.column is not None, options.column or "text"
    if options.input and names_many(options.input):
        return encode_folder(options)
    refuse_engine(options)
    if "://" in (options.output or ""):
        raise ValueError(
            f"--output is {without_secrets(options.output)}, but the vectors of one file go to a "
            "file on a disk; those of a folder of Parquet files can go to an object store."
        )
    options.input = options.input and Path(options.input)
    options.output = options.output and Path(options.output)
    from st_static.encode.file_names import check_target, output_format_of
    from st_static.texts.file_names import input_format_of

    if options.input and not options.input.exists():
        raise ValueError(f"The input {options.input} does not exist: name a file.")
    input_format = input_format_of(options.input, options.input_format)
    if options.quoting and input_format not in ("csv", "tsv"):
        raise ValueError(f"--quoting is for CSV and TSV, and the input is {input_format}.")
    if names_column and input_format == "txt":
        raise ValueError(
            "--column names a column of a table, and the input is txt, one text per line. Say what "
            "it holds with --input_format."
        )
    if not options.input and sys.stdin is None:
        raise ValueError("Standard input is closed: give --input.")
    if _is_same(options.input, options.output):
        raise ValueError(f"{options.output} is the input: it would be overwritten.")
    if options.output:
        check_target(options.output)
    output_format = output_format_of(options.output, options.output_format)
    _check(options, output_format)
    import pyarrow as pa

    # Arrow's own allocator keeps some 30 MB that were freed.
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.ExitStack() as files:
        source = (
            files.enter_context(options.input.open("rb")) if options.input else sys.stdin.buffer
        )
        print(_encode(source, options, input_format, output_format), file=sys.stderr)
    return 0


def _encode(
    source: IO[bytes],
    options: argparse.Namespace,
    input_format: InputFormat,
    output_format: OutputFormat,
) -> str:
    """Encode a stream; what is said at the end."""
    from st_static.encode.fast_encoder import FastEncoder

    reader = _reader(source, options, input_format)
    ModelName.parse(options.model).require()
    encoder = FastEncoder.from_pretrained(options.model, dtype=options.dtype)
    start = time.perf_counter()
    with (
        _output(options.output) as target,
        contextlib.closing(_followed(reader, source, start)) as rows,
    ):
        written = encoder.write(rows, target, output_format, options.unknown)
    return _summary(written, time.perf_counter() - start, reader, options.unknown)


def _reader(
    source: IO[bytes], options: argparse.Namespace, input_format: InputFormat
) -> TextReader:
    from st_static.texts.file_names import decompressed, split_name
    from st_static.texts.text_files import TextReader

    compression = split_name(options.input)[1] if options.input else ""
    return TextReader(
        decompressed(source, compression),
        input_format,
        options.column,
        options.null,
        options.on_error,
        options.keep,
        str(options.input or ""),
        options.quoting or "auto",
    )


def _check(options: argparse.Namespace, output_format: str) -> None:
    """Check what would go wrong after the work, or lose what is there."""
    if options.output is None and sys.stdout is None:
        raise ValueError("Standard output is closed: give --output.")
    if options.output is None and sys.stdout.isatty():
        raise ValueError("The vectors are binary: send them to a file, > FILE, or give --output.")
    check_unknown(options.unknown, output_format)
    if options.keep and output_format != "parquet":
        raise ValueError("--keep needs a table to keep columns in: --output FILE.parquet.")
    if options.input and not options.input.is_file() and not options.input.is_fifo():
        raise ValueError(f"The input {options.input} is no file: name one.")


def _is_same(one: Path | None, other: Path | None) -> bool:
    """Whether two paths lead to the same file."""
    return bool(one and other and one.exists() and other.exists() and one.samefile(other))


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes]]:
    """Where vectors go to, open in binary mode: a file that appears when it is whole, or stdout."""
    from st_static.files import disk_full, is_disk_full, output_file

    if path:
        with output_file(path) as temporary, temporary.open("wb") as stream:
            yield stream
        return
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        if not is_disk_full(error):
            raise
        drop_stdout()
        raise disk_full("the output (or of temporary files)") from error


def _followed(reader: TextReader, source: IO[bytes], start: float) -> Generator[Rows, None, None]:
    """The rows of a reader, with a progress bar: by rows of Parquet, else by bytes of the file.

    The summary takes the bar's place at its end. Both rates go by the time since `start`.
    """
    from st_static.progress import progress_bar

    of_file = os.fstat(source.fileno())
    size = of_file.st_size if stat.S_ISREG(of_file.st_mode) else None  # of a pipe nobody knows
    total = size if reader.n_rows is None else reader.n_rows
    known = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
    shown = known if total else "[{elapsed}{postfix}]"
    n_texts = 0
    with progress_bar(total, shown) as progress:
        for rows in reader:
            yield rows
            n_texts += len(rows.texts)
            progress.set_postfix_str(counted(n_texts, time.perf_counter() - start), refresh=False)
            by_bytes = reader.n_rows is None and size is not None
            n_rows = rows.numbers[-1] if len(rows.numbers) else progress.n
            progress.update((source.tell() if by_bytes else n_rows) - progress.n)


def _summary(written: Written, seconds: float, reader: TextReader, unknown: str) -> str:
    """What is said at the end."""
    unread = reader.n_unread, reader.first_fault
    said = summary(*written, *unread, seconds, reader.on_error, unknown)
    if not (written.rows or written.unknown or reader.n_unread):
        said += f": {reader.name or 'the input'} holds no text"
    n_doubtful, first = reader.doubtful
    if n_doubtful:
        some = "1 row" if n_doubtful == 1 else f"{n_doubtful:,} rows"
        said += (
            f"\nWarning: {some} of several lines may be several rows each; the first: {first}. If "
            "quotes are text in this file, say --quoting none; else --quoting double."
        )
    return said
