"""Sentences by their numbers: what is drawn and read, against all of them in one array."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.distill.corpus.sentences import SCHEMA
from st_static.distill.corpus.shards import Shards, read_parts, write_parts
from st_static.distill.engines import Processes
from st_static.files import write_table


def write_shards(folder, shards, workers=1):
    """Sentences with the given keys."""
    files = [folder / f"sentences-{number:05d}.arrow" for number in range(len(shards))]
    for file, keys in zip(files, shards, strict=True):
        texts = pa.array([f"Key {key}" for key in keys], pa.string())
        write_table(file, pa.table([texts, pa.array(keys, pa.uint64())], schema=SCHEMA))
    return Shards(files, Processes(workers))


def times(keys, factor):
    return keys * np.uint64(factor)


keys_of_shards = st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=8), min_size=1, max_size=5)


@given(keys_of_shards, st.integers(1, 50), st.data())
@settings(deadline=None, max_examples=100)
def test_the_smallest_are_those_of_all_in_one_array(shards, n, data):
    """Also where keys are not evenly spread, and where several have the same."""
    keys = [key for shard in shards for key in shard]
    without = sorted(data.draw(st.sets(st.integers(0, max(len(keys) - 1, 0)), max_size=len(keys))))
    with TemporaryDirectory() as folder:
        written = write_shards(Path(folder), shards)
        numbers = np.array(without, np.int64)
        hashes, numbers = written.smallest(n, partial(times, factor=5), "test", numbers)

    rows = sorted((key * 5 % 2**64, i) for i, key in enumerate(keys) if i not in without)
    expected = [row for row in rows if row[0] <= rows[min(n, len(rows)) - 1][0]]
    assert list(zip(hashes.tolist(), numbers.tolist(), strict=True)) == expected


def test_keys_that_are_far_from_even_are_found_by_a_larger_bound(tmp_path):
    keys = [2**64 - 1 - i for i in range(1000)]
    shards = write_shards(tmp_path, [keys[:400], keys[400:]])
    _, numbers = shards.smallest(3, np.positive, "test")
    assert numbers.tolist() == [999, 998, 997]


@given(keys_of_shards, st.data())
@settings(deadline=None, max_examples=50)
def test_sentences_are_read_in_the_order_of_the_numbers(shards, data):
    keys = [key for shard in shards for key in shard]
    most = 9 if keys else 0
    numbers = data.draw(st.lists(st.integers(0, max(len(keys) - 1, 0)), max_size=most))
    with TemporaryDirectory() as folder:
        table = write_shards(Path(folder), shards).read(np.array(numbers, np.int64), "test")
    assert table["key"].to_pylist() == [keys[i] for i in numbers]
    assert table["text"].to_pylist() == [f"Key {keys[i]}" for i in numbers]


def rows_of(shard):
    return shard.number, shard.rows.tolist()


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_with_rows_come_in_order(tmp_path, workers):
    shards = write_shards(tmp_path, [[1, 2, 3], [], [4], [5, 6]], workers)
    assert shards.n_sentences == 6
    numbers = np.array([0, 2, 4, 5])
    assert shards.map(rows_of, "test", numbers) == [(0, [0, 2]), (3, [0, 1])]
    assert shards.map(rows_of, "test") == [(0, []), (1, []), (2, []), (3, [])]


@given(st.lists(st.lists(st.lists(st.text(max_size=3), max_size=3), min_size=3, max_size=3)))
def test_parts_of_files_are_read_as_they_were_written(files):
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.arrow" for number in range(len(files))]
        for path, parts in zip(paths, files, strict=True):
            texts = pa.chunked_array([pa.array(part, pa.string()) for part in parts])
            bounds = np.cumsum([0, *map(len, parts)])
            write_parts(path, pa.table({"text": texts}), bounds)
        for number in range(3):
            found = [table["text"].to_pylist() for table in read_parts(paths, number)]
            assert found == [parts[number] for parts in files]
