"""Scores that others published, from a table that comes with this package."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from st_static.evaluate.scores import ModelScores
from st_static.evaluate.tasks import check_names

PUBLISHED_FILE = Path(str(resources.files("st_static.evaluate") / "published.csv"))
_RESULTS = "embeddings-benchmark/results on GitHub"
_COMMIT = "commit f4cc6c8b of 20 August 2026"
# Of the models that were read from other commits: what they are called, and which commits.
_LATER_COMMITS = {
    "intfloat/multilingual-e5-small": "of multilingual-e5-small, commits af6430ee, c4eaddfd, "
    "cb55c33d and d146b760, read on 22 November 2026",
    "McGill-NLP/LLM2Vec-Meta-Llama-3-8B-Instruct-mntp-unsup-simcse": "of LLM2Vec, commits "
    "186d69a7, 29546d77, 31ac2606, 389f9dce and d5e47f87, read on 23 November 2026",
}
_PUBLICATIONS = {
    "Muennighoff et al. 2022": "Muennighoff et al. 2022 (arXiv 2210.07316), by task in "
    "plotstables/all_en.txt of embeddings-benchmark/mtebpaper on GitHub, commit 75bf809a",
    "Wada et al. 2025": "Wada et al. 2025 (arXiv 2506.04624), table 1",
}
# The type of rows that hold a mean over the benchmark; their task is the mean's heading.
_MEAN = "mean"


def read_published(file: Path = PUBLISHED_FILE) -> dict[tuple[str, str], ModelScores]:
    """Published scores by (benchmark, model)."""
    models: dict[tuple[str, str], ModelScores] = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            key = (row["benchmark"], row["model"])
            new = ModelScores(row["model"], {}, is_published=True, published_by=row["published_by"])
            model = models.setdefault(key, new)
            scores = model.means if row["type"] == _MEAN else model.scores
            scores[row["task"]] = float(row["main_score_x100"])
    return models


def sources_of(models: Sequence[ModelScores]) -> str:
    """Where the published scores among those of some models come from; empty without any."""
    published = [model for model in models if model.is_published]
    of_results = [model.name for model in published if not model.published_by]
    commits = dict.fromkeys(_LATER_COMMITS.get(name, _COMMIT) for name in of_results)
    # The commit of most models is said without a name, so it comes first.
    ordered = sorted(commits, key=lambda commit: commit != _COMMIT)
    sources = [f"{_RESULTS}, {'; '.join(ordered)}"] if ordered else []
    publishers = dict.fromkeys(model.published_by for model in published if model.published_by)
    return "; ".join([*sources, *(_PUBLICATIONS[publisher] for publisher in publishers)])


def find_published(names: Sequence[str], benchmark: str) -> list[ModelScores]:
    """Published scores of the named models.

    Raises:
        ValueError: There is no such benchmark, or there are none of a model; the message lists
            those that there are.
    """
    check_names("benchmark", [benchmark])
    published = read_published()
    missing = [name for name in names if (benchmark, name) not in published]
    if missing:
        known = [name for b, name in published if b == benchmark]
        near = difflib.get_close_matches(missing[0], known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}."
        raise ValueError(f"No published scores of {', '.join(missing)} on {benchmark}. {hint}")
    return [published[benchmark, name] for name in names]
