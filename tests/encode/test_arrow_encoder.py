"""ArrowEncoder adds FastEncoder's vectors to tables, whatever engine and process calls it."""

import itertools
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folder_runs import write_model

from st_static import ArrowEncoder, FastEncoder

TEXTS = ["a ship sails", "", "unheard", "Keeper, ship!", "日本"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "ours"
    write_model(folder)
    return folder


@pytest.fixture(scope="module")
def expected(model):
    return FastEncoder.from_pretrained(model).encode(TEXTS)


def vectors_of(table, name="embedding"):
    return np.stack(pa.table(table)[name].to_numpy())


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_a_table_gets_a_column_more(model, expected, kind):
    table = pa.table({"id": range(5), "text": pa.array(TEXTS, kind)})
    encoded = ArrowEncoder(model)(table)
    assert encoded.column_names == ["id", "text", "embedding"]
    assert encoded.schema.field("embedding").type == pa.list_(pa.float32(), 8)
    assert encoded.drop_columns("embedding").equals(table)
    np.testing.assert_array_equal(vectors_of(encoded), expected)


def test_a_record_batch_stays_one(model, expected):
    batch = pa.record_batch({"body": TEXTS})
    encoded = ArrowEncoder(model, "body", "vector")(batch)
    assert isinstance(encoded, pa.RecordBatch)
    np.testing.assert_array_equal(vectors_of(pa.table(encoded), "vector"), expected)


def test_an_empty_table_has_the_same_columns(model):
    encoder = ArrowEncoder(model)
    empty = pa.table({"text": pa.array([], pa.string())})
    assert encoder(empty).schema == encoder(pa.table({"text": TEXTS})).schema
    assert encoder(empty).schema.field("embedding") == encoder.field


def test_options_are_those_of_the_encoder(model):
    encoder = ArrowEncoder(model, dtype="float16", truncate_dim=4, threads=1, null="empty")
    encoded = encoder(pa.table({"text": ["a ship", None]}))
    assert encoded.schema.field("embedding").type == pa.list_(pa.float16(), 4)
    direct = FastEncoder.from_pretrained(model, dtype="float16", truncate_dim=4)
    np.testing.assert_array_equal(vectors_of(encoded), direct.encode(["a ship", ""]))


def test_it_is_pickled_without_its_table(model, expected):
    encoder = ArrowEncoder(model)
    pickled = pickle.dumps(encoder)
    assert len(pickled) < 1_000
    copies = [pickle.loads(pickled), pickle.loads(pickled)]
    assert copies[0].encoder is copies[1].encoder  # loaded once in a process
    np.testing.assert_array_equal(vectors_of(copies[0](pa.table({"text": TEXTS}))), expected)


def test_a_model_that_was_replaced_is_loaded_again(tmp_path):
    write_model(tmp_path / "model")
    pickled = pickle.dumps(ArrowEncoder(tmp_path / "model"))
    old = pickle.loads(pickled)
    write_model(tmp_path / "model", seed=1)
    new = pickle.loads(pickled)
    assert not np.allclose(old.encoder.encode("ship"), new.encoder.encode("ship"))


def test_a_process_in_another_folder_has_the_same_vectors(model, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(model.parent)
    (tmp_path / "encoder.pkl").write_bytes(pickle.dumps(ArrowEncoder(model.name)))
    code = (
        "import pickle, sys, pyarrow as pa, pyarrow.parquet as pq\n"
        "encoder = pickle.load(open('encoder.pkl', 'rb'))\n"
        "pq.write_table(encoder(pa.table({'text': sys.argv[1:]})), 'out.parquet')"
    )
    subprocess.run([sys.executable, "-c", code, *TEXTS], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(vectors_of(pq.read_table(tmp_path / "out.parquet")), expected)


def test_pandas_and_polars(model, expected):
    encoder = ArrowEncoder(model)
    frame = encoder(pa.Table.from_pandas(pd.DataFrame({"text": TEXTS}))).to_pandas()
    np.testing.assert_array_equal(np.stack(frame["embedding"]), expected)
    lazy = pl.LazyFrame({"text": TEXTS})
    schema = {"text": pl.String, "embedding": pl.Array(pl.Float32, 8)}
    encoded = lazy.map_batches(lambda part: pl.from_arrow(encoder(part.to_arrow())), schema=schema)
    np.testing.assert_array_equal(encoded.collect()["embedding"].to_numpy(), expected)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"body": ["a"]}, "one column 'text' of texts, but the table has no column .* are body"),
        ({"text": ["a"], "embedding": [1]}, "has a column 'embedding' already"),
        ({"text": [1]}, "Expected a column of strings, but got one of type int64"),
        ({"text": ["a", None]}, "Expected a str at position 1, but the text is missing"),
    ],
)
def test_tables_that_do_not_fit_are_refused(model, table, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ArrowEncoder(model)(pa.table(table))


def test_other_things_than_tables_are_refused(model):
    with pytest.raises(TypeError, match="Expected an Arrow table or record batch, but got a list"):
        ArrowEncoder(model)(TEXTS)


def test_texts_without_a_known_word_can_be_refused(model):
    with pytest.raises(ValueError, match="at position 1 has no word that the model knows"):
        ArrowEncoder(model, unknown="error")(pa.table({"text": TEXTS}))


@pytest.mark.parametrize("as_batch", [False, True])
@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_texts_without_a_known_word_can_be_null_or_left_out(model, expected, kind, as_batch):
    batch = (pa.record_batch if as_batch else pa.table)({"text": pa.array(TEXTS, kind)})
    known = [0, 3]
    encoded = ArrowEncoder(model, unknown="null")(batch)
    assert type(encoded) is type(batch)
    assert encoded.schema.field("embedding").type == pa.list_(pa.float32(), 8)
    found = encoded.column(1).to_pylist()
    assert found == [v.tolist() if i in known else None for i, v in enumerate(expected)]
    encoder = ArrowEncoder(model, unknown="skip")
    encoded = encoder(batch)
    assert type(encoded) is type(batch)
    assert encoded.column(0).to_pylist() == [TEXTS[i] for i in known]
    assert encoded.column(1).to_pylist() == expected[known].tolist()
    nothing = encoder(batch.slice(1, 2))
    assert (nothing.num_rows, nothing.schema) == (0, encoded.schema)


@pytest.mark.parametrize("sizes", [[5], [2, 3], [0, 1, 0, 4], []])
def test_polars_reads_null_in_tables_of_several_parts(model, expected, sizes):
    ends = np.cumsum([0, *sizes]).tolist()
    parts = [
        pa.record_batch({"text": pa.array(TEXTS[a:b], pa.string())})
        for a, b in itertools.pairwise(ends)
    ]
    table = pa.Table.from_batches(parts, pa.schema([("text", pa.string())]))
    frame = pl.from_arrow(ArrowEncoder(model, unknown="null")(table))
    known = [vector.tolist() if vector.any() else None for vector in expected[: sum(sizes)]]
    assert frame["embedding"].to_list() == known
    assert frame["embedding"].dtype == pl.Array(pl.Float32, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "no-such-folder"}, "no-such-folder"),
        ({"column": 3}, "Expected the name of a column"),
        ({"null": "drop"}, "Expected null to be"),
        ({"unknown": "drop"}, "Expected unknown to be"),
        ({"dtype": "int4"}, "Expected the dtype"),
    ],
)
def test_wrong_arguments_are_refused_at_once(model, arguments, message):
    with pytest.raises((TypeError, ValueError, OSError), match=message):
        ArrowEncoder(**{"model": model, **arguments})
