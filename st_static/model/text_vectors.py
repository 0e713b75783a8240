"""Read word vectors from text files, as GloVe, fastText and others publish them; make models."""

from __future__ import annotations

import contextlib
import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.arguments import as_path, check_file, require
from st_static.languages import has_dotless_i
from st_static.model import records
from st_static.model.export import check_output, export_model
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import SPECIAL_TOKENS, KnownWords, capitalised, is_punctuation
from st_static.progress import progress_bar
from st_static.texts import arrow
from st_static.texts.file_rows import checked_text
from st_static.threads import made_once
from st_static.tokens.ragged import Ragged

_GZIP, _ZIP, _EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BYTES_AT_A_TIME = 1 << 24
# Characters that text does not have, unlike binary or compressed data.
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}B, {remaining} left"


class LeftOut(NamedTuple):
    """A row that was left out, and its line in the file, from 1."""

    word: str
    line: int


@dataclass(frozen=True)
class WordVectors:
    """Distinct words, in the order of the file, with their vectors."""

    words: Sequence[str]
    table: NDArray[np.float32]  # [V, D]
    repeated: Sequence[LeftOut] = ()  # further rows of earlier words
    reserved: Sequence[LeftOut] = ()  # rows of `[PAD]` and `[UNK]`, which have zeros
    dotless_i: bool | None = None  # see `normalization_of`

    @made_once
    def known(self) -> KnownWords:
        """The words, prepared to be found in texts."""
        return KnownWords(self.words, self.dotless_i)

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Find the rows of each text's known words, [B rows]."""
        return self.known(texts)

    def as_static_model(self, name: str = "") -> StaticModel:
        """Make a model with a tokenizer of `tokenizers`; unknown words have a row of zeros."""
        n_special, indices = len(SPECIAL_TOKENS), self.known.indices
        table = np.zeros((n_special + len(indices), self.table.shape[1]), np.float32)
        # With mode="raise" there would be a second copy, perhaps of a gigabyte.
        np.take(self.table, indices, axis=0, out=table[n_special:], mode="clip")
        return StaticModel(self.known.tokenizer, table, normalize=False, name=name)


class _LineError(ValueError):
    """An error in a line, counted from 0 in its block."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def read_word_vectors(file: Path, limit: int | None = None) -> WordVectors:
    """Read a file of one word and its numbers per line, also compressed with gzip or zip. The first
    line may have two counts, as of word2vec. The first vector of a repeated word is kept; rows of
    `[PAD]` and `[UNK]` are left out, as unknown words have zeros. Errors name the line."""
    check_file(file, "Expected text vectors, one word per line.")
    n_lines = n_rows = 0
    promised: tuple[int, int] | None = None  # words and dimension in the first line
    seen = dict.fromkeys(SPECIAL_TOKENS)
    left_out: list[LeftOut] = []
    table = np.empty((0, 0), np.float32)
    progress = progress_bar(file.stat().st_size, _BAR, desc=f"Reading {file.name}", unit_scale=True)
    try:
        with file.open("rb") as raw, _unpacked(raw, file) as lines, progress as bar:
            for block in _blocks(checked_text(lines, str(file))):
                bar.update(raw.tell() - bar.n)
                if n_lines == 0:
                    promised = _read_header(block, file)
                    n_lines = int(promised is not None)
                if limit is not None:
                    del block[limit - n_rows :]
                if block and not n_rows:
                    table = np.empty((0, _first_dimension(block[0], promised)), np.float32)
                if block:
                    words, vectors = _parse_lines(block, table.shape[1])
                    new = []
                    for row, word in enumerate(words):
                        if word in seen:
                            left_out.append(LeftOut(word, n_lines + row + 1))
                        else:
                            new.append(row)
                            seen[word] = None
                    start = len(table)
                    # In place: the system can move a large array without copying it.
                    table.resize((start + len(new), vectors.shape[1]), refcheck=False)
                    table[start:] = vectors[new]
                    n_lines, n_rows = n_lines + len(words), n_rows + len(words)
                if n_rows == limit:
                    break
    except _LineError as error:
        raise ValueError(f"{file}, line {n_lines + error.row + 1}: {error}.") from error
    except NotImplementedError as error:  # from zipfile
        raise ValueError(f"{file} cannot be unpacked here ({error}). Unpack it.") from error
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        behind = f" behind line {n_lines}" if n_lines else ""
        raise ValueError(
            f"{file} is a broken or cut off archive{behind} ({error}). Copy it again."
        ) from error
    promised_rows = promised[0] if promised else n_rows
    _check_table(file, table, n_rows, promised_rows, is_all=n_rows != limit)
    repeated = [row for row in left_out if row.word not in SPECIAL_TOKENS]
    reserved = [row for row in left_out if row.word in SPECIAL_TOKENS]
    return WordVectors(list(seen)[len(SPECIAL_TOKENS) :], table, repeated, reserved)


def _check_table(
    file: Path, table: NDArray[np.float32], n_rows: int, promised: int, is_all: bool
) -> None:
    if not len(table):
        raise ValueError(f"{file} holds no word vectors.")
    if n_rows > promised or (is_all and n_rows < promised):
        count = f"{n_rows:,}" if is_all else "more"
        raise ValueError(
            f"{file}, line 1: the header promises {promised:,} words, but there are {count}. Copy "
            "the file again or, if it is whole, remove that line."
        )
    if not table.any():
        raise ValueError(
            f"{file}: all numbers of the {len(table):,} words that were read are zero. Expected "
            "vectors that tell words apart."
        )


# -- from vectors to a model -----------------------------------------------------------


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion."""

    output: Path
    record: records.Conversion
    known: KnownWords
    capitalised: Sequence[str]  # if there are more than a few, texts keep their capitals
    never_found: Sequence[str]  # that no text is split into, see `KnownWords.never_found`
    repeated: Sequence[LeftOut]  # further rows of earlier words
    reserved: Sequence[LeftOut]  # rows of `[PAD]` and `[UNK]`


