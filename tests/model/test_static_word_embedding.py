"""The trainable word table: a StaticEmbedding that saves, trains and encodes as one."""

import copy
import json
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel
from safetensors.torch import load_file, save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedGISTEmbedLoss,
    CachedMultipleNegativesRankingLoss,
    GISTEmbedLoss,
    MegaBatchMarginLoss,
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding
from small_build import model_bytes
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from st_static import StaticWordEmbedding
from st_static.model.tokenizer import build_tokenizer

WORDS = ["the", "keeper", "ship", "sleep", "cafe", "東"]
TEXTS = ["The keeper sleeps.", "", "café!", "the the ship", "...", "unknown 😀", "東 the\nship"]


class Mine(StaticWordEmbedding):
    """A subclass of a user."""


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
    prompted = ours.encode(["keeper " + text for text in TEXTS])
    np.testing.assert_array_equal(ours.encode(TEXTS, prompt="keeper "), prompted)
    for texts in (TEXTS, [("the ship", "東"), ("keeper", "")]):
        prompted = ours.encode(texts, prompt="keeper ")
        np.testing.assert_array_equal(prompted, theirs.encode(texts, prompt="keeper "))
        assert not np.array_equal(prompted, ours.encode(texts))


@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_vectors_equal_static_embedding_on_any_text(pair_of_models, texts):
    ours, theirs = pair_of_models
    np.testing.assert_array_equal(ours.encode(texts), theirs.encode(texts))


@pytest.mark.parametrize(
    "pairs",
    [
        np.array([["the keeper", "ship"], ["", "café sleeps"], ["", ""]]),
        np.array([["the keeper", "ship"]], dtype=object),
        [["the keeper", "ship"], ["東", "unknown"]],
        [("the keeper", "ship"), ("東", "unknown")],
        ["the ship", ("keeper", "sleeps"), "東"],
    ],
    ids=["array", "objects", "lists", "tuples", "mixed"],
)
def test_pairs_of_texts_are_read_as_static_embedding_reads_them(pair_of_models, pairs):
    ours, theirs = pair_of_models
    np.testing.assert_array_equal(ours.encode(pairs), theirs.encode(pairs))
    assert ours.encode(pairs).any()


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


def bags_of(rows: list[np.ndarray]) -> dict[str, torch.Tensor]:
    starts = np.cumsum([0, *map(len, rows)])[:-1].astype(np.int32)
    return {
        "input_ids": torch.from_numpy(np.concatenate(rows).astype(np.int32)),
        "offsets": torch.from_numpy(starts),
    }


def test_training_leaves_out_words_with_the_given_probability():
    words = [f"{a}{b}" for a in "bcdfghklmn" for b in "aeiou"]
    tokenizer = build_tokenizer(words)
    size = tokenizer.get_vocab_size()
    # Each token has a dimension of its own: the mean shows which ones were kept.
    module = StaticWordEmbedding(tokenizer, np.eye(size, dtype=np.float32), word_dropout=0.3)
    rows = [np.random.default_rng(i).permutation(size)[: 1 + i % 20] for i in range(2000)]
    features = bags_of([np.array([], int), *rows, np.array([], int)])
    torch.manual_seed(0)
    means = module.train()(dict(features))["sentence_embedding"].detach().numpy()
    assert not means[[0, -1]].any()
    n_kept, n_words = (means[1:-1] > 0).sum(axis=1), np.array([len(row) for row in rows])
    for row, mean, n in zip(rows, means[1:-1], n_kept, strict=True):
        assert n >= 1
        assert set(np.flatnonzero(mean)) <= set(row)
        np.testing.assert_allclose(mean[mean > 0], 1 / n, rtol=1e-6)
    # A word is kept with 0.7, and where that would leave none, one is: 0.3^n more on average.
    expected = (0.7 * n_words + 0.3**n_words).sum()
    deviation = np.sqrt(0.7 * 0.3 * n_words.sum())
    assert abs(n_kept.sum() - expected) < 4 * deviation
    # None of the places in a text is preferred.
    kept = np.array(
        [mean[row] > 0 for row, mean in zip(rows[19::20], means[20:-1:20], strict=True)]
    )
    assert abs(kept[:, :10].mean() - kept[:, 10:].mean()) < 0.1
    again = [module(dict(features))["sentence_embedding"] for _ in range(2)]
    assert not torch.equal(*again)
    torch.manual_seed(0)
    same = module(dict(features))["sentence_embedding"]
    np.testing.assert_array_equal(same.detach().numpy(), means)


