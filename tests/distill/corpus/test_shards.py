"""Sentences with the smallest keys, where keys are not spread as hashes are."""

import numpy as np
import pyarrow as pa

from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Processes
from st_static.files import write_table


def test_keys_that_are_far_from_even_are_found_by_a_larger_bound(tmp_path):
    keys = pa.array([2**64 - 1 - i for i in range(1000)], pa.uint64())
    files = [tmp_path / "0.arrow", tmp_path / "1.arrow"]
    for file, some in zip(files, (keys[:400], keys[400:]), strict=True):
        write_table(file, pa.table({"key": some}))
    _, numbers = Shards(files, Processes(1)).smallest(3, np.positive, "test")
    assert numbers.tolist() == [999, 998, 997]
