"""What a model's folder holds, read once."""

import numpy as np
import pytest

from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import ModelFolder
from st_static.model.tokenizer import build_tokenizer
from st_static.web.onnx_export import export_onnx

TABLE = np.array([[0, 0], [0, 0], [3, 4]], np.float32)
RECORD = {"recipe": {"language": "pt-BR", "export": {"license": "mit"}}}


@pytest.fixture(params=["table", "head"])
def folder(request, tmp_path):
    head = Head(np.ones((1, 2), np.float32), np.ones((2, 1), np.float32))
    export_model(
        tmp_path / "model",
        TABLE,
        build_tokenizer(["a"]),
        RECORD,
        card="---\nlanguage: en\n---\nA card.",
        head=head if request.param == "head" else None,
    )
    export_onnx(tmp_path / "model")
    (tmp_path / "model/notes.txt").write_text("mine")
    return ModelFolder(tmp_path / "model")


def test_a_card_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "README.md").write_text("\ufeff---\nlicense: mit\nlanguage: pt\n---\n", "utf-8")
    stated = ModelFolder(tmp_path).stated()
    assert (stated.license, stated.languages) == ("mit", ("pt",))


def test_its_parts_are_those_of_the_model(folder):
    assert folder.name == "model"
    assert folder.dimension == 2
    np.testing.assert_array_equal(folder.model.table, TABLE)
    assert (folder.model.head is None) == (folder.home == folder.path)
    assert "A card." in folder.card
    assert (folder.model.license, folder.model.languages) == ("mit", ("pt",))
    assert folder.model is folder.model
    assert folder.record == RECORD


def test_its_own_files_are_those_that_make_the_model(folder):
    own = {file.relative_to(folder.path).as_posix() for file in folder.own_files}
    others = {file.path for file in folder.files} - own
    beside = {"onnx/model.onnx", "README.md", "notes.txt"}
    copies = {"tokenizer.json", "config.json", "tokenizer_config.json"}
    assert others == beside | (copies if folder.model.head else set())


@pytest.mark.parametrize("changed", ["st_static.json", "model.safetensors", "README.md"])
def test_its_fingerprint_is_that_of_what_a_card_is_about(folder, changed):
    file = (folder.home if changed.endswith("safetensors") else folder.path) / changed
    before = folder.fingerprint
    file.write_bytes(file.read_bytes() + b" ")
    assert (ModelFolder(folder.path).fingerprint == before) == (changed == "README.md")


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match="There is no folder"):
        ModelFolder.local(tmp_path / "none")
