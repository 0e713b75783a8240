"""Actors share out items: what fails is done again elsewhere, and what cannot start is left out."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest

from st_static.actors import Actors


class Scripted:
    """An actor whose calls end at once, as a function of its number says.

    Args:
        number: How many were made before it.
        fate: Gives the result for the number and an item, "start" among them, or raises.
        calls: All calls of all actors.
    """

    def __init__(
        self, number: int, fate: Callable[[int, str], str], calls: list[tuple[int, str]]
    ) -> None:
        self.number, self.fate, self.calls = number, fate, calls

    def start(self) -> Future[str]:
        return self.call("start")

    def call(self, item: str) -> Future[str]:
        self.calls.append((self.number, item))
        future: Future[str] = Future()
        try:
            future.set_result(self.fate(self.number, item))
        except OSError as error:
            future.set_exception(error)
        return future

    def end(self) -> None:
        self.calls.append((self.number, "end"))


class Work:
    """Some actors and what they did."""

    def __init__(self, fate: Callable[[int, str], str], n_actors: int) -> None:
        self.calls: list[tuple[int, str]] = []
        self.n_made = 0
        self.fate = fate
        self.actors: Actors[str, str] = Actors(self.make, n_actors)

    def make(self) -> Scripted:
        self.n_made += 1
        return Scripted(self.n_made - 1, self.fate, self.calls)

    def of(self, item: str) -> list[int]:
        """Which actors got an item."""
        return [number for number, called in self.calls if called == item]


def test_no_more_actors_are_started_than_there_are_items() -> None:
    work = Work(lambda number, item: item.upper(), 5)
    assert sorted(work.actors.map(["a", "b"])) == ["A", "B"]
    assert work.n_made == 2
    work.actors.close()
    assert sorted(work.of("end")) == [0, 1]


def test_an_actor_that_fails_is_replaced_and_its_item_done_by_another() -> None:
    """Its process may live on without memory, or with a broken GPU."""

    def fate(number: int, item: str) -> str:
        if number == 0 and item != "start":
            raise OSError("CUDA error: an illegal memory access")
        return "" if item == "start" else item

    work = Work(fate, 2)
    assert sorted(work.actors.map(["a", "b", "c"])) == ["a", "b", "c"]
    assert work.of("end") == [0]
    failed = [item for number, item in work.calls if number == 0 and item in "abc"]
    assert len(failed) == 1
    assert len(work.of(failed[0])) == 2


def test_an_item_that_fails_three_times_ends_the_work_after_what_is_under_way() -> None:
    def fate(number: int, item: str) -> str:
        if item == "bad":
            raise OSError("No space left.")
        return "" if item == "start" else item

    work, done = Work(fate, 2), []
    with pytest.raises(ValueError, match=r"^bad failed 3 times: No space left\. All other work"):
        done.extend(work.actors.map(["good", "bad"]))
    assert done == ["good"]
    assert len(set(work.of("bad"))) == 3  # another actor each time


def test_a_place_where_no_actor_starts_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """Such as one broken GPU of several: each new actor gets it, for the others are taken."""

    def fate(number: int, item: str) -> str:
        if item == "start" and number != 0:
            raise OSError("no CUDA device")
        return "" if item == "start" else item

    work = Work(fate, 2)
    assert sorted(work.actors.map(list("abcdefgh"))) == list("abcdefgh")
    assert "goes on with a process less: it cannot start (no CUDA device)" in caplog.text


def test_where_no_actor_starts_at_all_the_reason_is_told() -> None:
    def fate(number: int, item: str) -> str:
        raise OSError("no CUDA device")

    work = Work(fate, 3)
    with pytest.raises(ValueError, match=r"^No process can be started: no CUDA device\. What is"):
        list(work.actors.map(["a", "b", "c"]))
    assert work.n_made == 9  # three times in each place


def test_gpus_of_two_kinds_are_told() -> None:
    class Busy(Scripted):
        def start(self) -> Future[str]:
            return super().call("start")

        def call(self, item: str) -> Future[str]:
            return Future()  # so that the other one's start is looked at

    made: list[Busy] = []

    def make() -> Busy:
        made.append(Busy(len(made), lambda number, item: f"T{number}", []))
        return made[-1]

    actors: Actors[str, str] = Actors(make, 2)
    with pytest.raises(ValueError, match=r"GPUs of two kinds, T[01] and T[01], which"):
        list(actors.map(["a", "b"]))


def test_a_start_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("st_static.actors._START_SECONDS", 0.01)

    class Waiting(Scripted):
        def start(self) -> Future[str]:
            return Future()

    actors: Actors[str, str] = Actors(lambda: Waiting(0, str, []), 1)
    with pytest.raises(ValueError, match="No process could be started in"):
        list(actors.map(["a"]))
