"""Vectors in files equal those in memory; what is not text is named."""

import csv
import gzip
import io
import json
import lzma
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from st_static import FastEncoder
from st_static.encode import block_encoder, fast_encoder
from st_static.encode.encode_files import batches, check_target
from st_static.model.static_model import StaticModel
from st_static.texts import file_rows
from st_static.texts.text_files import TextReader, decompressed


def make_encoder(student, **options):
    table = np.random.default_rng(0).normal(size=(student.get_vocab_size(), 6))
    table[:2] = 0
    return FastEncoder(StaticModel(student, table, normalize=True), **options)


@pytest.fixture(scope="module")
def encoder(student):
    return make_encoder(student)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(file_rows, "BATCH_TEXTS", 5)
    for name in ("_FEW_TEXTS", "_FEW_CHARACTERS"):  # torch encodes all of them
        monkeypatch.setattr(fast_encoder, name, -1)


@pytest.mark.parametrize("as_column", [list, iter, pa.array])
def test_npy_and_parquet_hold_the_vectors(encoder, sentences, tmp_path, as_column):
    expected = encoder.encode(sentences)
    assert encoder.encode_to(tmp_path / "v.npy", as_column(sentences)) == len(sentences)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy", mmap_mode="r"), expected)
    encoder.encode_to(tmp_path / "v.parquet", as_column(sentences), format="parquet")
    table = pq.read_table(tmp_path / "v.parquet")
    assert table["text"].to_pylist() == sentences
    np.testing.assert_array_equal(np.stack(table["embedding"].to_numpy()), expected)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_batches_keep_their_order(student, sentences, tmp_path, threads, monkeypatch):
    monkeypatch.setattr(block_encoder, "_BLOCK_NUMBERS", 100)  # some vectors of a batch at a time
    encoder = make_encoder(student, threads=threads)
    texts = [f"{text} {i}" for i, text in enumerate(sentences * 20)]
    encoder.encode_to(tmp_path / "v.npy", texts)
    one_by_one = [encoder.encode(text) for text in texts]
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), one_by_one, atol=1e-6)


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_columns_of_any_length_are_cut_and_checked(encoder, sentences, tmp_path, format):
    texts = sentences[:12]  # batches are of 5
    columns = [pa.chunked_array([texts[:6], texts[6:7]]), texts[7:8], pa.array(texts[8:])]
    with (tmp_path / "v").open("wb") as stream:
        assert encoder.write(columns, stream, format).rows == len(texts)
    if format == "npy":
        vectors = np.load(tmp_path / "v")
    else:
        vectors = np.stack(pq.read_table(tmp_path / "v")["embedding"].to_numpy())
    np.testing.assert_array_equal(vectors, encoder.encode(texts))
    for bad, what in ((pa.array(["a", None]), "position 13"), (pa.array([1, 2]), "type int64")):
        with pytest.raises(TypeError, match=what):
            encoder.write([*columns, bad], io.BytesIO(), format)


def test_half_precision_and_no_text(student, sentences, tmp_path):
    encoder = make_encoder(student, dtype="float16")
    for format in ("npy", "parquet"):
        encoder.encode_to(tmp_path / f"v.{format}", sentences, format=format)
        encoder.encode_to(tmp_path / f"e.{format}", [], format=format)
    assert np.load(tmp_path / "v.npy").dtype == np.float16
    assert np.load(tmp_path / "e.npy").shape == (0, 6)
    schema = pq.read_schema(tmp_path / "v.parquet")
    assert schema.field("embedding").type == pa.list_(pa.float16(), 6)
    assert pq.read_table(tmp_path / "e.parquet").num_rows == 0


def test_an_error_leaves_the_old_file(encoder, tmp_path):
    encoder.encode_to(tmp_path / "v.npy", ["a ship"])
    with pytest.raises(TypeError, match="Expected a str at position 7"):
        encoder.encode_to(tmp_path / "v.npy", iter([*["a ship"] * 7, 3]))
    with pytest.raises(TypeError, match="Expected a str at position 6"):
        encoder.encode_to(tmp_path / "v.npy", iter([*["a ship"] * 6, None]))
    assert len(np.load(tmp_path / "v.npy")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]
    with pytest.raises(ValueError, match="format npy or parquet, but got 'csv'"):
        encoder.encode_to(tmp_path / "v.csv", ["a"], format="csv")


