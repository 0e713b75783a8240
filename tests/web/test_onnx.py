"""The ONNX files of a model: equal vectors in onnxruntime, and never of another model."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel as Model2Vec
from odd_texts import odd_texts
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from small_build import model_bytes
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from st_static import FastEncoder, export_onnx
from st_static.cli import main
from st_static.evaluate.models import revision_of
from st_static.files import read_json, write_json
from st_static.model import static_model
from st_static.model.export import check_output, export_model
from st_static.model.head import Head
from st_static.model.model_folder import ModelFolder, read_static_model
from st_static.model.modules import Segment
from st_static.model.tokenizer import (
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
    build_word_tokenizer,
)
from st_static.model.vectors import unit_rows as unit
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.web import onnx_export
from st_static.web.javascript_tokenizer import check_tokenizer
from st_static.web.onnx_export import outdated

FLOAT, INT8 = "onnx/model.onnx", "onnx/model_quantized.onnx"
WORDS = ["the", "old", "lighthouse", "keeper", "counted", "ships", "reading", "cafe", "東", "😀"]
PIECES = ["un", "##known", "##s", *"abcdefghijklmnop"]
D = 24
HEAD = Head(
    np.random.default_rng(1).normal(scale=0.25, size=(7, D)).astype(np.float32),
    np.random.default_rng(2).normal(scale=0.25, size=(D, 7)).astype(np.float32),
)
# Each form of a model, as export_model writes it.
FORMS = {
    "table": {},
    "not normalised": {"normalize": False},
    "head": {"head": HEAD},
    "head, not normalised": {"head": HEAD, "normalize": False},
    "segments": {"segments": (Segment(10, 1.0), Segment(D - 10, 0.5))},
    "float16": {"dtype": "float16"},
    "truncated": {},
}
UNKNOWN = ["", " ", "!!!", "zzz 𠮷", "\N{ZERO WIDTH SPACE}"]


def make_tokenizer() -> Tokenizer:
    return build_tokenizer(WORDS, PIECES)


def make_table(rows: int) -> np.ndarray:
    table = np.random.default_rng(0).normal(size=(rows, D)).astype(np.float32)
    table[:2] = 0  # [PAD] and [UNK]
    return table


def make_model(folder: Path, form: str = "table") -> Path:
    tokenizer = make_tokenizer()
    table = make_table(tokenizer.get_vocab_size())
    if form == "segments":
        table[:, :10] *= 50  # members may differ in length
    export_model(folder, table, tokenizer, {}, **FORMS[form])
    if form == "truncated":
        file = folder / "config_sentence_transformers.json"
        write_json(file, read_json(file) | {"truncate_dim": 16})
    return folder


@pytest.fixture(scope="module", params=FORMS)
def folder(request, tmp_path_factory):
    path = make_model(tmp_path_factory.mktemp("onnx") / "model", request.param)
    assert export_onnx(path, quantize="int8") == [path / FLOAT, path / INT8]
    return path


@pytest.fixture(scope="module")
def texts(sentences):
    known = ["The old keeper", "SHIPS", "東京 cafés", "😀", "the ships " * 30]
    return [*UNKNOWN, *known, *odd_texts(sentences, 200, seed=5)]


class Session:
    """A model in onnxruntime, with its tokenizer from the folder, as a client has it."""

    def __init__(self, folder: Path, file: str) -> None:
        self._session = onnxruntime.InferenceSession(folder / file)
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_padding()

    def __call__(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """`sentence_embedding`, and the masked mean of `last_hidden_state` as clients take it."""
        encoded = self._tokenizer.encode_batch(texts)
        shape = (len(texts), -1)
        inputs = {
            "input_ids": np.array([e.ids for e in encoded], np.int64).reshape(shape),
            "attention_mask": np.array([e.attention_mask for e in encoded], np.int64).reshape(
                shape
            ),
        }
        names = ["last_hidden_state", "sentence_embedding"]
        tokens, sentences = self._session.run(names, inputs)
        mask = inputs["attention_mask"][:, :, None]
        return sentences, (tokens * mask).sum(1) / np.maximum(mask.sum(1), 1)


def of_sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    return np.nan_to_num(model.encode(texts).astype(np.float32))  # NaN of zeros in float16


def test_float32_gives_the_vectors_of_sentence_transformers(folder, texts):
    model = Session(folder, FLOAT)
    alone = np.concatenate([model([text])[0] for text in texts])
    together = model(texts[:8])[0]
    stored_as = read_static_model(folder).table.dtype
    tolerance = 1e-6 if stored_as == np.float32 else 1e-3
    fast = FastEncoder.from_pretrained(folder).encode(texts)
    for expected in (of_sentence_transformers(folder, texts), fast):
        largest = max(1.0, np.abs(expected).max())  # in models that do not normalise
        np.testing.assert_allclose(alone, expected, rtol=0, atol=tolerance * largest)
    np.testing.assert_allclose(together, alone[:8], atol=1e-6)
    assert not alone[: len(UNKNOWN)].any()
    assert alone[len(UNKNOWN) : len(UNKNOWN) + 4].any(axis=1).all()


def test_ten_thousand_words_are_added_up_as_exactly_as_float32_allows(tmp_path):
    """sentence-transformers itself is off by more than 1e-5 there."""
    folder = make_model(tmp_path / "model")
    export_onnx(folder)
    model, texts = read_static_model(folder), ["the old ships " * 3_333 + "keeper", "the " * 10_000]
    rows = [model.table[model.tokenizer.encode(text).ids].astype(np.float64) for text in texts]
    exact = unit(np.stack([row.mean(axis=0) for row in rows]))
    np.testing.assert_allclose(Session(folder, FLOAT)(texts)[0], exact, atol=5e-5)


def test_int8_gives_nearly_the_same(folder, texts):
    model = Session(folder, INT8)
    vectors = np.concatenate([model([text])[0] for text in texts])
    expected = of_sentence_transformers(folder, texts)
    known = expected.any(axis=1)
    cosines = (unit(vectors) * unit(expected)).sum(axis=1)
    assert cosines[known].min() > 0.999
    assert not vectors[~known].any()
    assert (folder / INT8).stat().st_size < (folder / FLOAT).stat().st_size


@given(st.lists(st.lists(st.integers(0, 20), max_size=7), min_size=1, max_size=4), st.booleans())
def test_padding_on_either_side_counts_for_nothing(tables_folder, ids, is_left):
    model = read_static_model(tables_folder)
    width = max(map(len, ids))
    padding = [[0] * (width - len(row)) for row in ids]
    masks = [[1] * len(row) for row in ids]
    padded, mask = (
        [p + row if is_left else row + p for row, p in zip(rows, padding, strict=True)]
        for rows in (ids, masks)
    )
    session = onnxruntime.InferenceSession(tables_folder / FLOAT)
    shaped = (np.array(rows, np.int64).reshape(len(ids), width) for rows in (padded, mask))
    inputs = dict(zip(["input_ids", "attention_mask"], shaped, strict=True))
    [vectors] = session.run(["sentence_embedding"], inputs)
    expected = [model.table[row].sum(axis=0) / max(1, len(row)) for row in ids]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.fixture(scope="module")
def tables_folder(tmp_path_factory):
    """A model that does not normalise: the means are seen."""
    path = make_model(tmp_path_factory.mktemp("means") / "model", "not normalised")
    export_onnx(path)
    return path


@pytest.mark.parametrize("file", [FLOAT, INT8])
def test_the_masked_mean_of_the_tokens_is_the_vector_as_well(folder, texts, file):
    """But for its length, which clients scale: so does each of them that pools by itself."""
    vectors, pooled = Session(folder, file)(texts[:9])
    np.testing.assert_allclose(unit(pooled), unit(vectors), atol=2e-6)


def test_model2vec_loads_a_table_and_refuses_all_else(folder):
    model = read_static_model(folder)
    if model.head or model.segments:
        with pytest.raises(ValueError, match="Could not find expected model files"):
            Model2Vec.from_pretrained(folder)
    elif not model.truncate_dim:
        vectors = Model2Vec.from_pretrained(folder).encode(["the old ships"])
        expected = FastEncoder(model).encode(["the old ships"])
        np.testing.assert_allclose(unit(vectors), unit(expected), atol=1e-3)


def test_the_graph_is_one_that_older_onnxruntimes_read(folder):
    graph = onnx.load(folder / FLOAT)
    onnx.checker.check_model(graph, full_check=True)
    assert graph.ir_version <= 8
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 17)]
    assert [value.name for value in graph.graph.input] == ["input_ids", "attention_mask"]
    assert [value.name for value in graph.graph.output] == [
        "last_hidden_state",
        "sentence_embedding",
    ]


# -- the folder ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "added"),
    [
        ("table", set()),
        ("head", {"config.json", "tokenizer.json", "tokenizer_config.json"}),
        ("segments", {"config.json", "tokenizer.json", "tokenizer_config.json"}),
    ],
)
def test_files_are_added_and_none_is_changed(tmp_path, form, added):
    folder = make_model(tmp_path / "model", form)
    before, revision = model_bytes(folder), revision_of(str(folder))
    export_onnx(folder)
    after = model_bytes(folder)
    assert after.keys() == before.keys() | added | {FLOAT}
    assert after.items() >= before.items()
    assert revision_of(str(folder)) == revision  # results that were measured before still hold
    export_onnx(folder)
    assert model_bytes(folder) == after


def test_a_new_model_has_no_onnx_of_the_old_one(tmp_path):
    folder = make_model(tmp_path / "model", "head")
    export_onnx(folder, quantize="int8")
    (folder / "onnx" / "mine.txt").write_text("mine")
    make_model(folder)
    assert model_bytes(folder) == model_bytes(make_model(tmp_path / "new")) | {
        "onnx/mine.txt": b"mine"
    }


def test_killed_while_it_is_replaced_a_model_loses_its_old_onnx_all_the_same(tmp_path):
    """The new model is in its place, and the old one still waits beside it."""
    folder = make_model(tmp_path / "model")
    export_onnx(make_model(tmp_path / ".model.old"))
    make_model(folder)
    assert model_bytes(folder) == model_bytes(make_model(tmp_path / "new"))


@pytest.mark.parametrize("name", ["onnx", FLOAT])
def test_what_a_user_put_there_is_not_overwritten(tmp_path, name):
    folder = make_model(tmp_path / "model")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"mine")
    before = model_bytes(folder)
    with pytest.raises(ValueError, match=f"{name} was not written by st_static. Move it away"):
        export_onnx(folder)
    assert model_bytes(folder) == before


@pytest.mark.parametrize("form", ["table", "head"])
def test_files_of_a_user_that_clients_read_stay_as_they_are(tmp_path, form):
    folder = make_model(tmp_path / "model", form)
    mine = '{"model_type": "model2vec", "normalize": true, "mine": 1}'
    (folder / "config.json").write_text(mine)
    export_onnx(folder)
    assert (folder / "config.json").read_text() == mine
    assert (folder / "tokenizer_config.json").is_file()


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("form", ["table", "head"])
def test_files_of_a_user_where_ours_go_are_refused_and_kept(tmp_path, form, name):
    folder = make_model(tmp_path / "model", form)
    (folder / name).write_text('{"model_type": "model2vec", "mine": 1}')
    before = model_bytes(folder)
    for write in (lambda: check_output(folder), lambda: make_model(folder, form)):
        with pytest.raises(ValueError, match=rf"{name} was not written by st_static.*Move it away"):
            write()
    assert model_bytes(folder) == before


@pytest.mark.parametrize("form", ["table", "head", "segments"])
def test_our_own_files_for_clients_are_replaced(tmp_path, form):
    folder = make_model(tmp_path / "model", form)
    export_onnx(folder)
    make_model(folder, "table")
    assert model_bytes(folder) == model_bytes(make_model(tmp_path / "new"))


def test_an_older_quantized_file_is_written_again(tmp_path):
    folder = make_model(tmp_path / "model")
    export_onnx(folder, quantize="int8")
    other = make_model(tmp_path / "other", "not normalised")
    shutil.copy(other / "modules.json", folder / "modules.json")
    assert export_onnx(folder) == [folder / FLOAT, folder / INT8]
    assert list(outdated(ModelFolder(folder))) == []
    (folder / INT8).write_bytes(b"mine")
    assert export_onnx(folder) == [folder / FLOAT]
    assert (folder / INT8).read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_something_of_a_user_that_is_called_onnx_stays_beside_a_new_model(tmp_path, kind):
    folder = make_model(tmp_path / "model")
    mine = folder / "onnx"
    if kind == "file":
        mine.write_text("mine")
    elif kind == "link":
        mine.symlink_to("..", target_is_directory=True)
    else:
        mine.mkdir()
    make_model(folder)
    assert mine.is_symlink() == (kind == "link")
    assert mine.is_file() == (kind == "file")
    assert os.path.lexists(mine)


def test_a_file_that_clients_miss_is_named(tmp_path):
    folder = make_model(tmp_path / "model", "head")
    export_onnx(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "config.json").unlink()
    said = ["There is no tokenizer.json", "There is no config.json"]
    assert [line.split(",")[0] for line in outdated(ModelFolder(folder))] == said
    export_onnx(folder)
    (folder / "tokenizer.json").write_text("{}")
    assert list(outdated(ModelFolder(folder))) == ["tokenizer.json is not that in word_table/"]


def test_a_tokenizer_of_another_model_is_not_taken_for_the_models_own(tmp_path):
    folder = make_model(tmp_path / "model", "head")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"model/tokenizer\.json is not the tokenizer of the mod"):
        export_onnx(folder)
    assert not (folder / "onnx").exists()


@pytest.mark.parametrize("form", ["head", "not normalised", "segments", "truncated"])
def test_the_file_of_another_model_is_found(tmp_path, form):
    """Also where the table is the same."""
    one, other = make_model(tmp_path / "model"), make_model(tmp_path / "other", form)
    for folder in (one, other):
        export_onnx(folder, quantize="int8")
        assert list(outdated(ModelFolder(folder))) == []
    (one / FLOAT).rename(tmp_path / "moved")
    (other / FLOAT).rename(one / FLOAT)
    (tmp_path / "moved").rename(other / FLOAT)
    for folder in (one, other):
        assert [line.split()[0] for line in outdated(ModelFolder(folder))] == [FLOAT]


def test_a_broken_file_is_found(tmp_path):
    folder = make_model(tmp_path / "model")
    export_onnx(folder, quantize="int8")
    (folder / FLOAT).write_bytes((folder / INT8).read_bytes())
    (folder / INT8).write_bytes(b"broken")
    assert [line.split()[0] for line in outdated(ModelFolder(folder))] == [FLOAT, INT8]


# -- bad input -------------------------------------------------------------------------


def test_the_command_writes_and_says_how_much(tmp_path, capsys):
    folder = make_model(tmp_path / "model")
    assert main(["export", str(folder), "--onnx", "--quantize", "int8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{folder}/{FLOAT}", f"{folder}/{INT8}"]


def test_the_command_names_what_it_writes_beside_them(tmp_path, capsys):
    folder = make_model(tmp_path / "model", "head")
    for names in ((FLOAT, "tokenizer.json", "config.json", "tokenizer_config.json"), (FLOAT,)):
        assert main(["export", str(folder), "--onnx"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(": ")[0] for line in lines] == [f"{folder}/{n}" for n in names]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Nothing to write: give --output or --onnx."),
        (["--dtype", "int8"], "--dtype needs --output."),
        (["--quantize", "int8"], "--quantize needs --onnx."),
        (["--onnx", "--quantize", "int4"], "--quantize: got 'int4' (expected one of int8)."),
    ],
)
def test_a_command_line_that_cannot_be_is_told(capsys, options, said):
    with pytest.raises(SystemExit, match="2"):
        main(["export", "model", *options])
    err = capsys.readouterr().err.replace("'int8'", "int8")  # quoted by Python before 3.12
    assert err == f"Error: {said} See st-static export --help.\n"


def test_a_folder_that_is_no_model_is_told(tmp_path, capsys):
    for folder, said in (
        (tmp_path / "nothing", "There is no folder"),
        (tmp_path, "is not a static model: there is no"),
    ):
        assert main(["export", str(folder), "--onnx"]) == 1
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    folder = make_model(tmp_path / "model")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="cannot be written: it is write-protected"):
        export_onnx(folder)


def test_what_sentence_transformers_saved_can_be_exported_as_it_is_told(tmp_path):
    """The command of the message is run by a shell."""
    model = SentenceTransformer(str(make_model(tmp_path / "model")), device="cpu")
    with torch.no_grad():
        model[0].embedding.weight *= -1
    folder = tmp_path / "fine tuned"
    model.save_pretrained(str(folder), create_model_card=False)
    before = model_bytes(folder)
    says = "the name that sentence-transformers saves it by"
    with pytest.raises(ValueError, match=says) as error:
        export_onnx(folder)
    assert model_bytes(folder) == before
    assert "build it again" not in str(error.value)
    command = re.search(r"python (-c '.*?' .*)\. If", str(error.value))[1]
    subprocess.run(f"{sys.executable} {command}", shell=True, check=True, timeout=120)
    new = tmp_path / "fine tuned-for-clients"
    export_onnx(new)
    expected = model.encode(["the old ships"])
    np.testing.assert_allclose(Session(new, FLOAT)(["the old ships"])[0], expected, atol=1e-6)


def test_a_model_of_an_older_release_is_told(tmp_path):
    folder = make_model(tmp_path / "model")
    table = load_file(folder / "model.safetensors")["embeddings"]
    save_file({"embedding.weight": table}, folder / "model.safetensors")
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match="If it is as it was built, build it again"):
        export_onnx(folder)


def test_a_head_that_sentence_transformers_saved_is_exported(tmp_path):
    """The table is in the model's own folder then."""
    model = SentenceTransformer(str(make_model(tmp_path / "model", "head")), device="cpu")
    folder = tmp_path / "saved"
    model.save_pretrained(str(folder), create_model_card=False)
    export_onnx(folder)
    assert list(outdated(ModelFolder(folder))) == []
    expected = model.encode(["the old ships"])
    np.testing.assert_allclose(Session(folder, FLOAT)(["the old ships"])[0], expected, atol=1e-6)


