"""Measure how many sentences per second models encode, all in one run on one machine."""

from __future__ import annotations

import math
import os
import platform
import random
import re
import statistics
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from st_static.encode.encoder import EncodeTexts
from st_static.languages import is_english

Key = TypeVar("Key", bound=Hashable)

# The libraries that encode with a model, as cards and figures name them.
FAST, SENTENCE_TRANSFORMERS, MODEL2VEC = "FastEncoder", "sentence-transformers", "Model2Vec"

_FIRST = 16  # texts in the smallest call that is timed
_WARM_UP = 4  # texts, for what an encoder's libraries load lazily
# With more than 10,000 texts, Model2Vec uses several processes, which is faster.
_TEXTS = 12_000


@dataclass(frozen=True)
class MeasuredSpeed:
    """The speed of a model with one of the libraries that can load it."""

    model: str
    encoder: str  # `FAST`, `SENTENCE_TRANSFORMERS`, `MODEL2VEC` or `st_static`
    speed: int  # sentences per second


def is_believable(speeds: Sequence[MeasuredSpeed], model: str) -> bool:
    """Tell whether FastEncoder, which does less, is no slower than sentence-transformers; otherwise
    something else took the processor."""
    by_encoder = {row.encoder: row.speed for row in speeds if row.model == model}
    return by_encoder.get(FAST, math.inf) >= by_encoder.get(SENTENCE_TRANSFORMERS, 0)


def speed_texts(n: int = _TEXTS) -> list[str]:
    """Take distinct sentences of the standard library's documentation, which every machine has."""
    from st_static.distill.corpus.docstrings import read_docstrings  # not in the base install
    from st_static.distill.corpus.sentences import split_sentences

    sentences = split_sentences(islice(read_docstrings(["stdlib"]), n // 2))
    return fair_sample(list(dict.fromkeys(sentences))[:n], n)


def texts_in(
    languages: Sequence[str], held_out: Sequence[str] | None = None
) -> tuple[str, list[str]]:
    """Find sentences in a model's languages; return their source and them: `corpus`, held out of
    its own, or `stdlib`, see `speed_texts`; empty if there are neither."""
    if not is_english(languages) and held_out is not None:
        return "corpus", fair_sample(held_out)
    if is_english(languages) or {"en", "multilingual"} & set(languages):
        return "stdlib", speed_texts()
    return "", []


def fair_sample(texts: Sequence[str], n: int = _TEXTS) -> list[str]:
    """Shuffle texts and take at most n, so that any prefix is a random sample."""
    shuffled = list(texts)
    random.Random(0).shuffle(shuffled)
    return shuffled[:n]


def sentences_per_second(
    encoders: Mapping[Key, Callable[[], EncodeTexts]],
    texts: Sequence[str],
    rounds: int = 3,
    round_seconds: float = 0.5,
) -> dict[Key, float]:
    """Measure encoders in turns, so that other work affects all: the median of rounds of at least
    `round_seconds`; making them is not timed. A slow one gets only the first texts."""
    n_texts = {}
    for name, make in encoders.items():
        # Enough texts for at least half a round: with fewer, an encoder does not reach its full
        # speed.
        make()(list(texts[:_WARM_UP]))
        n = _FIRST
        while n < len(texts) and n / _speed(make, list(texts[:n]), 0) <= round_seconds / 2:
            n *= 4
        n_texts[name] = n
    speeds: dict[Key, list[float]] = {name: [] for name in encoders}
    for _ in range(rounds):
        for name, make in encoders.items():
            speeds[name].append(_speed(make, list(texts[: n_texts[name]]), round_seconds))
    return {name: statistics.median(values) for name, values in speeds.items()}


def _speed(make: Callable[[], EncodeTexts], texts: list[str], at_least: float) -> float:
    """Encode the texts until the time is over; return texts per second of encoding."""
    n_texts, seconds, begin = 0, 0.0, time.perf_counter()
    while not n_texts or time.perf_counter() - begin < at_least:
        encode, start = make(), time.perf_counter()
        encode(texts)
        seconds += time.perf_counter() - start
        n_texts += len(texts)
    return n_texts / seconds


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Get the maker's name of the processor, if the system provides it."""
    text = cpuinfo.read_text("utf-8") if cpuinfo.is_file() else ""
    if named := re.search(r"^model name\s*:(.*)$", text, re.MULTILINE):
        return " ".join(named[1].split())
    return platform.processor() or platform.machine()


def machine_load() -> float:
    """Get the load average of the last minute; 0 if the system does not provide it."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0
