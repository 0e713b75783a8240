"""The command `encode`: texts in, vectors out; one file, or many Parquet files."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from st_static.arguments import check_file, has_secrets, require, without_secrets
from st_static.commands.options import MODEL, CommandParser, drop_stdout, named_model
from st_static.encode.scaling import check_unknown
from st_static.hub import whole_path

if TYPE_CHECKING:
    from st_static.encode.encode_files import OutputFormat, Written
    from st_static.texts.file_rows import Rows
    from st_static.texts.text_files import InputFormat, TextReader


_OPTIONS = {
    "input": "File of texts; by default stdin. Or many Parquet files: a folder, or 'a path with "
    "*', here or in an object store (s3://…).",
    "input_format": "txt is one text per line; the others have a column of texts. By default what "
    "the input's name ends with (all but .parquet also before .gz, .xz or .zst); for stdin, txt.",
    "column": "Name of that column; by default text.",
    "quoting": "For CSV and TSV: with none, quotes are text; with double, a cell in double quotes "
    "may hold delimiters and line breaks. By default double, but a cell that looks like several "
    "rows is an error in TSV, and a warning in CSV.",
    "output": "File to write; by default stdout. For many files, a folder, which gets one file for "
    "each, with all columns; files that are there already are left out.",
    "output_format": "npy is one array [N, D]; parquet has the columns text and embedding. By "
    "default what the output's name ends with; for stdout, npy.",
    "dtype": "Number format of the table in memory; vectors of int8 are float32.",
    "null": "A missing text is a row that cannot be read (error) or an empty text.",
    "on_error": "Rows that cannot be read: fail stops at the first; null writes zeros (in Parquet "
    "null), skip leaves them out, and both count them.",
    "unknown": "Texts without any word that the model knows: zero writes zeros, null writes null "
    "(in Parquet), skip leaves their rows out, and all three count them; error stops at the first.",
    "engine": "ray hands many files to a Ray cluster, the one that RAY_ADDRESS names or a new one; "
    "by default this process encodes them.",
}
# The first is the default.
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "input_format": (None, "txt", "jsonl", "csv", "tsv", "parquet"),
    "quoting": (None, "double", "none"),
    "output_format": (None, "npy", "parquet"),
    "dtype": ("float32", "float16", "int8"),
    "null": ("error", "empty"),
    "on_error": ("fail", "null", "skip"),
    "unknown": ("zero", "null", "skip", "error"),
    "engine": (None, "ray"),
}


def run(arguments: Sequence[str]) -> int:
    """Run `encode`."""
    parser = CommandParser(
        prog="st-static encode",
        description="Encode texts with a static model: st-static encode < in.txt > out.npy",
        surplus="--input",
    )
    parser.add_argument("model", nargs="?", help=MODEL)
    for name, about in _OPTIONS.items():
        default, *others = _CHOICES.get(name, (None,))
        choices = [default, *others] if default else others
        about += f" By default {default}." if default else ""
        parser.add_argument(f"--{name}", choices=choices or None, default=default, help=about)
    parser.add_argument(
        "--keep", action="store_true", help="Keep all columns beside the embedding, in Parquet."
    )
    options = parser.read(arguments)
    for name in ("input", "output"):
        require(getattr(options, name) != "", f"Expected a file or folder as --{name}, but got ''.")
    options.model = named_model(options.model)
    is_many = options.input and _names_many(options.input)
    return _encode_folder(options) if is_many else _encode_file(options)


def _names_many(source: str) -> bool:
    """Tell whether an input is a folder, a path with wildcards or an address, and not one file."""
    from st_static.cluster.places import WILDCARDS

    if os.path.exists(source):
        return os.path.isdir(source)
    return "://" in source or source.endswith("/") or bool(WILDCARDS.search(source))


def _encode_file(options: argparse.Namespace) -> int:
    from st_static.encode.encode_files import check_target, output_format_of
    from st_static.texts.text_files import decompressed, input_format_of, split_name

    source = options.input and Path(options.input)
    if options.engine:
        is_there = not source or source.exists()
        require(is_there, f"There is no folder {source}, which --input names.")
        raise ValueError("--engine is for many files: let --input be a Parquet folder.")
    if "://" in (options.output or ""):
        raise ValueError(
            f"--output is {without_secrets(options.output)}, but the vectors of one file go to a "
            "file on a disk; those of a folder of Parquet files can go to an object store."
        )
    target = options.output and Path(options.output)
    if source and not source.is_fifo():
        check_file(source)
    input_format = input_format_of(source, options.input_format)
    if target:
        is_input = source and target.exists() and source.samefile(target)
        require(not is_input, f"{target} is the input: it would be overwritten.")
        check_target(target)
    output_format = output_format_of(target, options.output_format)
    _check_file_options(options, input_format, output_format)
    import pyarrow as pa

    # Arrow's own allocator keeps some 30 MB that were freed.
    pa.set_memory_pool(pa.system_memory_pool())
    from st_static.encode.fast_encoder import FastEncoder
    from st_static.texts.text_files import TextReader

    load = functools.partial(FastEncoder.from_pretrained, options.model, dtype=options.dtype)
    # A reader tells at once what is wrong with a file, but waits for standard input to begin.
    encoder = None if source else load()
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(source.open("rb")) if source else sys.stdin.buffer
        reader = TextReader(
            decompressed(stream, split_name(source)[1] if source else "", str(source)),
            input_format,
            options.column or "text",
            null=options.null,
            on_error=options.on_error,
            keep=options.keep,
            name=str(source or ""),
            quoting=options.quoting,
        )
        encoder = encoder or load()
        start = time.perf_counter()
        out = stack.enter_context(_output(target))
        with contextlib.closing(followed(reader, stream, start)) as rows:
            written = encoder.write(rows, out, output_format, options.unknown)
    print(_summary(written, time.perf_counter() - start, reader, options.unknown), file=sys.stderr)
    return 0


def _check_file_options(
    options: argparse.Namespace, input_format: InputFormat, output_format: OutputFormat
) -> None:
    """Check what would go wrong after the work, or lose what is there."""
    source, target = options.input, options.output
    require(
        not options.quoting or input_format in ("csv", "tsv"),
        f"--quoting is for CSV and TSV, and the input is {input_format}.",
    )
    require(
        options.column is None or input_format != "txt",
        "--column names a column of a table, and the input is txt: say --input_format.",
    )
    require(source or sys.stdin is not None, "Standard input is closed: give --input.")
    require(target or sys.stdout is not None, "Standard output is closed: give --output.")
    require(
        target or not sys.stdout.isatty(),
        "The vectors are binary: send them to a file, > FILE, or give --output.",
    )
    check_unknown(options.unknown, output_format)
    require(
        not options.keep or output_format == "parquet",
        "--keep needs a table to keep columns in: --output FILE.parquet.",
    )


@contextlib.contextmanager
def _output(path: Path | None) -> Iterator[IO[bytes]]:
    """Open the file that vectors go to, which appears when it is whole, or stdout."""
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


def followed(reader: TextReader, source: IO[bytes], start: float) -> Generator[Rows, None, None]:
    """Yield a reader's rows, with a progress bar: by rows of Parquet, else by bytes of the file."""
    from st_static.progress import progress_bar

    of_file = os.fstat(source.fileno())
    size = of_file.st_size if stat.S_ISREG(of_file.st_mode) else None  # of a pipe nobody knows
    total = size if reader.n_rows is None else reader.n_rows
    with_total = "{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
    shown = with_total if total else "[{elapsed}{postfix}]"
    n_texts = 0
    with progress_bar(total, shown) as progress:
        for rows in reader:
            yield rows
            n_texts += len(rows.texts)
            progress.set_postfix_str(_counted(n_texts, time.perf_counter() - start), refresh=False)
            by_bytes = reader.n_rows is None and size is not None
            n_rows = rows.numbers[-1] if len(rows.numbers) else progress.n
            progress.update((source.tell() if by_bytes else n_rows) - progress.n)