def test_a_table_in_a_folder_of_its_own_is_exported(tmp_path):
    """As sentence-transformers before 5.0 saves it."""
    folder = make_model(tmp_path / "model")
    expected = of_sentence_transformers(folder, ["the old ships"])
    inner = folder / "0_StaticEmbedding"
    inner.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).rename(inner / name)
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).unlink()
    modules = read_json(folder / "modules.json")
    write_json(folder / "modules.json", [modules[0] | {"path": inner.name}, *modules[1:]])
    export_onnx(folder)
    assert list(outdated(ModelFolder(folder))) == []
    np.testing.assert_allclose(Session(folder, FLOAT)(["the old ships"])[0], expected, atol=1e-6)


def test_what_model2vec_saved_is_exported(tmp_path):
    model = Model2Vec.from_pretrained(make_model(tmp_path / "model"))
    model.save_pretrained(tmp_path / "saved")
    before = model_bytes(tmp_path / "saved")
    export_onnx(tmp_path / "saved")
    assert model_bytes(tmp_path / "saved").items() >= before.items()
    vectors = Session(tmp_path / "saved", FLOAT)(["the old ships"])[0]
    np.testing.assert_allclose(vectors, model.encode(["the old ships"]), atol=1e-6)
    again = Model2Vec.from_pretrained(tmp_path / "saved").encode(["the old ships"])
    np.testing.assert_allclose(vectors, again, atol=1e-6)


