"""Find MTEB's tasks by name, read local copies of their datasets, and choose by language."""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib.util
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import langcodes

from st_static.dependencies import require_packages
from st_static.evaluate.jmteb import JMTEB_V1, jmteb_tasks
from st_static.languages import primary_of
from st_static.model.model_folder import STATING_FILES, ModelFolder
from st_static.model.model_name import ModelName

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

Kind = Literal["task", "benchmark"]

_NAMED = re.compile(r'(?:Metadata|Benchmark)\(\s*name="([^"]+)"')  # in mteb's files
# The revision of a dataset from a local copy.
LOCAL_REVISION = "local"
# In a model's revision, before that of another model which encoded the documents.
OTHER_DOCUMENTS = "-on-"
ENGLISH_MTEB = "MTEB(eng, v1)"
_MULTILINGUAL = "MTEB(Multilingual, v2)"
_OF_LANGUAGE = {
    **{"de": "MTEB(deu, v1)", "en": ENGLISH_MTEB, "es": "MTEB(spa, v1)", "fa": "MTEB(fas, v2)"},
    **{"fr": "MTEB(fra, v1)", "ja": "JMTEB(v2)", "ko": "MTEB(kor, v2)", "nl": "MTEB(nld, v1)"},
    **{"pl": "MTEB(pol, v1)", "pt": "MTEB(por, v1)", "ru": "MTEB(rus, v1.1)"},
    **{"sk": "MTEB(slk, v1)", "th": "MTEB(tha, v1)", "zh": "MTEB(cmn, v1)"},
}
# Two small tasks of their benchmarks, to score a new model on in a minute.
_SMALL_TASKS = {"en": ("STS12", "STS13"), "ja": ("JSTS", "JSICK")}
# Static models whose published scores on a benchmark are on a card by default.
USUAL_PEERS = {
    ENGLISH_MTEB: ("minishlab/potion-base-8M",),
    "MTEB(eng, v2)": ("minishlab/potion-base-8M",),
    "JMTEB(v2)": ("minishlab/potion-multilingual-128M",),
}


@functools.cache
def benchmark_tasks(benchmark: str) -> list[AbsTask]:
    """Get a benchmark's tasks, which are shared: do not change them. Slow once torch is loaded, as
    mteb then seeds it for each task."""
    return find_tasks(benchmark)


def find_tasks(benchmark: str | None = None, tasks: Sequence[str] | None = None) -> list[AbsTask]:
    """Get the tasks of a benchmark, or tasks by name; a ValueError suggests the nearest names."""
    kind: Kind = "task" if benchmark is None else "benchmark"
    names = (tasks or []) if benchmark is None else [benchmark]
    check_names(kind, names)
    if benchmark == JMTEB_V1:
        return jmteb_tasks()
    import mteb

    results: list[AbsTask] = []
    for name in names:
        try:
            results += [mteb.get_task(name)] if kind == "task" else mteb.get_benchmark(name).tasks
        except KeyError as error:
            raise _unknown(kind, name) from error
    return results


def require_documents(tasks: Sequence[AbsTask]) -> None:
    """Raise a ValueError if a task has no documents, which another model could encode."""
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    others = []
    for task in tasks:
        parts = task.metadata.tasks if isinstance(task, AbsTaskAggregate) else [task]
        if not all(isinstance(part, AbsTaskRetrieval) for part in parts):
            others.append(task.metadata.name)
    if others:
        raise ValueError(
            "--documents_by is for tasks of search, such as NFCorpus, but these have no documents: "
            f"{', '.join(others)}. Name other tasks with --tasks."
        )


def check_names(kind: Kind, names: Sequence[str]) -> None:
    """Check that names are in mteb's files, since importing mteb takes seconds."""
    for name in names:
        if f'"{name}"' not in _source(kind):
            raise _unknown(kind, name)


@functools.cache
def _source(kind: Kind) -> str:
    """Read mteb's files that name all its tasks or benchmarks, with their former names; we add one
    benchmark."""
    require_packages("mteb")
    spec = importlib.util.find_spec("mteb")
    [folder] = (spec and spec.submodule_search_locations) or [""]
    files = [*sorted(Path(folder, f"{kind}s").rglob("*.py")), Path(folder, "get_tasks.py")]
    ours = [f'Benchmark(name="{JMTEB_V1}")'] if kind == "benchmark" else []
    return "\n".join([*(file.read_text("utf-8") for file in files), *ours])


def _unknown(kind: Kind, name: str) -> ValueError:
    """Make the error of an unknown name; it suggests the nearest ones, ignoring case."""
    by_lower = {entry.lower(): entry for entry in _NAMED.findall(_source(kind))}
    near = [entry for entry in sorted(by_lower, key=len) if name.lower() in entry][:3]
    near += difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    listed = ", ".join(by_lower[entry] for entry in dict.fromkeys(near)) or "nothing like it"
    return ValueError(f"There is no {kind} {name!r} in mteb. There is: {listed}.")


