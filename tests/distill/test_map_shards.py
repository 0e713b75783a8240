"""What runs the parts of a stage, and the bar that tells how far they are."""

import os

import pytest

from st_static.distill import engines
from st_static.distill.engines import Processes, map_shards


def process_of(item):
    return item, os.getpid()


def test_one_worker_works_in_this_process_and_takes_an_item_when_it_is_needed():
    taken = []

    def items():
        for item in range(5):
            taken.append(item)
            yield item

    results = Processes(1).map(process_of, items())
    assert next(results) == (0, os.getpid())
    assert taken == [0]
    assert [item for item, _ in results] == [1, 2, 3, 4]


def test_two_workers_give_each_result_once():
    results = dict(Processes(2).map(process_of, range(20)))
    assert set(results) == set(range(20))
    assert os.getpid() not in results.values()


def test_an_error_of_a_stream_of_items_ends_the_work():
    def items():
        yield from range(7)
        raise ValueError("the stream broke")

    with pytest.raises(ValueError, match="the stream broke"):
        list(Processes(2).map(process_of, items()))


def test_the_bar_tells_the_sentences_of_all_workers_in_a_second(monkeypatch):
    seconds = iter([10.0, 11.0, 12.0, 14.0])
    monkeypatch.setattr(engines.time, "perf_counter", lambda: next(seconds))
    shown = []

    class Bar:
        def __init__(self, *arguments):
            shown.append(arguments)

        def __enter__(self):
            return self

        def __exit__(self, *error): ...

        def update(self):
            shown.append("shard")

        def set_postfix_str(self, text, refresh):
            shown.append(text)

    monkeypatch.setattr(engines, "bar", Bar)

    class Fixed:
        n_workers = 1

        def map(self, function, items):
            return map(function, items)

    assert list(map_shards(int, ["1000", "2000", "3000"], Fixed(), "x", int)) == [
        1000,
        2000,
        3000,
    ]
    assert shown == [
        *[("x", 3, "shard"), "1,000 sentences/s", "shard", "1,500 sentences/s", "shard"],
        *["1,500 sentences/s", "shard"],
    ]
