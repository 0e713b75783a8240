"""The trainable word table: StaticEmbedding's numbers, sparse gradients, save and load."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from st_static import StaticWordEmbedding
from st_static.tokens.tokenizer import build_tokenizer

WORDS = ["the", "keeper", "ship", "sleep", "cafe", "東"]
TEXTS = ["The keeper sleeps.", "", "café!", "the the ship", "...", "unknown 😀", "東 the\nship"]


def random_table(tokenizer: Tokenizer, dimension: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(tokenizer.get_vocab_size(), dimension)).astype(np.float32)


@pytest.fixture(scope="module")
def tokenizer():
    return build_tokenizer(WORDS, ["##s", "s", "##e", "k"])


@pytest.fixture
def module(tokenizer):
    return StaticWordEmbedding(tokenizer, random_table(tokenizer))


@pytest.fixture(scope="module")
def pair_of_models(tokenizer):
    """Ours and sentence-transformers' own on the same table."""
    table = random_table(tokenizer)
    copy = Tokenizer.from_str(tokenizer.to_str())
    return (
        SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, table)], device="cpu"),
        SentenceTransformer(modules=[StaticEmbedding(copy, table)], device="cpu"),
    )


def test_mean_of_word_vectors_by_hand():
    table = np.array([[9, 9], [0, 0], [1, 3], [3, 1]], dtype=np.float32)
    model = SentenceTransformer(
        modules=[StaticWordEmbedding(build_tokenizer(["hello", "world"]), table)], device="cpu"
    )
    vectors = model.encode(["Hello world", "hello hello world", "world", "", "hello !"])
    expected = [[2, 2], [5 / 3, 7 / 3], [3, 1], [0, 0], [0.5, 1.5]]
    np.testing.assert_allclose(vectors, expected, rtol=1e-6)


def test_vectors_equal_static_embedding(pair_of_models):
    ours, theirs = pair_of_models
    np.testing.assert_array_equal(ours.encode(TEXTS), theirs.encode(TEXTS))


@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_vectors_equal_static_embedding_on_any_text(pair_of_models, texts):
    ours, theirs = pair_of_models
    np.testing.assert_array_equal(ours.encode(texts), theirs.encode(texts))


def test_prompt_is_put_before_the_text(pair_of_models):
    ours, theirs = pair_of_models
    prompted = ours.encode(TEXTS, prompt="keeper ")
    np.testing.assert_array_equal(prompted, theirs.encode(TEXTS, prompt="keeper "))
    np.testing.assert_array_equal(prompted, ours.encode(["keeper " + text for text in TEXTS]))
    assert not np.array_equal(prompted, ours.encode(TEXTS))


def test_preprocess_gives_ids_and_row_starts(module):
    features = module.preprocess(["the keeper", "", "ship"])
    assert features["input_ids"].tolist() == [2, 3, 4]
    assert features["offsets"].tolist() == [0, 2, 2]


def test_dimension_and_unlimited_length(module):
    model = SentenceTransformer(modules=[module], device="cpu")
    assert model.get_embedding_dimension() == 5
    assert model.max_seq_length == float("inf")
    table = module.embedding.weight.detach().numpy()
    text = "the " * 1000 + "ship " * 1000
    np.testing.assert_allclose(model.encode(text), (table[2] + table[4]) / 2, rtol=1e-4)


def test_half_precision_gives_means_and_never_nan(tokenizer):
    table = random_table(tokenizer) * 1000
    table[:2] = 0  # of unknown words
    model = SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, table)], device="cpu")
    texts = ["the keeper " * 5000, "", "?", "ship"]
    expected = model.encode(texts)
    found = model.half().encode(texts)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1)
    assert not found[1:3].any()


@pytest.mark.parametrize("bad", [None, 3, b"the"])
def test_what_is_no_text_is_named(module, bad):
    with pytest.raises(TypeError, match="Expected a str at position 1"):
        module.preprocess(["the", bad])


def gradient(module: StaticWordEmbedding, text: str) -> torch.Tensor:
    features = module.preprocess([text])
    module(features)["sentence_embedding"].sum().backward()
    assert module.embedding.weight.grad is not None
    return module.embedding.weight.grad


def test_gradient_is_sparse_and_covers_the_words_of_the_text(module):
    found = gradient(module, "keeper the the")
    assert found.is_sparse
    assert found.coalesce().indices().tolist() == [[2, 3]]
    dense = torch.zeros(module.embedding.weight.shape)
    dense[2], dense[3] = 2 / 3, 1 / 3
    torch.testing.assert_close(found.to_dense(), dense)