@pytest.mark.parametrize("form", ["table", "head"])
@pytest.mark.parametrize("quantize", [None, "int8"])
def test_numbers_that_are_not_finite_are_told_before_anything_is_written(tmp_path, form, quantize):
    tokenizer = make_tokenizer()
    table = make_table(tokenizer.get_vocab_size())
    if form == "table":
        table[7, 3] = np.nan
        head = None
    else:
        head = replace(HEAD, first=np.full_like(HEAD.first, np.inf))
    export_model(tmp_path / "model", table, tokenizer, {}, head=head)
    before = model_bytes(tmp_path / "model")
    with pytest.raises(ValueError, match="numbers that are not finite"):
        export_onnx(tmp_path / "model", quantize)
    assert model_bytes(tmp_path / "model") == before


@pytest.mark.parametrize("there", [False, True])
def test_a_table_that_int8_spoils_is_refused_before_anything_is_written(tmp_path, capsys, there):
    """Its rows differ in what is small beside what they have in common, and cancels out."""
    tokenizer = make_tokenizer()
    folder = make_model(tmp_path / "model")
    if there:
        export_onnx(folder, quantize="int8")
        before = (folder / INT8).read_bytes()
    table = make_table(tokenizer.get_vocab_size())
    table[2:, 0] = np.resize([1_000, -1_000], len(table) - 2)
    save_file({"embeddings": table}, folder / "model.safetensors")
    command = ["export", str(folder), "--onnx"]
    assert main(command if there else [*command, "--quantize", "int8"]) == 1
    said = capsys.readouterr().err
    assert re.search(
        r"a cosine of 0\.\d{5} to the exact one, but expected more than 0\.999\. Write it without "
        r"int8 .*remove onnx/model_quantized\.onnx",
        said,
    )
    assert (folder / "onnx").exists() == there
    if there:
        assert (folder / INT8).read_bytes() == before
    else:
        assert main(command) == 0