def _summary(written: Written, seconds: float, reader: TextReader, unknown: str) -> str:
    report = (*written, reader.n_unread, reader.first_fault)
    said = _reported(report, seconds, reader.on_error, unknown)
    if not (written.rows or written.unknown or reader.n_unread):
        said += f": {reader.name or 'the input'} holds no text"
    n_doubtful, first = reader.doubtful
    if n_doubtful:
        said += (
            f"\nWarning: {_number(n_doubtful, 'row')} of several lines may be several rows each; "
            f"the first: {first}. If quotes are text in this file, say --quoting none; else "
            "--quoting double."
        )
    return said


def _encode_folder(options: argparse.Namespace) -> int:
    """Encode all files of a folder that are not there yet, and print what came of it."""
    _check_folder_options(options)
    from st_static.cluster.parquet_folder import FileReport, FolderEncoder, FolderPair
    from st_static.cluster.places import seen_by_others
    from st_static.progress import progress_bar

    folders = FolderPair.find(options.input, options.output)
    encoder = FolderEncoder(
        whole_path(options.model),
        column=options.column or "text",
        dtype=options.dtype,
        null=options.null,
        on_error=options.on_error,
        unknown=options.unknown,
        threads=1 if options.engine == "ray" else None,
    )
    total = FileReport()
    bar = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} files, {remaining} left{postfix}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(folders.claimed(encoder))
        left = folders.left()
        reports: Iterator[FileReport] = map(encoder, left)
        if options.engine == "ray" and left:
            from st_static.cluster.ray_cluster import ray_cluster

            cluster = stack.enter_context(ray_cluster(on_gpus=False))
            if cluster.dashboard:
                print(f"Ray's dashboard: http://{cluster.dashboard}", file=sys.stderr)
            with seen_by_others(folders.target) as seen:
                cluster.check(functools.partial(encoder.facts, seen))
            reports = cluster.map(encoder, left)
        start = time.perf_counter()
        progress = stack.enter_context(progress_bar(len(left), bar))
        for report in reports:
            total = total.plus(report)
            progress.set_postfix_str(_counted(total.rows, time.perf_counter() - start))
            progress.update()
        seconds = time.perf_counter() - start
    n_there = len(folders.names) - len(left)
    there = f", {n_there:,} there already" if n_there else ""
    print(f"{_number(len(left), 'file')} written{there}", file=sys.stderr)
    print(_reported(total, seconds, options.on_error, options.unknown), file=sys.stderr)
    if gone := folders.without_source():
        print(
            f"Warning: {folders.target.path} holds {len(gone):,} more, whose input is gone, such "
            f"as {gone[0]}. Remove what is not wanted.",
            file=sys.stderr,
        )
    return 0


