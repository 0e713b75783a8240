"""Text columns of several libraries become the same Arrow column."""

import functools

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from st_static.texts.columns import text_column

TEXTS = ["one", "", "zwei é", "三"]


def columns():
    dataset = datasets.Dataset.from_dict({"id": list(range(4)), "text": TEXTS})
    return {
        "list": TEXTS,
        "tuple": tuple(TEXTS),
        "generator": (text for text in TEXTS),
        "numpy": np.array(TEXTS),
        "numpy strings in a list": [np.str_(text) for text in TEXTS],
        "keys": dict.fromkeys(TEXTS).keys(),
        "numpy objects": np.array(TEXTS, dtype=object),
        "arrow": pa.array(TEXTS),
        "arrow view": pa.array(TEXTS, pa.string_view()),
        "arrow chunks": pa.chunked_array([TEXTS[:1], TEXTS[1:]]),
        "arrow dictionary": pa.array(TEXTS).dictionary_encode(),
        "arrow dictionary of views": pa.DictionaryArray.from_arrays(
            pa.array([0, 1, 2, 3], pa.uint8()), pa.array(TEXTS, pa.string_view())
        ),
        "arrow dictionaries": pa.chunked_array(
            [pa.array(TEXTS[:1]).dictionary_encode(), pa.array(TEXTS[1:]).dictionary_encode()]
        ),
        "polars": pl.Series(TEXTS),
        "pandas": pd.Series(TEXTS),
        "pandas objects": pd.Series(TEXTS, dtype=object),
        "pandas arrow": pd.Series(TEXTS, dtype=pd.ArrowDtype(pa.string())),
        "pandas sliced": pd.Series([*TEXTS, "x"], index=list("edcba"))[:4],
        "pandas categories": pd.Series(TEXTS, dtype="category"),
        "polars categories": pl.Series(TEXTS, dtype=pl.Categorical),
        "datasets": dataset["text"],
        "datasets nested": datasets.Dataset.from_list([{"d": {"t": t}} for t in TEXTS])["d"]["t"],
        "datasets stream": dataset.to_iterable_dataset()["text"],
        "datasets shuffled": dataset.select([3, 2, 1, 0]).select([3, 2, 1, 0])["text"],
    }


def numbered(batch):
    """A transform, which makes other texts and needs another column for it."""
    return {"text": [f"{i} {text}" for i, text in zip(batch["id"], batch["text"], strict=True)]}


@functools.cache
def dataset_columns():
    """Columns of datasets, and what iterating them shows, out of what wraps single texts."""
    rows = {"id": [3, 1, 2], "text": ["c", "a", "b"]}
    dataset = datasets.Dataset.from_dict(rows)
    stream = dataset.to_iterable_dataset()
    nested = datasets.Dataset.from_dict({"d": [{"t": text} for text in "cab"]})
    features = datasets.Features({"text": datasets.Json()})
    decoded = datasets.Dataset.from_dict({"text": ["c", "a"]}, features=features)
    changed = dataset.with_transform(numbered)
    names = dataset.with_transform(lambda batch: {"id": [f"no. {i}" for i in batch["id"]]})
    capitals = nested.with_transform(lambda batch: {"d": [{"t": d["t"] * 2} for d in batch["d"]]})
    columns = {
        "of a transform": (changed["text"], ["3 c", "1 a", "2 b"]),
        "of some of a transform": (changed.select([2, 0])["text"], ["2 b", "3 c"]),
        "of a transform of numbers": (names["id"], ["no. 3", "no. 1", "no. 2"]),
        "of a nested transform": (capitals["d"]["t"], ["cc", "aa", "bb"]),
        "of a mapped stream": (stream.map(numbered, batched=True)["text"], ["3 c", "1 a", "2 b"]),
        "of a nested stream": (nested.to_iterable_dataset()["d"]["t"], ["c", "a", "b"]),
        "of a filter": (dataset.filter(lambda row: row["id"] > 1)["text"], ["c", "b"]),
        "of sorted rows": (dataset.sort("id")["text"], ["a", "b", "c"]),
        "joined": (datasets.concatenate_datasets([dataset, dataset])["text"], list("cabcab")),
        "decoded": (decoded["text"], ["c", "a"]),
        "not shown": (dataset.with_format("torch", columns=["id"])["text"], ["c", "a", "b"]),
    }
    for name in ("numpy", "torch", "pandas", "arrow", "polars"):
        columns[name] = dataset.with_format(name)["text"], ["c", "a", "b"]
        columns[f"{name} stream"] = stream.with_format(name)["text"], ["c", "a", "b"]
    return columns


@pytest.mark.parametrize("kind", dataset_columns())
def test_columns_of_datasets_are_what_a_user_sees(kind):
    column, expected = dataset_columns()[kind]
    assert text_column(column).to_pylist() == expected


