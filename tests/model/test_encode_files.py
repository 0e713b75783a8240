"""Vectors in files equal those in memory; what is no text is named."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from st_static import FastEncoder
from st_static.model import fast_encoder, text_files
from st_static.model.encode_files import batches
from st_static.model.static_model import StaticModel
from st_static.model.text_files import read_texts


@pytest.fixture(scope="module")
def encoder(student):
    table = np.random.default_rng(0).normal(size=(student.get_vocab_size(), 6))
    return FastEncoder(StaticModel(student, table, normalize=True))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(text_files, "BATCH_TEXTS", 5)


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
    monkeypatch.setattr(fast_encoder, "_BLOCK_NUMBERS", 100)  # some vectors of a batch at a time
    table = np.random.default_rng(0).normal(size=(student.get_vocab_size(), 6))
    encoder = FastEncoder(StaticModel(student, table, normalize=True), threads=threads)
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
    table = np.random.default_rng(0).normal(size=(student.get_vocab_size(), 6))
    encoder = FastEncoder(StaticModel(student, table, normalize=True), dtype="float16")
    for format in ("npy", "parquet"):
        encoder.encode_to(tmp_path / f"v.{format}", sentences, format=format)
        encoder.encode_to(tmp_path / f"e.{format}", [], format=format)
    assert np.load(tmp_path / "v.npy").dtype == np.float16
    assert np.load(tmp_path / "e.npy").shape == (0, 6)
    assert pq.read_schema(tmp_path / "v.parquet").field("embedding").type == pa.list_(
        pa.float16(), 6
    )
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


def test_missing_texts_may_be_empty():
    texts = iter(["a", None] * 4)
    assert [c for b in batches(texts, null="empty") for c in b.to_pylist()] == ["a", ""] * 4


def read(data, *options):
    return [t for batch in read_texts(io.BytesIO(data), *options) for t in batch.to_pylist()]


def test_lines():
    lines = ["one", "", "zwei é\x85x", "a\tb "] * 3
    assert read("\n".join(lines).encode(), "txt") == lines
    assert read("\r\n".join([*lines, ""]).encode(), "txt") == lines
    assert read(b"", "txt") == []
    with pytest.raises(ValueError, match="Line 7: expected text in UTF-8"):
        read(b"a\n" * 6 + b"\xff\n", "txt")
    with pytest.raises(ValueError, match="Line 2:"):  # a letter cut in two by the line's end
        read("a\né".encode()[:-1] + b"\n\xa9\n", "txt")


def test_json_lines():
    data = "".join(json.dumps({"id": i, "text": f"té {i}"}) + "\n" for i in range(12)).encode()
    assert read(data, "jsonl") == [f"té {i}" for i in range(12)]
    with pytest.raises(ValueError, match="Line 1: expected a JSON object with 'body'"):
        read(data, "jsonl", "body")
    with pytest.raises(ValueError, match="Line 2: expected a JSON object"):
        read(b'{"text": "a"}\nno json\n', "jsonl")
    with pytest.raises(ValueError, match="Line 1: expected 'text' to be a string, but got 3"):
        read(b'{"text": 3}\n', "jsonl")
    with pytest.raises(ValueError, match="Line 1: expected a text, but it is missing"):
        read(b'{"text": null}\n', "jsonl")
    assert read(b'{"text": null}\n', "jsonl", "text", "empty") == [""]


def test_parquet(tmp_path):
    texts = [f"té {i}" for i in range(12)]
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(12), "body": texts}), sink)
    assert read(sink.getvalue(), "parquet", "body") == texts
    with pytest.raises(ValueError, match="no column 'text' in the file, but id, body"):
        read(sink.getvalue(), "parquet")
    with pytest.raises(TypeError, match="column of strings, but got one of type int64"):
        read(sink.getvalue(), "parquet", "id")
    with pytest.raises(ValueError, match="Expected a Parquet file"):
        read(b"no parquet", "parquet")
