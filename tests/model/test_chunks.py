"""Cutting texts at spaces, and before them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from st_static.model.chunks import Cut, split_chunks

texts_with_spaces = st.lists(
    st.text(alphabet=["a", "b", " ", "\t", "\n", "é", "\xa0", "東"], max_size=9), max_size=6
)


def pieces(chunks):
    words = chunks.distinct.take(pa.array(chunks.codes)).to_pylist()
    bounds = zip(chunks.offsets[:-1], chunks.offsets[1:], strict=True)
    return [words[start:stop] for start, stop in bounds]


@given(texts_with_spaces)
def test_chunks_are_what_stands_between_spaces(texts):
    chunks = split_chunks(texts)
    assert pieces(chunks) == [text.split(" ") for text in texts]
    assert len(set(chunks.distinct.to_pylist())) == len(chunks.distinct) == len(set(chunks.codes))


@given(texts_with_spaces)
def test_cuts_before_spaces_come_after_visible_ascii(texts):
    chunks = split_chunks(texts, Cut.BEFORE_SPACES)
    for text, found in zip(texts, pieces(chunks), strict=True):
        assert "".join(found) == text
        cuts = [i for i in range(1, len(text)) if text[i] == " " and "!" <= text[i - 1] <= "~"]
        assert len(found) == (len(cuts) + 1 if text else 0)
        assert all(chunk[0] == " " for chunk in found[1:])


@pytest.mark.parametrize("cut", list(Cut))
def test_arrow_arrays_and_slices_of_them(cut):
    texts = ["a b", "", "b c a", "東 京 a"]
    expected = pieces(split_chunks(texts, cut))
    for kind in (pa.string(), pa.large_string()):
        array = pa.array(texts, kind)
        assert pieces(split_chunks(array, cut)) == expected
        assert pieces(split_chunks(array[1:3], cut)) == expected[1:3]
        assert pieces(split_chunks(array[4:], cut)) == []
