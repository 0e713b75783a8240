"""Vectors scaled to length 1 or left as they are: scores of models by task, with both similarities.

    python benchmarks/normalization.py --data DIR [--folder .] [--tasks NAME ...] MODEL [MODEL ...]

evaluates each model in three ways, as `st-static evaluate` does, and prints a table of main scores
x 100: with `Normalize`, where cosine and dot product are the same, and without it by cosine and by
dot product. Only retrieval compares vectors by the similarity of the model; classification and
clustering see the vectors themselves.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import polars as pl
from local_tasks import evaluate
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from st_static.evaluate.models import EvaluatedModel, as_evaluated
from st_static.evaluate.tables import as_markdown
from st_static.evaluate.tasks import languages_of_model

TASKS = (
    "Banking77Classification",
    "AmazonCounterfactualClassification",
    "NFCorpus",
    "TwentyNewsgroupsClustering",
)
WAYS = {"length 1": (True, "cosine"), "cosine": (False, "cosine"), "dot": (False, "dot")}


def scored_in(way: str, folder: str) -> EvaluatedModel:
    """A static model, scaled and compared in one of `WAYS`, under a name of its own."""
    is_scaled, similarity = WAYS[way]
    table = SentenceTransformer(folder, device="cpu")[0]
    modules = [table, *[Normalize()] * is_scaled]
    model = SentenceTransformer(modules=modules, similarity_fn_name=similarity, device="cpu")
    evaluated = as_evaluated(model, folder)
    return replace(evaluated, name=f"{evaluated.name}-{way.replace(' ', '-')}")


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="folders of static models")
    parser.add_argument("--data", type=Path, required=True, help="a folder a task")
    parser.add_argument("--folder", type=Path, default=Path(), help="where results/ goes")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    arguments = parser.parse_args()
    rows = []
    for folder in arguments.models:
        languages = languages_of_model(folder)
        for way in WAYS:
            model = scored_in(way, folder)
            outcome = evaluate(model, arguments.tasks, languages, arguments.data, arguments.folder)
            for task, reason in outcome.failures.items():
                print(f"{folder}, {way}: {task} failed: {reason}")
            scores = [outcome.scores.get(task) for task in arguments.tasks]
            rows.append([Path(folder).name, way, *scores])
    columns = ["model", "vectors", *arguments.tasks]
    print(as_markdown(pl.DataFrame(rows, schema=columns, orient="row", strict=False)))


if __name__ == "__main__":
    main()
