"""The exported folder: built-ins only, equal vectors in every runtime, nothing overwritten."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from st_static.model.export import PCA_FILE, RECORD_FILE, check_output, export_model
from st_static.model.tokenizer import build_tokenizer, split_words
from st_static.model.vectors import unit_rows

RECORD = {"recipe": {"seed": 0}, "stages": {}}
DIMENSION = 8


def make_table(tokenizer: Tokenizer) -> np.ndarray:
    rng = np.random.default_rng(1)
    table = rng.normal(size=(tokenizer.get_vocab_size(), DIMENSION)).astype(np.float32)
    table[:2] = 0  # [PAD] and [UNK]
    table[tokenizer.token_to_id("ships")] = 0
    return table


@pytest.fixture(scope="module")
def words(sentences):
    splitter = build_tokenizer([])
    return sorted({w for s in sentences for w in split_words(splitter, s) if w.isalnum()})


@pytest.fixture(scope="module")
def tokenizer(words):
    return build_tokenizer(words, ["un", "##known", *"abcdef"])


@pytest.fixture(scope="module")
def table(tokenizer):
    return make_table(tokenizer)


@pytest.fixture(scope="module")
def exported(tokenizer, table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "deep" / "model"
    export_model(folder, table, tokenizer, RECORD)
    return folder


@pytest.fixture(scope="module")
def texts(sentences):
    long = " ".join(sentences * 5)
    assert len(long.split()) > 512
    return [*sentences, long, "", "!!!", "ships", "qqq", "the qqq ships!"]


@pytest.fixture(scope="module")
def expected(tokenizer, table, texts):
    """The vectors by a plain loop."""
    rows = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        rows.append(table[ids].astype(np.float64).sum(axis=0) if ids else np.zeros(DIMENSION))
    return unit_rows(np.array(rows))


def test_sentence_transformers_gives_the_vectors(exported, texts, expected):
    vectors = SentenceTransformer(str(exported), device="cpu").encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths[:-5], 1, atol=1e-6)
    assert lengths[-5:-1].tolist() == [0, 0, 0, 0]


def test_model2vec_gives_the_vectors(exported, texts, expected):
    vectors = StaticModel.from_pretrained(exported).encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_loads_where_st_static_cannot_be_imported(exported, texts, expected, tmp_path):
    (tmp_path / "texts.json").write_text(json.dumps(texts), "utf-8")
    program = textwrap.dedent(
        """
        import json, sys
        from pathlib import Path

        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "st_static":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Block())
        try:
            import st_static
        except ModuleNotFoundError:
            pass
        else:
            sys.exit("st_static can be imported")

        import numpy as np
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(sys.argv[1], device="cpu")
        np.save("vectors.npy", model.encode(json.loads(Path("texts.json").read_text("utf-8"))))
        Path("modules.txt").write_text("\\n".join(sys.modules))
        """
    )
    subprocess.run([sys.executable, "-c", program, str(exported)], cwd=tmp_path, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)
    assert "st_static" not in (tmp_path / "modules.txt").read_text().split()


def test_module_types_are_the_older_spelling(exported):
    modules = json.loads((exported / "modules.json").read_text())
    assert [(module["type"], module["path"]) for module in modules] == [
        ("sentence_transformers.models.StaticEmbedding", ""),
        ("sentence_transformers.models.Normalize", "1_Normalize"),
    ]


def test_files_of_the_folder(exported):
    files = sorted(str(p.relative_to(exported)) for p in exported.rglob("*") if p.is_file())
    assert files == [
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "st_static.json",
        "tokenizer.json",
    ]
    assert json.loads((exported / RECORD_FILE).read_text()) == RECORD
    assert [path.name for path in exported.parent.iterdir()] == ["model"]


def test_others_may_read_the_files(exported):
    modes = {path.stat().st_mode & 0o777 for path in exported.rglob("*") if path.is_file()}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {0o666 & ~umask}


def test_similarity_is_the_cosine(exported):
    assert SentenceTransformer(str(exported), device="cpu").similarity_fn_name == "cosine"


def test_the_pca_is_copied_beside_the_model(tmp_path, tokenizer, table):
    (tmp_path / "fitted").write_bytes(b"fitted")
    export_model(tmp_path / "model", table, tokenizer, RECORD, pca=tmp_path / "fitted")
    assert (tmp_path / "model" / PCA_FILE).read_bytes() == b"fitted"


def stored_dtype(folder: Path) -> str:
    with safe_open(folder / "model.safetensors", "numpy") as file:
        assert list(file.keys()) == ["embedding.weight"]
        return str(file.get_tensor("embedding.weight").dtype)


def test_half_precision_halves_the_file_and_keeps_the_vectors(
    tmp_path, tokenizer, table, exported, texts, expected
):
    folder = tmp_path / "half"
    export_model(folder, table, tokenizer, RECORD, dtype="float16")
    assert (stored_dtype(exported), stored_dtype(folder)) == ("float32", "float16")
    size = [(path / "model.safetensors").stat().st_size for path in (exported, folder)]
    assert size[0] - size[1] == 2 * table.size
    known = expected.any(axis=1)
    for vectors in (
        SentenceTransformer(str(folder), device="cpu").encode(texts),
        StaticModel.from_pretrained(folder).encode(texts),
    ):
        np.testing.assert_allclose(vectors[known], expected[known], atol=5e-3)


def test_a_table_in_another_order_of_memory_is_written_as_it_is(tmp_path, tokenizer, table):
    export_model(tmp_path / "model", np.asfortranarray(table), tokenizer, RECORD)
    with safe_open(tmp_path / "model" / "model.safetensors", "numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("embedding.weight"), table)


def test_the_same_model_gives_the_same_bytes(tmp_path, tokenizer, table, exported):
    export_model(tmp_path / "again", table, tokenizer, RECORD)
    for path in exported.rglob("*"):
        if path.is_file():
            again = tmp_path / "again" / path.relative_to(exported)
            assert path.read_bytes() == again.read_bytes()


def test_an_older_model_is_replaced_whole(tmp_path, tokenizer, table):
    folder = tmp_path / "model"
    export_model(folder, table, tokenizer, {"old": True})
    (folder / "onnx").mkdir()
    export_model(folder, 2 * table, tokenizer, RECORD)
    assert json.loads((folder / RECORD_FILE).read_text()) == RECORD
    assert not (folder / "onnx").exists()
    with safe_open(folder / "model.safetensors", "numpy") as file:
        np.testing.assert_array_equal(file.get_tensor("embedding.weight"), 2 * table)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_empty_folder_and_leftovers_of_a_killed_export_are_no_hindrance(
    tmp_path, tokenizer, table
):
    (tmp_path / "model").mkdir()
    for leftover in (".model.partial", ".model.old"):
        (tmp_path / leftover / "1_Normalize").mkdir(parents=True)
        (tmp_path / leftover / "junk").write_text("half a file")
    export_model(tmp_path / "model", table, tokenizer, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not (tmp_path / "model" / "junk").exists()


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path, tokenizer, table):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="holds something"):
        export_model(tmp_path, table, tokenizer, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_file_is_refused(tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(ValueError, match="is a file"):
        check_output(tmp_path / "model")


@pytest.mark.parametrize("output", [".", "..", "../inner"])
def test_the_current_folder_is_refused(tmp_path, monkeypatch, output):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(ValueError, match="is the folder that you are in, or holds it"):
        check_output(Path(output))


def test_outputs_that_may_be_written(tmp_path, exported):
    for output in (tmp_path / "new" / "model", tmp_path, exported):
        before = sorted(output.rglob("*"))
        check_output(output)
        assert sorted(output.rglob("*")) == before


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t[0], lambda t: t[:, :, None]])
def test_a_table_that_does_not_fit_the_tokenizer_is_refused_before_anything_is_written(
    tmp_path, tokenizer, table, change
):
    with pytest.raises(ValueError, match="one for each token"):
        export_model(tmp_path / "model", change(table), tokenizer, RECORD)
    assert not any(tmp_path.iterdir())


def test_an_interrupted_export_leaves_the_older_model(tmp_path, tokenizer, table, monkeypatch):
    folder = tmp_path / "model"
    export_model(folder, table, tokenizer, {"old": True})
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("st_static.model.export.write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        export_model(folder, 2 * table, tokenizer, RECORD)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == before
