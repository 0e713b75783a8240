"""What a command writes to the terminal beside its results."""

from __future__ import annotations

import logging


def log_to_terminal() -> None:
    """Write log records to stderr: ours from INFO on, those of libraries from WARNING on, once."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("httpx", "httpx2", "sentence_transformers", "datasets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # These have handlers of their own: with ours, each of their lines would come twice.
    for library in ("huggingface_hub", "datasets"):
        logging.getLogger(library).propagate = False
