"""Messages while a build runs: one bar at a time, and a line for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from st_static.progress import progress_bar

if TYPE_CHECKING:
    from tqdm import tqdm

_LARGE = 10_000  # numbers from here on are shortened: 12.3k


def bar(label: str, total: int | None, unit: str, initial: int = 0) -> tqdm[Any]:
    """A progress bar on stderr; in a log file or a pipe a line a minute.

    Args:
        label: What is being done.
        total: How many units in all, where it is known.
        unit: What is counted, such as "token".
        initial: How many an earlier run has done.
    """
    known = (
        "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {unit}, {remaining} left{postfix}"
    )
    return progress_bar(
        total,
        known if total else "{desc}: {n_fmt} {unit} in {elapsed}{postfix}",
        desc=label,
        unit=f"{unit}s",
        unit_scale=(total or 0) >= _LARGE,
        initial=initial,
        smoothing=0.05,
    )


# What a stage's line says, of its figures.
_LINES = {
    "sentences": "{kept:,} sentences kept of {read:,}",
    "vocabulary": "{words:,} {unit}, {tokens:,} tokens",
    "selection": "{sentences:,} sentences for the teacher to read, {held_out:,} more held out",
    "extraction": "{teacher_tokens:,} tokens read, teacher agreement {teacher_agreement:.2f}",
    "pca": "{dimension} dimensions, teacher agreement {teacher_agreement:.2f}",
    "distillation": "{steps:,} steps, teacher agreement {teacher_agreement:.2f}",
    "pairs": "{steps:,} steps in turns on sentences and on batches out of {pairs:,} pairs, teacher "
    "agreement {teacher_agreement:.2f}",
}
# What a selection has beside the sentences of words, if it has it.
_FURTHER_TEXTS = {"further": "further sentences", "spans": "spans", "passages": "passages"}


def describe(stage: str, figures: Mapping[str, Any]) -> str:
    """Describe a complete stage in a few words.

    Example:
        >>> describe("vocabulary", {"words": 8000, "tokens": 29820, "distinct_words": 17495})
        '8,000 words, 29,820 tokens'
        >>> describe("vocabulary", {"words": 8000, "tokens": 8002, "learnt_pieces": 9000})
        '8,000 pieces, 8,002 tokens'
        >>> describe("selection", {"sentences": 9000, "held_out": 500, "spans": 700})
        '9,000 sentences for the teacher to read, 500 more held out, 700 spans'
        >>> describe("target", {"texts": 300000})
        'texts 300,000'
    """
    try:
        line = _LINES[stage].format(**figures, unit=unit_of(figures))
    except KeyError:
        numbers = {k: v for k, v in figures.items() if isinstance(v, int | float)}
        return ", ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in numbers.items())
    found = [f"{figures[k]:,} {name}" for k, name in _FURTHER_TEXTS.items() if figures.get(k)]
    return ", ".join([line, *found])


def unit_of(figures: Mapping[str, Any]) -> str:
    """Name the units of a vocabulary, by the figures of its stage: words or pieces."""
    return "pieces" if "learnt_pieces" in figures else "words"


def duration(seconds: float) -> str:
    """Write a time for a reader.

    Example:
        >>> [duration(seconds) for seconds in (3.14, 75.2, 3725)]
        ['3.1 s', '1 min 15 s', '1 h 2 min']
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
