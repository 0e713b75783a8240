"""Count the processors that this process may use, and keep torch working in forked processes."""

from __future__ import annotations

import logging  # noqa: F401 (its lock for forks is to be taken after `_before_fork`)
import math
import os
import sys
import threading
from pathlib import Path

# The files of cgroups, versions 2 and 1, that limit a container's processor time.
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
_CFS = Path("/sys/fs/cgroup/cpu")


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


# The thread that a forked process inherits, until `unblock_torch` has dealt with it.
_forked_thread: int | None = None


def _before_fork() -> None:
    if "torch" in sys.modules:
        # Waits if another thread is importing it: nobody would end that in the child.
        import torch  # noqa: F401


def _after_fork() -> None:
    global _forked_thread
    _forked_thread = threading.get_ident() if "torch" in sys.modules else None


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def unblock_torch() -> None:
    """Keep torch from hanging in a forked process; call it before torch computes anything.

    The OpenMP library that torch uses on Linux keeps a thread's helpers for its next computation.
    A forked process has the thread, but not its helpers, and would wait for them for ever. With one
    thread, torch needs none. The setting holds for the whole process, so it is made only when it is
    needed.
    """
    global _forked_thread
    if _forked_thread == threading.get_ident():  # others start with no helpers
        import torch

        torch.set_num_threads(1)
        _forked_thread = None
