"""FastEncoder gives sentence-transformers' vectors, whatever the model and the texts."""

import concurrent.futures
import itertools
import json
import pickle
import shutil
import sys
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_model import write_random_model
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer

from st_static import FastEncoder
from st_static.encode import block_encoder, fast_encoder
from st_static.model.model_folder import read_static_model
from st_static.model.static_model import StaticModel
from st_static.tokens import fast_tokenizer

TEXTS = [
    *["", "   ", "\x00", "\U0001f9ff", "[UNK]", "[UNK] [UNK]", "The keeper's ship.", "e\u0301 é"],
    *["a b c " * 200, "Walking, the dog counted 12 ships — café!", "naïve\tfaçade\n\nübermut"],
]


@pytest.fixture(scope="module", autouse=True, params=["one by one", "in blocks"])
def path(request):
    """All tests hold where every text is encoded alone in numpy, and where torch encodes all."""
    most = sys.maxsize if request.param == "one by one" else -1
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FEW_TEXTS", "_FEW_CHARACTERS"):
            patch.setattr(fast_encoder, name, most)
        yield request.param


@pytest.fixture(scope="module")
def ours(student, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "ours"
    return write_random_model(folder, student, 24)


@pytest.fixture(scope="module", params=["wordpiece", "unigram", "byte_level"])
def other(request, tokenizers_by_family, tmp_path_factory):
    """A model without Normalize, with another project's tokenizer."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    tokenizer = Tokenizer.from_str(tokenizers_by_family[request.param].to_str())
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=10)])
    model.save_pretrained(str(folder))
    return folder


def reference(folder, texts):
    """The library's vectors, in float64: in float32, the same words again and again add up."""
    return SentenceTransformer(str(folder), device="cpu").double().encode(texts)


def test_vectors_equal_those_of_sentence_transformers(ours, sentences):
    encoder = FastEncoder.from_pretrained(ours)
    texts = [*TEXTS, *sentences]
    np.testing.assert_allclose(encoder.encode(texts), reference(ours, texts), atol=1e-6)
    for text, vector in zip(texts, reference(ours, texts), strict=True):
        np.testing.assert_allclose(encoder.encode(text), vector, atol=1e-6)
        np.testing.assert_allclose(encoder.encode([text]), [vector], atol=1e-6)
    assert encoder.dimension == 24


def test_other_models_without_normalize(other, sentences):
    encoder = FastEncoder.from_pretrained(other)
    texts = [*TEXTS, *sentences]
    # The numbers of a mean may be larger than 1.
    expected = reference(other, texts)
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=3e-6, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(texts[-1]), expected[-1], rtol=3e-6, atol=1e-6)


def test_a_megabyte_in_one_text(ours):
    texts = ["The keeper counted ships, " * 40_000, "x" * 1_000_000, "short", "a b", "c d"]
    encoder = FastEncoder.from_pretrained(ours)
    np.testing.assert_allclose(encoder.encode(texts), reference(ours, texts), atol=1e-6)
    np.testing.assert_allclose(encoder.encode(texts[0]), reference(ours, texts[0]), atol=1e-6)


@pytest.fixture(scope="module")
def pair(ours):
    return FastEncoder.from_pretrained(ours), SentenceTransformer(str(ours), device="cpu")


