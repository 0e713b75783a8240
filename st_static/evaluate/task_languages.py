"""Languages in mteb: which of a task's subsets are in a model's languages, and which these are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import langcodes

from st_static.hub import downloading, require_model
from st_static.languages import primary_of
from st_static.model.model_folder import STATING_FILES, ModelFolder
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask


def language_tag(code: str) -> str:
    """The BCP 47 tag of a language, without script and region.

    Args:
        code: A tag, or a code as mteb writes it: of ISO 639-3, perhaps with a script.

    Example:
        >>> [language_tag(code) for code in ("jpn-Jpan", "cmn-Hans", "nob", "pt-BR")]
        ['ja', 'zh', 'no', 'pt']
    """
    language, _, script = code.partition("-")
    if script == "Code":  # mteb's programming languages, such as python-Code
        return "code"
    tag = primary_of(langcodes.standardize_tag(language, macro=True))
    return "no" if tag in ("nb", "nn") else tag  # which are no macrolanguage to langcodes


def languages_of_model(model: str) -> list[str]:
    """The languages that a model is for.

    Args:
        model: Its name, as for `load_model`.

    Returns:
        Their tags, see `StatedFacts`; of a model on the Hub, what its repository states;
        English of a recipe that states none. None of other peers, and of other models.

    Raises:
        ValueError: The model is not there, or the Hub cannot be asked.
    """
    name = ModelName.parse(model)
    if not name.is_folder_or_id:
        return []
    place = name.folder_or_id()
    folder = Path(place) if Path(place).exists() else _download_stated(place)
    stated = ModelFolder(folder).stated()
    return list(stated.languages) or (["en"] if stated.has_recipe else [])


def _download_stated(model: str) -> Path:
    """The files of a model on the Hub that state its languages, in the cache."""
    from huggingface_hub import snapshot_download

    copy = require_model(model)
    from_cache = copy is not None
    with downloading("model", model):
        return Path(
            snapshot_download(model, allow_patterns=[*STATING_FILES], local_files_only=from_cache)
        )


def subsets_in(task: AbsTask, languages: Sequence[str]) -> list[str]:
    """A task's subsets all of whose texts are in these languages, whatever script and region."""
    if "multilingual" in languages:
        return list(task.hf_subsets)
    wanted = set(map(language_tag, languages))
    codes = task.metadata.hf_subsets_to_langscripts
    return [s for s in task.hf_subsets if wanted.issuperset(map(language_tag, codes[s]))]


def choose_subsets(tasks: Sequence[AbsTask], languages: Sequence[str]) -> list[str]:
    """Narrow tasks to their subsets in some languages.

    Returns:
        The names of tasks that have no such subset, and stay as they were.
    """
    without = []
    for task in tasks:
        if subsets := subsets_in(task, languages):
            task.filter_languages(None, hf_subsets=subsets)
        else:
            without.append(task.metadata.name)
    return without
