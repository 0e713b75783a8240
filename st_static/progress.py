"""Show progress: by a bar on a terminal, and elsewhere, as in a log file, by one line a minute."""

from __future__ import annotations

import sys
import time
from typing import Any

from tqdm import tqdm

_SECONDS = 60.0  # from one line to the next
_LARGE = 10_000  # numbers from here on are shortened: 12.3k


def progress_bar(total: float | None, bar_format: str, **options: Any) -> tqdm[Any]:
    """Make a progress bar on stderr; if that is no terminal, it writes a line once a minute."""
    options = {"disable": False, "leave": False, "dynamic_ncols": True} | options
    if sys.stderr.isatty():
        return tqdm(total=total, bar_format=bar_format, **options)
    return _Lines(total=total, bar_format=bar_format.replace("|{bar}|", ","), **options)


class _Lines(tqdm):  # type: ignore[type-arg]  # it is generic in its stubs alone
    """A bar that is written as lines, each with the time of day."""

    def __init__(self, **options: Any) -> None:
        self._next = time.monotonic() + _SECONDS
        super().__init__(**options)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line, if it is time."""
        if msg is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS
            self.fp.write(f"{time.strftime('%H:%M:%S')} {self}\n")
            self.fp.flush()

    def clear(self, nolock: bool = False) -> None:
        """Nothing: lines stay."""


def bar(label: str, total: int | None, unit: str, initial: int = 0) -> tqdm[Any]:
    """Show a stage's progress, in `unit`s such as "token"; an earlier run has done `initial`."""
    with_total = (
        "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {unit}, {remaining} left{postfix}"
    )
    return progress_bar(
        total,
        with_total if total else "{desc}: {n_fmt} {unit} in {elapsed}{postfix}",
        desc=label,
        unit=f"{unit}s",
        unit_scale=(total or 0) >= _LARGE,
        initial=initial,
        smoothing=0.05,
    )
