"""What several benchmarks share: their options, the seconds of a call, and Markdown tables."""

import argparse
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any


def parser_of(docstring: str | None) -> argparse.ArgumentParser:
    """A parser whose help tells all that a benchmark's docstring does."""
    raw = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=docstring, formatter_class=raw)


def log_to_terminal() -> None:
    """Show what a build logs, with the time of day."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")


def seconds_of(function: Callable[..., Any], *arguments: Any, **options: Any) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    function(*arguments, **options)
    return time.perf_counter() - start


def print_row(*cells: object) -> None:
    """Print a row of a Markdown table at once; numbers that are not whole get two digits."""
    texts = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    print(f"| {' | '.join(texts)} |", flush=True)


def print_heading(columns: Sequence[str]) -> None:
    """Print the first two lines of a Markdown table."""
    print_row(*columns)
    print("|" + "---|" * len(columns), flush=True)