def _check_folder_options(options: argparse.Namespace) -> None:
    require(options.output is not None, "Many files need a folder to write to: --output DIR.")
    for name in ("input_format", "output_format"):
        is_parquet = getattr(options, name) in (None, "parquet")
        require(is_parquet, f"Many files are Parquet on both sides: leave out --{name}.")
    require(not options.quoting, "Parquet files have no quotes: leave out --quoting.")
    is_on_ray = options.engine == "ray"
    for name in ("input", "output"):
        require(
            not (is_on_ray and has_secrets(getattr(options, name))),
            f"--{name} has credentials in its address, and Ray's dashboard would show them: leave "
            "them out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what other object "
            "stores read, in the environment of each node.",
        )


def _number(n: int, thing: str) -> str:
    """Spell a number of things, as in "1 row" and "2,000 rows"."""
    return f"1 {thing}" if n == 1 else f"{n:,} {thing}s"


def _counted(n_sentences: int, seconds: float) -> str:
    """Count sentences, with the rate if there are several."""
    rate = f", {n_sentences / seconds:,.0f} a second" if n_sentences > 1 else ""
    return _number(n_sentences, "sentence") + rate


def _reported(
    report: tuple[int, int, int, str], seconds: float, on_error: str, unknown: str
) -> str:
    """Say how many rows were written, and what was odd about some; see `FileReport`."""
    rows, n_unknown, n_unread, first_fault = report
    said = _counted(rows, seconds)
    fates = {"skip": ", left out", "null": ", written without a vector"}
    if n_unknown:
        zeros = ": its vector is zeros" if n_unknown == 1 else ": their vectors are zeros"
        said += f"; {_number(n_unknown, 'text')} without a known word{fates.get(unknown, zeros)}"
    if n_unread:
        rows_unread = _number(n_unread, "row")
        said += f"\n{rows_unread} could not be read{fates[on_error]}; the first: {first_fault}"
    return said
