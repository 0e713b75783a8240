"""Processes of this machine that each keep a GPU, and a function with all that it loads."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

# Its processes do not import the user's program again, as those of Python's own pool would.
from joblib.externals.loky import ProcessPoolExecutor

_VISIBLE = "CUDA_VISIBLE_DEVICES"


class GpuProcess:
    """An `Actor` with one GPU.

    Args:
        function: What it keeps, pickled.
        free: GPUs that nobody has, as CUDA_VISIBLE_DEVICES names them; it takes the first, and
            gives it back when it ends.
    """

    def __init__(self, function: bytes, free: list[str]) -> None:
        self._free, self._gpu = free, free.pop(0)
        environment = {_VISIBLE: self._gpu}
        # By an initializer: the pool ends a process whose memory grows, and starts another.
        self._pool = ProcessPoolExecutor(1, initializer=_take, initargs=[function], env=environment)

    def start(self) -> Future[str]:
        """As `Actor.start`."""
        future: Future[str] = self._pool.submit(_load)
        return future

    def call(self, item: Any) -> Future[Any]:
        """As `Actor.call`."""
        future: Future[Any] = self._pool.submit(_call, item)
        return future

    def end(self) -> None:
        """As `Actor.end`."""
        self._pool.shutdown(kill_workers=True)
        self._free.append(self._gpu)


_taken: list[bytes] = []  # what a process that keeps a GPU is to load


def _take(function: bytes) -> None:
    """Begin a process that keeps a GPU."""
    _taken.append(function)
    threading.Thread(target=_end_with_parent, args=[os.getppid()], daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """End this process when the one that started it is killed: it holds a GPU's memory."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


@functools.cache
def _function() -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = pickle.loads(_taken[0])
    return function


def _load() -> str:
    """Load what the process keeps, and tell which kind of GPU it has, "" for none."""
    _function()
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _call(item: Any) -> Any:
    return _function()(item)