def test_the_least_cosine_in_int8_is_said_and_is_that_of_the_graphs(folder, monkeypatch, caplog):
    texts = ["the", "Old ships", "the lighthouse keeper counted ships, reading 東京", "zzz", "un"]
    caplog.set_level("INFO")
    export_onnx(folder, quantize="int8")
    ids = FastTokenizer(read_static_model(folder).tokenizer)(texts)
    monkeypatch.setattr(static_model, "_token_ids", lambda model: ids)
    export_onnx(folder, quantize="int8")
    said = [re.search(r"at least (0\.\d+), of (\S+) texts", r.getMessage()) for r in caplog.records]
    exact, rounded = (unit(Session(folder, file)(texts)[0]) for file in (FLOAT, INT8))
    cosines = (exact * rounded).sum(axis=1)[exact.any(axis=1)]
    assert float(said[1][1]) == pytest.approx(cosines.min(), abs=2e-5)
    assert said[1][2] == str(len(cosines)) == "4"
    assert 0.999 < float(said[0][1]) <= cosines.min()  # of a thousand texts
    assert 900 < int(said[0][2].replace(",", "")) < 1_100


def test_more_dimensions_than_there_are_are_all(tmp_path):
    folder = make_model(tmp_path / "model")
    file = folder / "config_sentence_transformers.json"
    write_json(file, read_json(file) | {"truncate_dim": D + 9})
    export_onnx(folder)
    [shape] = [
        [dimension.dim_value for dimension in output.type.tensor_type.shape.dim]
        for output in onnx.load(folder / FLOAT).graph.output
        if output.name == "sentence_embedding"
    ]
    assert shape[-1] == D
    assert read_static_model(folder).truncate_dim is None


