"""How many sentences a second models encode, all in one run on one machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from st_static.build.docstrings import read_docstrings
from st_static.build.sentences import split_sentences

Encode = Callable[[list[str]], NDArray[np.floating]]

_ROUNDS = 3
_FIRST = 16  # texts that tell how many more fit into a round
_ROUND_SECONDS = 0.3
_TEXTS = 2_000


def speed_texts(n: int = _TEXTS) -> list[str]:
    """Distinct sentences of the documentation of Python's standard library: they are everywhere."""
    sentences = split_sentences(islice(read_docstrings(["stdlib"]), n))
    return list(dict.fromkeys(sentences))[:n]


def sentences_per_second(
    encoders: Mapping[str, Callable[[], Encode]], texts: Sequence[str], rounds: int = _ROUNDS
) -> dict[str, float]:
    """Measure encoders in turns, so that what else the machine does falls on all of them.

    Args:
        encoders: For each name a function that gives an encoder without a memory of texts; it is
            not part of the time.
        texts: Texts; a slow encoder gets the first of them only.
        rounds: Turns; the median counts.
    """
    n_texts = {name: _fitting(make(), texts) for name, make in encoders.items()}
    speeds: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(rounds):
        for name, make in encoders.items():
            speeds[name].append(_speed(make(), list(texts[: n_texts[name]])))
    return {name: statistics.median(values) for name, values in speeds.items()}


def _fitting(encode: Encode, texts: Sequence[str]) -> int:
    """How many texts take about a round; the first calls warm the encoder's libraries up."""
    few = list(texts[:_FIRST])
    encode(few)
    return min(len(texts), max(_FIRST, int(_speed(encode, few) * _ROUND_SECONDS)))


def _speed(encode: Encode, texts: list[str]) -> float:
    start = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - start)


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor as its maker calls it, where the system says it."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return " ".join(value.split())
    return platform.processor() or platform.machine()
