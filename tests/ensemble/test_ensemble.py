"""The dot product of ensembles is the weighted mean of the members' cosines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from st_static import Ensemble, FastEncoder
from st_static.model.head import Head
from st_static.model.static_model import StaticModel


class Fixed:
    """A member with given vectors, whatever the texts."""

    def __init__(self, vectors):
        self.vectors = np.asarray(vectors, dtype=np.float32)

    def encode(self, texts):
        return self.vectors


values = st.floats(-10, 10, width=32).map(lambda x: x if abs(x) > 1e-3 else 0.0)
members = st.lists(arrays.arrays(np.float32, (2, 3), elements=values), min_size=1, max_size=4)
weights = st.lists(st.floats(0.1, 5), min_size=4, max_size=4)


def cosine(a, b):
    norms = np.linalg.norm(a.astype(float)) * np.linalg.norm(b.astype(float))
    return a.astype(float) @ b.astype(float) / norms if norms else 0.0


@given(members, weights)
def test_dot_products_are_weighted_means_of_cosines(tables, weights):
    weights = weights[: len(tables)]
    x, y = Ensemble([Fixed(t) for t in tables], weights).encode(["x", "y"])
    squares = np.square(weights)
    expected = sum(w * cosine(*t) for w, t in zip(squares, tables, strict=True)) / squares.sum()
    assert x.astype(float) @ y.astype(float) == pytest.approx(expected, abs=1e-6)
    known = [w for w, t in zip(squares, tables, strict=True) if t[0].any()]
    assert np.linalg.norm(x) == pytest.approx(np.sqrt(sum(known) / squares.sum()), abs=1e-6)


def test_members_with_tokenizers_of_their_own(tokenizers_by_family, sentences):
    rng = np.random.default_rng(0)
    encoders = [
        FastEncoder(StaticModel(t, rng.normal(size=(t.get_vocab_size(), 5 + i)), normalize=False))
        for i, t in enumerate(tokenizers_by_family.values())
    ]
    vectors = Ensemble(encoders).encode([*sentences, ""])
    assert vectors.shape == (len(sentences) + 1, 5 + 6 + 7)
    np.testing.assert_allclose(np.linalg.norm(vectors[:-1], axis=1), 1, atol=1e-6)
    first = encoders[0].encode(sentences)
    first /= np.linalg.norm(first, axis=1, keepdims=True) * np.sqrt(3)
    np.testing.assert_allclose(vectors[:-1, :5], first, atol=1e-6)


def test_members_with_heads(tokenizers_by_family, sentences):
    rng = np.random.default_rng(0)
    models = []
    for tokenizer in tokenizers_by_family.values():
        head = Head(rng.normal(size=(3, 5)), rng.normal(size=(5, 3)))
        table = rng.normal(size=(tokenizer.get_vocab_size(), 5))
        models.append(StaticModel(tokenizer, table, normalize=True, head=head))
    found = Ensemble([FastEncoder(model) for model in models], [1, 2, 3]).encode(sentences)
    expected = []
    for model, weight in zip(models, [1, 2, 3], strict=True):
        ids = (model.tokenizer.encode(text, add_special_tokens=False).ids for text in sentences)
        x = np.stack([model.table[row].mean(axis=0) for row in ids])
        z = x + np.maximum(x @ model.head.first.T, 0) @ model.head.second.T
        expected.append(weight * z / np.linalg.norm(z, axis=1, keepdims=True) / np.sqrt(14))
    np.testing.assert_allclose(found, np.concatenate(expected, axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("n", "weights", "says"),
    [
        (0, None, "at least one member"),
        (2, [1.0], "each of the 2 members, but got 1"),
        (2, [1.0, 0.0], "weight 1 is 0.0"),
        (2, [-1.0, 1.0], r"weight 0 is -1.0"),
        (1, [float("nan")], "weight 0 is nan"),
        (1, [float("inf")], "weight 0 is inf"),
        (2, [1.0, "a"], "weight 1 is 'a'"),
        (2, [None, 1.0], "weight 0 is None"),
    ],
)
def test_weights_that_do_not_fit(n, weights, says):
    with pytest.raises(ValueError, match=says):
        Ensemble([Fixed([[1.0]])] * n, weights)


def test_a_member_with_another_number_of_rows_is_named():
    ensemble = Ensemble([Fixed(np.ones((2, 3))), Fixed(np.ones((1, 3)))])
    with pytest.raises(ValueError, match=r"Member 1 gave vectors of the shape \(1, 3\) for 2"):
        ensemble.encode(["a", "b"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_member_that_gives_no_finite_numbers_is_named(value):
    ensemble = Ensemble([Fixed(np.ones((2, 3))), Fixed([[1.0], [value]])])
    with pytest.raises(ValueError, match=r"Member 1 gave NaN or infinity for 1 of 2 texts.* 'b'"):
        ensemble.encode(["a", "b"])


@pytest.mark.parametrize("member", ["models/ours", None])
def test_what_is_no_model_is_named(member):
    with pytest.raises(ValueError, match=f"member 1 is {member!r}"):
        Ensemble([Fixed([[1.0]]), member])


def test_members_of_a_generator_and_one_text():
    ensemble = Ensemble(Fixed([[i + 1.0]]) for i in range(2))
    assert len(ensemble.members) == 2
    with pytest.raises(ValueError, match="got one str"):
        ensemble.encode("a")
