"""What clients other than sentence-transformers read of a folder, each by its own code."""

import json
import shutil

import numpy as np
import pytest
from model2vec import StaticModel
from random_model import write_random_model
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from st_static.encode.fast_encoder import FastEncoder
from st_static.model.export import export_model
from st_static.model.model_folder import read_static_model
from st_static.model.tokenizer import Normalization, build_piece_tokenizer, build_tokenizer

TEXTS = ["The dog runs.", "", "qqq", "[PAD] [UNK] pad", "dog " * 600, "犬\x00!", "THE <b>dog</b>"]
WORDS = build_tokenizer(["the", "dog", "runs", "pad", "犬"], ["b", "##s"])
PIECES = build_piece_tokenizer(
    [("▁the", -1.0), ("▁dog", -2.0), ("犬", -3.0), ("pad", -4.0)], Normalization()
)


@pytest.fixture(params=[WORDS, PIECES], ids=["words", "pieces"])
def tokenizer(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["unit length", "means"])
def normalize(request):
    return request.param


@pytest.fixture
def folder(tokenizer, normalize, tmp_path):
    return write_random_model(tmp_path / "model", tokenizer, 4, normalize=normalize)


def test_model2vec_goes_by_config_json_alone(folder, normalize, tmp_path):
    """As before 0.8, which knows no other file; no text is cut, and lengths are as they are."""
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copyfile(folder / name, tmp_path / name)
    model = StaticModel.from_pretrained(tmp_path)
    assert (model.normalize, model.max_length) == (normalize, None)
    table = load_file(folder / "model.safetensors")["embeddings"]
    rows = [table[ids] for ids in model.tokenize(TEXTS)]
    means = np.array([r.mean(axis=0) if len(r) else np.zeros(4) for r in rows])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    expected = means / np.where(lengths, lengths, 1) if normalize else means
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)


def test_transformers_gives_the_tokenizers_ids(folder, tokenizer):
    found = AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        for options in ({}, {"truncation": True}):
            assert found(text, **options)["input_ids"] == tokenizer.encode(text).ids
    batch = found(TEXTS[:3], padding=True)
    counts = [sum(mask) for mask in batch["attention_mask"]]
    assert counts == [len(tokenizer.encode(text).ids) for text in TEXTS[:3]]
    assert (found.pad_token, found.pad_token_id, found.unk_token) == ("[PAD]", 0, "[UNK]")


def test_facts_for_servers_are_those_of_the_table(folder, tokenizer):
    config = json.loads((folder / "config.json").read_text())
    assert (config["vocab_size"], config["hidden_dim"]) == (tokenizer.get_vocab_size(), 4)
    assert tokenizer.id_to_token(config["pad_token_id"]) == "[PAD]"
    assert 512 < config["max_position_embeddings"] < 10_000


def test_a_tokenizer_without_our_special_tokens_names_none(tmp_path):
    description = json.loads(WORDS.to_str())
    vocabulary = {"the": 0, "<unk>": 1}
    description["model"] |= {"vocab": vocabulary, "unk_token": "<unk>"}
    tokenizer = Tokenizer.from_str(json.dumps(description))
    export_model(tmp_path / "model", np.ones((2, 4), np.float32), tokenizer, {})
    config = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert "pad_token" not in config
    assert "unk_token" not in config
    found = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert found("The dog")["input_ids"] == [0, 1]


def test_what_sentence_transformers_saves_again_is_read_everywhere(folder, normalize, tmp_path):
    model = SentenceTransformer(str(folder), device="cpu")
    expected = model.encode(TEXTS)
    model.save_pretrained(str(tmp_path / "again"), create_model_card=False)
    again = tmp_path / "again"
    assert not (again / "config.json").exists()
    assert list(load_file(again / "model.safetensors")) == ["embedding.weight"]
    assert read_static_model(again).normalize == normalize
    for encode in (
        SentenceTransformer(str(again), device="cpu").encode,
        FastEncoder.from_pretrained(again).encode,
        FastEncoder.from_pretrained(again, mmap=True).encode,
        FastEncoder.from_pretrained(folder, mmap=True).encode,
    ):
        # The library adds up the same word 600 times in float32.
        np.testing.assert_allclose(encode(TEXTS), expected, atol=1e-5)


def test_a_table_of_the_older_name_gives_equal_vectors(folder):
    """As older versions of st_static wrote it."""
    expected = FastEncoder.from_pretrained(folder).encode(TEXTS)
    table = load_file(folder / "model.safetensors")["embeddings"]
    save_file({"embedding.weight": table}, folder / "model.safetensors")
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    found = FastEncoder.from_pretrained(folder).encode(TEXTS)
    np.testing.assert_array_equal(found, expected)
