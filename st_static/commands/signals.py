"""Signals that end a command, which removes its temporary files first."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
# Seconds in which further signals are ignored: a terminal that closes sends several, and another
# would stop the cleaning up.
_PAUSE = 5.0


class EndedBySignal(SystemExit):
    """A signal has ended the command; its exit status is the one that shells report for it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does, so that all of it is cleaned up.

    A signal that is ignored, as SIGHUP is under nohup, stays so. One that comes some seconds later
    ends the block, too: the exception of the first is lost if a finalizer raised it.
    """
    if threading.current_thread() is not threading.main_thread():  # others cannot handle signals
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    ended_at = -_PAUSE

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended_at
        if time.monotonic() - ended_at < _PAUSE:
            return
        ended_at = time.monotonic()
        raise EndedBySignal(number)

    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
