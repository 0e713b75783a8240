"""Few texts and many, by scipy and by torch: the same vectors, also of mapped tables."""

import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from installs import hide
from safetensors.numpy import load_file, save_file

from st_static import FastEncoder
from st_static.encode import fast_encoder
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import read_static_model
from st_static.model.model_name import read_named
from st_static.model.modules import Segment
from st_static.model.table import Int8Table
from st_static.model.vectors import unit_rows

DIMENSION = 128
# Of so many units that its layers are multiplied part by part.
HEAD = Head(*(np.random.default_rng(1).normal(size=n) / 30 for n in ((700, 128), (128, 700))))
FORMS = {
    "table": {},
    "mean": {"normalize": False},
    "head": {"head": HEAD},
    "segments": {"segments": (Segment(100, 1.0), Segment(28, 0.5))},
    "equal segments": {"segments": (Segment(64, 1.0), Segment(64, 0.5))},
    "float16": {"dtype": "float16"},
}
CARD = "---\nlicense: mit\nlanguage: en\n---\n"


@pytest.fixture(scope="module")
def folders(student, tmp_path_factory):
    """A model of each form."""
    home = tmp_path_factory.mktemp("forms")
    table = np.random.default_rng(0).normal(size=(student.get_vocab_size(), DIMENSION))
    for name, options in FORMS.items():
        export_model(home / name, table.astype(np.float32), student, {}, card=CARD, **options)
    return {name: home / name for name in FORMS}


@pytest.fixture(scope="module")
def encoders(folders):
    loaded = [FastEncoder.from_pretrained(folder) for folder in folders.values()]
    mapped = [FastEncoder.from_pretrained(folder, mmap=True) for folder in folders.values()]
    small = [FastEncoder.from_pretrained(folder, dtype="int8") for folder in folders.values()]
    half = FastEncoder.from_pretrained(folders["float16"], dtype="float16", mmap=True)
    short = FastEncoder.from_pretrained(folders["head"], truncate_dim=3)
    return [*loaded, *mapped, *small, half, short]


def encode(encoder, texts, few):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FEW_TEXTS", "_FEW_CHARACTERS"):
            patch.setattr(fast_encoder, name, sys.maxsize if few else -1)
        return encoder.encode(texts)


WORDS = st.sampled_from(
    ["the", "ship", "keeper's", "café", "Walking,", "今日", "[UNK]", "", "\x00"]
)
TEXTS = st.text(max_size=30) | st.lists(WORDS, max_size=40).map(" ".join)


@settings(max_examples=60)
@given(texts=st.lists(TEXTS, max_size=9), repeated=st.integers(1, 300))
def test_vectors_of_few_and_of_many_texts_are_equal(encoders, texts, repeated):
    texts = [*texts, f"{''.join(texts[:1])} the keeper " * repeated]
    for encoder in encoders:
        few, many = encode(encoder, texts, True), encode(encoder, texts, False)
        assert few.dtype == many.dtype == encoder.dtype
        atol = 1e-6 if few.dtype == np.float32 else 2e-3
        np.testing.assert_allclose(few, many, rtol=1e-6, atol=atol)


SAME_WORDS = {
    "in one part": "the old keeper's ship " * 60_000,
    "part by part": "the old keeper's ship " * 300_000,
    "one word": "ship " * 200_000,
    "a word and many others": "ship " * 200_000 + "the old keeper's café " * 10,
}


@pytest.mark.parametrize("form", ["table", "mean", "head", "segments"])
@pytest.mark.parametrize("text", SAME_WORDS.values(), ids=SAME_WORDS)
def test_the_same_words_again_and_again_add_up_exactly(folders, form, text):
    for dtype in ("float32", "int8"):
        encoder = FastEncoder.from_pretrained(folders[form], dtype=dtype)
        model, ids = encoder.model, encoder.tokenize([text]).values
        table = np.asarray(model.table).astype(np.float64)
        exact = (np.bincount(ids, minlength=len(table)) @ table / len(ids)).astype(np.float32)
        if model.head:
            exact = model.head(exact[None])[0]
        for dimensions, length in model.scaled:
            exact[dimensions] *= length / np.linalg.norm(exact[dimensions])
        for few in (True, False):
            [found] = encode(encoder, [text], few)
            np.testing.assert_allclose(found, exact, rtol=5e-6, atol=2e-6)


@pytest.fixture(scope="module")
def pairs(folders):
    """Encoders in int8, and in float32 of the rounded tables."""
    found = []
    for folder in folders.values():
        for dim in (None, 70):
            model = replace(read_static_model(folder), prompt="ships ", truncate_dim=dim)
            int8 = Int8Table.of(model.table, model.widths)
            rounded = replace(model, table=np.asarray(int8))
            found.append((FastEncoder(model, "int8"), FastEncoder(rounded)))
    return found


@settings(max_examples=60)
@given(texts=st.lists(TEXTS, max_size=9), few=st.booleans())
def test_vectors_in_int8_are_those_of_the_rounded_table(pairs, texts, few):
    for small, rounded in pairs:
        found, expected = encode(small, texts, few), encode(rounded, texts, few)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_long_texts_in_int8_are_the_same_alone_and_in_blocks(folders):
    small = FastEncoder.from_pretrained(folders["table"], dtype="int8")
    words = np.random.default_rng(0).choice(["the", "ship", "keeper's", "café", "old,"], 100_000)
    text = [" ".join(words)]
    np.testing.assert_allclose(encode(small, text, True), encode(small, text, False), atol=1e-6)