def test_the_format_of_a_file_of_vectors_is_what_its_name_says(encoder, tmp_path):
    encoder.encode_to(tmp_path / "v.parquet", ["a ship"])
    assert pq.read_table(tmp_path / "v.parquet")["text"].to_pylist() == ["a ship"]
    encoder.encode_to(tmp_path / "v.bin", ["a ship"], format="npy")
    assert np.load(tmp_path / "v.bin").shape == (1, 6)
    for name, options, says in (
        ("w.csv", {}, r"expected a name that ends with \.npy or \.parquet"),
        ("w.npy.gz", {}, r"expected a name that ends with \.npy or \.parquet"),
        ("w.npy", {"format": "parquet"}, "would hold parquet: let its name end with .parquet"),
        ("v.bin/w.npy", {}, "w.npy cannot be written: .*v.bin is a file"),
        ("", {}, "is a folder: name a file in it"),
        ("w.npy", {"unknown": "drop"}, 'unknown to be "zero", "null", "skip" or "error", but'),
        ("w.npy", {"unknown": "null"}, "There is no null in npy: write parquet, or say"),
        ("w.npy", {"null": "drop"}, 'null to be "error" or "empty"'),
    ):
        with pytest.raises(ValueError, match=says):
            encoder.encode_to(tmp_path / name, ["a ship"], **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["v.bin", "v.parquet"]


def test_a_file_is_not_put_in_the_place_of_a_device(encoder, tmp_path):
    """As root, /dev/null itself would become a file."""
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match=r"pipe\.npy is a device or a pipe"):
        encoder.encode_to(tmp_path / "pipe.npy", ["a ship"])
    assert (tmp_path / "pipe.npy").is_fifo()
    for name in ("/dev/stdout", "/dev/fd/1", "/dev/null"):
        with pytest.raises(ValueError, match=f"{name} is a device or a pipe"):
            check_target(Path(name))
    check_target(tmp_path / "new.npy")


def test_texts_without_a_known_word_may_be_an_error(encoder, tmp_path):
    texts = [*["a ship"] * 7, "\x00", "", "a ship"]
    written = encoder.write([pa.chunked_array([texts])], io.BytesIO())
    assert written == (10, 2)
    with pytest.raises(ValueError, match=r"text at position 7 has no word that the model knows: '"):
        encoder.encode_to(tmp_path / "v.npy", iter(texts), unknown="error")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_texts_without_a_known_word_may_be_null_or_left_out(student, sentences, tmp_path, dtype):
    encoder = make_encoder(student, dtype=dtype)
    texts = ["\x00", *sentences[:7], "", "", sentences[7], "\x00"]
    expected = encoder.encode(texts)
    known = np.flatnonzero(expected.any(axis=1)).tolist()
    assert len(known) == 8
    parquet = tmp_path / "v.parquet"
    assert encoder.encode_to(parquet, texts, unknown="null") == len(texts)
    embedding = pq.read_table(parquet)["embedding"]
    assert embedding.type == pa.list_(pa.from_numpy_dtype(dtype), 6)
    found = embedding.to_pylist()
    assert found == [v.tolist() if i in known else None for i, v in enumerate(expected)]
    for format in ("npy", "parquet"):
        path = tmp_path / f"w.{format}"
        assert encoder.encode_to(path, iter(texts), unknown="skip") == len(known)
    np.testing.assert_array_equal(np.load(tmp_path / "w.npy"), expected[known])
    rows = pq.read_table(tmp_path / "w.parquet")
    assert rows["text"].to_pylist() == [texts[i] for i in known]
    np.testing.assert_array_equal(np.stack(rows["embedding"].to_numpy()), expected[known])
    assert encoder.write([pa.array(texts)], io.BytesIO(), "npy", "skip") == (8, 4)
    assert encoder.encode_to(tmp_path / "none.npy", ["", "\x00"], unknown="skip") == 0


