"""Reads a recipe from YAML files and the command line, where each of its values is an option."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import functools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import yaml

from st_static.arguments import in_words
from st_static.commands.options import UsageError, nearest
from st_static.distill.config import BuildConfig, CorpusConfig
from st_static.distill.section import FieldError, FieldTypeError
from st_static.distill.teacher_config import TeacherConfig
from st_static.our_recipes import known_recipes
from st_static.yaml_text import load_yaml

# What a recipe states about its own corpus and teacher; of any other it may be false.
_CORPUS_SOURCE = ("files", "docstrings", "dataset", "dataset_config")
_CORPUS_FACTS = ("description", "license")
# The state of a dataset, and how much of a text is read: counts for that text alone.
_CORPUS_EXTENT = ("revision", "max_documents")
_TEACHER_FACTS = ("hub_id", "license", "pooling", "expect")
# Consent to run a teacher's code, and the revision that it is for, hold for one repository.
_TEACHER_ON_HUB = ("revision", "trust_remote_code")


def listed_recipes() -> Iterator[str]:
    """List the recipes that come with the package, each with the first line of its file."""
    recipes = known_recipes()
    width = max(map(len, recipes))
    for name, file in recipes.items():
        first, _, _ = file.read_text("utf-8").partition("\n")
        yield f"{name:{width}}  {first.removeprefix('# ')}"


def read_recipe(file: str) -> dict[str, Any]:
    """Read the values of a recipe, a file or the name of one of ours, with sections as dicts."""
    path, recipes = Path(file), known_recipes()
    if file in recipes and not path.is_file():
        path = recipes[file]
    if not path.is_file():
        near_by = {other.stem: str(other) for other in sorted(path.parent.glob("*.y*ml"))}
        listed = ""
        if path.parent == Path():
            near_by = {name: name for name in recipes} | near_by
            listed = ", or a name that st-static build --list prints"
        near = [stem for stem in near_by if path.stem and stem.startswith(path.stem)]
        near = near[:3] or difflib.get_close_matches(path.stem, near_by)
        hint = f" Did you mean {' or '.join(near_by[stem] for stem in near)}?" if near else ""
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise UsageError(f"The recipe {file} {kind}. Expected a YAML file{listed}.{hint}")
    from st_static.texts.file_rows import checked_text

    try:
        with path.open("rb") as stream:
            values = load_yaml(checked_text(stream, f"The recipe {file}").read().decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"The recipe {file} is not text in UTF-8.") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = f", line {mark.line + 1}," if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UsageError(f"{file}{line} cannot be read as YAML: {problem}.") from error
    if values is None:  # or comments only
        raise UsageError(f"The recipe {file} is empty. Expected a YAML file with values.")
    if not isinstance(values, dict):
        raise UsageError(f"{file}: expected keys such as output, but got {_shown(values)}.")
    return values


# Options that recipes had once, at the values that are implied now: cards of that time hold whole
# recipes.
_FORMER: dict[str, Any] = {
    **dict.fromkeys(("teacher.code_revision", "teacher.description", "pairs.dataset"), None),
    **dict.fromkeys(("vocabulary.nfkc", "vocabulary.strip_accents", "vocabulary.dotless_i"), None),
    **dict.fromkeys(("selection.further", "distillation.word_dropout", "pairs.mined"), 0),
    "corpus.redistributable": True,
    "corpus.text_column": "text",
    "distillation.batches": "clustered",
    "distillation.development": "corpus",
    "distillation.max_grad_norm": 0,
    "distillation.schedule": "linear",
    "export.dtype": "float32",
    "export.onnx": False,
    "pairs.columns": ["anchor", "positive"],
    "pairs.symmetric": False,
    "pca.n_remove": "auto",
    "selection.max_candidates": 2000,
    "sentences.max_words": 64,
    "teacher.check": True,
    "vocabulary.units": "auto",
}


def checked_keys(values: Mapping[str, Any], recipe: type, file: str) -> dict[str, Any]:
    """Return the values of a file by keys such as `vocabulary.size`, if the recipe has them."""
    hints = hints_of(recipe)
    sections = {key.partition(".")[0] for key in hints if "." in key}
    by_key: dict[str, Any] = {}
    for name, value in values.items():
        if name not in sections:
            by_key[name] = value
        elif isinstance(value, dict):
            by_key |= {f"{name}.{key}": of_key for key, of_key in value.items()}
        else:
            first = next(key for key in hints if key.startswith(f"{name}."))
            raise UsageError(
                f"{file}: expected the section {name} with keys such as "
                f"{first.removeprefix(f'{name}.')}, but got {_shown(value)}."
            )
    former = dict(_FORMER)
    if by_key.get("distillation.optimizer") == "adam":
        former |= {"distillation.schedule": "constant", "distillation.max_grad_norm": 1}
    if by_key.get("distillation.sentences_per_word") is not None:
        former["distillation.development"] = "selection"

    def without_former(values: dict[str, Any], section: str = "") -> dict[str, Any]:
        return {k: v for k, v in values.items() if (section + k, v) not in former.items()}

    if isinstance(teachers := by_key.get("teachers"), list):
        by_key["teachers"] = [
            without_former(teacher, "teacher.") if isinstance(teacher, dict) else teacher
            for teacher in teachers
        ]
    by_key = without_former(by_key)
    for key in by_key:
        if key not in hints:
            raise UsageError(f"{file}: there is no key {key}.{nearest(key, [*hints, *sections])}")
    return by_key


def hints_of(recipe: Any) -> dict[str, Any]:
    """Return the types of a recipe's values by key, those outside sections first."""
    hints = get_type_hints(recipe, include_extras=True)
    sections = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    by_key = {name: hint for name, hint in hints.items() if name not in sections}
    for name, section in sections.items():
        by_key |= {f"{name}.{key}": hint for key, hint in hints_of(section).items()}
    return by_key


