"""The exported folder: built-ins only, equal vectors in every runtime, nothing overwritten."""

import itertools
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from small_build import model_bytes

from st_static.encode.fast_encoder import FastEncoder
from st_static.files import own_path
from st_static.model.export import check_output, export_model
from st_static.model.modules import PCA_FILE, RECORD_FILE, Segment
from st_static.model.tokenizer import build_tokenizer, split_words
from st_static.model.vectors import unit_rows

RECORD = {"recipe": {"seed": 0}, "stages": {}}
DIMENSION = 8


@pytest.fixture(scope="module")
def words(sentences):
    splitter = build_tokenizer([])
    return sorted({w for s in sentences for w in split_words(splitter, s) if w.isalnum()})


@pytest.fixture(scope="module")
def tokenizer(words):
    return build_tokenizer(words, ["un", "##known", *"abcdef"])


@pytest.fixture(scope="module")
def table(tokenizer):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(tokenizer.get_vocab_size(), DIMENSION)).astype(np.float32)
    table[:2] = 0  # [PAD] and [UNK]
    table[tokenizer.token_to_id("ships")] = 0
    return table


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


def test_clients_give_the_vectors(exported, texts, expected):
    model = SentenceTransformer(str(exported), device="cpu")
    vectors = model.encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(lengths[:-5], 1, atol=1e-6)
    assert lengths[-5:-1].tolist() == [0, 0, 0, 0]
    assert model.similarity_fn_name == "cosine"
    vectors = StaticModel.from_pretrained(exported).encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_files_of_the_folder(exported):
    files = sorted(str(p.relative_to(exported)) for p in exported.rglob("*") if p.is_file())
    assert files == [
        *("config.json", "config_sentence_transformers.json", "model.safetensors"),
        *("modules.json", "st_static.json", "tokenizer.json", "tokenizer_config.json"),
    ]
    assert json.loads((exported / RECORD_FILE).read_text()) == RECORD
    modules = json.loads((exported / "modules.json").read_text())
    assert [(module["type"], module["path"]) for module in modules] == [
        ("sentence_transformers.models.StaticEmbedding", "."),  # the older spelling
        ("sentence_transformers.models.Normalize", "1_Normalize"),
    ]
    config = json.loads((exported / "config_sentence_transformers.json").read_text())
    # A later one would make sentence-transformers warn of a newer version.
    assert config["__version__"] == {"sentence_transformers": "3.4.1"}
    assert [path.name for path in exported.parent.iterdir()] == ["model"]
    # Others may read the files.
    modes = {path.stat().st_mode & 0o777 for path in exported.rglob("*") if path.is_file()}
    umask = os.umask(0)
    os.umask(umask)
    assert modes == {0o666 & ~umask}


def test_without_normalize_vectors_are_means_everywhere(
    tmp_path, tokenizer, table, texts, expected
):
    folder = tmp_path / "model"
    export_model(folder, table, tokenizer, RECORD)
    export_model(folder, table, tokenizer, RECORD, normalize=False)
    assert not (folder / "1_Normalize").exists()
    model = SentenceTransformer(str(folder), device="cpu")
    vectors = model.encode(texts)
    assert len(set(np.linalg.norm(vectors, axis=1).round(3))) > 5
    np.testing.assert_allclose(unit_rows(vectors), expected, atol=1e-6)
    assert model.similarity_fn_name == "cosine"
    fast = FastEncoder.from_pretrained(folder)
    np.testing.assert_allclose(fast.encode(texts), vectors, atol=1e-6)
    # Model2Vec leaves unknown tokens out of its means, which changes their lengths alone.
    other = StaticModel.from_pretrained(folder).encode(texts)
    np.testing.assert_allclose(unit_rows(other), expected, atol=1e-6)
    assert not np.allclose(other, expected, atol=1e-3)


def test_the_pca_is_copied_beside_the_model(tmp_path, tokenizer, table):
    (tmp_path / "fitted").write_bytes(b"fitted")
    export_model(tmp_path / "model", table, tokenizer, RECORD, pca=tmp_path / "fitted")
    assert (tmp_path / "model" / PCA_FILE).read_bytes() == b"fitted"


def test_a_folder_may_have_a_name_as_long_as_the_file_system_allows(tmp_path, tokenizer, table):
    folder = tmp_path / ("m" * 255)
    for _ in range(2):
        export_model(folder, table, tokenizer, RECORD)
    assert list(tmp_path.iterdir()) == [folder]


def stored_dtype(folder: Path) -> str:
    with safe_open(folder / "model.safetensors", "numpy") as file:
        assert list(file.keys()) == ["embeddings"]
        return str(file.get_tensor("embeddings").dtype)


def test_half_precision_keeps_the_vectors(tmp_path, tokenizer, table, exported, texts, expected):
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
        np.testing.assert_array_equal(file.get_tensor("embeddings"), table)


def test_the_same_model_gives_the_same_bytes(tmp_path, tokenizer, table, exported):
    export_model(tmp_path / "again", table, tokenizer, RECORD)
    assert model_bytes(tmp_path / "again") == model_bytes(exported)


