"""Actors on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from st_static.dependencies import needed_by

with needed_by("The engine ray", "cluster"):
    import ray
    from ray import cloudpickle


class _Keeper:
    """Keeps a function in a process of its own."""

    _function: Callable[[Any], Any]

    def start(self, sent: list[Any], has_gpu: bool) -> str:
        """Load the function, by its bytes' reference in a list; tell which kind of GPU there is."""
        (function,) = ray.get(sent)
        self._function = cloudpickle.loads(function)
        if not has_gpu:
            return ""
        import torch

        return torch.cuda.get_device_name()

    def call(self, item: Any) -> Any:
        """Apply the function."""
        return self._function(item)


class RayActor:
    """An `Actor` on some node.

    Args:
        sent: What it keeps: the reference of a function's bytes, as cloudpickle gives them.
        resources: What it takes, as `ray.remote` names it.
    """

    def __init__(self, sent: Any, resources: dict[str, int]) -> None:
        self._actor = ray.remote(**resources)(_Keeper).remote()
        self._sent, self._has_gpu = sent, "num_gpus" in resources

    def start(self) -> Future[str]:
        """As `Actor.start`."""
        future: Future[str] = self._actor.start.remote([self._sent], self._has_gpu).future()
        return future

    def call(self, item: Any) -> Future[Any]:
        """As `Actor.call`."""
        future: Future[Any] = self._actor.call.remote(item).future()
        return future

    def end(self) -> None:
        """As `Actor.end`."""
        if ray.is_initialized():  # or it would start a cluster to end an actor of another
            ray.kill(self._actor)
