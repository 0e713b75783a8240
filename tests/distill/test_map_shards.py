"""What runs the parts of a stage, and the bar that tells how far they are."""

import os
from collections.abc import Callable, Iterable, Iterator

import pytest

from st_static.distill import engines
from st_static.distill.engines import Processes, map_shards


def process_of(item: int) -> tuple[int, int]:
    return item, os.getpid()


def test_one_worker_works_in_this_process_and_takes_an_item_when_it_is_needed() -> None:
    taken = []

    def items() -> Iterator[int]:
        for item in range(5):
            taken.append(item)
            yield item

    results = Processes(1).map(process_of, items())
    assert next(results) == (0, os.getpid())
    assert taken == [0]
    assert [item for item, _ in results] == [1, 2, 3, 4]


def test_two_workers_give_each_result_once() -> None:
    results = dict(Processes(2).map(process_of, range(20)))
    assert set(results) == set(range(20))
    assert os.getpid() not in results.values()


def test_an_error_of_a_stream_of_items_ends_the_work() -> None:
    def items() -> Iterator[int]:
        yield from range(7)
        raise ValueError("the stream broke")

    with pytest.raises(ValueError, match="the stream broke"):
        list(Processes(2).map(process_of, items()))


def test_the_bar_tells_the_sentences_of_all_workers_in_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = iter([10.0, 11.0, 12.0, 14.0])
    monkeypatch.setattr(engines.time, "perf_counter", lambda: next(seconds))
    shown = []

    class Bar:
        def __init__(self, *arguments: object) -> None:
            shown.append(arguments)

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *error: object) -> None: ...

        def update(self) -> None:
            shown.append("shard")

        def set_postfix_str(self, text: str, refresh: bool) -> None:
            shown.append(text)

    monkeypatch.setattr(engines, "bar", Bar)

    class Fixed:
        n_workers = 1

        def map(self, function: Callable, items: Iterable) -> Iterator:
            return map(function, items)

    assert list(map_shards(int, ["1000", "2000", "3000"], Fixed(), "x", 3, int)) == [
        1000,
        2000,
        3000,
    ]
    assert shown == [
        *[("x", 3, "shard"), "1,000 sentences/s", "shard", "1,500 sentences/s", "shard"],
        *["1,500 sentences/s", "shard"],
    ]
