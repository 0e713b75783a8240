"""Print the report at the end of a build: one table, and answers from the new model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sentence_transformers import SentenceTransformer

from st_static.distill.corpus.sentences import sentence_shards
from st_static.distill.stages import BuildResult, unit_of
from st_static.encode.fast_encoder import FastEncoder
from st_static.files import read_arrow, read_json
from st_static.hub import whole_path
from st_static.model.model_folder import ModelFolder
from st_static.model.modules import RECORD_FILE
from st_static.model.tokenizer import CONTINUATION, SPECIAL_TOKENS, has_pieces

_SPEED_SENTENCES = 20_000
_SEARCHED_SENTENCES = 200_000


def print_report(result: BuildResult, questions: Sequence[str] = ()) -> None:
    """Print the table of a build, and the sentences of the corpus that answer questions best."""
    model = SentenceTransformer(whole_path(result.output), device="cpu")
    limit = _SEARCHED_SENTENCES if questions else _SPEED_SENTENCES
    sentences: list[str] = []
    for shard in sentence_shards(result.work.folder("sentences")):
        sentences.extend(read_arrow(shard)["text"][: limit - len(sentences)].to_pylist())
    speeds = {
        "FastEncoder": _encoding_speed(FastEncoder.from_pretrained(result.output), sentences),
        "sentence-transformers": _encoding_speed(model, sentences),
    }
    console = Console()
    console.print(report_table(result, speeds))
    console.print(rows_explained(result), highlight=False, markup=False)
    if not questions:
        return
    nearest = f"\nThree nearest of {len(sentences):,} sentences of the corpus:"
    console.print(nearest, highlight=False)
    corpus = model.encode(sentences, batch_size=1024, normalize_embeddings=True)
    cosines = model.encode(list(questions), normalize_embeddings=True) @ corpus.T
    for question, row in zip(questions, cosines, strict=True):
        console.print(f"\n{question}", style="bold", highlight=False, markup=False)
        for i in np.argsort(-row)[:3]:
            console.print(f"  {row[i]:.2f}  {sentences[i]}", highlight=False, markup=False)


def report_table(result: BuildResult, speeds: Mapping[str, float]) -> Table:
    """Make the table of agreement and time by stage, then of sizes and of sentences per second."""
    vocabulary, last = result.stage("vocabulary").figures, result.stages[-1]
    several = len(result.work.extractions) > 1
    table = Table(title=escape(f"Built {result.output}"))
    table.add_column("stage")
    table.add_column("teacher agreement", justify="right")
    if several:
        table.add_column("with each", justify="right")
    table.add_column("seconds", justify="right")
    for stage in result.stages:
        agreement = stage.figures.get("teacher_agreement")
        shown = ["" if agreement is None else f"{agreement:.2f}"]
        if several:
            of_each = stage.figures.get("agreement_with_each", [])
            shown.append(", ".join(f"{value:.2f}" for value in of_each))
        table.add_row(stage.name, *shown, f"{stage.seconds:.1f}")
    table.add_section()
    blanks = [""] * (1 + several)
    all_runs = sum(stage.seconds for stage in result.stages)
    table.add_row("stages, in all runs", *blanks, f"{all_runs:.1f}")
    table.add_row("this run, with loading", *blanks, f"{result.seconds:.1f}")
    table.add_section()
    head = result.work.head(last.name)
    for name, value in (
        ("vocabulary", f"{vocabulary['words']:,} {unit_of(vocabulary)}"),
        ("vectors", f"{vocabulary['tokens']:,}"),
        ("dimensions", f"{result.work.table(last.name).shape[1]}"),
        *([("head", f"{head.units} hidden units")] if head else []),
        ("size on disk", f"{size_on_disk(result.output) / 1e6:.1f} MB"),
        *((f"speed, {encoder}", f"{speed:,.0f} sentences/s") for encoder, speed in speeds.items()),
    ):
        table.add_row(name, value)
    is_centred = last.figures.get("teacher_centered")
    centred = ", the mean of the teacher vectors removed" if is_centred else ""
    if several:
        centred += " where their cosines are high" if is_centred else ""
        centred += "; after an extraction with its teacher alone, later with the teachers' mean"
    table.caption = (
        "Teacher agreement: Spearman correlation x 100 of student and teacher cosines on pairs of "
        f"held-out sentences{centred}."
    )
    return table


def rows_explained(result: BuildResult) -> str:
    """Explain why the word table has more rows than the vocabulary has words."""
    n_words = result.stage("vocabulary").figures["words"]
    tokenizer = result.work.tokenizer
    special = f"{len(SPECIAL_TOKENS)} special tokens."
    if has_pieces(tokenizer):
        return f"{tokenizer.get_vocab_size():,} vectors: {n_words:,} pieces; {special}"
    first = len(SPECIAL_TOKENS) + n_words
    others = [t.removeprefix(CONTINUATION) for t, i in tokenizer.get_vocab().items() if i >= first]
    n_characters = sum(len(text) == 1 for text in others)
    n_pieces = len(others) - n_characters
    pieces = f"{n_pieces:,} word pieces of the teacher and " if n_pieces else ""
    vocabulary = read_json(result.output / RECORD_FILE)["recipe"]["vocabulary"]
    if vocabulary["pieces"] == "all" and n_pieces:
        special += " With --vocabulary.pieces used or none the model is smaller, but less general."
    return (
        f"{tokenizer.get_vocab_size():,} vectors: {n_words:,} words; {pieces}{n_characters:,} "
        f"single characters, which spell all other words; {special}"
    )


def size_on_disk(model: Path) -> int:
    """Count the bytes of the files that a build writes, without the card and other files."""
    return sum(file.stat().st_size for file in ModelFolder(model).own_files)


def _encoding_speed(model: FastEncoder | SentenceTransformer, sentences: list[str]) -> float:
    """Measure sentences per second, nearly all of them new to the encoder."""
    texts = sentences[:_SPEED_SENTENCES]
    model.encode(texts[:256])
    start = time.perf_counter()
    model.encode(texts, batch_size=1024)
    return len(texts) / (time.perf_counter() - start)
