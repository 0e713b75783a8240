"""Actors on a Ray cluster: each keeps a function, and gets an item whenever it is free."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from st_static.dependencies import needed_by

with needed_by("The engine ray", "cluster"):
    import ray
    from ray.exceptions import RayActorError, RayError

Item = TypeVar("Item")
Result = TypeVar("Result")

TRIES = 3
_START_SECONDS = 300  # until one of the actors has room on a node, and what it keeps is loaded


class _Keeper:
    """Keeps a function in a process of its own."""

    _function: Callable[[Any], Any]

    def start(self, sent: list[Any], has_gpu: bool) -> str:
        """Take the function, by its reference in a list, and tell which kind of GPU there is."""
        (self._function,) = ray.get(sent)
        if not has_gpu:
            return ""
        import torch

        return torch.cuda.get_device_name()

    def call(self, item: Any) -> Any:
        """Apply the function."""
        return self._function(item)


@dataclass
class _Task(Generic[Item]):
    """An item, and how often it failed."""

    item: Item
    failures: int = 0


class Actors(Generic[Item, Result]):
    """Actors that share out items; `close` ends them.

    Args:
        function: What they keep: a picklable function of one item.
        n_actors: How many there is room for.
        resources: What each takes, as `ray.remote` names it.
    """

    def __init__(
        self, function: Callable[[Item], Result], n_actors: int, resources: dict[str, int]
    ) -> None:
        self._sent, self._n_actors, self._resources = ray.put(function), n_actors, resources
        self._keeper = ray.remote(**resources)(_Keeper)
        self._left: deque[_Task[Item]] = deque()
        self._idle: list[Any] = []
        # By what is waited for: the actor, and its task; None is its start.
        self._waiting: dict[Any, tuple[Any, _Task[Item] | None]] = {}
        self._failed_starts = 0
        self._device: str | None = None
        self._error: ValueError | None = None

    def map(self, items: Iterable[Item]) -> Iterator[Result]:
        """Apply the function to items, and yield the results as they come.

        Raises:
            ValueError: An item failed three times; what is under way elsewhere ends first. Or no
                actor can be started.
        """
        self._left.extend(map(_Task, items))
        for _ in range(min(self._n_actors, len(self._left))):
            self._start()
        while self._left or any(task for _, task in self._waiting.values()):
            yield from self._next()
            while self._left and self._idle:
                self._hand_out(self._idle.pop())
        if self._error:
            raise self._error

    def close(self) -> None:
        """End all actors."""
        for actor in [*self._idle, *(actor for actor, _ in self._waiting.values())]:
            ray.kill(actor)

    def _start(self) -> None:
        actor = self._keeper.remote()
        has_gpu = "num_gpus" in self._resources
        self._waiting[actor.start.remote([self._sent], has_gpu)] = actor, None

    def _hand_out(self, actor: Any) -> None:
        task = self._left.popleft()
        self._waiting[actor.call.remote(task.item)] = actor, task

    def _next(self) -> Iterator[Result]:
        """The result of what ends next, if it has one."""
        is_any_at_work = any(task for _, task in self._waiting.values())
        done, _ = ray.wait(
            list(self._waiting),
            num_returns=1,
            timeout=None if is_any_at_work else _START_SECONDS,
        )
        if not done:
            raise ValueError(
                f"No node had room for an actor with {self._resources} in {_START_SECONDS} "
                "seconds: other work may have taken it. What is complete is kept."
            )
        actor, task = self._waiting.pop(done[0])
        try:
            result = ray.get(done[0])
        except RayError as error:
            self._take_back(actor, task, error)
            return
        self._idle.append(actor)
        if task is None:
            self._failed_starts = 0  # what ends a build is a start that fails again and again
            self._check_device(result)
        else:
            yield result

    def _take_back(self, actor: Any, task: _Task[Item] | None, error: RayError) -> None:
        """Let an item that failed be done again, by another actor if its own died."""
        if task is None:
            self._failed_starts += 1
            if self._failed_starts == TRIES:
                raise ValueError(f"An actor cannot be started: {first_line(cause_of(error))}.")
        if task and not isinstance(error, RayActorError):
            self._idle.append(actor)
        else:
            ray.kill(actor)
            self._start()
        if task is None:
            return
        task.failures += 1
        if task.failures < TRIES:
            self._left.appendleft(task)
            return
        self._left.clear()
        self._error = ValueError(
            f"{shown(task.item)} failed {TRIES} times: {first_line(cause_of(error))}. All other "
            "work that was done is kept; run the command again when the cause is mended."
        )

    def _check_device(self, device: str) -> None:
        if self._device not in (None, device):
            raise ValueError(
                f"The cluster has GPUs of two kinds, {self._device} and {device}, which would give "
                "different vectors. Take nodes with one kind."
            )
        self._device = device


def shown(item: Any) -> str:
    """An item in a message."""
    return textwrap.shorten(str(item), 200, placeholder=" …")


def cause_of(error: RayError) -> BaseException:
    """What a task raised itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def first_line(error: BaseException) -> str:
    """What an error says, in a line without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
