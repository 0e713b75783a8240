"""Files of text vectors, against a reader that goes number by number; and files that are broken."""

import bz2
import functools
import gzip
import io
import lzma
import re
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from st_static.model import text_vectors
from st_static.model.text_vectors import read_word_vectors

GLOVE = "the 0.5 -1 2e-3\ndog 1 2 3\nnew york 4 5 6\n"
WORDS = ["the", "dog", "new york"]
TABLE = np.array([[0.5, -1, 2e-3], [1, 2, 3], [4, 5, 6]], np.float32)


def write(folder, content, name="vectors.txt"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def zipped(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


ONE_MEMBER = {"vectors/": "", "vectors/glove.txt": GLOVE, "__MACOSX/._glove.txt": "x"}


@pytest.fixture
def read_by(monkeypatch):
    """Reads files by so many bytes at a time."""
    return functools.partial(monkeypatch.setattr, text_vectors, "_BYTES_AT_A_TIME")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(GLOVE, id="GloVe"),
        pytest.param(GLOVE.rstrip("\n"), id="no line end"),
        pytest.param(GLOVE + "\n\r\n\n", id="empty lines at the end"),
        pytest.param("3 3\n" + GLOVE.replace("\n", " \n"), id="fastText"),
        pytest.param(GLOVE.replace("\n", "\r\n"), id="Windows"),
        pytest.param("\ufeff3 3\r\n" + GLOVE.replace("\n", "\r\n"), id="byte order mark"),
        pytest.param(re.sub(" (?=[-0-9])", "\t", GLOVE), id="tabs"),
        pytest.param(re.sub("(?<=[a-z]) (?=[-0-9])", "   ", GLOVE), id="columns"),
        pytest.param(re.sub(" (?=[-0-9])", " \t  ", GLOVE), id="columns of numbers"),
        pytest.param(GLOVE.replace("\n", "\t \t\n"), id="tabs before line ends"),
        pytest.param(GLOVE.replace("\n", " \r\n"), id="fastText on Windows"),
        pytest.param(gzip.compress(GLOVE.encode(), mtime=0), id="gzip"),
        pytest.param(b"".join(map(gzip.compress, (b"3 3\n", GLOVE.encode()))), id="gzip, twice"),
        pytest.param(zipped(ONE_MEMBER), id="zip"),
    ],
)
def test_every_form_of_a_file_is_read(tmp_path, read_by, content):
    for block in (1, 20, 1 << 24):
        read_by(block)
        vectors = read_word_vectors(write(tmp_path, content))
        assert vectors.words == WORDS
        np.testing.assert_array_equal(vectors.table, TABLE)
        assert vectors.table.dtype == np.float32


entry = st.lists(st.sampled_from(["a", "1995", "é", "喜", ".", "#x"]), min_size=1, max_size=3)
number = st.floats(width=32, allow_nan=False, allow_infinity=False)
row = st.tuples(entry, st.lists(number, min_size=3, max_size=3))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(row, min_size=1, max_size=8), header=st.booleans(), block=st.integers(1, 99))
def test_numbers_are_those_that_python_reads(tmp_path, read_by, rows, header, block):
    read_by(block)
    # An entry that ends with a number cannot be told from a line with a number too many.
    rows = [(words if len(words) == 1 else [*words, "x"], values) for words, values in rows]
    lines = [" ".join([*words, *map(repr, values)]) for words, values in rows]
    first: dict[str, list[float]] = {}
    for words, values in rows:
        first.setdefault(" ".join(words), values)
    assume(any(map(any, first.values())))  # zeros alone are refused
    text = "\n".join([*[f"{len(rows)} 3"] * header, *lines]) + "\n"
    vectors = read_word_vectors(write(tmp_path, text))
    assert vectors.words == list(first)
    np.testing.assert_array_equal(vectors.table, np.array(list(first.values()), np.float32))
    assert len(vectors.repeated) == len(rows) - len(first)


@pytest.mark.parametrize("block", [1, 1 << 24])
@pytest.mark.parametrize("header", ["", "7 2\n"])
def test_of_a_repeated_word_the_first_row_counts(tmp_path, read_by, header, block):
    rows = "a 1 2\n[UNK] 9 9\nb 3 4\na 5 6\n[PAD] 9 9\na 7 8\n[UNK] 9 9\n"
    read_by(block)
    vectors = read_word_vectors(write(tmp_path, header + rows))
    first = 1 + bool(header)
    assert vectors.words == ["a", "b"]
    assert vectors.table.tolist() == [[1, 2], [3, 4]]
    assert vectors.repeated == [("a", first + 3), ("a", first + 5)]
    assert vectors.reserved == [("[UNK]", first + 1), ("[PAD]", first + 4), ("[UNK]", first + 6)]


