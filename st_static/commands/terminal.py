"""What a command writes to the terminal beside its results."""

from __future__ import annotations

import logging
import os
import sys


def log_to_terminal() -> None:
    """Write log records to stderr: ours from INFO on, those of libraries from WARNING on, once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("httpx", "httpx2", "sentence_transformers", "datasets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # These have handlers of their own: with ours, each of their lines would come twice.
    for library in ("huggingface_hub", "datasets"):
        logging.getLogger(library).propagate = False


def hide_bars_of_libraries(downloads: bool = False) -> None:
    """Leave the terminal to our own bars, which say themselves when they are drawn.

    It works through tqdm's defaults and the libraries' settings, all of which are read when tqdm
    and they are imported: call it first. What the user has set stays.

    Args:
        downloads: Whether those of the Hub's downloads go, too.
    """
    names = ["TQDM_DISABLE", "HF_DATASETS_DISABLE_PROGRESS_BARS"]
    for name in [*names, *["HF_HUB_DISABLE_PROGRESS_BARS"] * downloads]:
        os.environ.setdefault(name, "1")
    if "datasets" in sys.modules:  # which has read its setting
        sys.modules["datasets"].disable_progress_bars()


def require_utf8() -> None:
    """Start the program again in Python's UTF-8 mode where Python takes all text for ASCII.

    That is so with LC_ALL=C and PYTHONUTF8=0: an argument "Größe" is then no text that libraries
    take, neither as it is nor as the name of a file.
    """
    if sys.getfilesystemencoding() == "ascii" and os.environ.get("PYTHONUTF8") != "1":
        program = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, program, {**os.environ, "PYTHONUTF8": "1"})


def drop_stdout() -> None:
    """Send what is left for standard output nowhere: at the end Python would complain of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