def convert(
    file: str | Path,
    output: str | Path,
    limit: int | None = None,
    dtype: str = "float32",
    teacher: str | None = None,
    license: str | None = None,
    languages: Sequence[str] = (),
) -> Conversion:
    """Write a file of text vectors as a model that sentence-transformers and Model2Vec load.
    `limit` takes the first rows, mostly those of frequent words. The vectors' `teacher` is an id on
    the Hub; their `languages` have no script and region. After an error nothing is written."""
    file, output = as_path(file, "a file of text vectors"), as_path(output, "a folder to write")
    require(limit is None or limit > 0, f"limit must be at least 1, but got {limit}.")
    check_output(output)
    dotless_i = has_dotless_i(languages) if languages else None
    vectors = replace(read_word_vectors(file, limit), dotless_i=dotless_i)
    model = vectors.as_static_model(file.name)
    known_words, never_found = vectors.known, vectors.known.never_found()
    repeated, reserved, words = vectors.repeated, vectors.reserved, vectors.words
    record = records.Conversion(
        file=file.name,
        limit=limit,
        dtype=dtype,
        words=len(words) - len(known_words.alike),
        dimension=vectors.table.shape[1],
        punctuation=sum(map(is_punctuation, words)),
        **known_words.normalization._asdict(),
        form=known_words.form,
        brought=len(known_words.brought),
        alike=len(known_words.alike),
        spellings=len(known_words.spellings),
        never_found=len(never_found),
        repeated=len(repeated),
        reserved=len(reserved),
        teacher=teacher,
        license=license,
        languages=list(languages),
    )
    if record.never_found == record.words:
        raise ValueError(
            f"No text is split into any of the {record.words:,} words of {file}, such as "
            f"{never_found[0]!r}. Expected words as they stand between spaces."
        )
    done = Conversion(
        output,
        record,
        known_words,
        capitalised(words),
        never_found=never_found,
        repeated=repeated,
        reserved=reserved,
    )
    del vectors  # perhaps a gigabyte, which the model has copied
    versions = {"st-static": metadata.version("st-static")}
    whole = records.Record(conversion=record, versions=versions)
    export_model(output, np.asarray(model.table), model.tokenizer, whole, dtype=dtype)
    return done


# -- from the file to blocks of lines --------------------------------------------------


@contextlib.contextmanager
def _unpacked(raw: IO[bytes], file: Path) -> Iterator[IO[bytes]]:
    """Open a file that may be compressed."""
    begin = raw.read(len(_ZIP))
    raw.seek(0)
    if begin.startswith(_GZIP):
        with gzip.open(raw) as lines:
            yield cast("IO[bytes]", lines)
    elif begin in (_ZIP, _EMPTY_ZIP):
        with zipfile.ZipFile(raw) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            members = [entry for entry in entries if "__MACOSX/" not in entry.filename]
            names = ", ".join(member.filename for member in members[:10]) or "none"
            if len(members) != 1:
                raise ValueError(
                    f"{file} holds {len(members)} files: expected one, but found {names}. Unpack "
                    "it, and give one of them."
                )
            if members[0].flag_bits & 1:
                raise ValueError(f"{file} is encrypted. Unpack it, and give the file {names}.")
            with archive.open(members[0]) as member:
                yield member
    else:
        yield raw


