"""What a model's record must say before others get the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from st_static.card.facts import teacher_id


def check_recipe(recipe: Mapping[str, Any]) -> list[str]:
    """Find what a recipe leaves open, or forbids, about the text and the teacher of its model.

    Args:
        recipe: As the model's record has it.

    Returns:
        All problems, each a sentence or two that name the options to build again with.
    """
    return [*_check_corpus(recipe["corpus"]), *_check_teacher(recipe["teacher"])]


def check_conversion(facts: Mapping[str, Any]) -> list[str]:
    """Find what is left open about text vectors; for what is returned see `check_recipe`.

    Args:
        facts: `conversion` of the model's record.
    """
    if facts["license"]:
        return []
    return ["The licence of the text vectors is not known. Convert again with --license LICENCE."]


def _check_corpus(corpus: Mapping[str, Any]) -> Iterator[str]:
    if not corpus.get("redistributable", True):
        yield (
            "The text of the model may not be redistributed (corpus.redistributable). Build it "
            "again from open text."
        )
    missing = []
    if corpus["files"] and not corpus.get("description"):
        missing.append("--corpus.description 'WHAT THE TEXT IS'")
    if not corpus.get("license"):
        missing.append("--corpus.license LICENCE")
    if missing:
        yield (
            "The recipe does not say what the text is or what its licence is. Build again with "
            f"{' and '.join(missing)}: no stage is run again."
        )


def _check_teacher(teacher: Mapping[str, Any]) -> Iterator[str]:
    if teacher_id(teacher) is None and not teacher.get("description"):
        yield (
            f"The recipe does not say which model of the Hub the teacher {teacher['model']} is. "
            "Build again with --teacher.hub_id ORG/NAME or, if it is not on the Hub, with "
            "--teacher.description 'WHAT IT IS': no stage is run again."
        )
