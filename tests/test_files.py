"""Files appear whole or not at all, and hold what was written."""

import errno
import os

import numpy as np
import pyarrow as pa
import pytest

from st_static.files import (
    atomic,
    create_array,
    read_arrays,
    read_json,
    read_table,
    remove_leftovers,
    write_arrays,
    write_json,
    write_table,
)


def test_a_file_appears_when_its_block_ends(tmp_path):
    with atomic(tmp_path / "file") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_error_leaves_the_older_file_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("old")

    def write_half():
        with atomic(tmp_path / "file") as temporary:
            temporary.write_text("ne")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


ARRAYS = {
    "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
    "transposed": np.arange(6, dtype=np.float16).reshape(2, 3).T,
    "every_second": np.arange(9)[::2],
    "number": np.array(7),
    "none": np.zeros((0, 4), dtype=np.int32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_come_back_with_shape_and_type(tmp_path, name):
    write_arrays(tmp_path / "arrays", {name: ARRAYS[name]})
    found = read_arrays(tmp_path / "arrays")
    assert list(found) == [name]
    assert found[name].dtype == ARRAYS[name].dtype
    assert found[name].shape == ARRAYS[name].shape
    np.testing.assert_array_equal(found[name], ARRAYS[name])


def test_tables_come_back(tmp_path):
    table = pa.table({"text": ["a", "é", ""], "words": [[1, 2], [], [3]]})
    write_table(tmp_path / "table", table)
    assert read_table(tmp_path / "table").equals(table)


def test_json_comes_back_and_is_readable(tmp_path):
    value = {"é": [1, 0.5, None], "nested": {"a": True}}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "é" in (tmp_path / "file.json").read_text("utf-8")


def test_a_mapped_array_has_its_space_on_the_disk_before_it_is_written(tmp_path):
    array = create_array(tmp_path / "vectors.npy", np.float16, (300_000, 4))
    assert os.stat(tmp_path / "vectors.npy").st_blocks * 512 >= array.nbytes
    assert not np.load(tmp_path / "vectors.npy").any()
    array[7] = 1
    array.flush()
    assert np.load(tmp_path / "vectors.npy")[6:9, 0].tolist() == [0, 1, 0]


def test_no_space_for_a_mapped_array_is_an_error_that_names_it(tmp_path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on the disk of .*vectors\.npy"):
        create_array(tmp_path / "vectors.npy", np.float16, (10, 4))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_named_and_the_older_file_stays(tmp_path, number):
    (tmp_path / "file").write_text("old")

    def fill():
        with atomic(tmp_path / "file") as temporary:
            temporary.write_text("half")
            raise OSError(number, "no space")

    with pytest.raises(OSError, match=r"^No space left on the disk of .*/file: make room"):
        fill()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path):
    for name in ("a[1]", ".a[1].12-34.tmp", ".a[1].notes.tmp", ".b.12-34.tmp"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a[1]")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".a[1].notes.tmp",
        ".b.12-34.tmp",
        "a[1]",
    ]