def _blocks(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Read many lines at a time, without empty ones at the end of the file."""
    empty: list[bytes] = []
    while lines := file.readlines(_BYTES_AT_A_TIME):
        lines = empty + [line.rstrip(b"\r\n") for line in lines]
        stop = len(lines)
        while stop and not lines[stop - 1]:
            stop -= 1
        empty = lines[stop:]
        if stop:
            yield lines[:stop]


def _read_header(block: list[bytes], file: Path) -> tuple[int, int] | None:
    """Remove a file's first line if it has only two whole numbers, as word2vec writes it."""
    if _CONTROL_CHARACTER.search(b"\n".join(block)[:1000]):
        raise ValueError(
            f"{file} is not text in UTF-8: it is binary, or compressed in a way that is not read. "
            "Unpack it, or save it as text in UTF-8."
        )
    block[0] = block[0].removeprefix(_BYTE_ORDER_MARK)
    match block[0].split():
        case [n_words, dimension] if n_words.isdigit() and dimension.isdigit():
            del block[0]
            return int(n_words), int(dimension)
    return None


# -- from lines to words and numbers ---------------------------------------------------


def _first_dimension(first: bytes, promised: tuple[int, int] | None) -> int:
    """Count the numbers of the first row."""
    dimension = _count_numbers(first)
    if not dimension:
        shown = first[:40].decode(errors="replace")
        raise _LineError(0, f"expected a word and numbers behind it, but got {shown!r}")
    if promised and promised[1] != dimension:
        said = f"the header promises {promised[1]} numbers per word"
        raise _LineError(0, f"{said}, but here are {dimension}")
    return dimension


def _count_numbers(line: bytes) -> int:
    """Count the numbers at the end of a line, after a word: `1995 1` has the word `1995`."""
    values = line.split()[1:]
    words = [i for i, value in enumerate(values, 1) if not _is_number(value)]
    return len(values) - max(words, default=0)


def _parse_lines(lines: list[bytes], dimension: int) -> tuple[list[str], NDArray[np.float32]]:
    """Parse lines into words, which may hold spaces, and their vectors [n, D]."""
    words, numbers = [], []
    for row, line in enumerate(lines):
        if line[:1].isspace():
            raise _LineError(row, "expected a word at the beginning, but got white space")
        word, *values = line.rsplit(None, dimension) or [b""]
        n_values = len(values)
        if n_values == dimension and len(parts := word.split()) > 1:
            # A word with spaces may hold a number; if it holds as many as a line, it is another.
            n_inside = sum(map(_is_number, parts[1:]))
            if _count_numbers(word) or n_inside >= dimension:
                n_values += n_inside
        if n_values != dimension:
            reason = f"expected {dimension} numbers after the word, but got {n_values}"
            raise _LineError(row, reason)
        words.append(word)
        numbers.append(b" ".join(values))
    try:
        decoded = b"\n".join(words).decode().split("\n")
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start)
        reason = f"the word {words[row]!r} is not UTF-8. Save the file as UTF-8"
        raise _LineError(row, reason) from error
    text = b" ".join(numbers)
    try:
        vectors = _parse_numbers(text).reshape(-1, dimension)
    except pa.ArrowInvalid as error:
        position, value = next(pair for pair in enumerate(text.split()) if not _is_number(pair[1]))
        row, column = divmod(position, dimension)
        shown = value.decode(errors="replace")
        reason = f"expected numbers, but number {column + 1} is {shown!r}"
        raise _LineError(row, reason) from error
    for row, column in np.argwhere(~np.isfinite(vectors))[:1].tolist():
        value = numbers[row].split()[column]
        reason = f"expected finite numbers, but number {column + 1} is {value.decode()}"
        raise _LineError(row, reason)
    return decoded, vectors


def _parse_numbers(text: bytes) -> NDArray[np.float32]:
    """Parse numbers separated by single spaces."""
    whole = arrow.strings_of_bytes(np.array([0, len(text)]), np.frombuffer(text, np.uint8))
    return arrow.numbers(pc.cast(pc.split_pattern(whole, " ").values, pa.float32()))


def _is_number(value: bytes) -> bool:
    """Tell whether Arrow reads bytes as a number."""
    try:
        return len(_parse_numbers(value)) == 1
    except pa.ArrowInvalid:
        return False