def make_recipe(
    recipe: Any, values: Mapping[str, Any], origins: Mapping[str, str], prefix: str = ""
) -> Any:
    """Make a recipe, or a section whose keys begin with `prefix`, of values by key, given at
    `origins`; UsageError for another type, ValueError for what is out of bounds or does not fit."""
    arguments = {}
    for name, hint in get_type_hints(recipe, include_extras=True).items():
        if dataclasses.is_dataclass(hint):
            arguments[name] = make_recipe(hint, values, origins, f"{name}.")
        elif prefix + name in values:
            arguments[name] = values[prefix + name]
    try:
        return recipe(**arguments)
    except FieldError as error:
        origin, kinds = origins[prefix + error.field], list(_kinds(error.hint))
        advice = ""
        if isinstance(error.value, list) and list[str] in kinds:
            advice = " Put each text in quotes."  # in YAML, no is false, and a language, too
        elif str in kinds and not isinstance(error.value, list | dict):
            advice = " Put it in quotes."
        elif any(get_origin(kind) is list for kind in kinds):
            advice = " Write a list as '[one, two]'."
        expected = f"expected {in_words(error.hint)}, but got {_shown(error.value)}"
        kind = UsageError if isinstance(error, FieldTypeError) else ValueError
        raise kind(f"{origin}: {expected}.{advice}") from None