@settings(max_examples=30)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=8))
def test_arbitrary_texts(pair, texts):
    encoder, model = pair
    np.testing.assert_allclose(encoder.encode(texts), model.encode(texts), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blocks_and_threads_change_nothing(ours, sentences, monkeypatch, threads):
    expected = reference(ours, sentences * 3)
    monkeypatch.setattr(block_encoder, "_BLOCK_TEXTS", 7)
    encoder = FastEncoder.from_pretrained(ours, threads=threads)
    np.testing.assert_allclose(encoder.encode(sentences * 3), expected, atol=1e-6)
    chunks = pa.chunked_array([sentences, [], sentences * 2])
    np.testing.assert_allclose(encoder.encode(chunks), expected, atol=1e-6)


def test_eight_threads_with_one_encoder(ours):
    texts = [f"The keeper {i % 997} of ship{i}, counted {i * 7 % 1013}!" for i in range(10_000)]
    expected = reference(ours, texts)
    encoder = FastEncoder.from_pretrained(ours)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        starts = range(0, 10_000, 50)
        for start, found in zip(
            starts, pool.map(lambda i: encoder.encode(texts[i : i + 50]), starts), strict=True
        ):
            np.testing.assert_allclose(found, expected[start : start + 50], atol=1e-6)


def test_half_precision(ours, sentences):
    encoder = FastEncoder.from_pretrained(ours, dtype="float16")
    vectors = encoder.encode([*TEXTS, *sentences])
    assert vectors.dtype == np.float16
    np.testing.assert_allclose(vectors, reference(ours, [*TEXTS, *sentences]), atol=2e-3)
    assert encoder.encode("").tolist() == [0] * 24
    assert encoder.model.table.dtype == np.float16


def test_only_the_table_in_int8_is_kept(ours):
    model = read_static_model(ours)
    is_kept = weakref.ref(model.table)
    encoder = FastEncoder(model, dtype="int8")
    expected = encoder.encode(["The keeper's ship."])
    del model
    assert is_kept() is None
    copied = pickle.loads(pickle.dumps(encoder))
    assert copied.model.table.nbytes == encoder.model.table.nbytes
    np.testing.assert_array_equal(copied.encode(["The keeper's ship."]), expected)
    again = FastEncoder(encoder.model)
    assert again.model.table.dtype == np.float32
    np.testing.assert_allclose(again.encode(["The keeper's ship."]), expected, atol=1e-6)


OPTIONS = [
    {"batch_size": 2},
    {"show_progress_bar": True},
    {"show_progress_bar": False},
    {"normalize_embeddings": True},
    {"truncate_dim": 7},
    {"truncate_dim": 7, "normalize_embeddings": True},
    {"truncate_dim": 99},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("saved_dim", [None, 9])
def test_options_of_sentence_transformers(ours, other, sentences, options, saved_dim):
    texts = ["", *sentences]
    for folder in (ours, other):
        model = SentenceTransformer(str(folder), device="cpu", truncate_dim=saved_dim)
        encoder = FastEncoder.from_pretrained(folder, truncate_dim=saved_dim)
        assert encoder.get_embedding_dimension() == model.get_embedding_dimension()
        for some in (texts, texts[:2], texts[-1], []):
            expected = model.encode(some, **options)
            found = encoder.encode(some, **options)
            if some:
                np.testing.assert_allclose(found, expected, atol=1e-6)
            else:
                assert found.shape[0] == len(expected) == 0
        plain = model.encode(texts)  # options hold for their call alone
        np.testing.assert_allclose(encoder.encode(texts), plain, atol=1e-6)


def test_a_progress_bar_is_shown_when_asked_for(ours, path, capsys):
    encoder = FastEncoder.from_pretrained(ours)
    encoder.encode(["the ship"] * 9)
    encoder.encode("the ship", show_progress_bar=True)
    assert capsys.readouterr().err == ""
    encoder.encode(["the ship"] * 9, show_progress_bar=True)
    shown = capsys.readouterr().err
    assert "9.00/9.00" in shown if path == "in blocks" else shown == ""


@pytest.mark.parametrize("default", [None, "other"])
@pytest.mark.parametrize("prompts", [{}, {"query": "keeper ", "document": "the ship "}])
def test_queries_and_documents(ours, tmp_path, sentences, default, prompts):
    folder = shutil.copytree(ours, tmp_path / "prompted")
    file = folder / "config_sentence_transformers.json"
    config = json.loads(file.read_text())
    config |= {"prompts": {**prompts, "other": "walking "}, "default_prompt_name": default}
    file.write_text(json.dumps(config))
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = FastEncoder.from_pretrained(folder)
    for name in ("encode_query", "encode_document", "encode", "encode_query"):
        for texts, options in itertools.product(
            (sentences, sentences[0]), ({"truncate_dim": 5}, {"prompt": "the dog "})
        ):
            expected = getattr(model, name)(texts, **options)
            found = getattr(encoder, name)(texts, **options)
            np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(TypeError, match="Expected a str as prompt, but got 3"):
        encoder.encode(sentences, prompt=3)


@pytest.mark.parametrize("measure", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarities(ours, tmp_path, sentences, measure):
    folder = shutil.copytree(ours, tmp_path / "measured")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"similarity_fn_name": measure}))
    model = SentenceTransformer(str(folder), device="cpu")
    encoder = FastEncoder.from_pretrained(folder)
    vectors = model.encode(["", *sentences])
    vectors[2:5] *= 3  # not all have the length 1
    pairs = [(vectors, vectors[:3]), (vectors[0], vectors), (list(vectors), vectors[1])]
    for one, other in [*pairs, (torch.from_numpy(vectors), vectors)]:
        found = encoder.similarity(one, other)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, model.similarity(one, other), atol=1e-5)
    with pytest.raises(ValueError, match="of the same width, but got vectors of 24 and of 5"):
        encoder.similarity(vectors, vectors[:, :5])