def test_only_training_leaves_out_words(tokenizer):
    table = random_table(tokenizer)
    plain = StaticWordEmbedding(tokenizer, table)
    module = StaticWordEmbedding(tokenizer, table, word_dropout=0.9)
    features = module.preprocess(["the keeper ships the ship", "", "ship"])
    expected = plain(dict(features))["sentence_embedding"]
    assert torch.equal(module.eval()(dict(features))["sentence_embedding"], expected)
    trained = module.train()(dict(features))
    assert not torch.equal(trained["sentence_embedding"], expected)
    # A text of one word keeps it; the words themselves stay, for losses that look at them.
    assert torch.equal(trained["sentence_embedding"][2], expected[2])
    assert torch.equal(trained["input_ids"], features["input_ids"])
    assert torch.equal(module.plain_means(trained), plain.plain_means(features))


@pytest.mark.parametrize("probability", [-0.1, 1.0, float("nan")])
def test_a_dropout_that_is_no_probability_is_refused(tokenizer, probability):
    with pytest.raises(ValueError, match="Expected 0 to less than 1 as word_dropout, but got"):
        StaticWordEmbedding(tokenizer, random_table(tokenizer), word_dropout=probability)


@pytest.mark.parametrize("bad", [None, 3, b"the"])
def test_what_is_no_text_is_named(module, bad):
    with pytest.raises(TypeError, match="Expected a str at position 1"):
        module.preprocess(["the", bad])


def gradient(module: StaticWordEmbedding, text: str) -> torch.Tensor:
    features = module.preprocess([text])
    module(features)["sentence_embedding"].sum().backward()
    assert module.embedding.weight.grad is not None
    return module.embedding.weight.grad


def test_a_sparse_gradient_covers_the_words_of_the_text(tokenizer):
    module = StaticWordEmbedding(tokenizer, random_table(tokenizer), sparse=True)
    found = gradient(module, "keeper the the")
    assert found.is_sparse
    assert found.coalesce().indices().tolist() == [[2, 3]]
    dense = torch.zeros(module.embedding.weight.shape)
    dense[2], dense[3] = 2 / 3, 1 / 3
    torch.testing.assert_close(found.to_dense(), dense)


def test_gradient_is_dense_by_default(module):
    found = gradient(module, "the")
    assert not found.is_sparse
    assert found.nonzero()[:, 0].unique().tolist() == [2]


@pytest.mark.parametrize("safe", [True, False])
def test_a_model_saves_what_a_model_of_static_embedding_saves(tokenizer, tmp_path, safe):
    table = random_table(tokenizer)
    for module_class in (StaticWordEmbedding, StaticEmbedding):
        model = SentenceTransformer(modules=[module_class(tokenizer, table)], device="cpu")
        model.save_pretrained(str(tmp_path / "saved"), safe_serialization=safe)
        (tmp_path / "saved").rename(tmp_path / module_class.__name__)
    modes = {path.stat().st_mode for path in (tmp_path / "StaticWordEmbedding").glob("*.*")}
    assert len(modes) == 1  # who may read the tokenizer may read the weights
    ours = model_bytes(tmp_path / "StaticWordEmbedding")
    assert ours == model_bytes(tmp_path / "StaticEmbedding")
    assert "config.json" not in ours