def check_data(data: Path, tasks: Sequence[str] = ()) -> None:
    """Check that a folder of local copies exists, with one for each of the named tasks."""
    if not data.is_dir():
        raise ValueError(f"There is no folder {data} of local copies of datasets.")
    if missing := [name for name in tasks if not (data / name).is_dir()]:
        raise ValueError(
            f"There is no local copy of {', '.join(missing)} in {data}: expected a folder for it."
        )


@contextlib.contextmanager
def local_copies() -> Iterator[None]:
    """Give `datasets` a temporary cache for local copies. Its own cache knows files that a
    README.md lists by their names alone, and gives those of another folder."""
    from datasets import config

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        cache, config.HF_DATASETS_CACHE = config.HF_DATASETS_CACHE, Path(folder)
        try:
            yield
        finally:
            config.HF_DATASETS_CACHE = cache


def use_local_copy(task: AbsTask, data: Path) -> AbsTask:
    """Make a task read the subsets and splits in `data`/NAME, laid out as on the Hub, as local."""
    check_data(data, [task.metadata.name])
    path = str(data / task.metadata.name)
    local = {**task.metadata.dataset, "path": path, "revision": LOCAL_REVISION}
    task.metadata = task.metadata.model_copy(update={"dataset": local})
    from mteb.abstasks import AbsTaskRetrieval

    if isinstance(task, AbsTaskRetrieval):
        return task
    from datasets import get_dataset_config_names, get_dataset_split_names, load_dataset

    configs = get_dataset_config_names(path)
    subsets = [subset for subset in task.hf_subsets if subset in configs]
    present = get_dataset_split_names(path, (subsets or configs)[0])
    splits = [split for split in task.eval_splits if split in present]
    splits = splits or [split for split in present if split != "train"]
    if not subsets:  # all in one file, with a column for the subset
        languages = load_dataset(path, split=splits[0]).to_dict().get("lang", task.hf_subsets)
        subsets = [subset for subset in task.hf_subsets if subset in set(languages)]
    task.hf_subsets = subsets
    task.filter_eval_splits(splits)
    return task


def language_tag(code: str) -> str:
    """Convert a tag, or a code of mteb (`jpn-Jpan`), to a BCP 47 tag without script and region."""
    language, _, script = code.partition("-")
    if script == "Code":  # mteb's programming languages, such as python-Code
        return "code"
    tag = primary_of(langcodes.standardize_tag(language, macro=True))
    return "no" if tag in ("nb", "nn") else tag  # langcodes does not map these


def languages_of_model(model: str) -> list[str]:
    """Find the languages that a model states; English if its recipe states none, else empty."""
    name = ModelName.parse(model)
    if not name.is_folder_or_id:
        return []
    stated = ModelFolder.of(name.folder_or_id(), wanted=STATING_FILES).stated()
    return list(stated.languages) or (["en"] if stated.has_recipe else [])


def subsets_in(task: AbsTask, languages: Sequence[str]) -> list[str]:
    """List a task's subsets with texts in these languages only, in any script and region."""
    if "multilingual" in languages:
        return list(task.hf_subsets)
    wanted = set(map(language_tag, languages))
    codes = task.metadata.hf_subsets_to_langscripts
    return [s for s in task.hf_subsets if wanted.issuperset(map(language_tag, codes[s]))]


def choose_subsets(tasks: Sequence[AbsTask], languages: Sequence[str]) -> list[str]:
    """Narrow tasks to their subsets in some languages; return the names of unchanged tasks without
    any."""
    without = []
    for task in tasks:
        if subsets := subsets_in(task, languages):
            task.filter_languages(None, hf_subsets=subsets)
        else:
            without.append(task.metadata.name)
    return without


# -- for a model's languages -----------------------------------------------------------


def benchmark_of(languages: Sequence[str]) -> str:
    """Choose the benchmark of languages, primary tags; none is English, and so is source code."""
    [language, *others] = [code for code in languages if code != "code"] or ["en"]
    return _MULTILINGUAL if others else _OF_LANGUAGE.get(language, _MULTILINGUAL)


def options_to_score(languages: Sequence[str]) -> list[str]:
    """Suggest options of `st-static evaluate` for a model; TASK is one that the user finds."""
    languages = list(languages) or ["en"]
    tasks = [task for language in languages for task in _SMALL_TASKS.get(language, ())]
    if tasks:
        return ["--tasks", *tasks]
    if languages == ["multilingual"] or (len(languages) == 1 and languages[0] in _OF_LANGUAGE):
        return ["--benchmark", benchmark_of(languages)]
    return ["--tasks", "TASK", "--language", *languages]