def test_rows_that_cannot_be_read_do_not_count_as_unknown(encoder):
    data = b'{"text": "a ship"}\n{"text": null}\n{"text": ""}\n'
    for unknown, missing in (("zero", [False, True, False]), ("null", [False, True, True])):
        sink = io.BytesIO()
        reader = TextReader(io.BytesIO(data), "jsonl", on_error="null")
        assert encoder.write(reader, sink, "parquet", unknown) == (3, 1)
        assert pq.read_table(sink)["embedding"].is_null().to_pylist() == missing
    sink = io.BytesIO()
    reader = TextReader(io.BytesIO(data), "jsonl", on_error="null")
    assert encoder.write(reader, sink, "parquet", "skip") == (2, 1)
    assert pq.read_table(sink)["text"].to_pylist() == ["a ship", None]


def test_missing_texts_may_be_empty():
    texts = iter(["a", None] * 4)
    assert [c for b in batches(texts, null="empty") for c in b.to_pylist()] == ["a", ""] * 4


def read(data, *format, **options):
    reader = TextReader(io.BytesIO(data), *format, **options)
    return [text for rows in reader for text in rows.texts.to_pylist()]


def test_lines():
    lines = ["one", "", "zwei é\x85x", "a\tb "] * 3
    assert read("\n".join(lines).encode(), "txt") == lines
    assert read("\r\n".join([*lines, ""]).encode(), "txt") == lines
    assert read(b"", "txt") == []
    with pytest.raises(ValueError, match=r"Line 7: expected text in UTF-8.*convert"):
        read(b"a\n" * 6 + b"\xff\n", "txt")
    with pytest.raises(ValueError, match="Line 2:"):  # a letter cut in two by the line's end
        read("a\né".encode()[:-1] + b"\n\xa9\n", "txt")


def test_json_lines():
    data = "".join(json.dumps({"id": i, "text": f"té {i}"}) + "\n" for i in range(12)).encode()
    assert read(data, "jsonl") == [f"té {i}" for i in range(12)]
    for on_error in ("fail", "skip"):  # skipping would leave nothing, and say so of each line
        reader = TextReader(io.BytesIO(data), "jsonl", "body", on_error=on_error)
        with pytest.raises(ValueError, match=r"no key 'body' .* keys are id, text: name one"):
            list(reader)
    with pytest.raises(ValueError, match="Line 2: expected a JSON object with 'id'"):
        read(b'{"id": "a"}\n{"text": "b"}\n', "jsonl", "id")
    with pytest.raises(ValueError, match="Line 1: expected 'text' to be a string, but got 3"):
        read(b'{"text": 3}\n', "jsonl")
    with pytest.raises(ValueError, match="Line 1: expected a text, but it is missing"):
        read(b'{"text": null}\n', "jsonl")
    assert read(b'{"text": null}\n', "jsonl", null="empty") == [""]


def rows_of(data, format, **options):
    """All rows, as a dictionary of columns, their numbers and which could not be read."""
    reader = TextReader(io.BytesIO(data), format, **options)
    batches = list(reader)
    table = pa.concat_tables(batch.columns for batch in batches).to_pydict()
    numbers = [int(number) for batch in batches for number in batch.numbers]
    texts = [text for batch in batches for text in batch.texts.to_pylist()]
    return table, numbers, texts, reader


def as_table(delimiter, *rows, mark=""):
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return (mark + out.getvalue()).encode()


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_csv_and_tsv(format, delimiter):
    texts = ["a ship", 'keeper, "a"\tkeeper', "two\nlines", "", "x" * 200_000, "é"]
    rows = [(f"00{i}", text) for i, text in enumerate(texts)]
    data = as_table(delimiter, ("id", "text"), *rows, mark="\ufeff")
    assert read(data, format) == texts
    assert read(data, format, "id") == [i for i, _ in rows]
    table, numbers, _, _ = rows_of(data, format, keep=True)
    assert table == {"id": [i for i, _ in rows], "text": texts}
    assert numbers == [2, 3, 4, 6, 7, 8]  # of the lines, of which one row has two
    assert csv.field_size_limit() == 131_072  # as it was
    with pytest.raises(
        ValueError, match=r"no column 'body' in the file\. Its columns are id, text"
    ):
        read(data, format, "body")
    assert read(b"", format) == read(b"\n", format) == []
    with pytest.raises(ValueError, match="Two columns in the file have the same name: text, text"):
        read(as_table(delimiter, ("text", "text"), ("a", "b")), format)