def test_behind_a_router_it_is_saved_so_too(module, tmp_path):
    router = Router.for_query_document(query_modules=[module], document_modules=[module])
    SentenceTransformer(modules=[router], device="cpu").save(str(tmp_path))
    config = (tmp_path / "router_config.json").read_text()
    assert "StaticEmbedding" in config
    assert "st_static" not in config


def test_a_subclass_is_saved_under_its_own_name(tokenizer, tmp_path):
    model = SentenceTransformer(modules=[Mine(tokenizer, random_table(tokenizer))], device="cpu")
    model.save(str(tmp_path))
    assert json.loads((tmp_path / "modules.json").read_text())[0]["type"] == f"{__name__}.Mine"


def test_tables_in_another_order_of_memory_can_be_saved(tokenizer, tmp_path):
    table = np.asfortranarray(random_table(tokenizer))
    StaticWordEmbedding(tokenizer, table).save(str(tmp_path))
    found = load_file(tmp_path / "model.safetensors")["embedding.weight"]
    np.testing.assert_array_equal(found, table)


@pytest.mark.parametrize(
    "copy_of",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: pickle.loads(ForkingPickler.dumps(model)),  # as encoding in processes does
    ],
)
def test_copies_encode_and_train_as_the_original(tokenizer, copy_of, recwarn):
    table = random_table(tokenizer)
    table[:2] = 0
    module = StaticWordEmbedding(tokenizer, table, sparse=True)
    model = SentenceTransformer(modules=[module], device="cpu")
    copied = copy_of(model)
    assert isinstance(copied[0], StaticWordEmbedding)
    np.testing.assert_array_equal(copied.encode(TEXTS), model.encode(TEXTS))
    found = gradient(copied[0], "the ?")
    assert found.is_sparse
    assert found.to_dense().nonzero()[:, 0].unique().tolist() == [2]  # not of unknown words
    assert module.embedding.weight.grad is None
    assert not recwarn.list


@pytest.mark.parametrize(
    "save",
    [
        lambda module, folder: SentenceTransformer(modules=[module], device="cpu").save(folder),
        lambda module, folder: module.save(folder, safe_serialization=False),
        lambda module, folder: StaticEmbedding(module.tokenizer, module.embedding.weight).save(
            folder
        ),
    ],
    ids=["a model", "torch weights", "a StaticEmbedding"],
)
def test_reads_what_was_saved(module, tmp_path, save):
    save(module, str(tmp_path))
    loaded = StaticWordEmbedding.load(str(tmp_path))
    assert isinstance(loaded, StaticWordEmbedding)
    assert loaded.tokenizer.to_str() == module.tokenizer.to_str()
    assert torch.equal(loaded.embedding.weight, module.embedding.weight)


def test_reads_what_model2vec_wrote(tokenizer, tmp_path):
    table = random_table(tokenizer)
    StaticModel(table, tokenizer, normalize=False).save_pretrained(tmp_path)
    for loaded in (
        StaticWordEmbedding.load(str(tmp_path)),
        StaticWordEmbedding.from_model2vec(str(tmp_path)),
    ):
        assert isinstance(loaded, StaticWordEmbedding)
        np.testing.assert_array_equal(loaded.embedding.weight.detach(), table)