def test_half_precision_never_gives_nan(ours):
    encoder = FastEncoder.from_pretrained(ours, dtype="float16")
    texts = ["", "\x00", "the ship", "\x00 \x00", ""]
    for some in (texts, texts * 500, texts[0], texts[:2]):
        for options in ({}, {"normalize_embeddings": True}, {"truncate_dim": 3}):
            assert np.isfinite(encoder.encode(some, **options)).all()
    vectors = encoder.encode(texts)
    assert np.isfinite(encoder.similarity(vectors, vectors)).all()


def test_texts_without_a_known_word(ours):
    encoder = FastEncoder.from_pretrained(ours)
    unknown = "\x00" * 100
    texts = ["the ship", unknown, "", "keeper"]
    assert not encoder.encode(texts)[1:3].any()
    for some in (texts, [*texts, *texts[:1] * 9], iter(texts), pa.array(texts)):
        n = 13 if isinstance(some, list) and len(some) > 4 else 4
        says = rf"text at position 1 has no word .*: '(.x00){{60}}…' \(2 of the {n} texts"
        with pytest.raises(ValueError, match=says):
            encoder.encode(some, unknown="error")
    with pytest.raises(ValueError, match="The text has no word that the model knows: ''"):
        encoder.encode("", unknown="error")
    known = encoder.encode(["the ship", "keeper"], unknown="error")
    np.testing.assert_array_equal(known, encoder.encode(["the ship", "keeper"]))
    with pytest.raises(ValueError, match=r'unknown to be "zero" or "error", but got \'x\''):
        encoder.encode("the ship", unknown="x")
    for word in ("null", "skip"):
        with pytest.raises(ValueError, match="an array has a row of numbers for each text"):
            encoder.encode(["the ship"], unknown=word)


VALUES = st.text(max_size=9) | st.sampled_from(
    [None, 3, float("nan"), 2.5, b"the", ["the"], "\ud800", "the \udfff", np.str_("a ship"), pd.NA]
)


@settings(max_examples=80)
@given(
    values=st.lists(st.sampled_from(["the", "ship é", ""]) | VALUES, max_size=4),
    null=st.sampled_from(["error", "empty", "drop"]),
    unknown=st.sampled_from(["zero", "error", "drop"]),
)
def test_few_texts_and_columns_agree_in_vectors_and_errors(pair, values, null, unknown):
    encoder, _ = pair

    def outcome(few):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast_encoder, "_FEW_TEXTS", few)
            try:
                return encoder.encode(values, null=null, unknown=unknown)
            except (TypeError, ValueError) as error:
                return type(error), str(error)

    short, column = outcome(4), outcome(-1)
    if isinstance(short, tuple) or isinstance(column, tuple):
        assert short == column
    else:
        np.testing.assert_allclose(short, column, atol=1e-6)