def test_of_images_not_all_are_decoded_before_they_are_refused():
    decoded = []

    def count(batch):
        decoded.extend(batch["id"])
        return batch

    images = datasets.Dataset.from_dict({"id": range(1_000)}).with_transform(count)
    with pytest.raises(TypeError, match="position 0, but got int: 0"):
        text_column(images["id"])
    assert len(decoded) < 100


@pytest.mark.parametrize("kind", columns())
def test_columns_of_all_kinds(kind):
    column = text_column(columns()[kind])
    assert column.type == pa.large_string()
    assert column.to_pylist() == TEXTS


def test_arrow_columns_are_not_copied():
    array = pa.array(TEXTS, pa.large_string())
    assert text_column(array).chunk(0).buffers()[2].address == array.buffers()[2].address


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["a", None], "position 1, but the text is missing"),
        (["a", 3], "position 1, but got int: 3"),
        ([b"a"], "position 0, but got bytes"),
        (["a", "b", float("nan")], "position 2, but the text is missing"),
        (["a", 2.5], "position 1, but got float: 2.5"),
        (["a", pd.NA], "position 1, but the text is missing"),
        (pd.Series(["a", pd.NA], dtype=object), "position 1, but the text is missing"),
        (pd.Series(["a", np.array([1, 2])], dtype=object), "position 1, but got ndarray"),
        (["a", ["b"]], r"position 1, but got list: \['b'\]"),
        (["a", "y" * 300, ["x" * 300]], r"position 2, but got list: \['x{12}\.\.\.x{13}'\]$"),
        (None, "list or column of str, but got None"),
        (3, "list or column of str, but got int"),
        (bytearray(b"text"), "list or column of str, but got bytearray"),
        ({"a", "b"}, "list or column of str, but got set, which has no order"),
        ({"text": ["a"]}, "list or column of str, but got dict"),
        (
            pd.DataFrame({"text": ["a"]}),
            r'got a table \(DataFrame\). Name its column: table\["text"',
        ),
        (pl.DataFrame({"text": ["a"]}), r"got a table \(DataFrame\). Name its column"),
        (pa.table({"text": ["a"]}), r"got a table \(Table\). Name its column"),
        (np.array([["a", "b"]]), "one dimension, but got an array of 2: ndarray"),
        (np.array("a"), "one dimension, but got an array of 0: ndarray"),
        (np.array(["a", None], dtype=object), "position 1, but the text is missing"),
        (pa.array(["a", "b", None]), "position 2, but the text is missing"),
        (pa.chunked_array([["a"], [None]]), "position 1, but the text is missing"),
        (pl.Series(["a", None]), "position 1, but the text is missing"),
        (pd.Series(["a", float("nan")]), "position 1, but (the text is missing|got float: nan)"),
        (pd.Series(["a", None], dtype="string"), "position 1, but the text is missing"),
        (pa.array([1, 2]), "column of strings, but got one of type int64"),
        (pa.array([b"a"]), "column of strings, but got one of type binary"),
        (pd.Series([1, 2]), "column of strings, but got one of type int64"),
        (pd.Series(["a", 3], dtype=object), "position 1, but got int: 3"),
        (pd.Series(["a", b"b"], dtype=object), "position 1, but got bytes"),
        (pa.array([b"a"]).dictionary_encode(), "column of strings, but got one of type dictionary"),
        (pa.array([1]).dictionary_encode(), "column of strings, but got one of type dictionary"),
        (pa.nulls(2), "position 0, but the text is missing"),
        (datasets.Dataset.from_dict({"n": [1, 2]})["n"], "column of strings, but .* int64"),
        (
            datasets.Dataset.from_dict({"n": ["a", "b"]}).with_transform(lambda rows: {"n": [1]})[
                "n"
            ],
            "position 0, but got int: 1",
        ),
        (b"text", "list or column of str, but got bytes"),
        ([None], "position 0"),
    ],
)
def test_what_is_no_text_is_named_by_its_position(texts, says):
    with pytest.raises(TypeError, match=says):
        text_column(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["a", None],
        pa.array(["a", None]),
        pl.Series(["a", None]),
        pd.Series(["a", None], dtype=object),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
        datasets.Dataset.from_dict({"text": ["a", None]}).with_format("numpy")["text"],
        datasets.Dataset.from_dict({"text": ["a", None]}).with_transform(dict)["text"],
    ],
)
def test_missing_texts_may_be_empty(texts):
    assert text_column(texts, null="empty").to_pylist() == ["a", ""]


def test_only_missing_texts():
    assert text_column([None, None], null="empty").to_pylist() == ["", ""]
    assert text_column([]).to_pylist() == []


def test_pandas_marks_missing_texts_by_nan():
    for column in (pd.Series(["a", float("nan")], dtype=object), ["a", float("nan")], ["a", pd.NA]):
        assert text_column(column, null="empty").to_pylist() == ["a", ""]
    with pytest.raises(ValueError, match='null to be "error" or "empty", but got \'x\''):
        text_column(["a"], null="x")


def test_half_a_surrogate_pair():
    with pytest.raises(ValueError, match="text at position 1 is not valid Unicode"):
        text_column(["a", "b\ud800"])
