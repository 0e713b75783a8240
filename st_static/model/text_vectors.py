"""Read word vectors from text files, as GloVe, fastText and others publish them; make models."""

from __future__ import annotations

import contextlib
import functools
import gzip
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from st_static.arguments import as_path, require
from st_static.languages import has_dotless_i
from st_static.model.export import check_output, export_model
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import SPECIAL_TOKENS, is_punctuation
from st_static.model.word_tokenizer import KnownWords, capitalised
from st_static.progress import progress_bar
from st_static.texts import arrow
from st_static.tokens.ragged import Ragged, offsets_of

_GZIP, _ZIP, _EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE, _TAB, _NEWLINE = b" \t\n"
_BYTES_AT_A_TIME = 1 << 24
# Characters that text does not have, unlike binary, compressed or UTF-16 data.
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_BYTES_LOOKED_THROUGH = 1000
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}B, {remaining} left"


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
        repeated: Further rows of earlier words.
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
        """The words, prepared to be found in texts."""
        return KnownWords(self.words, self.dotless_i)

    def tokenize(self, texts: Sequence[str]) -> Ragged:
        """Find the rows of each text's known words, [B rows]."""
        return self.known(texts)

    def as_static_model(self, name: str = "") -> StaticModel:
        """Make a model with a tokenizer of `tokenizers`; unknown words have a row of zeros."""
        n_special, places = len(SPECIAL_TOKENS), self.known.places
        table = np.zeros((n_special + len(places), self.table.shape[1]), np.float32)
        # With mode="raise" there would be a second copy, perhaps of a gigabyte.
        np.take(self.table, places, axis=0, out=table[n_special:], mode="clip")
        return StaticModel(self.known.tokenizer, table, normalize=False, name=name)


class _LineError(ValueError):
    """An error in a line, counted from 0 in its block."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def read_word_vectors(file: Path, limit: int | None = None) -> WordVectors:
    """Read a text file of a word and its numbers a line, also compressed with gzip or zip.

    The first line may have the number of words and the dimension, as in files of word2vec and
    fastText. The first vector of a repeated word is kept; rows of `[PAD]` and `[UNK]` are left out,
    as unknown words have zeros. A bar shows the progress at a terminal.

    Args:
        file: The file.
        limit: The number of rows that are read, from the first; by default all.

    Raises:
        ValueError: The file is missing, empty or broken, all vectors are zero, or something is
            wrong with a line, which is named.
    """
    if not file.is_file():
        raise ValueError(f"There is no file {file}. Expected text vectors, a word a line.")
    n_lines = n_rows = 0
    promised: tuple[int, int] | None = None  # words and dimension in the first line
    seen = dict.fromkeys(SPECIAL_TOKENS)
    left_out: list[LeftOut] = []
    table = np.empty((0, 0), np.float32)
    progress = progress_bar(file.stat().st_size, _BAR, desc=f"Reading {file.name}", unit_scale=True)
    try:
        with file.open("rb") as raw, _unpacked(raw, file) as lines, progress as bar:
            for block in _blocks(lines):
                bar.update(raw.tell() - bar.n)
                if n_lines == 0:
                    block, promised = _without_header(block, file)
                    n_lines = int(promised is not None)
                if limit is not None:
                    block = _first_lines(block, limit - n_rows)
                if block and not n_rows:
                    table = np.empty((0, _first_dimension(block, promised)), np.float32)
                if block:
                    words, vectors = _parse_lines(block, table.shape[1])
                    is_new = np.ones(len(words), np.bool_)
                    for row, word in enumerate(words):
                        if word in seen:
                            is_new[row] = False
                            left_out.append(LeftOut(word, n_lines + row + 1))
                        seen[word] = None
                    start = len(table)
                    # In place: the system can move a large array without copying it.
                    table.resize((start + int(is_new.sum()), vectors.shape[1]), refcheck=False)
                    table[start:] = vectors[is_new]
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
    _check_table(file, table, n_rows, promised[0] if promised else n_rows, n_rows != limit)
    repeated = [row for row in left_out if row.word not in SPECIAL_TOKENS]
    reserved = [row for row in left_out if row.word in SPECIAL_TOKENS]
    return WordVectors(list(seen)[len(SPECIAL_TOKENS) :], table, repeated, reserved)


def _check_table(
    file: Path, table: NDArray[np.float32], n_rows: int, promised: int, is_all: bool
) -> None:
    if not len(table):
        raise ValueError(f"{file} holds no word vectors.")
    if n_rows > promised or (is_all and n_rows < promised):
        found = f"{n_rows:,}" if is_all else "more"
        raise ValueError(
            f"{file}, line 1: the header promises {promised:,} words, but there are {found}. Copy "
            "the file again or, if it is whole, remove that line."
        )
    if not table.any():
        raise ValueError(
            f"{file}: all numbers of the {len(table):,} words that were read are zero. Expected "
            "vectors that tell words apart."
        )


# -- a model of them -------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """The origin of text vectors, which is not in their file.

    Attributes:
        teacher: The Hub id of the model that they were distilled from, if they were.
        license: Their licence, as the Hub calls it.
        languages: Their languages, without script and region.
    """

    teacher: str | None = None
    license: str | None = None
    languages: Sequence[str] = ()


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        output: The model's folder.
        n_words: Number of words with a row, V.
        dimension: Dimension D of the vectors.
        n_punctuation: Number of the words that are punctuation.
        known: Finds the words in texts.
        capitalised: Words with capitals; if there are more than a few, texts keep their capitals.
        never_found: Words that no text is split into, see `KnownWords.never_found`.
        repeated: Further rows of earlier words, which were left out.
        reserved: Rows of `[PAD]` and `[UNK]`, which were left out.
    """

    output: Path
    n_words: int
    dimension: int
    n_punctuation: int
    known: KnownWords
    capitalised: Sequence[str]
    never_found: Sequence[str]
    repeated: Sequence[LeftOut]
    reserved: Sequence[LeftOut]