def test_gradient_is_dense_on_demand(tokenizer):
    found = gradient(StaticWordEmbedding(tokenizer, random_table(tokenizer), sparse=False), "the")
    assert not found.is_sparse
    assert found.nonzero()[:, 0].unique().tolist() == [2]


@pytest.mark.parametrize("sparse", [True, False])
def test_saved_model_loads_with_the_same_vectors_and_config(tokenizer, tmp_path, sparse):
    module = StaticWordEmbedding(tokenizer, random_table(tokenizer), sparse=sparse)
    model = SentenceTransformer(modules=[module], device="cpu")
    model.save_pretrained(str(tmp_path))
    loaded = SentenceTransformer(str(tmp_path), trust_remote_code=True, device="cpu")
    assert type(loaded[0]) is StaticWordEmbedding
    assert loaded[0].sparse is sparse
    assert gradient(loaded[0], "the").is_sparse is sparse
    assert loaded[0].tokenizer.to_str() == tokenizer.to_str()
    np.testing.assert_array_equal(loaded.encode(TEXTS), model.encode(TEXTS))


def test_saved_files_are_those_of_static_embedding_and_a_config(module, tmp_path):
    module.save(str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["config.json", "model.safetensors", "tokenizer.json"]
    assert json.loads((tmp_path / "config.json").read_text()) == {"sparse": True}
    assert list(load_file(tmp_path / "model.safetensors")) == ["embedding.weight"]
    theirs = StaticEmbedding.load(str(tmp_path))
    assert torch.equal(theirs.embedding.weight, module.embedding.weight)


def test_torch_weights_do_as_well(module, tmp_path):
    module.save(str(tmp_path), safe_serialization=False)
    assert (tmp_path / "pytorch_model.bin").is_file()
    loaded = StaticWordEmbedding.load(str(tmp_path))
    assert torch.equal(loaded.embedding.weight, module.embedding.weight)


def test_reads_what_static_embedding_wrote(tokenizer, tmp_path):
    StaticEmbedding(tokenizer, random_table(tokenizer)).save(str(tmp_path))
    loaded = StaticWordEmbedding.load(str(tmp_path))
    assert loaded.sparse
    np.testing.assert_array_equal(loaded.embedding.weight.detach(), random_table(tokenizer))


def test_load_gives_the_subclass(module, tmp_path):
    class Mine(StaticWordEmbedding):
        pass

    module.save(str(tmp_path))
    assert type(Mine.load(str(tmp_path))) is Mine


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        StaticWordEmbedding.load(str(tmp_path))


@pytest.mark.parametrize("shape", [(11, 4), (13, 4), (12,), (12, 2, 2), (0, 4)])
def test_tables_that_do_not_fit_the_tokenizer_are_refused(tokenizer, shape):
    assert tokenizer.get_vocab_size() == 12
    with pytest.raises(ValueError, match=r"table of 12 rows.*shape \("):
        StaticWordEmbedding(tokenizer, np.zeros(shape, dtype=np.float32))


def test_torch_tensors_and_double_precision_do_as_well(tokenizer):
    table = torch.from_numpy(random_table(tokenizer)).double()
    model = SentenceTransformer(modules=[StaticWordEmbedding(tokenizer, table)], device="cpu")
    np.testing.assert_allclose(model.encode("ship"), table[4], rtol=1e-6)


def test_two_modules_do_not_share_a_memo(tokenizer):
    other = build_tokenizer(["ship", "the"])
    first = StaticWordEmbedding(tokenizer, random_table(tokenizer))
    second = StaticWordEmbedding(other, random_table(other))
    assert first.preprocess(["ship"])["input_ids"].tolist() == [4]
    assert second.preprocess(["ship"])["input_ids"].tolist() == [2]


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_of_zeros_stay_zero_in_training(sparse):
    tokenizer = build_tokenizer(["hello", "world"])
    table = np.array([[0, 0], [0, 0], [1, 3], [3, 1]], dtype=np.float32)
    module = StaticWordEmbedding(tokenizer, table, sparse=sparse)
    weights = [module.embedding.weight]
    optimizer = torch.optim.SparseAdam(weights) if sparse else torch.optim.Adam(weights)
    for text in ("Hello, world!", "hello", "?!"):
        vectors = module(module.preprocess([text]))["sentence_embedding"]
        vectors.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    trained = weights[0].detach().numpy()
    assert not trained[:2].any()
    assert np.abs(trained[2:] - table[2:]).min() > 1e-4


def test_training_leaves_the_callers_table_alone():
    tokenizer = build_tokenizer(["hello"])
    table = np.ones((3, 2), dtype=np.float32)
    module = StaticWordEmbedding(tokenizer, table)
    with torch.no_grad():
        module.embedding.weight += 1
    assert (table == 1).all()