BROKEN = {
    "txt": (b"a\n\xff\n\nb", {2: "UTF-8"}, ["a", "", "b"], [1, 3, 4]),
    "csv": (
        b'id,text\n1,a\n2\n\n3,\xff\n4,b\n5,"a"b\n6,c\n',
        {3: "expected 2 cells, as in the header, but got 1", 5: "UTF-8", 7: "it is broken"},
        ["a", "b", "c"],
        [2, 6, 8],
    ),
    "jsonl": (
        b'{"text":"a","n":1}\n\n{broken\n{"text":null,"n":2}\n{"text":"\\ud800"}\n[]\n'
        b'{"text":3}\n{"text":"b"}',
        {3: "JSON object", 4: "missing", 5: "half of a", 6: "JSON object", 7: "to be a string"},
        ["a", "b"],
        [1, 8],
    ),
}


@pytest.mark.parametrize("format", BROKEN)
@pytest.mark.parametrize("keep", [False, True])
def test_rows_that_cannot_be_read(format, keep, encoder):
    data, faults, texts, lines = BROKEN[format]
    first, what = next(iter(faults.items()))
    for name, where in (("", f"^Line {first}: "), ("a.file", f"^a.file, line {first}: ")):
        with pytest.raises(ValueError, match=f"{where}.*{what}.*on_error"):
            rows_of(data, format, keep=keep, name=name)
    _, numbers, found, reader = rows_of(data, format, keep=keep, on_error="skip")
    assert (found, numbers) == (texts, lines)
    assert reader.n_unread == len(faults)
    assert what in reader.first_fault
    table, numbers, found, reader = rows_of(data, format, keep=keep, on_error="null")
    assert numbers == sorted([*lines, *faults])
    expected = dict(zip(lines, texts, strict=True))
    assert table["text"] == [expected.get(number) for number in numbers]
    assert found == [expected.get(number, "") for number in numbers]
    sink = io.BytesIO()
    written = encoder.write(TextReader(io.BytesIO(data), format, on_error="null"), sink)
    assert written.unknown == texts.count("")
    vectors = np.load(io.BytesIO(sink.getvalue()))
    unread = [number in faults for number in numbers]
    assert not vectors[unread].any()
    sink = io.BytesIO()
    reader = TextReader(io.BytesIO(data), format, on_error="null", keep=keep)
    encoder.write(reader, sink, "parquet")
    embeddings = pq.read_table(sink)["embedding"]
    assert embeddings.is_null().to_pylist() == unread


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_a_kept_column_has_another_name_than_the_vectors(format, encoder):
    data = {"csv": b"embedding,text\na,b\n", "jsonl": b'{"embedding": "a", "text": "b"}'}[format]
    sink = io.BytesIO()
    with pytest.raises(ValueError, match="has a column 'embedding', as the vectors'"):
        encoder.write(TextReader(io.BytesIO(data), format, keep=True), sink, "parquet")
    assert not sink.getvalue()
    assert encoder.write(TextReader(io.BytesIO(data), format), sink, "parquet").rows == 1


