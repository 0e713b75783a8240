"""The files of a saved index: written with checksums, and checked in full before they are used.

A search follows numbers of one file into another, and both are mapped into memory: a wrong number
would end the process, or silently find the wrong texts.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.arguments import require
from st_static.files import npy_header, read_arrow, write_json
from st_static.foreign_files import check_regular, read_object
from st_static.model.replacement import check_output_folder, present, steady
from st_static.model.table import StoredArray, stored_arrays
from st_static.search.word_index import Stemmer, WordIndex
from st_static.texts import arrow
from st_static.threads import Workers

_FORMAT = 6  # raise it when older indexes cannot be read any more, or have other words
HEADER, ARRAYS, WORDS, ROWS = "index.json", "arrays.safetensors", "words.arrow", "rows.arrow"
HALVES = "first_halves.npy", "second_halves.npy"
_CHECKED = (*HALVES, ARRAYS, WORDS, ROWS)
FILES = {HEADER, *_CHECKED}
_KINDS = {  # the formats and axes of arrays
    "probes": ("float32", 2),
    "scales": ("float32", 1),
    "tails": ("float32", 1),
    "starts": ("int64", 1),
    "texts": ("int32", 1),
    "weights": ("float32", 1),
}
_FINITE = float(np.finfo(np.float32).max)
_READ = 2**20  # bytes at a time


class Parts(NamedTuple):
    """What an index holds beside its model; see `SearchIndex`."""

    rows: pa.Table
    first: NDArray[np.uint8]
    second: NDArray[np.uint8]
    scales: NDArray[np.float32]
    tails: NDArray[np.float32]
    words: WordIndex
    probes: tuple[list[str], NDArray[np.float32]]


class _File(msgspec.Struct):
    bytes: int
    crc32: int


class _Header(msgspec.Struct):
    """The header without its own checksum."""

    format: int
    model: str
    probes: list[str]
    stemmer: Stemmer | None  # of the words
    files: dict[str, _File]


def check_index_folder(folder: Path) -> None:
    """Check that an index may be written into a folder."""
    check_output_folder(folder, HEADER, "a search index", lambda header: bool(_read_header(header)))


def write_header(folder: Path, model: str, probes: list[str], stemmer: Stemmer | None) -> None:
    """Write the header of an index whose other files are written."""
    files = {
        name: _File((folder / name).stat().st_size, _crc32(folder / name)) for name in _CHECKED
    }
    header = msgspec.to_builtins(_Header(_FORMAT, model, probes, stemmer, files))
    write_json(folder / HEADER, {**header, "crc32": _crc32_of(header)})


@steady
def read_index(folder: Path, threads: int) -> tuple[str, Parts]:
    """Read the name of an index's model, and map the rest; a ValueError if it is damaged."""
    current = present(folder)
    header = _read_header(current / HEADER)
    if not header:
        if (current / HALVES[0]).exists():
            raise ValueError(
                f"The index {folder} is broken: {HEADER} cannot be read. Remove the folder, and "
                "build the index again."
            )
        raise ValueError(
            f"There is no index in {folder}. Build one first: st-static search MODEL --input FILE "
            f"--index {folder}."
        )
    if type(header["format"]) is int and header["format"] != _FORMAT:
        raise ValueError(
            f"The index {folder} has the format {header['format']} of another release; this one "
            f"reads {_FORMAT}. Build it again."
        )
    try:
        return str(header["model"]), _read_parts(current, header, threads)
    except (OSError, ValueError, LookupError, TypeError, OverflowError, pa.ArrowException) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"The index {folder} is broken ({reason}). Build it again.") from error


def _read_header(file: Path) -> dict[str, Any]:
    """Read the header of an index of any format; empty if the file is not one."""
    try:
        header = read_object(file, dict)
    except (OSError, ValueError):
        return {}
    return header if {"format", "model", "probes"} <= set(header) else {}


