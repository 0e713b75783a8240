"""`st-static encode` of many Parquet files, in this process or on a Ray cluster."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.addresses import has_secrets
from st_static.commands.options import CommandParser
from st_static.hub import whole_path
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from st_static.encode.parquet_folder import FilePair, FileReport, FolderEncoder
    from st_static.encode.places import Place


def add_engine(parser: CommandParser) -> None:
    """Add the options of what runs the work."""
    parser.add_argument(
        "--engine",
        choices=("ray",),
        help="ray hands many files to a Ray cluster; by default this process encodes them.",
    )
    parser.add_argument(
        "--address",
        help="Of the Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT; by default what "
        "RAY_ADDRESS says, or a new one on this machine.",
    )


def names_many(source: str) -> bool:
    """Whether an input is a folder, a path with wildcards or an address, and not one file."""
    from st_static.encode.places import WILDCARDS

    path = Path(source)
    if path.exists():
        return path.is_dir()
    return "://" in source or source.endswith("/") or bool(WILDCARDS.search(source))


def refuse_engine(options: argparse.Namespace) -> None:
    """Refuse an engine for one file.

    Raises:
        ValueError: There is one, or its address.
    """
    for name in ("engine", "address"):
        if getattr(options, name) is not None:
            if options.input and not Path(options.input).exists():
                raise ValueError(f"There is no folder {options.input}, which --input names.")
            raise ValueError(
                f"--{name} is for many files: let --input be a folder of Parquet files."
            )


def encode_folder(options: argparse.Namespace) -> int:
    """Encode all files of a folder that are not there yet, and print what came of it."""
    _check(options)
    from st_static.encode.parquet_folder import FolderEncoder, FolderPair

    folders = FolderPair.find(options.input, options.output)
    ModelName.parse(options.model).require()
    encoder = FolderEncoder(
        whole_path(options.model),
        options.column,
        options.dtype,
        options.null,
        options.on_error,
        options.unknown,
        threads=1 if options.engine == "ray" else None,
    )
    folders.claim(encoder)
    left = folders.left()
    with _engine(options, encoder, left, folders.target) as reports:
        start = time.perf_counter()
        total = _total(reports, len(left), start)
        seconds = time.perf_counter() - start
    n_there = len(folders.names) - len(left)
    there = f", {n_there:,} there already" if n_there else ""
    written = "1 file" if len(left) == 1 else f"{len(left):,} files"
    print(f"{written} written{there}", file=sys.stderr)
    print(summary(*total, seconds, options.on_error, options.unknown), file=sys.stderr)
    if gone := folders.without_source():
        print(
            f"Warning: {folders.target.path} holds {len(gone):,} more, whose input is gone, such "
            f"as {gone[0]}. Remove what is not wanted.",
            file=sys.stderr,
        )
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.output is None:
        raise ValueError("Many files need a folder to write to: --output DIR.")
    for name in ("input_format", "output_format"):
        if getattr(options, name) not in (None, "parquet"):
            raise ValueError(f"Many files are Parquet on both sides: leave out --{name}.")
    if options.quoting:
        raise ValueError("Many files are Parquet, which has no quotes: leave out --quoting.")
    if options.address and options.engine != "ray":
        raise ValueError("--address is that of a Ray cluster: add --engine ray.")
    if options.engine == "ray":
        _refuse_secrets(options)


def _refuse_secrets(options: argparse.Namespace) -> None:
    """Refuse credentials in an address: Ray's dashboard shows the command line to all."""
    for name in ("input", "output"):
        if has_secrets(getattr(options, name)):
            raise ValueError(
                f"--{name} has credentials in its address, and Ray's dashboard would show them: "
                "leave them out, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what "
                "other object stores read, in the environment of each node."
            )


@contextlib.contextmanager
def _engine(
    options: argparse.Namespace, encoder: FolderEncoder, pairs: list[FilePair], output: Place
) -> Iterator[Iterable[FileReport]]:
    """What came of each file, as it comes."""
    if options.engine != "ray" or not pairs:
        yield map(encoder, pairs)
        return
    from st_static.cluster.ray_cluster import ray_cluster
    from st_static.encode.parquet_folder import cluster_facts

    with ray_cluster(options.address, on_gpus=False) as cluster:
        if cluster.dashboard:
            print(f"Ray's dashboard: http://{cluster.dashboard}", file=sys.stderr)
        with cluster_facts(encoder, output) as facts:
            cluster.check(facts)
        yield cluster.map(encoder, pairs)


def _total(reports: Iterable[FileReport], n_files: int, start: float) -> FileReport:
    """What came of all files, with a progress bar."""
    from st_static.encode.parquet_folder import FileReport
    from st_static.progress import progress_bar

    total = FileReport()
    shown = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} files, {remaining} left{postfix}"
    with progress_bar(n_files, shown) as progress:
        for report in reports:
            total = total.plus(report)
            progress.set_postfix_str(counted(total.rows, time.perf_counter() - start))
            progress.update()
    return total


def counted(n_sentences: int, seconds: float) -> str:
    """How many sentences, and how many per second if there are several."""
    if n_sentences < 2:
        return "1 sentence" if n_sentences else "0 sentences"
    return f"{n_sentences:,} sentences, {n_sentences / seconds:,.0f} a second"


def summary(
    rows: int,
    n_unknown: int,
    unread: int,
    first_fault: str,
    seconds: float,
    on_error: str,
    unknown: str,
) -> str:
    """What is said at the end: how many rows were written, and what was odd about some."""
    said = counted(rows, seconds)
    fates = {"skip": ", left out", "null": ", written without a vector"}
    if n_unknown == 1:
        fate = fates.get(unknown, ": its vector is zeros")
        said += f"; 1 text without a known word{fate}"
    elif n_unknown:
        fate = fates.get(unknown, ": their vectors are zeros")
        said += f"; {n_unknown:,} texts without a known word{fate}"
    if unread:
        some = "1 row" if unread == 1 else f"{unread:,} rows"
        said += f"\n{some} could not be read{fates[on_error]}; the first: {first_fault}"
    return said
