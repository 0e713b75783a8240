"""Files appear whole or not at all, and hold what was written."""

import errno
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from st_static import files
from st_static.files import (
    atomic,
    check_writable,
    read_arrays,
    read_arrow,
    read_json,
    remove_leftovers,
    temporary_folder,
    write_arrays,
    write_arrow,
    write_json,
    write_npy,
)


def test_a_file_appears_when_its_block_ends(tmp_path):
    with atomic(tmp_path / "file") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


NO_SPACE = "^No space left on the disk of .*/file: make room"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError("broken"), "^broken$"),
        (KeyboardInterrupt(), "^$"),
        *((OSError(n, "no space"), NO_SPACE) for n in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)),
    ],
)
@pytest.mark.parametrize("older", [[], ["file"]])
def test_an_error_leaves_the_older_file_and_nothing_else(tmp_path, error, says, older):
    for name in older:
        (tmp_path / name).write_text("old")

    def write_half():
        with atomic(tmp_path / "file") as temporary:
            temporary.write_text("ne")
            raise error

    with pytest.raises(type(error), match=says):
        write_half()
    assert [path.name for path in tmp_path.iterdir()] == older
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old" for _ in older]


ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.float16).reshape(2, 3).T,
    "every_second": np.arange(9)[::2],
    "number": np.array(7),
    "none": np.zeros((0, 4), dtype=np.int32),
}


def test_arrays_come_back_with_shape_and_type(tmp_path):
    write_arrays(tmp_path / "arrays", ARRAYS)
    found = read_arrays(tmp_path / "arrays")
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_tables_come_back(tmp_path):
    texts = pa.table({"text": ["a", "é", ""], "words": [[1, 2], [], [3]]})
    for table in (texts, pa.table({"n": pa.array([], "i4")})):
        write_arrow(tmp_path / "table", table)
        assert read_arrow(tmp_path / "table").equals(table)


def test_json_comes_back_and_is_readable(tmp_path):
    value = {"é": [1, 0.5, None], "nested": {"a": True}}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "é" in (tmp_path / "file.json").read_text("utf-8")
    with pytest.raises(TypeError):
        write_json(tmp_path / "other.json", {"set": {1}})
    assert left_in(tmp_path) == ["file.json"]


WRITERS = {
    "json": lambda path: write_json(path, {}),
    "arrow": lambda path: write_arrow(path, pa.table({"a": [1]})),
    "safetensors": lambda path: write_arrays(path, ARRAYS),
    "npy": lambda path: write_npy(path, np.zeros((2, 3))),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("umask", [0o002, 0o027])
def test_those_may_read_a_file_whom_the_umask_lets(tmp_path, name, umask):
    before = os.umask(umask)
    try:
        WRITERS[name](tmp_path / name)
    finally:
        os.umask(before)
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("shape", [(2, 3), (0, 3), (2, 0)])
def test_an_npy_file_comes_back(tmp_path, shape):
    for array in (np.ones(shape, np.uint8), np.ones(shape[::-1], np.float32).T):
        write_npy(tmp_path / "a.npy", array)
        found = np.load(tmp_path / "a.npy", mmap_mode="r" if array.size else None)
        np.testing.assert_array_equal(found, array, strict=True)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("has_path", [True, False], ids=["Python's", "Arrow's"])
def test_a_file_that_cannot_be_written_is_named_not_its_temporary_one(tmp_path, number, has_path):
    why = os.strerror(number)

    def fail(temporary):
        told = (why, str(temporary)) if has_path else (f"Failed to open '{temporary}'",)
        raise OSError(number, *told)

    says = rf"^{tmp_path}/file cannot be written \({why}\): choose another place"
    with pytest.raises(OSError, match=says) as raised, atomic(tmp_path / "file") as temporary:
        fail(temporary)
    assert raised.value.errno == number


def test_an_error_about_another_file_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="other"), atomic(tmp_path / "file"):
        (tmp_path / "other").read_text()


@pytest.mark.parametrize("name", ["a" * 255, "é" * 127])
def test_a_file_may_have_a_name_as_long_as_the_file_system_allows(tmp_path, name):
    with atomic(tmp_path / name) as temporary:
        temporary.write_text("whole")
    assert left_in(tmp_path) == [name]
    left = temporary.name.replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")  # no process has it
    (tmp_path / left).touch()
    remove_leftovers(tmp_path / name)
    assert left_in(tmp_path) == [name]


