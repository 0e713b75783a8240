"""Between numpy and Arrow, equal to what pyarrow itself gives."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.tokens import arrow

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
