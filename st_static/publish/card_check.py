"""Checking a model card's metadata by the Hub's rules, without the Hub."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_REQUIRED = ("license", "library_name", "pipeline_tag", "language")
_LISTS = ("license", "language")


def check_card(path: Path) -> list[str]:
    """Say what is wrong with a card's metadata.

    The metadata is parsed by `huggingface_hub`, and then held against what the Hub demands of it.
    (`ModelCard.validate` would ask the Hub itself.)

    Args:
        path: The card, README.md.

    Returns:
        The problems, none if the card is valid.
    """
    from huggingface_hub import ModelCard, ModelCardData

    try:
        card = ModelCard(path.read_text("utf-8"))
    except UnicodeDecodeError:
        return ["is not in UTF-8"]
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).partition(". Pass `ignore")[0].split())
        return [f"has metadata that cannot be read: {reason}"]
    data = cast(ModelCardData, card.data)
    metadata = {key: getattr(data, key) for key in _REQUIRED}
    problems = [
        f"has no {key} in its metadata (the YAML between the lines ---)"
        for key, value in metadata.items()
        if not value
    ]
    problems += [
        f"has the {key} {value!r}, where text is expected"
        for key, value in metadata.items()
        if value and not _is_text(value, key in _LISTS)
    ]
    return problems + list(_check_results(data.eval_results or []))


def _is_text(value: Any, list_allowed: bool) -> bool:
    values = value if list_allowed and isinstance(value, list) else [value]
    return all(isinstance(text, str) for text in values)


def _check_results(results: list[EvalResult]) -> Iterator[str]:
    for number, result in enumerate(results, 1):
        where = f"score {number} of its model-index"
        names = {
            "task type": result.task_type,
            "dataset type": result.dataset_type,
            "dataset name": result.dataset_name,
            "metric type": result.metric_type,
        }
        for what, name in names.items():
            if not _is_name(name):
                yield f"has no {what} in {where}"
        if not _is_number(result.metric_value):
            value = result.metric_value
            yield f"has the value {value!r} in {where}, where a number is expected"


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def check_results_file(path: Path) -> list[str]:
    """Say what is wrong with a file of `.eval_results/`.

    Args:
        path: The YAML file, a list of entries.

    Returns:
        The problems, none if the Hub can read the file.
    """
    from huggingface_hub import parse_eval_result_entries

    try:
        entries = parse_eval_result_entries(yaml.safe_load(path.read_text("utf-8")))
    except (KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
        return [f"is no list of results as the Hub reads them ({type(error).__name__}: {error})"]
    return [
        f"has the value {entry.value!r} for {entry.dataset_id}, where a number is expected"
        for entry in entries
        if not _is_number(entry.value)
    ]
