"""Word vectors in text files, as GloVe, fastText and others publish them."""

from __future__ import annotations

import contextlib
import functools
import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import SPECIAL_TOKENS
from st_static.model.vector_lines import (
    Header,
    LineError,
    dimension_of,
    parse_lines,
    read_header,
)
from st_static.model.word_tokenizer import KnownWords
from st_static.progress import progress_bar
from st_static.tokens.ragged import Ragged

_GZIP, _ZIP, _EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BYTES_AT_A_TIME = 1 << 24
# No text has these; what is binary, compressed or UTF-16 soon has one.
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BYTES_LOOKED_THROUGH = 1000
_Lines = IO[bytes] | gzip.GzipFile


class LeftOut(NamedTuple):
    """A row that was left out.

    Attributes:
        word: Its word.
        line: Its line in the file, from 1.
    """

    word: str
    line: int


@dataclass(frozen=True)
class WordVectors:
    """Words with their vectors.

    Attributes:
        words: Distinct words, in the order of the file, [V].
        table: The vectors, [V, D].
        repeated: Further rows of words that came before.
        reserved: Rows of `[PAD]` and `[UNK]`, which have zeros.
        dotless_i: Whether the words are in languages such as Turkish, if that is known; see
            `normalization_of`.
    """

    words: Sequence[str]
    table: NDArray[np.float32]
    repeated: Sequence[LeftOut] = ()
    reserved: Sequence[LeftOut] = ()
    dotless_i: bool | None = None

    @functools.cached_property
    def known(self) -> KnownWords:
        """What finds the words in texts."""
        return KnownWords(self.words, self.dotless_i)

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Rows of each text's known words, [B rows]."""
        return self.known(texts)

    def as_static_model(self, name: str = "") -> StaticModel:
        """The same with a tokenizer of `tokenizers`; what is no known word has a row of zeros."""
        n_special, places = len(SPECIAL_TOKENS), self.known.places
        table = np.zeros((n_special + len(places), self.table.shape[1]), np.float32)
        # With "raise" there would be a second copy of a gigabyte, perhaps.
        np.take(self.table, places, axis=0, out=table[n_special:], mode="clip")
        return StaticModel(self.known.tokenizer, table, normalize=False, name=name)


def read_word_vectors(file: Path, limit: int | None = None) -> WordVectors:
    """Read a text file of a word and its numbers a line, also compressed with gzip or zip.

    The first line may have the number of words and the dimension, as word2vec's and fastText's
    files do. Of a repeated word the first vector is kept; rows of `[PAD]` and `[UNK]` are left
    out, for unknown words have zeros. A bar shows the progress at a terminal.

    Args:
        file: The file.
        limit: Only so many rows, the first, are read.

    Raises:
        ValueError: The file is missing, empty or broken, all vectors are zero, or something is
            wrong with a line, which is named.
    """
    if not file.is_file():
        raise ValueError(f"There is no file {file}. Expected text vectors, a word a line.")
    reader = _Reader(file, limit)
    try:
        with file.open("rb") as raw, _unpacked(raw, file) as lines:
            for block in _with_bar(_blocks(lines), raw, file):
                if not reader.take(block):
                    break
    except NotImplementedError as error:  # of zip
        raise ValueError(f"{file} cannot be unpacked here ({error}). Unpack it.") from error
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        behind = f" behind line {reader.n_lines}" if reader.n_lines else ""
        raise ValueError(
            f"{file} is a broken or cut off archive{behind} ({error}). Copy it again."
        ) from error
    return reader.result()


