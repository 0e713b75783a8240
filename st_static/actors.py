"""Actors: processes that each keep a function, and get an item whenever they are free."""

from __future__ import annotations

import logging
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)

TRIES = 3  # of an item
_START_SECONDS = 900  # until one of the actors has room, and what it keeps is loaded


class Actor(Protocol):
    """A process that keeps a function."""

    def start(self) -> Future[str]:
        """Load the function; the result is which kind of GPU there is, "" for none."""

    def call(self, item: Any) -> Future[Any]:
        """Apply the function."""

    def end(self) -> None:
        """End the process, whatever it is doing."""


@dataclass
class Task(Generic[Item]):
    """An item, and how often it failed."""

    item: Item
    failures: int = 0

    def count_failure(self, reason: str) -> ValueError | None:
        """Count a failure; returns what is to be raised if it was the last."""
        self.failures += 1
        if self.failures < TRIES:
            logger.warning("%s failed and will be run again: %s.", shown(self.item), reason)
            return None
        return ValueError(
            f"{shown(self.item)} failed {TRIES} times: {reason}. All other work that was done is "
            "kept; run the command again once the cause is fixed."
        )


@dataclass
class _Start:
    """The start of an actor, and how often it failed in a row."""

    failures: int = 0


class Actors(Generic[Item, Result]):
    """Actors that share out items; `close` ends them.

    Args:
        new_actor: Makes one, which is not started yet.
        n_actors: How many there is room for.
    """

    def __init__(self, new_actor: Callable[[], Actor], n_actors: int) -> None:
        self._new_actor, self._n_actors = new_actor, n_actors
        self._left: deque[Task[Item]] = deque()
        self._idle: list[Actor] = []
        self._waiting: dict[Future[Any], tuple[Actor, Task[Item] | _Start]] = {}
        self._device: str | None = None
        self._error: ValueError | None = None

    def map(self, items: Iterable[Item]) -> Iterator[Result]:
        """Apply the function to items, and yield the results as they come.

        An item that fails, or whose actor dies, is done again by another actor, and a new actor
        takes the place of that one, which may be broken.

        Raises:
            ValueError: An item failed three times; what is under way elsewhere ends first. Or no
                actor can be started.
        """
        self._left.extend(map(Task, items))
        for _ in range(min(self._n_actors, len(self._left))):
            self._start(_Start())
        while self._left or self._are_any_at_work:
            yield from self._next()
            while self._left and self._idle:
                self._hand_out(self._idle.pop())
        if self._error:
            raise self._error

    def close(self) -> None:
        """End all actors."""
        for actor in [*self._idle, *(actor for actor, _ in self._waiting.values())]:
            actor.end()

    @property
    def _are_any_at_work(self) -> bool:
        return any(isinstance(work, Task) for _, work in self._waiting.values())

    def _start(self, start: _Start) -> None:
        actor = self._new_actor()
        self._waiting[actor.start()] = actor, start

    def _hand_out(self, actor: Actor) -> None:
        task = self._left.popleft()
        self._waiting[actor.call(task.item)] = actor, task

    def _next(self) -> Iterator[Result]:
        """The result of what ends next, if it has one."""
        limit = None if self._are_any_at_work else _START_SECONDS
        done = wait(self._waiting, limit, FIRST_COMPLETED).done
        if not done:
            raise ValueError(
                f"No process could be started in {_START_SECONDS} seconds: other work may have "
                "taken all room, or the files that it loads come slowly. What is complete is kept."
            )
        future = next(future for future in self._waiting if future in done)
        actor, work = self._waiting.pop(future)
        error = future.exception()
        if error is not None:
            actor.end()
            self._replace(work, first_line(cause_of(error)))
            return
        self._idle.append(actor)
        if isinstance(work, Task):
            yield future.result()
        else:
            self._check_device(future.result())

    def _replace(self, work: Task[Item] | _Start, reason: str) -> None:
        """Start another actor in the place of one that has failed."""
        if isinstance(work, _Start):
            self._start_again(work, reason)
            return
        self._start(_Start())
        error = work.count_failure(reason)
        if error is None:
            self._left.appendleft(work)
        else:
            self._left.clear()
            self._error = error

    def _start_again(self, start: _Start, reason: str) -> None:
        start.failures += 1
        if start.failures < TRIES:
            self._start(start)
        elif self._idle or self._waiting:
            logger.warning("The work goes on with a process less: it cannot start (%s).", reason)
        else:
            raise ValueError(f"No process can be started: {reason}. What is complete is kept.")

    def _check_device(self, device: str) -> None:
        if self._device not in (None, device):
            raise ValueError(
                f"There are GPUs of two kinds, {self._device} and {device}, which would give "
                "different vectors. Take one kind."
            )
        self._device = device


def shown(item: Any) -> str:
    """An item in a message."""
    return textwrap.shorten(str(item), 200, placeholder=" …")


def cause_of(error: BaseException) -> BaseException:
    """What was raised in the other process itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def first_line(error: BaseException) -> str:
    """What an error says, in a line without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
