"""One progress bar at a time, with a label, on a terminal only."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


def bar(label: str, total: int | None, unit: str, initial: int = 0) -> tqdm[Any]:
    """A progress bar on stderr; in a log file or a pipe there is none.

    It vanishes at its end: the line that tells what came of the work takes its place.

    Args:
        label: What is being done.
        total: How many units in all, where it is known.
        unit: What is counted, such as "token".
        initial: How many an earlier run has done.
    """
    return tqdm(
        total=total,
        desc=label,
        unit=f" {unit}s",
        unit_scale=True,
        initial=initial,
        disable=None,
        leave=False,
        dynamic_ncols=True,
        smoothing=0.05,
    )
