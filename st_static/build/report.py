"""What a build tells the user at its end: one table, and answers from the new model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sentence_transformers import SentenceTransformer

from st_static.build.recipe import BuildResult
from st_static.build.sentences import sentence_shards
from st_static.model.files import read_table

_SPEED_SENTENCES = 20_000
_SEARCHED_SENTENCES = 200_000


def print_report(result: BuildResult, questions: Sequence[str] = ()) -> None:
    """Print the table of a build, then the best answer to each question.

    Args:
        result: The build.
        questions: Answered by searching the corpus's sentences.
    """
    model = SentenceTransformer(str(result.output), device="cpu")
    sentences = corpus_sentences(result, _SEARCHED_SENTENCES if questions else _SPEED_SENTENCES)
    console = Console()
    console.print(report_table(result, encoding_speed(model, sentences)))
    if not questions:
        return
    console.print(f"\nThree nearest of {len(sentences):,} sentences of the corpus:")
    for question, answers in zip(questions, search(model, sentences, questions), strict=True):
        console.print(f"\n{question}", style="bold", highlight=False, markup=False)
        for score, sentence in answers:
            console.print(f"  {score:.2f}  {sentence}", highlight=False, markup=False)


def report_table(result: BuildResult, sentences_per_second: float) -> Table:
    """Teacher agreement and time by stage, then what the model is."""
    table = Table(title=escape(f"Built {result.output}"))
    table.add_column("stage")
    table.add_column("teacher agreement", justify="right")
    table.add_column("seconds", justify="right")
    for stage in result.stages:
        agreement = stage.figures.get("teacher_agreement")
        table.add_row(
            stage.name, "" if agreement is None else f"{agreement:.2f}", f"{stage.seconds:.1f}"
        )
    table.add_section()
    table.add_row("whole build", "", f"{sum(stage.seconds for stage in result.stages):.1f}")
    table.add_section()
    size = sum(f.stat().st_size for f in result.output.rglob("*") if f.is_file())
    for name, value in (
        ("vocabulary", f"{result.stage('vocabulary').figures['words']:,} words"),
        ("dimension", f"{result.stage('pca').figures['dimension']}"),
        ("size on disk", f"{size / 1e6:.1f} MB"),
        ("speed", f"{sentences_per_second:,.0f} sentences/s"),
    ):
        table.add_row(name, value)
    table.caption = (
        "Teacher agreement: Spearman correlation x 100 of student and teacher cosines on pairs of "
        "held-out sentences."
    )
    return table


def corpus_sentences(result: BuildResult, limit: int) -> list[str]:
    """The first sentences of the corpus, at most `limit`."""
    sentences: list[str] = []
    for shard in sentence_shards(Path(result.stage("sentences").folder)):
        sentences.extend(read_table(shard)["text"][: limit - len(sentences)].to_pylist())
    return sentences


def encoding_speed(model: SentenceTransformer, sentences: Sequence[str]) -> float:
    """Sentences that the model encodes in a second, with sentence-transformers alone."""
    texts = list(sentences[:_SPEED_SENTENCES])
    model.encode(texts[:256])
    start = time.perf_counter()
    model.encode(texts, batch_size=1024)
    return len(texts) / (time.perf_counter() - start)


def search(
    model: SentenceTransformer, sentences: Sequence[str], questions: Sequence[str], top: int = 3
) -> list[list[tuple[float, str]]]:
    """Find the sentences that are nearest to each question.

    Returns:
        For each question, its `top` best (cosine, sentence), the best first.
    """
    corpus = model.encode(list(sentences), batch_size=1024)
    scores = model.encode(list(questions)) @ corpus.T
    best = np.argsort(-scores, axis=1)[:, :top]
    return [
        [(float(row[i]), sentences[i]) for i in order]
        for row, order in zip(scores, best, strict=True)
    ]
