"""Models with a vector for unknown words: the row of their [UNK] token is not zeros."""

import shutil

import numpy as np
import onnxruntime
import pytest
from model2vec import StaticModel as Model2Vec
from sentence_transformers import SentenceTransformer

from st_static import FastEncoder, export_onnx
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.modules import Segment
from st_static.model.tokenizer import build_tokenizer, build_word_tokenizer, unknown_id
from st_static.model.vectors import unit_rows

D = 24
TEXTS = ["zzz", "東京 zzz", "the zzz ships", "ships", ""]
HEAD = Head(*(np.random.default_rng(1).normal(size=shape) / 9 for shape in ((7, D), (D, 7))))
FORMS = {
    "table": {},
    "mean": {"normalize": False},
    "head": {"head": HEAD},
    "segments": {"segments": (Segment(10, 1.0), Segment(D - 10, 0.5))},
}


def make_model(folder, tokenizer=None, **options):
    tokenizer = tokenizer or build_tokenizer(["the", "old", "ships"])
    table = np.random.default_rng(0).normal(size=(tokenizer.get_vocab_size(), D))
    assert table[unknown_id(tokenizer)].any()
    export_model(folder, table.astype(np.float32), tokenizer, {}, **options)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_it_is_added_up_like_any_other_as_in_sentence_transformers(tmp_path, form):
    folder = make_model(tmp_path / "model", **FORMS[form])
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    expected = model.encode(TEXTS)
    assert expected.any(axis=1).tolist() == [True] * 4 + [False]
    encoder = FastEncoder.from_pretrained(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-6)
    many = encoder.encode(TEXTS * 99)
    np.testing.assert_allclose(many, np.tile(expected, (99, 1)), atol=1e-6)
    small = FastEncoder.from_pretrained(folder, dtype="int8").encode(TEXTS)
    assert (unit_rows(small) * unit_rows(expected)).sum(axis=1)[:4].min() > 0.999


@pytest.mark.parametrize("form", FORMS)
def test_so_it_is_in_onnx_files(tmp_path, form):
    folder = make_model(tmp_path / "model", **FORMS[form])
    encoder = FastEncoder.from_pretrained(folder)
    [file] = export_onnx(folder)
    session = onnxruntime.InferenceSession(file)
    for text in TEXTS:
        ids = np.array([encoder.model.tokenizer.encode(text).ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        [found] = session.run(["sentence_embedding"], inputs)
        np.testing.assert_allclose(found[0], encoder.encode(text), atol=1e-6)


def test_only_zeros_are_refused(tmp_path):
    encoder = FastEncoder.from_pretrained(make_model(tmp_path / "model"))
    assert encoder.encode(TEXTS[:4], unknown="error").any(axis=1).all()
    with pytest.raises(ValueError, match="at position 4 has no word that the model knows: ''"):
        encoder.encode(TEXTS, unknown="error")


TOKENIZERS = {
    "WordPiece": build_tokenizer(["the", "old", "ships"]),
    "WordLevel": build_word_tokenizer(["the", "old", "ships"]),
}


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("options", [{}, {"mmap": True}, {"dtype": "int8"}])
def test_model2vec_leaves_it_out_so_of_its_own_folders_we_do_too(tmp_path, tokenizer, options):
    """Its own folders are those that sentence-transformers does not load."""
    folder = make_model(tmp_path / "model", TOKENIZERS[tokenizer])
    ours = Model2Vec.from_pretrained(folder).encode(TEXTS)
    assert ours.any(axis=1).tolist() == [False, False, True, True, False]
    shutil.copytree(folder, tmp_path / "theirs")
    (tmp_path / "theirs" / "modules.json").unlink()
    with pytest.raises(ValueError, match="model2vec"):
        SentenceTransformer(str(tmp_path / "theirs"), device="cpu")
    expected = Model2Vec.from_pretrained(tmp_path / "theirs").encode(TEXTS)
    np.testing.assert_array_equal(expected, ours)
    encoder = FastEncoder.from_pretrained(tmp_path / "theirs", **options)
    atol = 1e-2 if options.get("dtype") == "int8" else 1e-6
    for found in (encoder.encode(TEXTS), encoder.encode(TEXTS * 99)[: len(TEXTS)]):
        np.testing.assert_allclose(found, expected, atol=atol)
        assert not found[[0, 1, 4]].any()
    with pytest.raises(ValueError, match="at position 0 has no word that the model knows: 'zzz'"):
        encoder.encode(TEXTS, unknown="error")