def user_files(folder: Path) -> dict[str, bytes]:
    """What a user has beside a model, of all kinds: a card, figures, other formats, notes."""
    files = {
        "README.md": b"---\nlicense: mit\n---\nMine.\n",
        "figures/model/speed.svg": b"<svg/>",
        ".eval_results/STS12.yaml": b"score: 1",
        "onnx/model.onnx": b"converted",
        "1_Normalize/notes.txt": b"why it is empty",
        "1_SegmentNormalize/notes.txt": b"of a form that is gone",
        "1_SegmentNormalize/deep/notes.txt": b"as well",
    }
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return files


@pytest.fixture
def small():
    """A tokenizer of five tokens and a table."""
    tokenizer = build_tokenizer(["a", "b", "c"])
    return np.ones((5, 2), dtype=np.float32), tokenizer


SEGMENTS = (Segment(1, 1.0), Segment(1, 0.5))


def test_an_older_model_is_replaced_and_all_else_stays(tmp_path, tokenizer, table):
    folder = tmp_path / "model"
    export_model(folder, table, tokenizer, {"old": True})
    kept = user_files(folder)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("nowhere")
    export_model(folder, 2 * table, tokenizer, RECORD)
    export_model(tmp_path / "new", 2 * table, tokenizer, RECORD)
    assert model_bytes(folder) == kept | model_bytes(tmp_path / "new")
    assert (folder / "empty").is_dir()
    assert (folder / "link").readlink() == Path("nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "new"]


def test_files_of_another_form_of_model_are_removed(tmp_path, small):
    (tmp_path / "fitted").write_bytes(b"fitted")
    export_model(tmp_path / "plain", *small, RECORD)
    export_model(tmp_path / "fused", *small, RECORD, segments=SEGMENTS)
    for options in ({"segments": SEGMENTS, "pca": tmp_path / "fitted"}, {}, {"segments": SEGMENTS}):
        export_model(tmp_path / "model", *small, RECORD, **options)
    assert model_bytes(tmp_path / "model") == model_bytes(tmp_path / "fused")
    export_model(tmp_path / "model", *small, RECORD)
    assert model_bytes(tmp_path / "model") == model_bytes(tmp_path / "plain")
    assert not (tmp_path / "model" / "1_SegmentNormalize").exists()


def test_a_new_card_keeps_the_notes_of_the_one_that_is_there(tmp_path, small):
    markers = "<!-- notes: start -->\n{}<!-- notes: end -->\n"
    export_model(tmp_path / "model", *small, RECORD, card="# Old\n" + markers.format(""))
    card = tmp_path / "model" / "README.md"
    card.write_text("# Old\n" + markers.format("Mine.\n"), "utf-8")
    export_model(tmp_path / "model", *small, RECORD, card="# New\n" + markers.format("") + "End.\n")
    assert card.read_text("utf-8") == "# New\n" + markers.format("Mine.\n") + "End.\n"
    export_model(tmp_path / "model", *small, RECORD, card="# Without markers\n")
    assert card.read_text("utf-8") == "# Without markers\n\n" + markers.format("Mine.\n")


def test_a_card_without_markers_is_not_overwritten(tmp_path, small):
    export_model(tmp_path / "model", *small, RECORD)
    (tmp_path / "model" / "README.md").write_text("Mine.", "utf-8")
    before = model_bytes(tmp_path)
    for check in (
        lambda: check_output(tmp_path / "model", with_card=True),
        lambda: export_model(tmp_path / "model", *small, {}, card="# New\n"),
    ):
        with pytest.raises(ValueError, match=r"model/README\.md: Expected the lines"):
            check()
    assert model_bytes(tmp_path) == before
    check_output(tmp_path / "model")


@pytest.mark.parametrize("name", ["model.safetensors", "sentence_pca.safetensors", "README.md"])
def test_a_folder_in_the_place_of_a_file_of_the_model_is_named(tmp_path, small, name):
    export_model(tmp_path / "model", *small, RECORD)
    (tmp_path / "model" / name).unlink(missing_ok=True)
    (tmp_path / "model" / name / "mine").mkdir(parents=True)
    with pytest.raises(ValueError, match=f"{name} was not written by st_static"):
        check_output(tmp_path / "model")


@pytest.mark.parametrize("name", ["1_Normalize", "1_SegmentNormalize"])
def test_a_file_in_the_place_of_a_folder_of_the_model_is_named(tmp_path, small, name):
    export_model(tmp_path / "model", *small, RECORD)
    for path in (tmp_path / "model").glob(name):
        path.rmdir()
    (tmp_path / "model" / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name} was not written by st_static"):
        check_output(tmp_path / "model")


def test_a_place_that_cannot_be_written_is_refused_before_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        check_output(tmp_path / "file")
    with pytest.raises(ValueError, match=r"file is a file\. Choose another"):
        check_output(tmp_path / "file" / "models" / "new")
    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "mounted")
    with pytest.raises(ValueError, match="mounted is a mount point"):
        check_output(tmp_path / "mounted")