def _read_parts(folder: Path, header: dict[str, Any], threads: int) -> Parts:
    """Check the files of an index, map its parts, and check these, too, since the program that
    wrote them may have erred."""
    facts = {name: value for name, value in header.items() if name != "crc32"}
    require(header.get("crc32") == _crc32_of(facts), f"{HEADER} has changed since it was written")
    facts = msgspec.convert(facts, _Header)
    require(set(facts.files) == set(_CHECKED), f"{HEADER} names other files")

    def check(name: str) -> None:
        size, expected = check_regular(folder / name), facts.files[name]
        message = f"{name} has {size:,} bytes instead of {expected.bytes:,}"
        require(size == expected.bytes, message)
        changed_message = f"{name} has changed since it was written"
        require(_crc32(folder / name) == expected.crc32, changed_message)

    with Workers(threads) as pool:
        list(pool.map(check, _CHECKED))
    arrays = {name: array.map() for name, array in stored_arrays(folder / ARRAYS).items()}
    kinds = {name: (str(array.dtype), array.ndim) for name, array in arrays.items()}
    require(kinds == _KINDS, "its numbers have other formats")
    rows = read_arrow(folder / ROWS)
    rows.validate(full=True)
    n, dimension = len(rows), arrays["probes"].shape[1]
    middle = -(-dimension // 2)
    first, second = (
        _mapped(folder / name, (n, width))
        for name, width in zip(HALVES, (middle, dimension - middle), strict=True)
    )
    sizes = len(arrays["scales"]), len(arrays["tails"]), len(arrays["probes"])
    require(sizes == (n, n, len(facts.probes)), "its parts differ in length")
    ranges = {"probes": (-_FINITE, _FINITE), "scales": (0, 1), "tails": (0, 1.001)}
    _check_ranges(arrays, ranges)
    shortest = arrays["scales"][arrays["scales"] > 0].min(initial=1)  # of rows of up to 127
    message = "its scales are not those of its vectors"
    require(shortest * 128 * dimension**0.5 >= 1, message)
    words = replace(_read_words(read_arrow(folder / WORDS), arrays, n), stemmer=facts.stemmer)
    probes = facts.probes, arrays["probes"]
    scales, tails = arrays["scales"], arrays["tails"]
    return Parts(rows, first, second, scales=scales, tails=tails, words=words, probes=probes)


def _read_words(table: pa.Table, arrays: dict[str, NDArray[Any]], n_texts: int) -> WordIndex:
    """Check the words of an index, and the numbers that lead from them to texts."""
    table.validate(full=True)
    column = table["word"]
    words = column.chunk(0) if column.num_chunks else column.combine_chunks()
    starts, texts, weights = (arrays[name] for name in ("starts", "texts", "weights"))
    is_text = words.type == arrow.LARGE_STRING and not words.null_count
    require(is_text and column.num_chunks < 2, "its words have another format")
    fits = len(words) == len(starts) - 1 and len(texts) == len(weights)
    require(fits, "its parts differ in length")
    is_sorted = pc.all(pc.greater(words[1:], words[:-1]), min_count=0).as_py()
    require(is_sorted, "its words are not in order")
    in_order = starts[0] == 0 and starts[-1] == len(texts) and bool((np.diff(starts) >= 0).all())
    require(in_order, "its words overlap, or some are missing")
    _check_ranges(arrays, {"texts": (0, n_texts - 1), "weights": (0, _FINITE)})
    return WordIndex(words, starts, texts, weights, n_texts)


def _check_ranges(arrays: dict[str, NDArray[Any]], ranges: dict[str, tuple[float, float]]) -> None:
    """Check that numbers are finite, and neither too small nor too large."""
    for name, (least, most) in ranges.items():
        array = arrays[name]
        # NaN is neither.
        fits = array.min(initial=least) >= least and array.max(initial=most) <= most
        require(bool(fits), f"its {name} are not all from {least:g} to {most:g}")


def _mapped(file: Path, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Map bytes in a .npy file, [rows, width], without trusting its header."""
    offset = len(npy_header(*shape, np.uint8))
    fits = file.stat().st_size == offset + shape[0] * shape[1]
    require(fits, "its parts differ in length")
    return StoredArray(file, file.name, "U8", offset, list(shape)).map()


def _crc32_of(facts: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


def _crc32(file: Path) -> int:
    """Compute the checksum of a file.

    CRC-32 notices any flipped bit, and is the fastest in Python's own library: on a processor with
    instructions for both, 2.2 GB a second, and SHA-256 1.5; without them, 1 and 0.4. It detects
    damage, but not manipulation.
    """
    value = 0
    with file.open("rb") as stream:
        while part := stream.read(_READ):
            value = zlib.crc32(part, value)
    return value
