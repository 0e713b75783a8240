"""Torch in forked processes, where it would wait for threads that only the parent has."""

from __future__ import annotations

import os
import sys
import threading

# In a forked process, its one thread of the parent's, until `unblock_torch` has seen to it.
_forked_thread: int | None = None


def _after_fork() -> None:
    global _forked_thread
    _forked_thread = threading.get_ident() if "torch" in sys.modules else None


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_after_fork)


def unblock_torch() -> None:
    """Keep torch from hanging in a forked process; call it before torch computes anything.

    The OpenMP library that torch uses on Linux keeps a thread's helpers for its next computation.
    A forked process has the thread, but not its helpers, and would wait for them for ever. With one
    thread, torch needs none. The setting is that of the whole process, so it is made only when it
    is needed: a forked process that encodes nothing keeps its own.
    """
    global _forked_thread
    if _forked_thread == threading.get_ident():  # others start with no helpers
        import torch

        torch.set_num_threads(1)
        _forked_thread = None