def test_a_link_to_a_folder_stays_a_link(tmp_path, small):
    export_model(tmp_path / "disk" / "model", *small, {"old": True})
    kept = user_files(tmp_path / "disk" / "model")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "model")
    export_model(tmp_path / "link", *small, RECORD)
    assert (tmp_path / "link").is_symlink()
    assert kept.items() <= model_bytes(tmp_path / "disk" / "model").items()
    assert json.loads((tmp_path / "link" / RECORD_FILE).read_text()) == RECORD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk", "link"]


def test_where_the_disk_knows_no_hard_links_files_are_copied(tmp_path, small, monkeypatch):
    export_model(tmp_path / "model", *small, RECORD)
    kept = user_files(tmp_path / "model")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    export_model(tmp_path / "model", *small, RECORD)
    assert kept.items() <= model_bytes(tmp_path / "model").items()


def test_an_empty_folder_and_a_killed_exports_leftovers_are_no_hindrance(
    tmp_path, tokenizer, table
):
    (tmp_path / "model").mkdir()
    ours = own_path(tmp_path / "model").name
    left = tmp_path / ours.replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")  # no process has it
    (left / "1_Normalize").mkdir(parents=True)
    (left / "junk").write_text("half a file")
    export_model(tmp_path / "model", table, tokenizer, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert not (tmp_path / "model" / "junk").exists()


def test_what_was_written_into_the_folder_meanwhile_is_kept(tmp_path, small):
    """The old folder is still there, and only it holds a file: as after a kill and a late write."""
    export_model(tmp_path / "model", *small, RECORD)
    export_model(tmp_path / ".model.old", *small, {"old": True})
    (tmp_path / ".model.old" / "late.txt").write_text("mine")
    export_model(tmp_path / "model", *small, RECORD)
    assert (tmp_path / "model" / "late.txt").read_text() == "mine"
    assert json.loads((tmp_path / "model" / RECORD_FILE).read_text()) == RECORD
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def run_until(n_operations: int, work: Callable[[], None]) -> bool:
    """Run in a child that is killed before its n-th change of the disk; whether it came to its end.

    Every rename, link, removal, new folder and opened file counts.
    """
    child = os.fork()
    if child == 0:
        left = n_operations

        def count(event: str, _: tuple) -> None:
            nonlocal left
            if event in ("os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "open"):
                left -= 1
                if left == 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_at_any_moment_it_leaves_the_old_or_the_new_model_and_all_else(tmp_path, small):
    table, tokenizer = small
    home = tmp_path / "home"
    export_model(tmp_path / "old", table, tokenizer, {"old": True})
    kept = user_files(tmp_path / "old")
    old = model_bytes(tmp_path / "old")
    export_model(tmp_path / "plain", 2 * table, tokenizer, RECORD)
    new = model_bytes(tmp_path / "plain") | kept
    seen, ended = set(), False
    for n_operations in itertools.count(1):
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(tmp_path / "old", home / "model")
        ended = run_until(
            n_operations, lambda: export_model(home / "model", 2 * table, tokenizer, RECORD)
        )
        if not (home / "model").exists():  # between the two renames
            assert model_bytes(home / ".model.old") == old
        else:
            assert model_bytes(home / "model") in (old, new)
        seen.add((home / "model").exists())
        check_output(home / "model")
        export_model(home / "model", 2 * table, tokenizer, RECORD)
        assert model_bytes(home / "model") == new
        assert [path.name for path in home.iterdir()] == ["model"]
        if ended:
            break
    assert n_operations > 30
    assert seen == {True, False}


def test_a_folder_that_holds_something_else_is_refused_and_left_alone(tmp_path, tokenizer, table):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="holds something"):
        export_model(tmp_path, table, tokenizer, RECORD)
    assert model_bytes(tmp_path) == {"thesis.tex": b"precious"}


def test_a_path_that_leads_elsewhere_when_it_is_made_is_refused(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    for output, says in (
        (tmp_path / "no" / ".." / "notes.txt", "there is no folder .*no, from which `..` leads"),
        (tmp_path / "loop", "cannot be written"),
        (tmp_path / ("x" * 300), "cannot be written .*too long"),
    ):
        with pytest.raises(ValueError, match=says):
            check_output(output)
    assert notes.read_text() == "mine"


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
def test_a_table_that_does_not_fit_is_refused_before_any_work(tmp_path, tokenizer, table, change):
    with pytest.raises(ValueError, match="one for each token"):
        export_model(tmp_path / "model", change(table), tokenizer, RECORD)
    assert not any(tmp_path.iterdir())


def test_an_interrupted_export_leaves_the_older_model(tmp_path, tokenizer, table, monkeypatch):
    folder = tmp_path / "model"
    export_model(folder, table, tokenizer, {"old": True})
    before = model_bytes(folder)

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("st_static.model.export.write_json", fail)
    with pytest.raises(OSError, match="disk full"):
        export_model(folder, 2 * table, tokenizer, RECORD)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert model_bytes(folder) == before