def test_the_command_says_which_prompt_the_graph_leaves_out(tmp_path, capsys):
    folder = make_model(tmp_path / "model")
    file = folder / "config_sentence_transformers.json"
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    write_json(file, read_json(file) | prompts)
    assert main(["export", str(folder), "--onnx"]) == 0
    assert "put the default one, 'query: ', before each text" in capsys.readouterr().out


def test_a_table_that_is_too_large_is_told(tmp_path, monkeypatch):
    folder = make_model(tmp_path / "model")
    monkeypatch.setattr(onnx_export, "_MAX_TABLE_BYTES", 1_000)
    with pytest.raises(ValueError, match="bytes, but an ONNX file holds up to 1,000"):
        export_onnx(folder)
    assert not (folder / "onnx").exists()


@pytest.mark.parametrize("value", ["int4", 1.5])
def test_a_choice_that_there_is_not_is_told(tmp_path, value):
    with pytest.raises(ValueError, match="Expected quantize to be int8 or None"):
        export_onnx(tmp_path, quantize=value)


@pytest.mark.parametrize(
    "tokenizer",
    [
        make_tokenizer(),
        build_tokenizer(WORDS, PIECES, Normalization()),
        build_tokenizer(WORDS, normalization=Normalization(lowercase=False)),
        build_piece_tokenizer([("ab", -1.0)], Normalization()),
        build_piece_tokenizer([("ab", -1.0)], Normalization(strip_accents=True)),
        build_word_tokenizer(["the", "don't", "..."]),
    ],
)
def test_our_own_tokenizers_run_everywhere(tokenizer):
    check_tokenizer(tokenizer)


