"""Tables in safetensors: the arrays that safetensors' own loader gives."""

import json
import os

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors.numpy import save_file

from st_static import foreign_files
from st_static.foreign_files import check_regular
from st_static.model.table import read_table, stored_arrays

FORMATS = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]


def write(file, **tensors):
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("name", FORMATS)
def test_all_number_formats_are_read_as_the_library_does(tmp_path, name):
    file = tmp_path / "model.safetensors"
    table = (100 * torch.rand(7, 3, generator=torch.manual_seed(0))).to(getattr(torch, name))
    write(file, **{"a": torch.ones(3), "embedding.weight": table, "z": torch.ones(1)})
    loaded = safetensors.torch.load_file(file)["embedding.weight"]
    expected = (loaded.float() if name == "bfloat16" else loaded).numpy()
    found = read_table(file)
    assert (found.dtype, type(found)) == (expected.dtype, np.ndarray)
    np.testing.assert_array_equal(found, expected)
    if name == "bfloat16":
        with pytest.raises(ValueError, match=r"cannot be mapped: numpy has no bfloat16, .*mmap"):
            read_table(file, mmap=True)
    else:
        mapped = read_table(file, mmap=True)
        assert (mapped.dtype, type(mapped)) == (expected.dtype, np.memmap)
        np.testing.assert_array_equal(mapped, expected)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_number_without_axes_is_read_as_others_are(tmp_path, name):
    write(tmp_path / "a", wrong=torch.tensor(np.nan, dtype=getattr(torch, name)))
    [number] = stored_arrays(tmp_path / "a").values()
    with pytest.raises(ValueError, match=r"wrong in .* not finite"):
        number[:]


def test_a_number_format_that_is_not_read(tmp_path):
    write(tmp_path / "t", embeddings=torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"embeddings in .*t is stored as C64, .* one of F64, F32"):
        read_table(tmp_path / "t")


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4), (0, 4), (4, 0)])
def test_a_table_of_another_shape(tmp_path, shape):
    save_file({"embeddings": np.ones(shape, np.float32)}, tmp_path / "t")
    for options in ({}, {"mmap": True}, {"form": "int8"}):
        with pytest.raises(ValueError, match=r"at least one of each, but its shape is \["):
            read_table(tmp_path / "t", **options)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(tmp_path, dtype, number):
    table = torch.ones(5, 4, dtype=getattr(torch, dtype))
    table[3, 2] = number
    write(tmp_path / "t", embeddings=table)
    for form in ("restored", "int8"):
        with pytest.raises(ValueError, match=r"embeddings in .*t holds numbers that are not finit"):
            read_table(tmp_path / "t", form=form)
    if dtype == "float32":  # unread, so unchecked
        assert not np.isfinite(read_table(tmp_path / "t", mmap=True)).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mapping": np.array([0, 4])}, "names row 4, but the table has 4 rows"),
        ({"mapping": np.array([0, -1])}, "names row -1, but the table has 4 rows"),
        ({"mapping": np.array([0.0, 1.0])}, "a whole number for each token, but it is F64"),
        ({"mapping": np.array([[0, 1]])}, r"of the shape \[1, 2\]"),
        ({"weights": np.ones(3)}, r"weights in .* for 4 tokens, but their shape is \[3\]"),
        ({"weights": np.ones((4, 1))}, r"for 4 tokens, but their shape is \[4, 1\]"),
        ({"weights": np.ones(4), "mapping": np.array([0, 1])}, "for 2 tokens"),
        ({"weights": np.array([1, np.nan, 1, 1])}, "weights in .* not finite"),
        ({"weights": np.full(4, 1e300)}, "embeddings times weights in .* not finite"),
    ],
)
def test_a_mapping_or_weights_that_do_not_fit(tmp_path, changes, says):
    save_file({"embeddings": np.ones((4, 2), np.float32), **changes}, tmp_path / "t")
    with pytest.raises(ValueError, match=says):
        read_table(tmp_path / "t")


@pytest.mark.parametrize("cut", [4, 20, -1])
def test_a_file_that_was_cut_off(tmp_path, cut):
    save_file({"embeddings": np.ones((3, 4), np.float32)}, tmp_path / "t")
    (tmp_path / "t").write_bytes((tmp_path / "t").read_bytes()[:cut])
    for mmap in (False, True):
        with pytest.raises(ValueError, match=r"t is broken: .*\. Copy it again"):
            read_table(tmp_path / "t", mmap)


def test_a_sparse_file_of_a_whole_table(tmp_path):
    """Its header and size are right, but nothing else was ever written."""
    rows, width = 20_000_000, 250
    offsets = [0, 4 * rows * width]
    header = {"embeddings": {"dtype": "F32", "shape": [rows, width], "data_offsets": offsets}}
    content = json.dumps(header).encode()
    with (tmp_path / "t").open("wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        file.truncate(file.tell() + offsets[1])
    for options in ({}, {"mmap": True}, {"form": "int8"}):
        with pytest.raises(ValueError, match=r"t is a sparse file: more than 1,000,000,000 of its"):
            read_table(tmp_path / "t", **options)


def test_a_sparse_file_with_some_of_its_bytes(tmp_path, monkeypatch):
    """Holes are counted wherever they are; a file that is written has none."""
    monkeypatch.setattr(foreign_files, "_MOST_IN_HOLES", 1_000_000)
    with (tmp_path / "t").open("wb") as file:
        for _ in range(10):
            file.write(b"x" * 100_000)
            file.seek(150_000, os.SEEK_CUR)
        file.write(b"x")
    with pytest.raises(ValueError, match="is a sparse file"):
        check_regular(tmp_path / "t")
    (tmp_path / "t").write_bytes(bytes(3_000_000))
    assert check_regular(tmp_path / "t") == 3_000_000


def test_a_table_at_an_odd_place(tmp_path):
    """Older releases of safetensors put it anywhere."""
    header = {"embeddings": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    content = json.dumps(header).encode()
    content += b" " * (1 - len(content) % 2 + 2)
    numbers = np.arange(4, dtype="<f4")
    file = tmp_path / "t"
    file.write_bytes(len(content).to_bytes(8, "little") + content + numbers.tobytes())
    assert len(content) % 4 != 0
    for mmap in (False, True):
        table = read_table(file, mmap)
        assert table.flags.aligned
        assert table.tolist() == [[0, 1], [2, 3]]