def test_columns_of_json_lines_are_kept(monkeypatch):
    monkeypatch.setattr(file_rows, "BATCH_TEXTS", 2)
    rows = [{"id": 1, "text": "a", "more": {"n": [1]}}, {"text": "b", "tag": None}]
    rows += [{"id": 2, "text": "c", "tag": "x"}, {"id": "3", "text": "d"}, {"text": "e", "new": 1}]
    data = "\n".join(map(json.dumps, rows)).encode()
    table, numbers, *_ = rows_of(b'\n \n\n{"id": 1, "text": "a"}', "jsonl", keep=True)
    assert (table, numbers) == ({"id": [1], "text": ["a"]}, [4])
    with pytest.raises(ValueError, match="Line 4: its values are not of the types"):
        rows_of(data, "jsonl", keep=True)
    table, numbers, _, reader = rows_of(data, "jsonl", keep=True, on_error="skip")
    assert table == {
        "id": [1, None, 2],
        "text": ["a", "b", "c"],
        "more": [{"n": [1]}, None, None],
        "tag": [None, None, "x"],
    }
    assert numbers == [1, 2, 3]
    assert reader.n_unread == 2
    with pytest.raises(ValueError, match="the first lines have no key 'new'"):
        rows_of(data.replace(b'"3"', b"3"), "jsonl", keep=True)
    with pytest.raises(ValueError, match="values of 'id' cannot be kept in one column"):
        rows_of(b'{"id":1,"text":"a"}\n{"id":"b","text":"a"}', "jsonl", keep=True)


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (1, 1.5),
        ({"a": 1}, {"a": 1, "b": 2}),
        ([{"a": 1}], [{"b": 2}]),
        ({"a": 1}, []),
        (["ab"], "ab"),
        (0.5, True),
        ("a", "\ud800"),
    ],
    ids=str,
)
def test_values_of_json_lines_are_kept_as_they_are_or_refused(monkeypatch, first, later):
    """Arrow would cut 1.5 to 1 in a column of whole numbers, and leave out nested keys."""
    monkeypatch.setattr(file_rows, "BATCH_TEXTS", 1)
    rows = [{"text": "a", "id": 1, "more": first}, {"text": "b", "id": 2, "more": later}]
    data = "\n".join(map(json.dumps, rows)).encode()
    with pytest.raises(ValueError, match=r"Line 2: .*'more'"):
        rows_of(data, "jsonl", keep=True)
    assert rows_of(data, "jsonl")[2] == ["a", "b"]
    table, *_ = rows_of(data, "jsonl", keep=True, on_error="null")
    assert table == {"text": ["a", None], "id": [1, 2], "more": [first, None]}


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("jsonl", b'{"id":"1","text":"a"}\n{"id":"2","text":5}\n{"id":"3"}\nnonsense\n'),
        ("csv", b"id,text\n1,a\n2,\xff\n3,\xff\n4\n"),
    ],
)
def test_what_can_be_read_of_a_row_without_a_text_is_kept(format, data):
    table, *_ = rows_of(data, format, keep=True, on_error="null")
    assert table == {"id": ["1", "2", "3", None], "text": ["a", None, None, None]}


# Quotes as text: the first takes the two lines behind it into its cell.
QUOTES = 'id,text\n1,"Hello he said.\n2,foo\n3,bar."\n4,a\n5,b\n'


@pytest.mark.parametrize("on_error", ["fail", "null", "skip"])
def test_a_cell_that_looks_like_several_rows_is_an_error_in_tsv(on_error):
    tsv = QUOTES.replace(",", "\t").encode()
    with pytest.raises(ValueError, match=r"^q.tsv, line 2: .* line 4 closes.*--quoting none\)"):
        rows_of(tsv, "tsv", on_error=on_error, name="q.tsv")
    texts = ['"Hello he said.', "foo", 'bar."', "a", "b"]
    _, numbers, found, _ = rows_of(tsv, "tsv", on_error=on_error, quoting="none")
    assert (found, numbers) == (texts, [2, 3, 4, 5, 6])
    _, _, found, reader = rows_of(tsv, "tsv", on_error=on_error, quoting="double")
    assert found == ["Hello he said.\n2\tfoo\n3\tbar.", "a", "b"]
    assert reader.doubtful == (0, "")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_cell_that_looks_like_several_rows_is_counted_in_csv(end):
    data = QUOTES.replace("\n", end).encode()
    _, _, found, reader = rows_of(data, "csv", name="q.csv")
    assert len(found) == 3
    assert reader.doubtful == (1, "q.csv, line 2 to 4")
    assert rows_of(data, "csv", quoting="none")[3].doubtful == (0, "")
    assert len(rows_of(data, "csv", quoting="none")[2]) == 5
    # In a row of the wrong length, others may be lost: it is not left out as one.
    with pytest.raises(ValueError, match="Line 2: a quote is opened that line 4 closes"):
        rows_of(data.replace(b'."', b'.",x'), "csv", on_error="skip")


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_lines_of_a_cell_that_are_no_rows_are_no_matter(format, delimiter, place):
    text = 'two\nlines of "text", and\n\nmore'
    rows = [["a", "b"], ["1", "2"], ["3", "4"]]
    for row, cell in zip(rows, ("text", text, "x"), strict=True):
        row.insert(place, cell)
    _, numbers, texts, reader = rows_of(as_table(delimiter, *rows), format)
    assert texts == [text, "x"]
    assert (numbers, reader.doubtful) == ([2, 6], (0, ""))


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ('"text" ,id', "Line 1: expected a row of the table, but it is broken"),
        ('"size" in', "Line 1: expected a row of the table, but it is broken"),
        ('id,"text', "Line 1: a quote is opened and never closed"),
        ('id,"te\nx"t', "Line 1: a quote is opened that line 2 closes in the middle"),
    ],
)
def test_a_header_is_read_as_rows_are(header, says):
    with pytest.raises(ValueError, match=says):
        rows_of(f"{header}\na,1\n".encode(), "csv")