@pytest.mark.parametrize(
    ("texts", "error", "says"),
    [
        (None, TypeError, "list or column of str, but got None"),
        (3, TypeError, "list or column of str, but got int"),
        (b"the", TypeError, "list or column of str, but got bytes"),
        ({"the"}, TypeError, "got set, which has no order"),
        ({"text": ["the"]}, TypeError, "but got dict"),
        ("\ud800", ValueError, "is not valid Unicode"),
        (["the", "\ud800"], ValueError, "position 1 is not valid Unicode"),
        (["the", float("nan")], TypeError, "position 1, but the text is missing"),
        (["the", None], TypeError, "position 1, but the text is missing"),
        (["the", ["ship"]], TypeError, "position 1, but got list"),
        (np.array([["the"]]), TypeError, "in one dimension, but got an array of 2"),
    ],
    ids=str,
)
def test_what_is_no_text_is_refused_in_a_sentence(ours, tmp_path, texts, error, says):
    encoder = FastEncoder.from_pretrained(ours)
    with pytest.raises(error, match=says) as caught:
        encoder.encode(texts)
    assert not isinstance(caught.value, UnicodeError)
    if not isinstance(texts, str):
        with pytest.raises(error, match=says):
            encoder.encode_to(tmp_path / "v.npy", texts)


def test_an_error_that_no_text_causes_is_raised_as_it_is(ours, monkeypatch):
    encoder, errors = FastEncoder.from_pretrained(ours), []

    def fail(*_, **__):
        errors.append(pa.ArrowInvalid("offset overflow"))
        raise errors[-1]

    monkeypatch.setattr(encoder, "_write_vectors", fail)
    with pytest.raises(pa.ArrowInvalid) as caught:
        encoder.encode(["the ship", ""])
    assert [caught.value] == errors
    with pytest.raises(TypeError, match="Expected a str at position 1, but got int"):
        encoder.encode(["the ship", 3])


def test_no_text_an_empty_text_and_iterators(ours):
    encoder = FastEncoder.from_pretrained(ours)
    assert encoder.encode([]).shape == (0, 24)
    assert not encoder.encode("").any()
    expected = encoder.encode(["the ship", "keeper"])
    for texts in (iter(["the ship", "keeper"]), np.array(["the ship", "keeper"])):
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode(np.str_("keeper")), expected[1])


def test_an_encoder_of_something_else(ours):
    with pytest.raises(TypeError, match=r"a StaticModel, but got 'models/x'\. .*from_pretrained"):
        FastEncoder("models/x")
    with pytest.raises(TypeError, match=r"a StaticModel, but got a SentenceTransformer"):
        FastEncoder(SentenceTransformer(str(ours), device="cpu"))


def test_copies_of_an_encoder(ours, sentences):
    encoder = FastEncoder.from_pretrained(ours, dtype="float16", threads=1)
    copied = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(copied.encode(sentences), encoder.encode(sentences))
    assert (copied.threads, copied.dtype) == (1, np.float16)


@pytest.mark.parametrize("truncate_dim", [0, -3])
def test_numbers_of_dimensions_and_texts_that_make_no_sense(ours, truncate_dim):
    with pytest.raises(ValueError, match=f"truncate_dim of at least 1, but got {truncate_dim}"):
        FastEncoder.from_pretrained(ours, truncate_dim=truncate_dim)
    encoder = FastEncoder.from_pretrained(ours)
    with pytest.raises(ValueError, match=f"truncate_dim of at least 1, but got {truncate_dim}"):
        encoder.encode("the", truncate_dim=truncate_dim)
    with pytest.raises(ValueError, match=f"batch_size of at least 1, but got {truncate_dim}"):
        encoder.encode("the", batch_size=truncate_dim)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_long_texts_are_added_up_piece_by_piece(ours, other, sentences, monkeypatch, dtype):
    text = " ".join(sentences)
    for folder in (ours, other):
        encoder = FastEncoder.from_pretrained(folder, dtype=dtype)
        expected = encoder.encode([text, "the", *["a"] * 9])
        monkeypatch.setattr(fast_tokenizer, "_BYTES_AT_A_TIME", 90)
        monkeypatch.setattr(fast_tokenizer, "_PIECE_BYTES", 20)
        monkeypatch.setattr(block_encoder, "_BLOCK_BYTES", 30)
        found = encoder.encode([text, "the", *["a"] * 9])
        atol = 1e-6 if dtype == "float32" else 2e-3
        np.testing.assert_allclose(found, expected, atol=atol)
        monkeypatch.undo()