def test_weights_without_a_word_table_are_refused(module, tmp_path):
    module.save(str(tmp_path))
    save_file({"linear.weight": torch.ones(3, 3)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="expected a word table among its weights"):
        StaticWordEmbedding.load(str(tmp_path))


def test_load_gives_the_subclass(module, tmp_path):
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


def test_a_frozen_table_can_be_copied_and_trained_later():
    tokenizer = build_tokenizer(["hello", "world"])
    module = StaticWordEmbedding(tokenizer, np.array([[0], [0], [1], [3]], dtype=np.float32))
    module.requires_grad_(False)
    again = copy.deepcopy(module)
    assert not again.embedding.weight.requires_grad
    again.requires_grad_(True)
    again(again.preprocess(["hello there"]))["sentence_embedding"].sum().backward()
    assert again.embedding.weight.grad.tolist() == [[0], [0], [0.5], [0]]


def test_training_leaves_the_callers_table_alone():
    tokenizer = build_tokenizer(["hello"])
    table = np.ones((3, 2), dtype=np.float32)
    module = StaticWordEmbedding(tokenizer, table)
    with torch.no_grad():
        module.embedding.weight += 1
    assert (table == 1).all()


def test_it_is_a_static_embedding(module, tokenizer):
    assert isinstance(module, StaticEmbedding)
    assert isinstance(module, StaticWordEmbedding)
    assert not isinstance(StaticEmbedding(tokenizer, embedding_dim=2), StaticWordEmbedding)


def test_a_dimension_gives_a_table_of_random_rows(tokenizer):
    torch.manual_seed(0)
    ours = StaticWordEmbedding(tokenizer, embedding_dim=7, base_model="org/model")
    torch.manual_seed(0)
    theirs = StaticEmbedding(tokenizer, embedding_dim=7)
    assert torch.equal(ours.embedding.weight, theirs.embedding.weight)
    assert (ours.num_embeddings, ours.embedding_dim) == (12, 7)
    assert ours.base_model == "org/model"


def test_fast_tokenizers_of_transformers_and_padding_ones_do_as_well(tokenizer):
    padding = Tokenizer.from_str(tokenizer.to_str())
    padding.enable_padding()
    fast = PreTrainedTokenizerFast(tokenizer_object=padding)
    for one in (fast, padding):
        module = StaticWordEmbedding(one, random_table(tokenizer))
        features = module.preprocess(["the keeper", "ship"])
        assert features["input_ids"].tolist() == [2, 3, 4]


def test_another_tokenizer_is_used_at_once(module):
    model = SentenceTransformer(modules=[module], device="cpu")
    model.tokenizer = build_tokenizer(["ship", "the"])
    assert model.preprocess(["ship"])["input_ids"].tolist() == [2]


@pytest.mark.parametrize(
    "make_loss",
    [
        CachedMultipleNegativesRankingLoss,
        MegaBatchMarginLoss,
        lambda model: CachedGISTEmbedLoss(model, model),
        lambda model: GISTEmbedLoss(model, model),
    ],
)
def test_losses_that_refuse_a_static_embedding_refuse_it(pair_of_models, make_loss):
    messages = []
    for model in pair_of_models:
        with pytest.raises(ValueError, match=r"StaticEmbedding|PreTrainedTokenizer") as error:
            make_loss(model)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_the_default_trainer_trains_it_as_a_static_embedding(tokenizer, tmp_path):
    """With clipping, and the optimizer that is the default: the same bytes."""
    pairs = {"anchor": ["the keeper", "ship", "cafe"] * 4, "positive": ["ship", "the", "東"] * 4}
    trained = []
    for module_class in (StaticWordEmbedding, StaticEmbedding):
        module = module_class(tokenizer, random_table(tokenizer))
        model = SentenceTransformer(modules=[module], device="cpu")
        quiet = {"save_strategy": "no", "report_to": "none", "use_cpu": True}
        arguments = SentenceTransformerTrainingArguments(
            str(tmp_path), max_steps=3, learning_rate=0.1, **quiet
        )
        assert arguments.max_grad_norm == 1.0
        SentenceTransformerTrainer(
            model, arguments, Dataset.from_dict(pairs), loss=MultipleNegativesRankingLoss(model)
        ).train()
        trained.append(module.embedding.weight.detach().cpu().numpy())
    assert trained[0].tobytes() == trained[1].tobytes()
    assert np.abs(trained[0][2:7] - random_table(tokenizer)[2:7]).max() > 0.1