def test_a_row_that_is_left_out_does_not_decide_on_the_types_of_columns():
    data = b'{"id":"x","text":5}\n{"id":1,"text":"a"}\n'
    assert rows_of(data, "jsonl", keep=True, on_error="skip")[0] == {"id": [1], "text": ["a"]}


def test_a_table_in_another_encoding_is_refused_as_such():
    with pytest.raises(ValueError, match=r"^a\.csv, line 1: the header is not UTF-8 text"):
        rows_of("text,né\na,1\n".encode("latin-1"), "csv", name="a.csv")


def test_columns_of_parquet_are_kept():
    sink = io.BytesIO()
    table = pa.table({"id": range(7), "text": ["a", None, *"cdefg"], "tag": [[1]] * 7})
    pq.write_table(table, sink)
    with pytest.raises(ValueError, match="Row 2: expected a text, but it is missing"):
        rows_of(sink.getvalue(), "parquet", keep=True)
    kept, numbers, _, reader = rows_of(sink.getvalue(), "parquet", keep=True, on_error="null")
    assert kept == table.to_pydict()
    assert numbers == list(range(1, 8))
    assert (reader.n_unread, reader.n_rows) == (1, 7)
    kept, *_ = rows_of(sink.getvalue(), "parquet", keep=True, null="empty")
    assert kept == table.to_pydict()


def test_a_mark_at_the_beginning_is_no_text():
    assert read("\ufeffa\nb".encode(), "txt") == ["a", "b"]
    assert read('\ufeff{"text": "a"}'.encode(), "jsonl") == ["a"]


def test_damaged_files_are_named():
    data = gzip.compress(b"a ship\n" * 1000)[:-9]
    for format in ("txt", "csv"):
        stream = decompressed(io.BytesIO(data), "gz", "a.gz")
        with pytest.raises(ValueError, match=r"a\.gz cannot be read .*it is damaged, or not what"):
            list(TextReader(stream, format, "a ship", name="a.gz"))


@pytest.mark.parametrize("option", [{"null": "drop"}, {"on_error": "drop"}, {"quoting": "drop"}])
def test_words_that_are_no_option(option):
    with pytest.raises(ValueError, match="but got 'drop'"):
        TextReader(io.BytesIO(), "txt", **option)


def test_parquet():
    texts = [f"té {i}" for i in range(12)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(12), "body": texts}), sink)
    assert read(sink.getvalue(), "parquet", "body") == texts
    with pytest.raises(
        ValueError, match=r"no column 'text' in the file\. Its columns are id, body"
    ):
        read(sink.getvalue(), "parquet")
    with pytest.raises(ValueError, match=r"^a\.pq, column 'id': Expected a column of strings, b"):
        TextReader(sink, "parquet", "id", name="a.pq")
    with pytest.raises(ValueError, match=r"^a\.pq is not a Parquet file: .*0 bytes"):
        TextReader(io.BytesIO(), "parquet", name="a.pq")


LISTS = pa.list_(pa.string_view())
KINDS = [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.null()]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("on_error", ["null", "skip"])
def test_columns_of_every_type_are_kept_beside_texts_of_every_type(encoder, kind, on_error):
    texts = ["a ship", None, "keeper", None, "a ship", "x", "y"]
    texts = [None] * 7 if pa.types.is_null(kind) else texts
    columns = {
        "text": pa.array(texts, kind),
        "view": pa.array([*texts[:-1], "z" * 40], pa.string_view()),
        "raw": pa.array([bytes([65 + i]) for i in range(7)], pa.binary_view()),
        "views": pa.array([["a"], None, [], ["b", None], ["c"], [], []], LISTS),
    }
    source, sink = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table(columns), source)
    reader = TextReader(source, "parquet", on_error=on_error, keep=True)
    encoder.write(reader, sink, "parquet")
    after = pq.read_table(sink)
    assert reader.n_unread == texts.count(None)
    assert after.drop_columns("embedding").schema.equals(pq.read_schema(source))
    kept = [i for i, text in enumerate(texts) if text or on_error == "null"]
    rows = pa.table(columns).to_pylist()
    assert after.drop_columns("embedding").to_pylist() == [rows[i] for i in kept]
    for vector, i in zip(after["embedding"].to_pylist(), kept, strict=True):
        assert vector == (encoder.encode([texts[i]])[0].tolist() if texts[i] else None)


