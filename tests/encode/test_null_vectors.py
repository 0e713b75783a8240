"""Rows without a vector, as the libraries that docs/use_it_from.md names read them."""

import io

import duckdb
import lancedb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from st_static import FastEncoder
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer
from st_static.texts.text_files import TextReader

# The second text cannot be read, and the third has no known word.
DATA = b'{"text": "a ship"}\n{"text": 5}\n{"text": "\xe1\x9a\xa0"}\n{"text": "keeper"}\n'
D = 16  # of fewer than ten dimensions, LanceDB takes a list for no vector


def from_arrow(path):
    table = pq.read_table(path)
    table.validate(full=True)
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), D)
    return table["embedding"].to_pylist()


def from_duckdb(path):
    return [row[0] for row in duckdb.sql(f"SELECT embedding FROM '{path}'").fetchall()]


def from_polars(path):
    column = pl.read_parquet(path)["embedding"]
    assert column.dtype == pl.Array(pl.Float32, D)
    assert len(pl.read_parquet(path).drop_nulls("embedding")) == 2
    return column.to_list()


def from_pandas(path):
    frame = pd.read_parquet(path)
    assert len(frame.dropna(subset="embedding")) == 2
    return [None if vector is None else vector.tolist() for vector in frame["embedding"]]


def from_lancedb(path):
    database = lancedb.connect(path.parent / "lance")
    rows = pq.read_table(path)
    dropped = database.create_table("dropped", rows, on_bad_vectors="drop")
    assert dropped.count_rows() == 2
    kept = database.create_table("kept", rows, on_bad_vectors="null")
    nearest = kept.search(rows["embedding"][0].as_py()).limit(4).to_list()
    assert [row["text"] for row in nearest] == ["a ship", "keeper"]
    return kept.to_arrow()["embedding"].to_pylist()


@pytest.fixture
def file(tmp_path):
    tokenizer = build_tokenizer(["a", "ship", "keeper"])
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), D))
    table[:2] = 0
    encoder = FastEncoder(StaticModel(tokenizer, table.astype(np.float32), normalize=True))
    with (tmp_path / "v.parquet").open("wb") as stream:
        reader = TextReader(io.BytesIO(DATA), "jsonl", on_error="null", keep=True)
        assert encoder.write(reader, stream, "parquet", "null") == (4, 1)
    first, last = encoder.encode(["a ship", "keeper"]).tolist()
    return tmp_path / "v.parquet", [first, None, None, last]


@pytest.mark.parametrize(
    "read",
    [
        from_arrow,
        from_duckdb,
        from_polars,
        from_pandas,
        from_lancedb,
    ],
)
def test_rows_without_a_vector_are_null_there(file, read):
    path, expected = file
    assert read(path) == expected


def test_duckdbs_cosine_passes_over_null_and_the_filter_over_zeros_too(file):
    path, [query, *_] = file
    cosine = f"array_cosine_similarity(embedding::FLOAT[{D}], {query}::FLOAT[{D}])"
    zeros = f"SELECT 'zeros' AS text, {[0.0] * D} AS embedding"
    rows = f"SELECT text, {cosine} AS c FROM (SELECT * FROM '{path}' UNION ALL {zeros})"
    found = duckdb.sql(f"SELECT text FROM ({rows}) WHERE isfinite(c) ORDER BY c DESC").fetchall()
    assert found == [("a ship",), ("keeper",)]
    first, *_ = duckdb.sql(f"SELECT text FROM ({rows}) ORDER BY c DESC").fetchall()
    assert first == ("zeros",)  # which is why there is a filter
