"""What a recipe states about its text and teacher, dropped where options name others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from st_static.distill.config import CorpusConfig, TeacherConfig

# What a recipe states about its own corpus and teacher; of any other it may be false.
_CORPUS_SOURCE = ("files", "docstrings", "dataset", "dataset_config")
_CORPUS_FACTS = ("description", "license", "redistributable")
# How much of it is read, and from which state of a dataset.
_CORPUS_EXTENT = ("max_documents", "split", "revision")
_TEACHER_FACTS = ("hub_id", "license", "description", "pooling", "normalize", "expect", "check")
# Consent to run a teacher's code, and the revisions that it is for, hold for one repository.
_TEACHER_ON_HUB = ("revision", "code_revision", "trust_remote_code")

# A `BuildConfig`, or another recipe with `corpus`, `teacher` and `export`.
AnyRecipe = TypeVar("AnyRecipe", bound=Any)


def without_false_facts(
    config: AnyRecipe, recipe: Mapping[str, Any], given: Mapping[str, Any]
) -> AnyRecipe:
    """Drop what a recipe states about a corpus or teacher that options have replaced.

    A description and a licence belong to a text, not to a recipe, and so does how much of the
    text is read. The teacher's licence, and the model's, stay if the teacher is the
    same model from another place.

    Args:
        config: The recipe with the options of the command line.
        recipe: The values of the recipe alone, nested.
        given: The values that those options give, nested; they are kept.
    """
    of = {
        name: {key: value for key, value in (given.get(name) or {}).items() if value is not None}
        for name in ("corpus", "teacher", "export")
    }
    corpus = _dropped_of_corpus(config.corpus, recipe["corpus"])
    teacher, export = _dropped_of_teacher(
        config.teacher, recipe["teacher"], of["teacher"].get("hub_id")
    )
    changed: AnyRecipe = replace(
        config,
        corpus=_with_defaults(config.corpus, corpus - set(of["corpus"])),
        teacher=_with_defaults(config.teacher, teacher - set(of["teacher"])),
        export=_with_defaults(config.export, export - set(of["export"])),
    )
    return changed


def _dropped_of_corpus(corpus: CorpusConfig, recipe: Mapping[str, Any]) -> set[str]:
    """What a recipe says of its text that does not hold for the text that is read."""
    before = CorpusConfig(**{name: recipe[name] for name in _CORPUS_SOURCE})
    if not before.is_named or _is_same_source(corpus.source, before.source):
        return set()
    dropped = {*_CORPUS_FACTS, *_CORPUS_EXTENT}
    is_other_kind = corpus.source[0] != before.source[0]
    return dropped | set(_CORPUS_SOURCE) if is_other_kind else dropped


def _dropped_of_teacher(
    teacher: TeacherConfig, recipe: Mapping[str, Any], hub_id: str | None
) -> tuple[set[str], set[str]]:
    """What a recipe says of its teacher, and of the export, that does not hold for another one.

    Args:
        teacher: The teacher that is taken.
        recipe: The recipe's own.
        hub_id: The name on the Hub that an option gives.
    """
    if _is_same_source((teacher.model,), (recipe["model"],)):
        return set(), set()
    name, before = hub_id or teacher.model, recipe["hub_id"] or recipe["model"]
    if name == before:  # the same model from another place
        return set(_TEACHER_ON_HUB), set()
    return {*_TEACHER_ON_HUB, *_TEACHER_FACTS}, {"license"}


def _is_same_source(now: Sequence[object], recipe: Sequence[object]) -> bool:
    """Whether sources are equal, or are the files or folder that a card's recipe only names."""

    def is_found(place: object, name: object) -> bool:
        """Whether a place is the recipe's, or ends with the bare name that the recipe gives."""
        is_bare = isinstance(name, str) and Path(name).name == name and ":" not in name
        return place == name or (is_bare and Path(str(place)).name == name)

    return len(now) == len(recipe) and all(map(is_found, now, recipe))


def _with_defaults(config: Any, names: Collection[str]) -> Any:
    """A configuration with the defaults of some of its values."""
    return replace(config, **{f.name: f.default for f in fields(config) if f.name in names})