class _Reader:
    """Takes the lines of a file, block by block.

    Args:
        file: Where they are from.
        limit: How many rows are taken.
    """

    def __init__(self, file: Path, limit: int | None) -> None:
        self.n_lines = 0
        self._file, self._limit = file, limit
        self._header: Header | None = None
        self._n_rows = 0
        self._words = dict.fromkeys(SPECIAL_TOKENS)
        self._left_out: list[LeftOut] = []
        self._table = np.empty((0, 0), np.float32)

    def take(self, block: bytes) -> bool:
        """Take whole lines.

        Returns:
            Whether more are wanted.

        Raises:
            ValueError: Something is wrong with one; it is named.
        """
        if self.n_lines == 0:
            self._check_is_text(block)
            block = self._without_header(block.removeprefix(_BYTE_ORDER_MARK))
        if self._limit is not None:
            block = _first_lines(block, self._limit - self._n_rows)
        if block:
            self._add(block)
        return self._limit is None or self._n_rows < self._limit

    def _check_is_text(self, begin: bytes) -> None:
        if _CONTROL_CHARACTER.search(begin, 0, _BYTES_LOOKED_THROUGH):
            raise ValueError(
                f"{self._file} is no text in UTF-8, but binary, or compressed in a way that is not "
                "read. Unpack it, or save it as text in UTF-8."
            )

    def _without_header(self, block: bytes) -> bytes:
        first, _, rest = block.partition(b"\n")
        self._header = read_header(first)
        if self._header is None:
            return block
        self.n_lines = 1
        return rest

    def _add(self, block: bytes) -> None:
        if not self._n_rows:
            self._table = np.empty((0, self._dimension_of(block)), np.float32)
        try:
            words, vectors = parse_lines(block, self._table.shape[1])
        except LineError as error:
            raise self._error(error.row, str(error)) from error
        is_new = np.ones(len(words), np.bool_)
        for row, word in enumerate(words):
            if word in self._words:
                is_new[row] = False
                self._left_out.append(LeftOut(word, self.n_lines + row + 1))
            self._words[word] = None
        start = len(self._table)
        # In place: the system moves a large array without copying it.
        self._table.resize((start + int(is_new.sum()), vectors.shape[1]), refcheck=False)
        self._table[start:] = vectors[is_new]
        self.n_lines += len(words)
        self._n_rows += len(words)

    def _dimension_of(self, block: bytes) -> int:
        """How many numbers the first row has."""
        first = block.partition(b"\n")[0]
        found = dimension_of(first)
        if not found:
            shown = first[:40].decode(errors="replace")
            raise self._error(0, f"expected a word and numbers behind it, but got {shown!r}")
        if self._header and self._header.dimension != found:
            said = f"the header promises {self._header.dimension} numbers a word"
            raise self._error(0, f"{said}, but here are {found}")
        return found

    def result(self) -> WordVectors:
        """What was taken.

        Raises:
            ValueError: There was nothing or zeros only, or less or more than the header says.
        """
        if not len(self._table):
            raise ValueError(f"{self._file} holds no word vectors.")
        said = self._header.n_words if self._header else self._n_rows
        is_all = self._limit is None or self._n_rows < self._limit
        if self._n_rows > said or (is_all and self._n_rows < said):
            found = f"{self._n_rows:,}" if is_all else "more"
            raise ValueError(
                f"{self._file}, line 1: the header promises {said:,} words, but there are "
                f"{found}. Copy the file again or, if it is whole, remove that line."
            )
        if not self._table.any():
            raise ValueError(
                f"{self._file}: all numbers of the {len(self._table):,} words that were read are "
                "zero. Expected vectors that tell words apart."
            )
        words = list(self._words)[len(SPECIAL_TOKENS) :]
        repeated = [row for row in self._left_out if row.word not in SPECIAL_TOKENS]
        reserved = [row for row in self._left_out if row.word in SPECIAL_TOKENS]
        return WordVectors(words, self._table, repeated, reserved)

    def _error(self, row: int, reason: str) -> ValueError:
        return ValueError(f"{self._file}, line {self.n_lines + row + 1}: {reason}.")


def _first_lines(block: bytes, n: int) -> bytes:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return block if len(ends) <= n else block[: ends[n - 1] + 1]


def _blocks(lines: _Lines) -> Iterator[bytes]:
    """Whole lines, many at a time, without empty ones at the end of the file."""
    empty = b""
    while block := lines.read(_BYTES_AT_A_TIME):
        block = empty + block + lines.readline()
        rows = block.rstrip(b"\r\n")
        empty = block[len(rows) :].partition(b"\n")[2] if rows else block
        if rows:
            yield rows + b"\n"


def _with_bar(blocks: Iterator[bytes], raw: IO[bytes], file: Path) -> Iterator[bytes]:
    """The blocks, with a bar of how much of the file has been read."""
    shown = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}B, {remaining} left"
    size, reading = file.stat().st_size, f"Reading {file.name}"
    with progress_bar(size, shown, desc=reading, unit_scale=True) as bar:
        for block in blocks:
            bar.update(raw.tell() - bar.n)
            yield block


@contextlib.contextmanager
def _unpacked(raw: IO[bytes], file: Path) -> Iterator[_Lines]:
    """The lines of a file, which may be compressed.

    Raises:
        ValueError: It is an archive of several files, or one with a password.
    """
    begin = raw.read(len(_ZIP))
    raw.seek(0)
    if begin.startswith(_GZIP):
        with gzip.open(raw) as lines:
            yield lines
    elif begin in (_ZIP, _EMPTY_ZIP):
        with zipfile.ZipFile(raw) as archive, archive.open(_only_member(archive, file)) as member:
            yield member
    else:
        yield raw


def _only_member(archive: zipfile.ZipFile, file: Path) -> zipfile.ZipInfo:
    """The one file in an archive, what macOS adds left aside."""
    members = [m for m in archive.infolist() if not m.is_dir() and "__MACOSX/" not in m.filename]
    names = ", ".join(member.filename for member in members[:10]) or "none"
    if len(members) != 1:
        raise ValueError(
            f"{file} holds {len(members)} files: expected one, but found {names}. Unpack it, and "
            "give one of them."
        )
    if members[0].flag_bits & 1:
        raise ValueError(f"{file} is encrypted. Unpack it, and give the file {names}.")
    return members[0]
