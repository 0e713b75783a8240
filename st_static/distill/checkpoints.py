"""Writing long work down often enough to lose at most a minute of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

Clock = Callable[[], float]

# Seconds of work between two checkpoints; more where writing takes long, so that it takes at most
# a tenth of the time, but never so many that with the last step a minute might be lost.
_SHORTEST, _LONGEST = 25.0, 45.0
_TIMES_THE_WRITING = 10.0


class Checkpoint:
    """Writes work down when it is time to; made by `checkpoints`.

    Args:
        write: Writes all that is done so far, atomically.
        clock: Tells seconds.
    """

    def __init__(self, write: Callable[[], None], clock: Clock) -> None:
        self._write = write
        self._clock = clock
        self._seconds = _SHORTEST
        self._last = clock()
        self._has_more = False
        self._is_torn = False

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Around the changes of one step, of which all or none are to be written."""
        self._is_torn = True
        yield
        self._is_torn = False
        self._has_more = True
        if self._clock() - self._last >= self._seconds:
            self.write()

    def write(self) -> None:
        """Write what is done, unless it is written already, or a step was cut in two."""
        if self._is_torn or not self._has_more:
            return
        start = self._clock()
        self._write()
        self._has_more = False
        self._last = self._clock()
        writing = self._last - start
        self._seconds = min(max(_SHORTEST, _TIMES_THE_WRITING * writing), _LONGEST)


@contextlib.contextmanager
def checkpoints(write: Callable[[], None], clock: Clock = time.monotonic) -> Iterator[Checkpoint]:
    """Write work down about twice a minute, at its end, and where an error or Ctrl-C ends it.

    Args:
        write: Writes all that is done so far, atomically.
        clock: Tells seconds.

    Yields:
        What each step of the work is done in: `with checkpoint.whole(): ...`.
    """
    checkpoint = Checkpoint(write, clock)
    try:
        yield checkpoint
    finally:
        checkpoint.write()