def test_a_long_text_is_truncated_as_a_short_one(ours, sentences, monkeypatch):
    model = read_static_model(ours)
    model.tokenizer.enable_truncation(5)
    text = " ".join(sentences)
    encoder = FastEncoder(model)
    expected = encoder.encode([text, *["a"] * 40])[0]
    np.testing.assert_allclose(expected, encoder.encode(text[:40]), atol=1e-6)
    monkeypatch.setattr(block_encoder, "_BLOCK_BYTES", 30)
    np.testing.assert_allclose(encoder.encode([text, *["a"] * 40])[0], expected, atol=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
def test_sums_of_half_precision_do_not_overflow(ours, normalize):
    model = read_static_model(ours)
    table = model.table / np.abs(model.table).max() * np.float32(1000)
    encoder = FastEncoder(StaticModel(model.tokenizer, table, normalize), dtype="float16")
    sentence, n = "the keeper of the ship ", 40_000
    expected = table[encoder.tokenize([sentence]).values].astype(np.float64).mean(axis=0)
    if normalize:
        expected /= np.linalg.norm(expected)
    error = 2e-3 * np.abs(expected).max()
    vectors = encoder.encode([sentence * n, "", sentence * 3, *[sentence] * 4])
    np.testing.assert_allclose(vectors[2:], np.tile(expected, (5, 1)), atol=error)
    np.testing.assert_allclose(vectors[0], expected, atol=error)
    np.testing.assert_allclose(encoder.encode(sentence * n), expected, atol=error)
    assert not vectors[1].any()


def test_values_that_are_too_large_for_half_precision(ours):
    model = read_static_model(ours)
    largest = np.abs(model.table).max()
    FastEncoder(StaticModel(model.tokenizer, model.table / largest * 60_000, True), "float16")
    with pytest.raises(ValueError, match=r"too large for float16\. Take float32"):
        FastEncoder(StaticModel(model.tokenizer, model.table / largest * 70_000, True), "float16")


def test_writing_into_an_array(ours, sentences):
    encoder = FastEncoder.from_pretrained(ours)
    whole = np.full((len(sentences) + 2, 24), 7, np.float32)
    result = encoder.encode(sentences, out=whole[1:-1])
    assert np.shares_memory(result, whole)
    np.testing.assert_array_equal(whole[1:-1], encoder.encode(sentences))
    assert (whole[[0, -1]] == 7).all()
    with pytest.raises(ValueError, match="out only for a list"):
        encoder.encode("a", out=whole[0])
    with pytest.raises(ValueError, match="numpy array, but got list"):
        encoder.encode(sentences, out=[1])
    for out in (whole, whole[:2].astype(np.float64), np.empty((24, len(sentences)), "f4").T):
        with pytest.raises(ValueError, match=r"Expected out to be a contiguous float32 array"):
            encoder.encode(sentences, out=out)


def test_a_prompt_that_is_not_there(ours, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "prompt")
    config = {"prompts": {}, "default_prompt_name": "q"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="default prompt 'q' is not among its prompts"):
        FastEncoder.from_pretrained(folder)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_model_that_keeps_its_first_dimensions(ours, sentences, tmp_path, dtype):
    folder = tmp_path / "short"
    SentenceTransformer(str(ours), truncate_dim=5).save_pretrained(str(folder))
    encoder = FastEncoder.from_pretrained(folder, dtype=dtype)
    expected = reference(folder, sentences)
    assert expected.shape[1] == encoder.dimension == 5
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=2e-3)
    np.testing.assert_allclose(encoder.encode(sentences[0]), expected[0], atol=2e-3)


def test_a_table_in_bfloat16(ours, sentences, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "bfloat16")
    table = torch.from_numpy(load_file(folder / "model.safetensors")["embeddings"])
    weights = {"embeddings": table.to(torch.bfloat16)}
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    expected = table.to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(read_static_model(folder).table, expected)
    found = FastEncoder.from_pretrained(folder).encode(sentences)
    np.testing.assert_allclose(found, reference(ours, sentences), atol=0.02)


