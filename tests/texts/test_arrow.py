"""Between numpy and Arrow, equal to what pyarrow itself gives."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.texts import arrow

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])))


@given(TEXTS, st.integers(0, 3))
def test_strings_and_their_bytes(texts, start):
    array = arrow.strings(texts)
    assert array.equals(pa.array(texts, pa.large_string()))
    again = arrow.strings_of_bytes(*arrow.bytes_of_strings(array[start:]))
    assert again.to_pylist() == texts[start:]


def test_half_of_a_surrogate_pair_is_no_text():
    with pytest.raises(UnicodeEncodeError):
        arrow.strings(["a", "\ud800"])


@given(st.lists(st.booleans()), st.integers(0, 9))
def test_masks_and_numbers(values, start):
    expected = np.array(values, np.bool_)
    array = arrow.of_mask(expected)
    assert array.equals(pa.array(values, pa.bool_()))
    np.testing.assert_array_equal(arrow.mask(array[start:]), expected[start:])
    numbers = pa.array(np.cumsum(expected), pa.int32())
    np.testing.assert_array_equal(arrow.numbers(numbers[start:]), np.cumsum(expected)[start:])


@given(st.lists(st.booleans(), min_size=1))
def test_rows_of_columns_that_arrow_filters_and_of_those_that_it_does_not(kept):
    texts = [None if i % 3 == 2 else f"number {i:20}" for i in range(len(kept))]
    number = list(range(len(kept)))
    views = pa.array(texts, pa.string_view())
    table = pa.table({"n": number, "view": views, "raw": views.cast(pa.binary_view())})
    nested = pa.array([[text] for text in texts], pa.list_(pa.string_view()))
    struct = pa.StructArray.from_arrays([views], ["a"])
    table = table.append_column("nested", nested).append_column("struct", struct)
    for some in (table, table.select(["n"]), table.slice(1)):
        keep = np.array(kept[-len(some) :] if len(some) else [], np.bool_)
        found = arrow.rows_where(some, keep)
        assert found.schema == some.schema
        rows = zip(some.to_pylist(), keep.tolist(), strict=True)
        assert found.to_pylist() == [row for row, is_kept in rows if is_kept]