@pytest.mark.parametrize("block", [1, 1 << 24])
def test_with_a_limit_later_lines_are_not_looked_at(tmp_path, read_by, block):
    read_by(block)
    file = write(tmp_path, "4 3\n" + GLOVE + "broken\n")
    assert read_word_vectors(file, limit=2).words == WORDS[:2]
    assert read_word_vectors(file, limit=3).words == WORDS
    with pytest.raises(ValueError, match="line 5: expected 3 numbers after the word, but got 0"):
        read_word_vectors(file, limit=4)
    whole = write(tmp_path, GLOVE)
    assert read_word_vectors(whole, limit=9).words == WORDS
    lies = write(tmp_path, "1 3\n" + GLOVE)
    assert read_word_vectors(lies, limit=1).words == WORDS[:1]
    for limit, found in [(2, "more"), (3, "more"), (4, "3")]:
        with pytest.raises(ValueError, match=rf"promises 1 words, but there are {found}\. Copy"):
            read_word_vectors(lies, limit=limit)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no word vectors"),
        ("\n\n", "holds no word vectors"),
        ("0 3\n", "holds no word vectors"),
        ("a b c\n", "line 1: expected a word and numbers behind it, but got 'a b c'"),
        ("a 1 2\nb 3\n", "line 2: expected 2 numbers after the word, but got 1"),
        ("a 1 2\nb 3 4 5\n", "line 2: expected 2 numbers after the word, but got 3"),
        ("a 1 2\nb 3 4 c 6 7\n", "line 2: expected 2 numbers after the word, but got 4"),
        ("a 1 2\n\nb 3 4\n", "line 2: expected 2 numbers after the word, but got 0"),
        ("a 1 2\nb  4\n", "line 2: expected 2 numbers after the word, but got 1"),
        ("a 1 2 3\n 1 2 3\n", "line 2: expected a word at the beginning, but got white space"),
        ("a 1 2 3\n\t1 2 3 \n", "line 2: expected a word at the beginning, but got white space"),
        (" a 1 2 3\n", "line 1: expected a word at the beginning, but got white space"),
        (" 1 2 3\n 4 5 6\n", "line 1: expected a word at the beginning, but got white space"),
        ("a 1 2\n \n", "line 2: expected a word at the beginning, but got white space"),
        ("a 1 2\nb 3 4\nc 5 0x6\n", "line 3: expected numbers, but number 2 is '0x6'"),
        ("a 1 2\nb 3,5 4\n", "line 2: expected numbers, but number 1 is '3,5'"),
        ("a 1 2\nb 3 nan\n", "line 2: expected finite numbers, but number 2 is nan"),
        ("a 1 2\nb -inf 4\n", "line 2: expected finite numbers, but number 1 is -inf"),
        ("a 1 2\nb 1e39 4\n", "line 2: expected finite numbers, but number 1 is 1e39"),
        (b"a 1 2\nb\xff 3 4\n", r"line 2: the word b'b\xff' is not UTF-8"),
        (b"a 1 2\nb 3 \xff\n", "line 2: expected numbers, but number 2 is '\ufffd'"),
        (GLOVE.encode("utf-16"), "not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it."),
        (GLOVE.encode("utf-16-be"), "is not UTF-8 text: it begins as UTF-16"),
        (GLOVE.encode("utf-32"), "is not UTF-8 text: it begins as UTF-16"),
        (gzip.compress(GLOVE.encode("utf-16"), mtime=0), "is not UTF-8 text: it begins as UTF-16"),
        (zipped({"a.txt": GLOVE.encode("utf-16")}), "is not UTF-8 text: it begins as UTF-16"),
        (lzma.compress(GLOVE.encode()), "is not text in UTF-8: it is binary"),
        (bz2.compress(GLOVE.encode()), "is not text in UTF-8: it is binary"),
        (b"1 9\na " + np.sqrt(np.arange(2, 40)).tobytes(), "is not text in UTF-8: it is binary"),
        (zipped({"a.bin": "a\0 1"}), "is not text in UTF-8: it is binary"),
        ("2 3\na 1 2\nb 3 4\n", "line 2: the header promises 3 numbers per word, but here are 2"),
        ("a 0 0\nb -0.0 0e9\n", "all numbers of the 2 words that were read are zero. Exp"),
        ("3 2\na 1 2\nb 3 4\n", "line 1: the header promises 3 words, but there are 2"),
        ("1 2\na 1 2\nb 3 4\n", "line 1: the header promises 1 words, but there are 2"),
        (gzip.compress(GLOVE.encode() * 9, mtime=0)[:-20], "is a broken or cut off archive (Comp"),
        (gzip.compress(GLOVE.encode(), mtime=0)[:12], "is a broken or cut off archive (Comp"),
        (b"\x1f\x8b" + b"junk" * 9, "is a broken or cut off archive (Unknown compression method"),
        (b"\x1f\x8b\x08\0" + b"junk" * 9, "is a broken or cut off archive (Error -3"),
        (zipped({"a.txt": GLOVE, "b.txt": GLOVE}), "expected one, but found a.txt, b.txt"),
        (zipped({}), "holds 0 files: expected one, but found none"),
        (zipped({"a/": ""}), "holds 0 files: expected one, but found none"),
        (zipped({"a.txt": GLOVE * 99})[:-60], "is a broken or cut off archive (File is not a zip"),
        (zipped({"a.txt": GLOVE}).replace(b"\x00\x00\x00\x08", b"\x00\x01\x00\x08"), "encrypted"),
        (zipped({"a.txt": GLOVE}).replace(b"\x00\x00\x08\x00", b"\x00\x00\x09\x00"), "Unpack it"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(tmp_path, content, says):
    file = write(tmp_path, content)
    with pytest.raises(ValueError, match=re.escape(says)) as raised:
        read_word_vectors(file)
    assert str(file) in str(raised.value)


def test_lines_are_counted_through_all_blocks(tmp_path, read_by):
    lines = [f"w{i} {i} {i}\n" for i in range(200)]
    lines[150] = "w150 1 x\n"
    read_by(64)
    with pytest.raises(ValueError, match="line 152: expected numbers"):
        read_word_vectors(write(tmp_path, "200 2\n" + "".join(lines)))


def test_an_archive_that_breaks_off_is_said_behind_which_line(tmp_path, read_by):
    read_by(1)
    packed = gzip.compress(GLOVE.encode(), mtime=0) + gzip.compress(GLOVE.encode())[:-9]
    with pytest.raises(ValueError, match=r"broken or cut off archive behind line [3-6] \("):
        read_word_vectors(write(tmp_path, packed))


def test_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match="There is no file"):
        read_word_vectors(tmp_path / "none.txt")
