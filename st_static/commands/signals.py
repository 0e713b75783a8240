"""Signals that end a command, which removes its temporary files first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


class EndedBySignal(SystemExit):
    """A signal has ended the command; its exit status is the one that shells report for it."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def unwound_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does, so that all of it is cleaned up.

    A signal that is ignored, as SIGHUP is under nohup, stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # others cannot handle signals
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]

    has_ended = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal has_ended
        if has_ended:  # a terminal that closes sends several: another would stop the cleaning up
            return
        has_ended = True
        raise EndedBySignal(number)

    for number in handled:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