def test_a_real_table_in_int8(sentences):
    model = read_named("wordllama:256")
    found, expected = (FastEncoder(model, form).encode(sentences) for form in ("int8", "float32"))
    assert (unit_rows(found) * unit_rows(expected)).sum(axis=1).min() > 0.999


def test_a_table_that_is_not_stored_in_int8_is_not_mapped_as_such(folders):
    with pytest.raises(ValueError, match=r"cannot be mapped: it is stored as F32, but.*Leave out"):
        FastEncoder.from_pretrained(folders["table"], dtype="int8", mmap=True)


def test_the_table_in_the_package_is_mapped_as_it_is_stored(sentences):
    mapped, read, wide = (
        FastEncoder.from_pretrained("st-static/english-384", **options)
        for options in ({"dtype": "int8", "mmap": True}, {"dtype": "int8"}, {})
    )
    assert isinstance(mapped.model.table.rows.base, np.memmap)
    with pytest.raises(ValueError, match=r'stored in int8, which dtype="int8" takes as it is'):
        FastEncoder.from_pretrained("st-static/english-384", mmap=True)
    for texts in (sentences, sentences[0]):
        np.testing.assert_array_equal(mapped.encode(texts), read.encode(texts))
        np.testing.assert_array_equal(mapped.encode(texts), wide.encode(texts))


def test_a_mapped_table_gives_the_same_vectors(folders, sentences):
    for name, folder in folders.items():
        mapped = FastEncoder.from_pretrained(folder, mmap=True)
        assert isinstance(mapped.model.table, np.memmap), name
        expected = FastEncoder.from_pretrained(folder).encode(sentences)
        np.testing.assert_array_equal(mapped.encode(sentences), expected)
        copied = pickle.loads(pickle.dumps(mapped))
        np.testing.assert_array_equal(copied.encode(sentences), expected)


def test_what_is_written_to_a_mapped_table_stays_in_memory(folders):
    file = folders["table"] / "model.safetensors"
    before = file.read_bytes()
    table = read_static_model(folders["table"], mmap=True).table
    table[:] = 0
    assert file.read_bytes() == before


def test_a_table_that_cannot_be_mapped_in_the_format(folders):
    with pytest.raises(
        ValueError, match=r"stored as float32, so it cannot be mapped as float16\. Take dtype='floa"
    ):
        FastEncoder.from_pretrained(folders["table"], dtype="float16", mmap=True)


def test_a_table_that_goes_through_a_mapping_cannot_be_mapped(folders, tmp_path):
    folder = shutil.copytree(folders["table"], tmp_path / "model2vec")
    table = load_file(folder / "model.safetensors")["embeddings"]
    mapping = np.arange(len(table))[::-1].copy()
    save_file({"embeddings": table, "mapping": mapping}, folder / "model.safetensors")
    with pytest.raises(ValueError, match=r"cannot be mapped: its rows go through mapping\. Leave"):
        FastEncoder.from_pretrained(folder, mmap=True)


FIRST_VECTORS = """
import sys
import numpy as np
from st_static import FastEncoder
*folders, output = sys.argv[1:]
found = []
for folder in folders:
    for options in ({}, {"mmap": True}, {"dtype": "int8"}):
        encoder = FastEncoder.from_pretrained(folder, **options)
        one = encoder.encode("The keeper's ship.")
        few = encoder.encode(["The ship.", "", "naïve"], normalize_embeddings=True)
        many = encoder.encode(["The keeper", "x" * 9, "ships."] * 400)[:3]
        query = encoder.encode_query("the " * 5_000)
        cosines = np.resize(encoder.similarity(one, few), one.shape)
        found.append([one, *few, *many, query, cosines])
assert "yaml" not in sys.modules  # of the card, which no vector needs
assert encoder.model.license == "mit"
np.save(output, found)
"""


def test_vectors_of_lists_need_neither_torch_nor_pyarrow(folders, tmp_path):
    """Nor the Hub's library: all are hidden, as if they were not installed."""
    slow = ["torch", "pyarrow", "pandas", "huggingface_hub", "sentence_transformers"]
    outputs = []
    for name, prelude in (("hidden.npy", hide(slow)), ("there.npy", "import torch")):
        command = [sys.executable, "-c", prelude + FIRST_VECTORS, *map(str, folders.values())]
        subprocess.run([*command, str(tmp_path / name)], check=True)
        outputs.append(np.load(tmp_path / name))
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("text", ["The keeper of 12 ships, " * 1_000_000, "x" * 24_000_000])
def test_memory_for_a_long_text_is_bounded(folders, text):
    script = (
        "import resource, sys; from st_static import FastEncoder\n"
        f"encoder = FastEncoder.from_pretrained({str(folders['table'])!r}, threads=1)\n"
        "text = sys.stdin.read(); encoder.encode(['a'] * 40)\n"
        "def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = peak(); encoder.encode(text); print((peak() - before) / len(text))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True
    )
    assert float(result.stdout) < 8  # of which 24 MB would have taken 20 times; more take less


def test_one_thread_is_one_thread_of_torch_too(folders, monkeypatch):
    before, asked = torch.get_num_threads(), []

    def add_rows(*arguments, **options):
        asked.append(torch.get_num_threads())
        return embedding_bag(*arguments, **options)

    embedding_bag = torch.nn.functional.embedding_bag
    monkeypatch.setattr(torch.nn.functional, "embedding_bag", add_rows)
    torch.set_num_threads(2)
    try:
        FastEncoder.from_pretrained(folders["table"], threads=1).encode(["lighthouse"] * 5000)
        assert set(asked) == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
