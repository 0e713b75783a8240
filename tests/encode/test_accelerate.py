"""An accelerated model does all that it did before, with the same vectors."""

import inspect

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from small_build import model_bytes
from tokenizers import Tokenizer

import st_static


@pytest.fixture
def model(student):
    torch.manual_seed(0)
    modules = [StaticEmbedding(student, embedding_dim=16), Normalize()]
    return SentenceTransformer(modules=modules, prompts={"query": "the ship: "}, device="cpu")


def test_encode_with_all_its_options(model, sentences):
    options = [
        {},
        {"prompt_name": "query"},
        {"prompt": "keeper "},
        {"prompt": ""},
        {"prompt": "keeper ", "prompt_name": "query"},
        {"convert_to_numpy": False},
        {"show_progress_bar": True},
        {"truncate_dim": 4},
        {"normalize_embeddings": True},
        {"precision": "int8"},
        {"batch_size": 3},
        {"convert_to_tensor": True},
        {"output_value": None},
    ]
    expected = [model.encode(sentences, **option) for option in options]
    assert st_static.accelerate(model) is model
    for option, before in zip(options, expected, strict=True):
        after = model.encode(sentences, **option)
        if option == {"output_value": None}:
            before = [row["sentence_embedding"] for row in before]
            after = [row["sentence_embedding"] for row in after]
            before, after = torch.stack(before), torch.stack(after)
        np.testing.assert_allclose(np.asarray(after), np.asarray(before), atol=1e-6)
    assert model.similarity(model.encode("ship"), model.encode("ship")).item() == pytest.approx(1)


def test_what_is_usually_asked_for_goes_as_a_whole(model, sentences, monkeypatch):
    """A column, a single text, the default prompt: nothing of it is left to the library."""
    datasets = pytest.importorskip("datasets")
    model.default_prompt_name = "query"
    column = datasets.Dataset.from_dict({"text": sentences})["text"]
    inputs = [sentences, sentences[0], np.array(sentences), column]
    options = [{}, {"prompt": "keeper "}, {"truncate_dim": 3, "normalize_embeddings": True}]
    expected = [model.encode(texts, **option) for texts in inputs for option in options]
    st_static.accelerate(model)
    with monkeypatch.context() as patch:
        patch.setattr(SentenceTransformer, "forward", None)
        found = [model.encode(texts, **option) for texts in inputs for option in options]
    for before, after in zip(expected, found, strict=True):
        np.testing.assert_allclose(after, before, atol=1e-6)
    assert model.encode([]).shape == (0,)
    with pytest.raises(ValueError, match="other"):
        model.encode(sentences, prompt_name="other")


class _Shouting(SentenceTransformer):
    def preprocess(self, inputs, **kwargs):
        return super().preprocess([f"keeper {text}" for text in inputs], **kwargs)


class _Doubling(StaticEmbedding):
    def forward(self, features, **kwargs):
        features = super().forward(features, **kwargs)
        features["sentence_embedding"] = features["sentence_embedding"] * 2
        return features