def changed(part: str, value: object) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    setattr(tokenizer, part, value)
    return tokenizer


SPLIT = pre_tokenizers.Split(Regex("a"), "merged_with_previous")
CLS = processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 0)])


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("normalizer", normalizers.Nmt(), "no normalizer Nmt"),
        ("pre_tokenizer", pre_tokenizers.Whitespace(), "Whitespace of JavaScript splits"),
        ("pre_tokenizer", pre_tokenizers.Metaspace(), "Metaspace of JavaScript splits"),
        ("pre_tokenizer", pre_tokenizers.Digits(), "Digits of JavaScript splits"),
        ("pre_tokenizer", pre_tokenizers.Punctuation("isolated"), "Punctuation of JavaScript"),
        ("pre_tokenizer", pre_tokenizers.Punctuation("removed"), "Punctuation of JavaScript"),
        ("pre_tokenizer", pre_tokenizers.Split("-", "removed"), "Split of JavaScript splits"),
        ("pre_tokenizer", SPLIT, "Split is MergedWithPrevious"),
        ("post_processor", CLS, "adds special tokens"),
        ("model", models.Unigram([("a", 0.0)], 0, byte_fallback=True), "falls back to bytes"),
    ],
)
def test_a_tokenizer_that_a_client_cannot_run_is_refused(part, value, reason):
    with pytest.raises(ValueError, match=f"cannot be run beside an ONNX file: .*{reason}"):
        check_tokenizer(changed(part, value))