def damaged_parquet(keep_length):
    """A Parquet file of three row groups, the second of which has other bytes than were written."""
    sink = io.BytesIO()
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    texts = [f"text {i:02}" for i in range(12)]
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=4, **options)
    other = b"text 99" if keep_length else b"\xff\xff\xff\xff 05"
    before = b"text 05" if keep_length else b"\x07\0\0\0text 05"
    assert sink.getvalue().count(before) >= 1
    return sink.getvalue().replace(before, other.ljust(len(before), b"\xff"))


def read_cut_off(data, compression, format, on_error):
    packed = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}[compression](data)
    stream = decompressed(io.BytesIO(packed[: len(packed) // 2]), compression, "a.file")
    return list(TextReader(stream, format, on_error=on_error, name="a.file"))


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize("on_error", ["fail", "null", "skip"])
class TestWhatCannotBeToldApartEndsTheReading:
    """In every mode: it would count as one row, and hide the others."""

    @pytest.mark.parametrize("format", ["csv", "tsv"])
    @pytest.mark.parametrize("rest", [0, 1, 5000])
    def test_a_quote_that_is_never_closed(self, format, rest, on_error):
        rows = b'id,text\n1,a\n2,"open\n' + b"3,b\n" * rest
        rows = rows.replace(b",", b"\t") if format == "tsv" else rows
        reader = TextReader(io.BytesIO(rows), format, on_error=on_error, name="quote.csv")
        says = r"^quote\.csv, line 3: a quote is opened and never closed, so the rest of the file"
        with pytest.raises(ValueError, match=says):
            list(reader)

    def test_a_quote_that_another_rows_quote_closes(self, on_error):
        rows = b'id,text\n1,a\n2,"open\n' + b"3,b\n" * 50 + b'53,"c"\n54,d\n'
        says = "^Line 3: a quote is opened that line 54 closes in the middle of a cell"
        with pytest.raises(ValueError, match=says):
            list(TextReader(io.BytesIO(rows), "csv", on_error=on_error))

    @pytest.mark.parametrize("compression", ["gz", "xz", "zst"])
    @pytest.mark.parametrize("format", ["txt", "jsonl", "csv"])
    def test_a_compressed_file_that_is_cut_off(self, format, compression, on_error):
        numbers = np.random.default_rng(0).integers(0, 10**9, 20_000)
        start, line = {
            "jsonl": ("", '{{"text": "{}"}}'),
            "csv": ("text\n", "{}"),
            "txt": ("", "{}"),
        }[format]
        data = start + "\n".join(line.format(number) for number in numbers)
        with pytest.raises(ValueError, match=r"^a\.file cannot be read .*it is damaged"):
            read_cut_off(data.encode(), compression, format, on_error)

    @pytest.mark.parametrize("keep_length", [True, False])
    def test_a_damaged_row_group(self, keep_length, on_error):
        stream = io.BytesIO(damaged_parquet(keep_length))
        with pytest.raises(ValueError, match=r"^a\.parquet cannot be read .*it is damaged"):
            list(TextReader(stream, "parquet", on_error=on_error, name="a.parquet"))


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_a_text_of_parquet_that_is_not_unicode_is_a_row_that_cannot_be_read(keep, kind):
    sink = io.BytesIO()
    texts = pa.array(["hello", "world", "hello"], kind)
    pq.write_table(pa.table({"text": texts}), sink, compression="none")
    data = sink.getvalue().replace(b"world", b"w\xffrld")
    with pytest.raises(ValueError, match=r"^a\.pq, row 2: expected text in UTF-8.*on_error"):
        list(TextReader(io.BytesIO(data), "parquet", name="a.pq"))
    reader = TextReader(io.BytesIO(data), "parquet", on_error="null", keep=keep)
    [rows] = reader
    assert rows.texts.to_pylist() == ["hello", "", "hello"]
    assert rows.columns["text"].to_pylist() == ["hello", None, "hello"]
    assert reader.n_unread == 1
