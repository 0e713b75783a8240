"""Sentences with the smallest keys, where keys are not spread as hashes are."""

import numpy as np
import pyarrow as pa
import pytest

from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Processes
from st_static.files import write_arrow


@pytest.mark.parametrize(
    ("keys", "n", "smallest"),
    [
        ([2**64 - 1 - i for i in range(1000)], 3, [999, 998, 997]),  # found by a larger bound
        ([5, 1, 5, 5, 9], 2, [1, 0, 2, 3]),  # of equal ones all
    ],
)
def test_the_smallest_of_keys_that_are_far_from_even(tmp_path, keys, n, smallest):
    files = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    for file, some in zip(files, (keys[:4], keys[4:]), strict=True):
        write_arrow(file, pa.table({"key": pa.array(some, pa.uint64())}))
    _, numbers = Shards(files, Processes(1)).smallest(n, np.positive, "test")
    assert numbers.tolist() == smallest