METASPACE = pre_tokenizers.Metaspace()
SPLIT_PIECES = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), METASPACE])


@pytest.mark.parametrize(
    ("piece", "splits", "refused"),
    [
        ("▁of", METASPACE, None),
        ("of▁the", METASPACE, "Metaspace"),
        ("▁", SPLIT_PIECES, None),
        ("c++", SPLIT_PIECES, None),
        ("▁?!", SPLIT_PIECES, "Punctuation"),
    ],
)
def test_pieces_that_only_one_program_finds_are_refused(piece, splits, refused):
    tokenizer = Tokenizer(models.Unigram([("[UNK]", 0.0), (piece, -1.0)], 0))
    tokenizer.pre_tokenizer = splits
    if refused is None:
        check_tokenizer(tokenizer)
    else:
        with pytest.raises(ValueError, match=f"{refused} of JavaScript splits"):
            check_tokenizer(tokenizer)


def test_a_tokenizer_that_cuts_texts_is_refused_before_anything_is_written(tmp_path):
    folder = make_model(tmp_path / "model")
    file = folder / "tokenizer.json"
    cut = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"truncation": cut}))
    with pytest.raises(ValueError, match="it cuts texts itself"):
        export_onnx(folder)
    assert not (folder / "onnx").exists()
    check_output(folder)