def test_truncated_tokenizers(ours, sentences, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "truncated")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)  # sentence-transformers switches padding off
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = FastEncoder.from_pretrained(folder)
    expected = reference(folder, sentences)
    np.testing.assert_allclose(encoder.encode(sentences), expected, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(sentences[0]), expected[0], atol=1e-6)


def test_tables_as_model2vec_stores_them(ours, sentences, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "model2vec")
    table = load_file(folder / "model.safetensors")["embeddings"]
    mapping = np.arange(len(table), dtype=np.int32)[::-1].copy()
    weights = np.linspace(1, 2, len(table)).astype(np.float32)
    arrays = {"embeddings": table[::-1].copy(), "mapping": mapping, "weights": weights}
    save_file(arrays, folder / "model.safetensors")
    expected = reference(folder, sentences)
    found = FastEncoder.from_pretrained(folder).encode(sentences)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    (folder / "modules.json").unlink()
    (folder / "config.json").write_text(json.dumps({"normalize": False}))
    assert not read_static_model(folder).normalize


def test_repositories_that_are_no_static_model(tiny_teacher_folder, ours, tmp_path):
    says = "expected the modules StaticEmbedding, then .*, but it has Transformer, Pooling"
    with pytest.raises(ValueError, match=says):
        FastEncoder.from_pretrained(tiny_teacher_folder)
    folder = shutil.copytree(ours, tmp_path / "broken")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"Expected the table in .*model.safetensors"):
        FastEncoder.from_pretrained(folder)
    save_file({"x": np.zeros((2, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="holds x"):
        FastEncoder.from_pretrained(folder)
    for name, content, says in (
        ("model.safetensors", "broken", "model.safetensors is broken"),
        ("tokenizer.json", "{}", "tokenizer.json is not as expected: .* `model`"),
        ("tokenizer.json", '{"model": {"vocab": {}}}', "tokenizer.json is not a tokenizer"),
    ):
        (folder / name).write_text(content)
        with pytest.raises(ValueError, match=says):
            FastEncoder.from_pretrained(folder)
        shutil.copy(ours / "model.safetensors", folder)
    with pytest.raises(ValueError, match="There is no folder"):
        FastEncoder.from_pretrained(tmp_path / "none")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"there is no .*tokenizer.json"):
        FastEncoder.from_pretrained(folder)


def test_a_table_that_is_too_small_and_a_missing_unknown_token(ours, tmp_path):
    folder = shutil.copytree(ours, tmp_path / "small")
    save_file({"embedding.weight": np.zeros((5, 2), np.float32)}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"for \d+ rows, but the table has 5 rows"):
        FastEncoder.from_pretrained(folder)
    folder = shutil.copytree(ours, tmp_path / "unknown")
    description = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    description["model"]["unk_token"] = "[NONE]"
    (folder / "tokenizer.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match=r"unknown token '\[NONE\]' is not among the \d+ tokens"):
        FastEncoder.from_pretrained(folder)


@pytest.mark.parametrize(("options", "says"), [({"dtype": "int4"}, "int4"), ({"threads": 0}, "0")])
def test_options_that_make_no_sense(ours, options, says):
    with pytest.raises(ValueError, match=says):
        FastEncoder(read_static_model(ours), **options)


def test_tiny_vectors_are_the_same_alone_and_in_a_list(ours):
    model = read_static_model(ours)
    encoder = FastEncoder(StaticModel(model.tokenizer, model.table * np.float32(1e-13), True))
    many = encoder.encode(["the"] * 9)
    assert 0 < np.linalg.norm(many[0]) < 1  # as torch's normalize has it
    np.testing.assert_allclose(encoder.encode("the"), many[0], atol=1e-6)


def test_an_encoder_made_from_its_parts(student):
    table = np.eye(student.get_vocab_size(), 5, dtype=np.float64)
    encoder = FastEncoder(StaticModel(student, table, normalize=False))
    assert encoder.encode(["the", "ship"] * 5).dtype == np.float32