class _Adapted(torch.nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding = embedding

    @property
    def weight(self):
        return self.embedding.weight

    def forward(self, ids, offsets):
        return self.embedding(ids, offsets) + 1


def _with_hook(model):
    def add_one(module, given, features):
        return features | {"sentence_embedding": features["sentence_embedding"] + 1}

    model[0].register_forward_hook(add_one)


CHANGES = {
    "class": lambda model: setattr(model, "__class__", _Shouting),
    "forward": lambda model: setattr(model[0], "__class__", _Doubling),
    "adapter": lambda model: setattr(model[0], "embedding", _Adapted(model[0].embedding)),
    "sum": lambda model: setattr(model[0].embedding, "mode", "sum"),
    "hook": _with_hook,
    "other module": lambda model: model.__setitem__(1, torch.nn.Identity()),
    "weights": lambda model: model[0].embedding.weight.data.add_(1),
    "half": lambda model: model.half(),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_before", [True, False])
def test_a_model_that_computes_otherwise_stays_as_it_is(student, sentences, name, is_before):
    found = []
    for is_accelerated in (False, True):
        torch.manual_seed(0)
        modules = [StaticEmbedding(student, embedding_dim=16)]
        if name in ("other module", "weights", "half"):
            modules.append(Normalize())
        model = SentenceTransformer(modules=modules, device="cpu")
        if is_before:
            CHANGES[name](model)
        if is_accelerated:
            st_static.accelerate(model)
        if not is_before:
            CHANGES[name](model)
        found.append(model.encode(sentences))
    np.testing.assert_allclose(*found, atol=1e-6)


def test_arguments_mean_what_they_mean_in_the_library(model, sentences):
    calls = [
        lambda: model.encode(sentences=sentences),
        lambda: model.encode(sentences, truncate_dim=-1),
        lambda: model.encode(sentences, prompt_name=""),
        lambda: model.encode(np.array("the ship")),
        lambda: model.encode(sentences, batch_size=0),
    ]

    def result_of(call):
        try:
            return call()
        except Exception as error:
            return type(error)

    expected = [result_of(call) for call in calls]
    st_static.accelerate(model)
    for call, before in zip(calls, expected, strict=True):
        after = result_of(call)
        if isinstance(before, type):
            assert after is before
        else:
            np.testing.assert_allclose(after, before, atol=1e-6)
    assert "inputs" in inspect.signature(model.encode).parameters
    with pytest.raises(ValueError, match="position 9000 is not valid Unicode"):
        model.encode([*["the ship"] * 9_000, "\ud800"])


def test_it_saves_what_it_would_have_saved_before(model, tmp_path):
    model.save_pretrained(str(tmp_path / "before"), create_model_card=False)
    st_static.accelerate(model)
    model.save_pretrained(str(tmp_path / "after"), create_model_card=False)
    assert model_bytes(tmp_path / "after") == model_bytes(tmp_path / "before")


def test_training_goes_on_with_the_same_table(model, sentences):
    st_static.accelerate(model)
    before = model[0].embedding.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    features = model.preprocess(sentences)
    loss = model(features)["sentence_embedding"][:, 0].sum()
    loss.backward()
    optimizer.step()
    assert not torch.equal(before, model[0].embedding.weight)


def test_another_process(model, sentences):
    expected = model.encode(sentences * 3)
    st_static.accelerate(model)
    pool = model.start_multi_process_pool(["cpu"])
    try:
        found = model.encode(sentences * 3, pool=pool, chunk_size=10)
    finally:
        model.stop_multi_process_pool(pool)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_bad_input_is_refused_as_before_and_pairs_of_texts_work(model):
    pairs = [["the ship", "keeper"], ["keeper", "the ship"]]
    inputs = [pairs[0], pairs, np.array(pairs), np.array(pairs, dtype=object)]
    expected = [model.encode(texts) for texts in inputs]
    st_static.accelerate(model)
    for texts, before in zip(inputs, expected, strict=True):
        np.testing.assert_allclose(model.encode(texts), before, atol=1e-6)
    for bad in (["a", None], ["a", b"the"]):
        with pytest.raises(TypeError):
            model.encode(bad)


def test_another_tokenizer_is_used_from_then_on(model, student):
    st_static.accelerate(model)
    model.encode(["the ship"])
    other = Tokenizer.from_str(student.to_str())
    other.enable_truncation(1)
    model[0].tokenizer = other
    np.testing.assert_allclose(model.encode(["the ship"]), model.encode(["the keeper"]), atol=1e-6)


def test_a_transformer_is_refused(tiny_teacher_folder):
    model = SentenceTransformer(str(tiny_teacher_folder), device="cpu")
    with pytest.raises(ValueError, match="begins with a StaticEmbedding, but this one begins with"):
        st_static.accelerate(model)