def convert(
    file: str | Path,
    output: str | Path,
    limit: int | None = None,
    dtype: str = "float32",
    source: Source | None = None,
) -> Conversion:
    """Write a file of text vectors as a model that sentence-transformers and Model2Vec load.

    Args:
        file: The text vectors, see `read_word_vectors`.
        output: The model's folder, see `export_model`.
        limit: The number of rows that are taken, from the first: in most files, those of the most
            frequent words; by default all.
        dtype: Number format of the table, "float32" or "float16".
        source: The origin of the vectors.

    Raises:
        ValueError: Something is wrong with the file or the folder. Nothing is written.
    """
    file, output = as_path(file, "a file of text vectors"), as_path(output, "a folder to write")
    require(limit is None or limit > 0, f"limit must be at least 1, but got {limit}.")
    check_output(output)
    source = source or Source()
    dotless_i = has_dotless_i(source.languages) if source.languages else None
    vectors = replace(read_word_vectors(file, limit), dotless_i=dotless_i)
    model = vectors.as_static_model(file.name)
    known, words = vectors.known, vectors.words
    done = Conversion(
        output,
        n_words=len(words) - len(known.alike),
        dimension=vectors.table.shape[1],
        n_punctuation=sum(map(is_punctuation, words)),
        known=known,
        capitalised=capitalised(words),
        never_found=known.never_found(),
        repeated=vectors.repeated,
        reserved=vectors.reserved,
    )
    if len(done.never_found) == done.n_words:
        raise ValueError(
            f"No text is split into any of the {done.n_words:,} words of {file}, such as "
            f"{done.never_found[0]!r}. Expected words as they stand between spaces."
        )
    del vectors  # perhaps a gigabyte, which the model has copied
    facts = {
        "file": file.name,
        "limit": limit,
        "dtype": dtype,
        "words": done.n_words,
        "dimension": done.dimension,
        "punctuation": done.n_punctuation,
        **known.normalization._asdict(),
        "form": known.form,
        "brought": len(known.brought),
        "alike": len(known.alike),
        "spellings": len(known.spellings),
        "never_found": len(done.never_found),
        "repeated": len(done.repeated),
        "reserved": len(done.reserved),
        **asdict(source),
    }
    record = {"conversion": facts, "versions": {"st-static": metadata.version("st-static")}}
    export_model(output, np.asarray(model.table), model.tokenizer, record, dtype)
    return done


# -- from the file to blocks of lines --------------------------------------------------