def without_false_facts(config: Any, recipe: Mapping[str, Any], options: Collection[str]) -> Any:
    """Drop what a recipe states about a corpus or teachers that `options`, by their keys,
    replace; licences stay for the same models from elsewhere. `recipe` has its own values by key;
    a list of teachers is replaced as a whole, with what it states."""
    corpus, dropped = config.corpus, set()
    before = CorpusConfig(
        **{name: recipe[f"corpus.{name}"] for name in _CORPUS_SOURCE if f"corpus.{name}" in recipe}
    )
    if before.is_named and not _is_same_source(corpus.source, before.source):
        of_corpus = {*_CORPUS_FACTS, *_CORPUS_EXTENT}
        if corpus.source[0] != before.source[0]:
            of_corpus |= set(_CORPUS_SOURCE)
        dropped |= {f"corpus.{name}" for name in of_corpus}
    teachers = getattr(config, "all_teachers", [config.teacher])
    models, ids = _teachers(recipe)
    if not _is_same_source([teacher.model for teacher in teachers], models):
        is_told = bool(getattr(config, "teachers", None)) or "teacher.hub_id" in options
        of_teacher = set(_TEACHER_ON_HUB)
        # Else they are the same models from other places.
        if [(is_told and teacher.hub_id) or teacher.model for teacher in teachers] != ids:
            of_teacher |= set(_TEACHER_FACTS)
            dropped.add("export.license")
        dropped |= {f"teacher.{name}" for name in of_teacher}
    usual: dict[str, dict[str, Any]] = {"corpus": {}, "teacher": {}}
    for key in (dropped - set(options)) & hints_of(type(config)).keys():  # no export of ensembles
        section, _, name = key.partition(".")
        usual.setdefault(section, {})[name] = getattr(type(getattr(config, section)), name)
    sections = {
        name: dataclasses.replace(getattr(config, name), **values) for name, values in usual.items()
    }
    return dataclasses.replace(config, **sections)


def _teachers(recipe: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """List the models of a recipe's teachers, and what each is on the Hub."""
    if recipe.get("teachers"):
        named = [(t.model, t.hub_id) for t in BuildConfig(teachers=recipe["teachers"]).teachers]
    else:
        model = recipe.get("teacher.model", TeacherConfig().model)
        named = [(model, recipe.get("teacher.hub_id"))]
    return [model for model, _ in named], [hub_id or model for model, hub_id in named]


def _is_same_source(now: Sequence[object], recipe: Sequence[object]) -> bool:
    """Tell if sources are equal, or are the files or folder that a card's recipe only names."""

    def is_same(source: object, name: object) -> bool:
        is_bare = isinstance(name, str) and Path(name).name == name and ":" not in name
        return source == name or (is_bare and Path(str(source)).name == name)

    return len(now) == len(recipe) and all(map(is_same, now, recipe))


def _shown(value: Any) -> str:
    """Spell a value as a recipe does, with texts in quotes."""
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the types that a union is made of."""
    if get_origin(hint) in (None, list, dict):
        yield hint
    elif hasattr(hint, "__metadata__"):
        yield from _kinds(hint.__origin__)
    else:
        for part in get_args(hint):
            yield from _kinds(part)


def _value(hint: Any, text: str) -> Any:
    """Read a recipe's value on the command line: YAML, unless its type is text."""
    kinds = list(_kinds(hint))
    try:
        value = load_yaml(text)
    except yaml.YAMLError:
        return text
    is_list = isinstance(value, list) and any(get_origin(kind) is list for kind in kinds)
    is_null = value is None and type(None) in kinds and text != ""
    return text if str in kinds and not (is_list or is_null) else value


def add_recipe(parser: argparse.ArgumentParser, recipe: Any) -> None:
    """Add an option for each value of a recipe."""
    groups: dict[str, Any] = {}
    for key, hint in hints_of(recipe).items():
        name, _, field = key.rpartition(".")
        section = get_type_hints(recipe)[name] if name else recipe
        if name not in groups:
            about = (section.__doc__ or "").partition("\n")[0]
            groups[name] = parser.add_argument_group(name or "recipe", about)
        facts = section.__pydantic_fields__[field]
        default = _shown(facts.get_default(call_default_factory=True))
        groups[name].add_argument(
            f"--{key}",
            type=functools.partial(_value, hint),
            # A switch may stand alone.
            **({"nargs": "?", "const": True} if bool in _kinds(hint) else {}),
            metavar="VALUE",
            default=argparse.SUPPRESS,
            help=f"{facts.description} ({in_words(hint)}; by default {default})".replace("%", "%%"),
        )
