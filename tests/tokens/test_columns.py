"""Text columns of several libraries become the same Arrow column."""

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from st_static.tokens.columns import text_column

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
