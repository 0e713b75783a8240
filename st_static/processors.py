"""How many processors there are."""

from __future__ import annotations

import math
import os
from pathlib import Path

# What a container may use of the processors: the files of cgroups version 2 and 1.
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
_CFS = Path("/sys/fs/cgroup/cpu")


def n_processors() -> int:
    """Processors that this process may use: by its affinity, and by its container's quota of time.

    A quota of one and a half processors counts as two.
    """
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota())))


def _quota() -> float:
    """Processors' worth of time that the container has; infinite without a limit."""
    try:
        if _CPU_MAX.is_file():  # "150000 100000", in microseconds, or "max 100000"
            quota, period = _CPU_MAX.read_text().split()
        else:
            quota = (_CFS / "cpu.cfs_quota_us").read_text()  # -1 for none
            period = (_CFS / "cpu.cfs_period_us").read_text()
        share = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no cgroups, or no limit
        return math.inf
    return share if share > 0 else math.inf