@contextlib.contextmanager
def _unpacked(raw: IO[bytes], file: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open a file that may be compressed."""
    begin = raw.read(len(_ZIP))
    raw.seek(0)
    if begin.startswith(_GZIP):
        with gzip.open(raw) as lines:
            yield lines
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


def _blocks(lines: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Read many whole lines at a time, without empty ones at the end of the file."""
    empty = b""
    while block := lines.read(_BYTES_AT_A_TIME):
        block = empty + block + lines.readline()
        rows = block.rstrip(b"\r\n")
        empty = block[len(rows) :].partition(b"\n")[2] if rows else block
        if rows:
            yield rows + b"\n"


def _without_header(block: bytes, file: Path) -> tuple[bytes, tuple[int, int] | None]:
    """Remove a file's first line if it has only two whole numbers, as word2vec writes it."""
    if _CONTROL_CHARACTER.search(block, 0, _BYTES_LOOKED_THROUGH):
        raise ValueError(
            f"{file} is no text in UTF-8, but binary, or compressed in a way that is not read. "
            "Unpack it, or save it as text in UTF-8."
        )
    block = block.removeprefix(_BYTE_ORDER_MARK)
    first, _, rest = block.partition(b"\n")
    match first.split():
        case [n_words, dimension] if n_words.isdigit() and dimension.isdigit():
            return rest, (int(n_words), int(dimension))
    return block, None


def _first_lines(block: bytes, n: int) -> bytes:
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
    return block if len(ends) <= n else block[: ends[n - 1] + 1]


# -- from lines to words and numbers ---------------------------------------------------


def _first_dimension(block: bytes, promised: tuple[int, int] | None) -> int:
    """Count the numbers of the first row."""
    first = block.partition(b"\n")[0]
    found = _count_numbers(first)
    if not found:
        shown = first[:40].decode(errors="replace")
        raise _LineError(0, f"expected a word and numbers behind it, but got {shown!r}")
    if promised and promised[1] != found:
        said = f"the header promises {promised[1]} numbers a word"
        raise _LineError(0, f"{said}, but here are {found}")
    return found


def _count_numbers(line: bytes) -> int:
    """Count the numbers at the end of a line, after a word, which may be a number itself.

    Example:
        >>> _count_numbers(b"new york 0.5 1"), _count_numbers(b"1995 1"), _count_numbers(b"a b")
        (2, 1, 0)
    """
    values = line.split()[1:]
    words = [i for i, value in enumerate(values, 1) if not _is_number(value)]
    return len(values) - max(words, default=0)


def _parse_lines(block: bytes, dimension: int) -> tuple[list[str], NDArray[np.float32]]:
    """Parse whole lines into words, which may hold spaces, and their vectors [n, D]."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    text = np.frombuffer(block, np.uint8)
    is_blank = (text == _SPACE) | (text == _TAB)
    ends = np.flatnonzero(text == _NEWLINE)
    starts = np.concatenate([[0], ends[:-1] + 1])
    # The begins and stops of the parts between white space; the text ends with white space.
    is_inside = ~(is_blank | (text == _NEWLINE))
    changes = np.flatnonzero(is_inside[1:] != is_inside[:-1]) + 1
    if is_inside[:1].any():
        changes = np.concatenate([[0], changes])
    begins, stops = changes[::2], changes[1::2]
    first, after = np.searchsorted(begins, starts), np.searchsorted(begins, ends)
    n_numbers = after - first - 1
    for row in np.flatnonzero(is_blank[starts])[:1].tolist():
        raise _LineError(row, "expected a word at the beginning, but got white space")
    for row in np.flatnonzero(n_numbers < dimension)[:1].tolist():
        raise _wrong_length(row, dimension, max(0, int(n_numbers[row])))
    bounds = zip(starts.tolist(), stops[after - dimension - 1].tolist(), strict=True)
    words = [block[start:stop] for start, stop in bounds]
    # A word with spaces may hold a number; if it holds as many as a line, it is another line.
    for row in np.flatnonzero(n_numbers > dimension).tolist():
        n_inside = sum(map(_is_number, words[row].split()[1:]))
        if _count_numbers(words[row]) or n_inside >= dimension:
            raise _wrong_length(row, dimension, dimension + n_inside)
    try:
        decoded = b"\n".join(words).decode().split("\n")
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start)
        reason = f"the word {words[row]!r} is not UTF-8. Save the file as UTF-8"
        raise _LineError(row, reason) from error
    numbers = (after - dimension)[:, None] + np.arange(dimension)
    return decoded, _numbers(text, begins[numbers], stops[numbers])


def _wrong_length(row: int, expected: int, found: int) -> _LineError:
    return _LineError(row, f"expected {expected} numbers after the word, but got {found}")


def _numbers(
    text: NDArray[np.uint8], begins: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Parse the numbers [n, D] from their begins [n, D] to their stops [n, D]."""
    changes = np.zeros(len(text), np.int8)
    changes[begins] = 1
    changes[stops] = -1
    is_inside = np.cumsum(changes, dtype=np.int8).view(np.bool_)
    strings = arrow.strings_of_bytes(offsets_of((stops - begins).ravel()), text[is_inside])
    dimension = begins.shape[1]
    try:
        values = arrow.numbers(pc.cast(strings, pa.float32())).reshape(begins.shape)
    except pa.ArrowInvalid as error:
        raw = strings.cast(pa.large_binary()).to_pylist()
        place = next(place for place, value in enumerate(raw) if not _is_number(value))
        (row, column), shown = divmod(place, dimension), raw[place].decode(errors="replace")
        reason = f"expected numbers, but number {column + 1} is {shown!r}"
        raise _LineError(row, reason) from error
    for row, column in np.argwhere(~np.isfinite(values))[:1].tolist():
        value = strings[row * dimension + column].as_py()
        raise _LineError(row, f"expected finite numbers, but number {column + 1} is {value}")
    return values


def _is_number(value: bytes) -> bool:
    """Tell whether Arrow reads bytes as a number."""
    try:
        pc.cast(
            arrow.strings_of_bytes(np.array([0, len(value)]), np.frombuffer(value, np.uint8)),
            pa.float32(),
        )
    except pa.ArrowInvalid:
        return False
    return True
