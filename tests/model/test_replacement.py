"""Several processes may write one folder at once: the last one wins, and nothing is lost."""

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from small_build import model_bytes

from st_static import FastEncoder, SearchIndex
from st_static.model import replacement
from st_static.model.card_file import NOTES_END, NOTES_START
from st_static.model.export import export_model
from st_static.model.model_folder import read_static_model
from st_static.model.replacement import replacing
from st_static.model.static_model import StaticModel
from st_static.model.tokenizer import build_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

CARD = f"# A model\n{NOTES_START}\n{NOTES_END}\n"


def forked(work: Callable[[], object], start: int | None = None) -> int:
    """Run in a child, which waits for a byte of the pipe `start`; its number."""
    child = os.fork()
    if child == 0:
        try:
            if start is not None:
                os.read(start, 1)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def status_of(child: int) -> int:
    """Wait for a child; its exit status, or the negative number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def at_once(*works: Callable[[], object]) -> list[int]:
    """Run each in a process, all from the same moment on; their exit statuses."""
    start, go = os.pipe()
    children = [forked(work, start) for work in works]
    os.write(go, bytes(len(works)))
    os.close(go)
    os.close(start)
    return [status_of(child) for child in children]


@pytest.fixture(scope="module")
def exports(tmp_path_factory) -> list[Callable[[Path], None]]:
    """Ways to write two models of the same files, other contents."""
    tokenizer = build_tokenizer(["a", "b"])
    table = np.ones((tokenizer.get_vocab_size(), 8), np.float32)
    return [
        lambda folder, n=n: export_model(folder, n * table, tokenizer, {"n": n}, card=CARD)
        for n in (1, 2)
    ]


def test_two_processes_that_export_leave_one_whole_model_and_what_the_user_wrote(tmp_path, exports):
    noted, mine = CARD.replace(NOTES_END, f"Mine.\n{NOTES_END}"), "mine/notes.txt"
    whole = []
    for n, export in enumerate(exports):
        folder = tmp_path / f"{n}" / "model"
        export(folder)
        (folder / "README.md").write_text(noted)
        (folder / mine).parent.mkdir()
        (folder / mine).write_text("mine")
        export(folder)
        whole.append(model_bytes(folder))
    assert all(b"Mine." in files["README.md"] and mine in files for files in whole)
    for _ in range(15):
        assert at_once(*[lambda export=export: export(folder) for export in exports]) == [0, 0]
        assert [path.name for path in folder.parent.iterdir()] == ["model"]
        assert model_bytes(folder) in whole


def make_index(n: int) -> tuple[SearchIndex, FastEncoder]:
    """An index of n texts."""
    tokenizer = build_tokenizer(["red", "boat"])
    table = np.eye(tokenizer.get_vocab_size(), 8, dtype=np.float32)
    encoder = FastEncoder(StaticModel(tokenizer, table, normalize=True, name="boats"))
    return SearchIndex.build(encoder, ["a red boat"] * n), encoder


def save_for_ever(n: int, folder: Path) -> None:
    index, _ = make_index(n)
    while True:
        index.save(folder)


def test_savers_that_are_killed_leave_a_whole_index_which_readers_see_at_any_time(tmp_path):
    folder = tmp_path / "index"
    index, encoder = make_index(3)
    index.save(folder)
    chance = random.Random(0)
    for _ in range(10):
        savers = [forked(lambda n=n: save_for_ever(n, folder)) for n in (1, 2)]
        try:
            end = time.monotonic() + chance.uniform(0.05, 0.3)
            while time.monotonic() < end:
                opened = SearchIndex.open(folder, encoder)
                assert len(opened.search("boat", top=3)) == len(opened)
        finally:
            for saver in savers:
                os.kill(saver, signal.SIGKILL)
            assert [status_of(saver) for saver in savers] == [-signal.SIGKILL] * 2
        assert len(SearchIndex.open(folder, encoder)) in (1, 2, 3)
        if chance.random() < 0.5:
            index.save(folder)
            assert [path.name for path in tmp_path.iterdir()] == ["index"]
    index.save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert len(SearchIndex.open(folder, encoder)) == 3


def files_of(folder: Path) -> dict[str, int]:
    """The size of each file."""
    return {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", ["index", "model"])
def test_a_full_disk_is_told_by_the_folders_name(tmp_path, exports, kind):
    resource = pytest.importorskip("resource", reason="Windows has no limits of files")
    index, _ = make_index(5000)  # more than what is written at once
    write = index.save if kind == "index" else exports[0]
    write(tmp_path / kind)
    sizes = files_of(tmp_path / kind)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, size in sizes.items():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1, limits[1]))
        try:
            with pytest.raises(OSError, match=f"^No space left on the disk of .*/{kind}: make"):
                write(tmp_path / kind)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert files_of(tmp_path / kind) == sizes, name
        assert [path.name for path in tmp_path.iterdir()] == [kind]


@pytest.mark.parametrize("umask", [0o002, 0o027])
def test_those_may_read_a_folder_whom_the_umask_lets(tmp_path, umask):
    """Whatever a library writes or copies into it."""
    (tmp_path / "private").mkdir(0o700)
    (tmp_path / "private" / "page").touch(0o600)
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "new", lambda *_: True) as partial:
            (partial / "table").touch(0o600)
            shutil.copytree(tmp_path / "private", partial / "inner")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "new").rglob("*")}
    file, folder = 0o666 & ~umask, 0o777 & ~umask
    assert modes == {"table": file, "inner": folder, "page": file}


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, exports, monkeypatch):
    """Else the tokenizer would be of one model, and the table of the other."""
    import st_static.model.model_folder as model_folder

    exports[0](tmp_path / "model")
    replaced = []

    def read_tokenizer(file):
        if not replaced:
            replaced.append(exports[1](tmp_path / "model"))
        return original(file)

    original = model_folder.read_tokenizer
    monkeypatch.setattr(model_folder, "read_tokenizer", read_tokenizer)
    assert read_static_model(tmp_path / "model").table.max() == 2
    assert replaced


@pytest.mark.parametrize("name", ["notes.txt", "new/notes.txt"])
def test_who_makes_the_folder_between_the_renames_takes_nothing_away(
    tmp_path, exports, name, monkeypatch
):
    exports[0](tmp_path / "model")
    before = model_bytes(tmp_path / "model")
    rename = Path.replace

    def replace(path: Path, target: Path) -> None:
        rename(path, target)
        if target.name == ".model.old":
            (path / name).parent.mkdir(parents=True)
            (path / name).write_text("late")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OSError, match=r"model cannot be written \(Directory not empty\)"):
        exports[1](tmp_path / "model")
    assert model_bytes(tmp_path / "model") == before | {name: b"late"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_write_protected_folder_of_the_user_stays_and_is_no_hindrance(exports):
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        protected = Path(home, "model", "mine")

        def work() -> None:
            if os.geteuid() == 0:  # whom nothing is protected from
                os.setuid(65_534)
            exports[0](protected.parent)
            protected.mkdir()
            (protected / "notes.txt").write_text("mine")
            protected.chmod(0o500)
            exports[0](protected.parent)
            exports[1](protected.parent)

        exports[0](protected.parent)  # before, so that all is imported
        shutil.rmtree(protected.parent)
        assert status_of(forked(work)) == 0
        assert (protected / "notes.txt").read_text() == "mine"
        assert protected.stat().st_mode & 0o777 == 0o500
        assert os.listdir(home) == ["model"]


def test_a_writer_that_stands_still_is_named(tmp_path, exports, monkeypatch):
    monkeypatch.setattr(replacement, "PATIENCE", 0.1)
    says = r"^Another process is writing .*model\. Wait until"
    with replacement.held(tmp_path / "model"), pytest.raises(ValueError, match=says):
        exports[0](tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    exports[0](tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_disk_without_locks_is_named(tmp_path, exports, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(ValueError, match=r"model cannot be locked \(No locks available\): choose"):
        exports[0](tmp_path / "model")
