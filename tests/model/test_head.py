"""A model with a head: equal vectors in every runtime, and none where the head would be lost."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel as Model2Vec
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

import st_static
from st_static.distill.static_word_embedding import as_static_model
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.modules import Segment
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer

WORDS = ["ships", "sail", "cold", "water", "ice"]
TEXTS = ["Ships sail.", "cold cold water", "qqq", "", "ice " * 300, "Cold ice sail ships water"]
D, H = 6, 4


def make_table() -> np.ndarray:
    table = np.random.default_rng(0).normal(size=(len(WORDS) + 2, D)).astype(np.float32)
    table[:2] = 0
    return table


def make_head(seed: int = 1, dimension: int = D, units: int = H) -> Head:
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(units, dimension)).astype(np.float32)
    return Head(first, rng.normal(size=(dimension, units)).astype(np.float32))


def by_hand(texts: list[str], table: np.ndarray, head: Head, normalize: bool = True) -> np.ndarray:
    """The formula in float64, a number at a time."""
    tokenizer = build_tokenizer(WORDS)
    rows = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        mean = table[ids].astype(np.float64).sum(axis=0) / max(1, len(ids))
        hidden = [max(0.0, float(np.dot(row, mean))) for row in head.first]
        vector = mean + head.second.astype(np.float64) @ hidden
        rows.append(vector / (np.linalg.norm(vector) or 1.0) if normalize else vector)
    return np.array(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("head") / "model"
    export_model(path, make_table(), build_tokenizer(WORDS), {}, head=make_head())
    return path


@pytest.fixture(scope="module")
def expected():
    return by_hand(TEXTS, make_table(), make_head())


def test_all_runtimes_give_the_formula(folder, expected):
    model = SentenceTransformer(str(folder), device="cpu")
    fast = FastEncoder.from_pretrained(folder)
    singles = np.stack([fast.encode(text) for text in TEXTS])
    many = fast.encode(TEXTS * 500)[: len(TEXTS)]
    for vectors in (model.encode(TEXTS), fast.encode(TEXTS), singles, many):
        np.testing.assert_allclose(vectors, expected, atol=5e-6)
    assert not expected[2:4].any()  # texts without a known word


def test_a_loaded_model_gives_its_head_back(folder, expected):
    loaded = as_static_model(SentenceTransformer(str(folder), device="cpu"))
    np.testing.assert_allclose(FastEncoder(loaded).encode(TEXTS), expected, atol=5e-6)


def test_the_modules_are_sentence_transformers_own(folder):
    modules = json.loads((folder / "modules.json").read_text())
    assert [(module["type"].rpartition(".")[2], module["path"]) for module in modules] == [
        ("StaticEmbedding", "word_table"),
        ("Dense", "1_Dense"),
        ("Dense", "2_Dense"),
        ("Normalize", "3_Normalize"),
    ]
    assert {m["type"].rpartition(".")[0] for m in modules} == {"sentence_transformers.models"}


def test_fewer_dimensions_are_the_first_ones(folder, expected):
    model = SentenceTransformer(str(folder), device="cpu", truncate_dim=3)
    fast = FastEncoder.from_pretrained(folder, truncate_dim=3)
    for vectors in (model.encode(TEXTS), fast.encode(TEXTS), [fast.encode(t) for t in TEXTS]):
        np.testing.assert_allclose(vectors, expected[:, :3], atol=5e-6)


def test_in_half_precision(tmp_path, expected):
    path = tmp_path / "model"
    export_model(path, make_table(), build_tokenizer(WORDS), {}, dtype="float16", head=make_head())
    stored = [load_file(path / part / "model.safetensors") for part in ("word_table", "1_Dense")]
    assert {array.dtype for arrays in stored for array in arrays.values()} == {np.dtype("float16")}
    known = expected.any(axis=1)
    for model in (SentenceTransformer(str(path), device="cpu"), FastEncoder.from_pretrained(path)):
        np.testing.assert_allclose(model.encode(TEXTS)[known], expected[known], atol=5e-3)
    halves = FastEncoder.from_pretrained(path, dtype="float16").encode(TEXTS)
    np.testing.assert_allclose(halves, expected, atol=5e-3)


def test_nothing_loads_the_table_without_its_head(folder):
    with pytest.raises(ValueError, match="layouts"):
        Model2Vec.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"has a head.*SentenceTransformer\(…\) loads it"):
        st_static.StaticWordEmbedding.load(str(folder))
    head = read_static_model(folder).head
    np.testing.assert_array_equal(head.first, make_head().first)
    np.testing.assert_array_equal(head.second, make_head().second)


def test_a_model_of_the_other_form_is_replaced(tmp_path):
    """Nothing of the old form stays that a runtime might take for the model."""
    small = make_table(), build_tokenizer(WORDS), {}
    for first, second in (({}, {"head": make_head()}), ({"head": make_head()}, {})):
        export_model(tmp_path / "model", *small, **first)
        export_model(tmp_path / "model", *small, **second)
        export_model(tmp_path / "new", *small, **second)
        names = [
            {path.relative_to(tmp_path / name) for path in (tmp_path / name).rglob("*")}
            for name in ("model", "new")
        ]
        assert names[0] == names[1]


@given(st.integers(0, 100), st.integers(1, 9), st.integers(1, 9))
def test_two_plain_layers_compute_the_same(seed, dimension, units):
    head = make_head(seed, dimension, units)
    vector = np.random.default_rng(seed).normal(size=dimension)
    hidden, output = (layer.weight.astype(np.float64) for layer in head.as_dense())
    by_layers = output @ np.maximum(hidden @ vector, 0)
    direct = vector + head.second @ np.maximum(head.first.astype(np.float64) @ vector, 0)
    np.testing.assert_allclose(by_layers, direct, atol=1e-12)
    np.testing.assert_array_equal(Head.of_dense(head.as_dense()).first, head.first)


def change(folder, part: str, change_arrays) -> None:
    file = folder / part / "model.safetensors"
    arrays = load_file(file)
    change_arrays(arrays)
    save_file(arrays, file)


@pytest.mark.parametrize(
    ("part", "change_arrays", "message"),
    [
        ("1_Dense", lambda a: a["linear.weight"].__setitem__((-1, -1), 2), "carry the vector past"),
        ("2_Dense", lambda a: a.update({"linear.bias": np.ones(D, np.float32)}), "has a bias"),
        ("2_Dense", lambda a: a.pop("linear.weight"), "linear.weight"),
    ],
)
def test_a_head_that_is_not_of_our_form_is_refused(tmp_path, part, change_arrays, message):
    path = tmp_path / "model"
    export_model(path, make_table(), build_tokenizer(WORDS), {}, head=make_head())
    change(path, part, change_arrays)
    with pytest.raises(ValueError, match=message):
        read_static_model(path)


def test_layers_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\[H, D\] and \[D, H\], but their shapes are"):
        Head(np.ones((3, 2)), np.ones((3, 2)))
    table, tokenizer = make_table(), build_tokenizer(WORDS)
    with pytest.raises(ValueError, match="Expected a head of 6 dimensions"):
        StaticModel(tokenizer, table, True, head=make_head(dimension=D + 1))
    with pytest.raises(ValueError, match="no segments"):
        StaticModel(tokenizer, table, True, segments=(Segment(D, 1.0),), head=make_head())
