"""Count the processors that this process may use."""

from __future__ import annotations

import math
import os
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
