"""What several threads share: what is made once, pools that work anywhere, and processors."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from concurrent import futures
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# The files of cgroups, versions 2 and 1, that limit a container's processor time.
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
_CFS = Path("/sys/fs/cgroup/cpu")


with suppress(RuntimeError):  # raised once the main thread has ended, so import it in time
    import concurrent.futures.thread  # noqa: F401

_process = os.getpid()

forks_wait = threading.RLock()
"""Held by a thread that imports modules, or makes what is used later, so that a fork waits."""

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # A fork waits for what another thread is making: the child has no such thread, and would wait
    # for ever for its locks, those of the modules that it imports among them. The hooks of logging
    # and of pools, which take locks that this may need, are registered before, so called after.
    os.register_at_fork(
        before=forks_wait.acquire,
        after_in_parent=forks_wait.release,
        after_in_child=forks_wait.release,
    )


def is_forked() -> bool:
    """Tell whether this process was forked after it had loaded this module."""
    return os.getpid() != _process


if TYPE_CHECKING:
    made_once = cached_property
else:

    class made_once(cached_property):  # noqa: N801
        """A property that one thread makes, while others, and forks, wait for it."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            with forks_wait:
                if self.attrname not in instance.__dict__:
                    instance.__dict__[self.attrname] = self.func(instance)
            return instance.__dict__[self.attrname]


class Workers(futures.Executor):
    """A pool of threads. What it cannot start a thread for, the calling thread does: when the main
    thread has ended, Python starts none, but other threads, and functions of atexit, go on."""

    def __init__(self, threads: int) -> None:
        self._pool: futures.Executor | None = None
        with suppress(RuntimeError):
            self._pool = futures.ThreadPoolExecutor(threads)

    def submit(
        self,
        function: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **options: Parameters.kwargs,
    ) -> futures.Future[Result]:
        """Let a thread call a function, or call it here."""
        lock, results = threading.Lock(), list[Result]()

        def call_once() -> Result:
            # A call may be left in the queue of other threads, although none could be started.
            with lock:
                if not results:
                    results.append(function(*args, **options))
            return results[0]

        try:
            if self._pool:
                return self._pool.submit(call_once)
        except RuntimeError:
            pass
        done: futures.Future[Result] = futures.Future()
        try:
            done.set_result(call_once())
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the threads."""
        if self._pool:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)


def n_processors() -> int:
    """Count the processors that this process may use, by affinity and quota, rounded up."""
    has_affinity = hasattr(os, "sched_getaffinity")
    allowed = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    try:
        if _CPU_MAX.is_file():  # "150000 100000", in microseconds, or "max 100000"
            quota, period = _CPU_MAX.read_text().split()
        else:
            quota = (_CFS / "cpu.cfs_quota_us").read_text()  # -1 for none
            period = (_CFS / "cpu.cfs_period_us").read_text()
        share = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no cgroups, or no limit
        return allowed
    return max(1, math.ceil(min(allowed, share))) if share > 0 else allowed
