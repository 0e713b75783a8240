"""What a recipe states about its text and teacher, dropped where options name others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from st_static.distill.config import CorpusConfig, TeacherConfig

# What a recipe states about its own corpus and teacher; of any other it may be false.
_CORPUS_SOURCE = ("files", "docstrings", "dataset", "dataset_config")
_CORPUS_FACTS = ("description", "license", "redistributable")
# The state of a dataset, and how much of a text is read: counts for that text alone.
_CORPUS_EXTENT = ("revision", "max_documents")
_TEACHER_FACTS = ("hub_id", "license", "description", "pooling", "expect", "check")
# Consent to run a teacher's code, and the revisions that it is for, hold for one repository.
_TEACHER_ON_HUB = ("revision", "code_revision", "trust_remote_code")

# A `BuildConfig`, or another recipe with `corpus`, `teacher` and `export`.
AnyRecipe = TypeVar("AnyRecipe", bound=Any)


def without_false_facts(
    config: AnyRecipe, recipe: Mapping[str, Any], given: Collection[str]
) -> AnyRecipe:
    """Drop what a recipe states about a corpus or teacher that options have replaced.

    The teacher's licence, and the model's, stay if it is the same model from another place.

    Args:
        config: The recipe with the options of the command line.
        recipe: The values of the recipe alone, by keys such as `corpus.files`.
        given: The keys of those options, whose values are kept.
    """
    corpus, teacher, dropped = config.corpus, config.teacher, set()
    before = CorpusConfig(
        **{name: recipe[f"corpus.{name}"] for name in _CORPUS_SOURCE if f"corpus.{name}" in recipe}
    )
    if before.is_named and not _is_same_source(corpus.source, before.source):
        of_corpus = {*_CORPUS_FACTS, *_CORPUS_EXTENT}
        if corpus.source[0] != before.source[0]:
            of_corpus |= set(_CORPUS_SOURCE)
        dropped |= {f"corpus.{name}" for name in of_corpus}
    model = recipe.get("teacher.model", TeacherConfig().model)
    if not _is_same_source((teacher.model,), (model,)):
        hub_id = teacher.hub_id if "teacher.hub_id" in given else None
        of_teacher = set(_TEACHER_ON_HUB)
        # Else it is the same model from another place.
        if (hub_id or teacher.model) != (recipe.get("teacher.hub_id") or model):
            of_teacher |= set(_TEACHER_FACTS)
            dropped.add("export.license")
        dropped |= {f"teacher.{name}" for name in of_teacher}
    usual: dict[str, dict[str, Any]] = {"corpus": {}, "teacher": {}, "export": {}}
    for key in dropped - set(given):
        section, _, name = key.partition(".")
        usual[section][name] = getattr(type(getattr(config, section)), name)
    changes = {section: replace(getattr(config, section), **usual[section]) for section in usual}
    changed: AnyRecipe = replace(config, **changes)
    return changed


def _is_same_source(now: Sequence[object], recipe: Sequence[object]) -> bool:
    """Tell if sources are equal, or are the files or folder that a card's recipe only names."""

    def is_found(place: object, name: object) -> bool:
        is_bare = isinstance(name, str) and Path(name).name == name and ":" not in name
        return place == name or (is_bare and Path(str(place)).name == name)

    return len(now) == len(recipe) and all(map(is_found, now, recipe))