def test_a_place_is_refused_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    check_writable(tmp_path / "new/folder", "The output")
    for folder in ("file", "file/new/folder"):
        with pytest.raises(ValueError, match=r"^The output cannot be written: .*/file is a file"):
            check_writable(tmp_path / folder, "The output")
    # As root one may write anywhere but on a disk that is mounted for reading.
    monkeypatch.setattr(files.os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(ValueError, match=f"written: {tmp_path} is write-protected"):
        check_writable(tmp_path / "new/folder", "The output")


def test_a_temporary_file_names_its_machine_its_process_and_its_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(files.socket, "gethostname", lambda: "gpu-1.my cluster/é")
    with atomic(tmp_path / "a") as temporary:
        temporary.touch()
        writer = f"{os.getpid()}-{threading.get_ident()}"
        assert temporary.name == f".a.gpu_1_my_cluster__-{writer}.tmp"
        monkeypatch.setattr(files.socket, "gethostname", lambda: "gpu-2")
        with atomic(tmp_path / "a") as other:
            assert other != temporary
            other.touch()


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_left_is_removed_by_the_next_and_nothing_else(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from st_static.files import atomic\n"
        "with atomic(Path(sys.argv[1])) as temporary: temporary.touch(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "a[1]"], check=False)
    [left] = left_in(tmp_path)
    assert re.fullmatch(r"\.a\[1\]\.\w+-\d+-\d+\.tmp", left)
    others = [left.replace("a[1]", "b"), left.replace("a[1]", "a[1].b"), ".a[1].no-tes.tmp"]
    for name in (".a[1].notes.tmp", *others):
        (tmp_path / name).touch()
    with atomic(tmp_path / "a[1]") as temporary:
        temporary.touch()
    assert left_in(tmp_path) == sorted(["a[1]", ".a[1].notes.tmp", *others])


def test_a_temporary_folder_is_removed_also_by_the_next_process(tmp_path, monkeypatch):
    kept = ["st_static-elsewhere-1-a", "st_static-mine", "st_static-1-b", "other"]
    for name in kept:
        (tmp_path / name).mkdir()
    code = (
        "import os; from st_static.files import temporary_folder\n"
        "with temporary_folder() as folder: (folder / 'part').touch(); os._exit(9)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    [left] = set(left_in(tmp_path)) - set(kept)
    assert (tmp_path / left / "part").exists()
    (tmp_path / left.replace("-", "-x", 1)).symlink_to(tmp_path / "other")  # of another host
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as outer, temporary_folder() as inner:
        assert outer.is_dir()
        assert inner.parent == tmp_path
        assert left not in left_in(tmp_path)
    assert left_in(tmp_path) == sorted([*kept, left.replace("-", "-x", 1)])
    old = tmp_path / kept[0]
    os.utime(old, (time.time() - 90_000,) * 2)
    with temporary_folder():
        assert not old.exists()


def test_what_a_process_is_writing_is_not_removed(tmp_path):
    with atomic(tmp_path / "a") as temporary:
        temporary.write_text("half")
        remove_leftovers(tmp_path / "a")
        assert temporary.exists()
    assert left_in(tmp_path) == ["a"]


@pytest.mark.parametrize(("hours", "is_removed"), [(0, False), (23, False), (25, True)])
def test_of_other_machines_only_what_is_old_is_removed(tmp_path, monkeypatch, hours, is_removed):
    """Whether a process runs there cannot be told here, though one may have its number here."""
    pids = [os.getpid(), 2**22 + 1, 10**30]  # one that runs here, and two that cannot
    for pid in pids:
        file = tmp_path / f".a.elsewhere-{pid}-1.tmp"
        file.touch()
        os.utime(file, (time.time() - 3600 * hours,) * 2)
    remove_leftovers(tmp_path / "a")
    assert (left_in(tmp_path) == []) == is_removed
    assert len(left_in(tmp_path)) in (0, len(pids))
    monkeypatch.setattr(files.socket, "gethostname", lambda: "elsewhere")
    remove_leftovers(tmp_path / "a")
    assert left_in(tmp_path) == [f".a.elsewhere-{os.getpid()}-1.tmp"] * (not is_removed)


def test_a_file_that_is_renamed_before_it_is_looked_at_is_no_error(tmp_path, monkeypatch):
    file = tmp_path / ".a.elsewhere-1-1.tmp"
    file.touch()
    monkeypatch.setattr(files.time, "time", lambda: file.unlink() or 0)
    remove_leftovers(tmp_path / "a")
    assert left_in(tmp_path) == []
