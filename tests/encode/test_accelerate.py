"""An accelerated model does all that it did before, with the same vectors."""

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer, models

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


def test_what_it_saves_is_a_plain_static_embedding(model, sentences, tmp_path):
    expected = model.encode(sentences)
    st_static.accelerate(model).save_pretrained(str(tmp_path / "model"))
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    script = (
        "import sys, numpy as np; sys.modules['st_static'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        f"model = SentenceTransformer({str(tmp_path / 'model')!r}, device='cpu')\n"
        f"np.save({str(tmp_path / 'vectors.npy')!r}, model.encode({sentences!r}))"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)


def test_training_goes_on_with_the_same_table(model, sentences):
    st_static.accelerate(model)
    before = model[0].embedding.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    features = model.preprocess(sentences)
    loss = model(features)["sentence_embedding"][:, 0].sum()
    loss.backward()
    optimizer.step()
    assert not torch.equal(before, model[0].embedding.weight)


def test_several_processes(model, sentences):
    expected = model.encode(sentences * 3)
    st_static.accelerate(model)
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    try:
        found = model.encode(sentences * 3, pool=pool, chunk_size=10)
    finally:
        model.stop_multi_process_pool(pool)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_tokenizer_that_looks_across_spaces_is_left_alone(caplog):
    tokenizer = Tokenizer(models.BPE({"a": 0, " ": 1, "a ": 2}, [("a", " ")]))
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)])
    with caplog.at_level(logging.WARNING):
        assert st_static.accelerate(model) is model
    assert [r.message for r in caplog.records] == [
        "The model is not accelerated: its pre-tokenizer (none) may look across spaces."
    ]
    assert "preprocess" not in vars(model[0])


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
