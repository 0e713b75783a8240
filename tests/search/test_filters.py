"""Filters: the best of the texts that pass, by an expression, a mask or SQL."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static import FastEncoder, SearchIndex
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer
from st_static.search.filters import passing_sql

COLUMNS = {
    "text": ["the auto", "a red boat", "the boat X7 is red", "", "?! zzz"],
    "lang": ["en", "de", "en", None, "de"],
    "price": [5.0, 12.5, None, 1.0, 30.0],
    "made": [datetime.date(2026, month, 1) for month in range(1, 6)],
    "new": [True, None, False, True, True],
}
PRICE, LANG = pc.field("price"), pc.field("lang")


@pytest.fixture(scope="module")
def encoder() -> FastEncoder:
    """A model that does not know `zzz`, `xyz` and `X7`."""
    tokenizer = build_tokenizer(["car", "auto", "boat", "red", "the", "is"])
    rows = tokenizer.get_vocab()
    table = np.zeros((len(rows), 5))
    for word in ("car", "auto", "boat", "red", "the", "is"):
        table[rows[word]] = np.random.default_rng(len(word)).normal(size=5)
    model = StaticModel(tokenizer, table.astype(np.float32), normalize=True, name="cars")
    return FastEncoder(model, threads=2)


@pytest.fixture(scope="module")
def index(encoder: FastEncoder) -> SearchIndex:
    return SearchIndex.build(encoder, COLUMNS["text"], COLUMNS)


def positions(index: SearchIndex, where) -> set[int]:
    return {hit.position for hit in index.search("the red boat zzz", where=where)}


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 30, 400]),
    st.sampled_from([1, 50, 6_000]),
    st.sampled_from([0, 0.0005, 0.015, 0.03, 0.5, 1]),
    st.sampled_from(["the red car zzz", "auto", "boat zzz", "zzz xyz", "the"]),
    st.sampled_from(["both", "meaning", "words"]),
)
def test_the_best_that_pass_are_those_of_all(encoder, seed, n_texts, n, share, query, by) -> None:
    """Whether few pass or many, with the same scores, and among equal ones the first."""
    rng = np.random.default_rng(seed)
    words = ["car", "auto", "Auto", "boat", "red", "the", "is", "zzz", "xyz"]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 9))) for _ in range(n_texts)]
    index = SearchIndex.build(encoder, [texts[i] for i in rng.integers(n_texts, size=n)])
    mask = rng.random(n) < share
    expected = [hit for hit in index.search(query, top=n, by=by) if mask[hit.position]]
    for top in (1, 7, n):
        assert index.search(query, top=top, by=by, where=mask) == expected[:top]
    assert index.search([query, "red"], by=by, where=mask)[0] == expected[:10]


@pytest.mark.parametrize(
    ("expression", "sql", "expected"),
    [
        (PRICE < 10, "price < 10", {0, 3}),
        (~(PRICE < 10), "NOT price < 10", {1, 4}),  # null passes neither
        (PRICE.is_null(), "price IS NULL", {2}),
        (LANG.isin(["en"]) | pc.field("new"), "lang IN ('en') OR new", {0, 2, 3, 4}),
        (pc.field("new"), "new", {0, 3, 4}),
        (pc.match_substring(pc.field("text"), "boat"), "text LIKE '%boat%'", {1, 2}),
        (pc.field("made") >= datetime.date(2026, 4, 1), "made >= '2026-04-01'", {3, 4}),
        (PRICE > 1000, "price > 1000 -- nothing", set()),
    ],
)
def test_expressions_and_sql_tell_the_same(index, expression, sql: str, expected: set) -> None:
    assert positions(index, expression) == expected - {3}  # which has no word
    assert set(np.flatnonzero(passing_sql(sql, index.rows))) == expected


MASK = [True, False, True, False, False]


@pytest.mark.parametrize(
    "mask",
    [
        MASK,
        np.array(MASK),
        [True, None, True, False, None],
        pa.array(MASK),
        pa.chunked_array([pa.array([True, None]), pa.array([True, False, None])]),
        pa.chunked_array([pa.array([False, *MASK]).slice(1)]),
        pd.Series(MASK, index=[5, 3, 1, 9, 9]),
        pd.Series([True, None, True, False, None], dtype="boolean"),
        pl.Series([True, None, True, False, None]),
    ],
    ids=lambda mask: type(mask).__module__.partition(".")[0],
)
def test_masks_of_any_library_are_taken(index: SearchIndex, mask) -> None:
    assert positions(index, mask) == {0, 2}
    assert positions(index, [None] * 5) == set()


def test_a_filter_changes_no_score(index: SearchIndex) -> None:
    before = {hit.position: hit for hit in index.search("red boat")}
    assert index.search("red boat", where=PRICE > 10) == [before[1]]
    assert index.search("zzz", where=PRICE > 10) == index.search("zzz")


@pytest.mark.parametrize(
    ("where", "kind", "says"),
    [
        (pc.field("cost") < 1, ValueError, r"over the columns text, lang, price, made, new, or 5 "),
        (pc.field("cost") < 1, ValueError, r"but got an Expression \(No match for .*cost"),
        (pc.scalar(True), ValueError, r"but got an Expression \(it names no column\)\."),
        (PRICE + 1, TypeError, "but got an Expression, of type double"),
        (LANG < 1, ValueError, r"\(Function 'less' has no kernel"),
        (pc.divide(pc.field("made").cast("int32"), 0) > 1, ValueError, r"\(divide by zero\)"),
        ([True], ValueError, "or 5 booleans, but got 1"),
        (pa.array([True] * 6), ValueError, "or 5 booleans, but got 6"),
        ([], ValueError, "or 5 booleans, but got 0"),
        ([0, 1, 0, 1, 1], TypeError, "but got a list, of type int64"),
        (np.ones((5, 5), bool), TypeError, r"but got an ndarray \("),
        ("price < 10", TypeError, "or 5 booleans, but got 'price < 10', of type string"),
        (5, TypeError, "booleans, but got 5"),
        (pl.col("price") < 10, TypeError, "booleans, but got an Expr"),
    ],
)
def test_what_is_no_filter_is_refused_before_encoding(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch, where, kind, says: str
) -> None:
    monkeypatch.setattr(FastEncoder, "encode_query", None)
    with pytest.raises(kind, match=says) as refused:
        index.search("red", where=where)
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("cost < 1", 'column "cost" not found'),
        ('lang = "en"', 'column "en" not found'),
        ("price <", "syntax error at"),
        ("", "Parser Error"),
        ("true; DROP TABLE x", "Parser Error"),
        ("new) FROM range(3) WHERE (true", "syntax error at"),
        ("new FROM range(3)", "Parser Error"),
        ("new WHERE false", "Parser Error"),
        ("new LIMIT 1", "Parser Error"),
        ("new AS price", "Parser Error"),
        ("new /* and price < 10", "unterminated"),
        ("new) --", "syntax error at"),
        ("new, new", "single expression"),
        ("max(price) > 3", "cannot contain aggregates"),
        ("row_number() OVER () < 3", "cannot contain window functions"),
        ("unnest([true, false])", "(?i)unnest"),
        ("lang IN (SELECT content FROM read_text('/etc/hostname'))", "disabled by configuration"),
        ("lang IN (SELECT lang FROM variable)", "Table with name variable does not exist"),
        ("stem(lang, 'porter') = 'en'", "exists in the fts extension"),  # which is not fetched
        ("lang::INTEGER = 1", "Could not convert string 'en'"),
        ("price", "expected one boolean a row, but it gives DOUBLE"),
        ("COLUMNS(*) IS NULL", "expected one boolean a row, but it gives BOOLEAN, BOOLEAN"),
        ("'lang' = 'en'", "names no column"),
        ("EXISTS (SELECT 1)", "names no column"),
    ],
)
def test_sql_that_is_no_condition_is_refused_in_a_sentence(index, sql: str, says: str) -> None:
    variable = pa.table(COLUMNS)  # which DuckDB would find
    with pytest.raises(ValueError, match=says) as refused:
        passing_sql(sql, variable)
    said = str(refused.value)
    assert said.startswith("--where ")
    assert "\n" not in said
    assert "LINE 1" not in said
    assert "__position" not in said
    gives = "but it gives" in said
    assert gives or "The index has the columns text, lang, price, made, new; others get" in said
    if "convert" not in says:  # which only a row tells
        with pytest.raises(ValueError, match=says):
            passing_sql(sql, variable.slice(0, 0))


def test_comments_and_quotes_of_one_expression_are_taken(index: SearchIndex) -> None:
    for sql in ("new -- 'all'", "/* ; */ new", "new\n", "(new)", "lang <> ';' AND new OR price<2"):
        assert passing_sql(sql, index.rows)[[0, 1, 3]].tolist() == [True, False, True]


def test_answers_are_in_the_order_of_the_rows() -> None:
    """Also where DuckDB changes it, as for subqueries."""
    rows = pa.table({"id": range(300_000)})
    rows = pa.concat_tables([rows.slice(i, 65_536) for i in range(0, len(rows), 65_536)])
    sql = "EXISTS (SELECT 1 FROM range(30) r(i) WHERE i * 1000 = id)"
    assert np.flatnonzero(passing_sql(sql, rows)).tolist() == [*range(0, 30_000, 1_000)]
    assert passing_sql("id % 3 = 1", rows).nonzero()[0].tolist() == [*range(1, 300_000, 3)]


@pytest.mark.parametrize("names", [["Lang", "lang"], ["lang", "__Position"]])
def test_columns_that_sql_cannot_tell_apart_are_refused(names: list[str]) -> None:
    rows = pa.table({name: [1, 2] for name in names})
    with pytest.raises(ValueError, match=f"ignores case, .* some of {', '.join(names)}"):
        passing_sql("lang = 1", rows)


def test_the_number_of_a_row_is_no_column_of_sql() -> None:
    with pytest.raises(ValueError, match="DuckDB refuses it"):
        passing_sql("price > 1 AND __position < 1", pa.table({"price": [1, 2]}))
