"""Why a model is as good as it is: tables and figures about one built model."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.distill.config import TeacherConfig
from st_static.distill.sentence_pca import SentencePCA
from st_static.distill.sources import require_teacher
from st_static.distill.teacher import Teacher, token_batches
from st_static.distill.work_directory import Selected, WorkDirectory
from st_static.evaluate.analysis.geometry import alignment, random_pairs, uniformity
from st_static.evaluate.analysis.lengths import agreement_by_length
from st_static.evaluate.analysis.norms import (
    frequency_correlation,
    most_changed,
    parts_of_speech,
    read_tags,
    word_norms,
)
from st_static.evaluate.analysis.socm import SocmResult, mean_socm
from st_static.evaluate.benchmark import require_any_dataset, run_tasks
from st_static.evaluate.compare import ModelScores, write_table
from st_static.evaluate.evaluated_model import EvaluatedModel, table_encoder
from st_static.evaluate.figures import draw_agreement, draw_norms
from st_static.evaluate.tasks import find_tasks
from st_static.files import read_json
from st_static.model.export import RECORD_FILE
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.ragged import Ragged
from st_static.tokens.tokenizer import SPECIAL_TOKENS

Floats = NDArray[np.float32]
_TABLES = ("extraction", "pca", "distillation")
_SOCM_TEXTS = 1000


class BuiltModel:
    """A built model together with the stages that its recipe left.

    Args:
        folder: The exported model.
        work_dir: The recipe's work directory.

    Raises:
        ValueError: The folder is not a model that was built from a teacher, or its stages are not
            in `work_dir`.
    """

    def __init__(self, folder: Path, work_dir: Path) -> None:
        if not folder.is_dir():
            raise ValueError(f"There is no folder {folder}.")
        if not (folder / RECORD_FILE).is_file():
            raise ValueError(f"{folder} is not a model that st_static built: no {RECORD_FILE}.")
        self.name = folder.resolve().name
        record = read_json(folder / RECORD_FILE)
        if not record.get("stages"):
            raise ValueError(
                f"{folder} is an ensemble, which has no stages to analyse: name a model that was "
                "built from a teacher."
            )
        stages = record["stages"]
        self._work = WorkDirectory.of_record(work_dir, stages)
        missing = self._work.missing()
        if missing:
            some = len(missing) < len(stages)
            found = f"it lacks {', '.join(missing)}" if some else "it has none of its stages"
            beside = sorted(work_dir.glob(f"*/{missing[0]}"))
            hint = f"They are in {beside[0].parent}" if beside else "Build the model again"
            raise ValueError(
                f"{work_dir} is not the work_dir of {folder}: {found}. {hint}, or name the "
                "work_dir of its recipe."
            )
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenize = ChunkTokenizer(self.tokenizer)
        self.words: list[str] = self._work.words["text"].to_pylist()

    @functools.cached_property
    def tables(self) -> dict[str, Floats]:
        """The table of each stage that makes one."""
        *before, last = self._table_stages
        return {**{stage: self._work.table(stage) for stage in before}, last: self.table}

    @functools.cached_property
    def table(self) -> Floats:
        """The last stage's table."""
        return self._work.table(self._table_stages[-1])

    @property
    def _table_stages(self) -> list[str]:
        return [stage for stage in _TABLES if stage in self._work.hashes]

    def rows_of_words(self, table: Floats) -> Floats:
        """The rows of the vocabulary's words, the most frequent first, [V, D]."""
        return table[len(SPECIAL_TOKENS) : len(SPECIAL_TOKENS) + len(self.words)]

    @property
    def selected(self) -> Selected:
        """The sentences that the teacher read."""
        return self._work.selected

    @property
    def is_held_out(self) -> NDArray[np.bool_]:
        """Which of them no stage learnt from."""
        return self._work.is_held_out

    @property
    def teacher_vectors(self) -> NDArray[np.float16]:
        """The teacher's vectors of the selected sentences."""
        return self._work.sentence_vectors


@dataclass(frozen=True)
class Inputs:
    """What the analyses read beside the model; one that lacks its input is left out.

    Attributes:
        teacher: The teacher, for its second-order collapse; as in a recipe.
        texts: A file of texts, one per line, for second-order collapse.
        pairs: A file of two paraphrases per line, with a tab between them, for alignment and
            uniformity.
        tagged: A file of `word/TAG` tokens, for parts of speech.
        tasks: MTEB tasks for the ablation.
        data: Local copies of their datasets.
    """

    teacher: str | None = None
    texts: Path | None = None
    pairs: Path | None = None
    tagged: Path | None = None
    tasks: Sequence[str] = ()
    data: Path | None = None


def analyse(model: BuiltModel, output: Path, inputs: Inputs) -> list[Path]:
    """Write tables (Markdown, CSV, JSON) and figures (SVG, PNG) about a model.

    Args:
        model: The model.
        output: Where to.
        inputs: What the analyses read.

    Returns:
        The files written.

    Raises:
        ValueError: A file or a task is not there, a teacher comes without texts, or the Hub gives
            no dataset of the tasks.
    """
    _check_inputs(inputs)

    def write(name: str, table: pl.DataFrame) -> list[Path]:
        """Write one table in its formats."""
        return write_table(table, output / name)

    norms = word_norms(
        model.words, {stage: model.rows_of_words(t) for stage, t in model.tables.items()}
    )
    lengths = held_out_agreement(model)
    files = [
        *write("norms", norms),
        *write("norms_and_frequency", frequency_correlation(norms)),
        *write("agreement_by_length", lengths),
        *draw_norms(norms, output / "norms"),
        *draw_agreement(lengths, output / "agreement_by_length"),
    ]
    stages = list(model.tables)
    for before, after in itertools.pairwise(stages):
        files += write(f"norms_{before}_to_{after}", most_changed(norms, before, after))
    if inputs.tagged:
        files += write("norms_parts_of_speech", parts_of_speech(norms, read_tags(inputs.tagged)))
    if inputs.texts:
        texts = sample_texts(inputs.texts, _SOCM_TEXTS)
        files += write("socm", collapse(model, texts, inputs.teacher))
    if inputs.pairs:
        files += write("alignment_uniformity", sphere(model, read_pairs(inputs.pairs)))
    if inputs.tasks:
        files += write("ablation", ablation(model, inputs.tasks, output, inputs.data))
    return files


def _check_inputs(inputs: Inputs) -> None:
    """Check, before anything is written, that all inputs can be had."""
    for path in (inputs.texts, inputs.pairs, inputs.tagged, inputs.data):
        if path and not path.exists():
            raise ValueError(f"There is no {path}.")
    if inputs.teacher and not inputs.texts:
        raise ValueError("The teacher's second-order collapse needs texts to measure it on.")
    if inputs.teacher:
        require_teacher(TeacherConfig(model=inputs.teacher))
    if inputs.tasks:
        tasks = find_tasks(tasks=inputs.tasks)
        if inputs.data is None:
            require_any_dataset(tasks)


def held_out_agreement(model: BuiltModel) -> pl.DataFrame:
    """Teacher agreement on held-out sentences, by their length."""
    rows = np.flatnonzero(model.is_held_out)
    texts = model.selected.texts.take(rows)
    student = sentence_means(model.table, model.tokenize(texts))
    return agreement_by_length(student, model.teacher_vectors[rows], model.selected.lengths[rows])


def sample_texts(file: Path, n: int, seed: int = 0) -> list[str]:
    """At most `n` of a file's different lines, drawn at random; empty ones are left out."""
    texts = file.read_text("utf-8").split("\n")
    lines = list(dict.fromkeys(line for line in texts if line.strip()))
    if len(lines) < 2:
        raise ValueError(
            f"Expected at least two different lines of text in {file}, but got {len(lines)}."
        )
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(lines), min(n, len(lines)), replace=False)
    return [lines[i] for i in sorted(chosen)]


def read_pairs(file: Path) -> list[tuple[str, str]]:
    """Two texts per line, with a tab between them."""
    pairs = []
    for number, line in enumerate(file.read_text("utf-8").rstrip("\n").split("\n"), 1):
        first, tab, second = line.partition("\t")
        if not tab or not first.strip() or not second.strip():
            raise ValueError(f"{file}, line {number}: expected two texts with a tab between them.")
        pairs.append((first, second))
    return pairs


def collapse(model: BuiltModel, texts: Sequence[str], teacher: str | None) -> pl.DataFrame:
    """Second-order collapse of the model's word vectors and of the teacher's tokens."""
    results = {model.name: mean_socm(word_vectors(model, texts), progress=True)}
    if teacher:
        loaded = Teacher.load(TeacherConfig(model=teacher))
        results[teacher] = mean_socm(token_vectors(loaded, texts), progress=True)
    return pl.DataFrame([_socm_row(name, result) for name, result in results.items()])


def _socm_row(name: str, result: SocmResult) -> dict[str, object]:
    return {
        "model": name,
        "SOCM": result.mean,
        "pairs": result.pairs,
        "texts": result.texts,
        "texts with tr(Sigma) > 2": result.texts_over_trace,
    }


def word_vectors(model: BuiltModel, texts: Sequence[str]) -> list[Floats]:
    """The vectors of each text's words, without zero rows; texts without words are left out."""
    ids: Ragged = model.tokenize(texts)
    words = ids.filter(has_vector(model.table)[ids.values])
    rows = [words.values[a:b] for a, b in zip(words.offsets, words.offsets[1:], strict=False)]
    return [model.table[row] for row in rows if len(row)]


def token_vectors(teacher: Teacher, texts: Sequence[str]) -> list[Floats]:
    """The last layer's vectors of each text's tokens, special ones included, as it pools them."""
    tokens = [teacher.tokenize([text]) for text in texts]
    lengths = np.array([batch.input_ids.shape[1] for batch in tokens])
    order = np.argsort(lengths, kind="stable")
    vectors: list[Floats] = []
    for rows in token_batches(lengths[order], teacher.batch_tokens):
        batch = teacher.tokenize([texts[i] for i in order[rows]])
        last, _ = teacher.forward(
            torch.from_numpy(batch.input_ids), torch.from_numpy(batch.attention_mask)
        )
        layer = last.float().cpu().numpy()
        present = batch.attention_mask.astype(bool)
        vectors += [row[mask] for row, mask in zip(layer, present, strict=True)]
    return vectors


def sphere(model: BuiltModel, pairs: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Alignment of paraphrases and uniformity of random pairs, after each stage."""
    first, second = zip(*pairs, strict=True)
    ids = model.tokenize(first), model.tokenize(second)
    # A text may begin several pairs: the same one twice would be no random pair.
    distinct = np.unique(first, return_index=True)[1]
    i, j = distinct[random_pairs(len(distinct))].T
    rows = []
    for stage, table in model.tables.items():
        x, y = (sentence_means(table, side) for side in ids)
        rows.append(
            {"stage": stage, "alignment": alignment(x, y), "uniformity": uniformity(x[i], x[j])}
        )
    return pl.DataFrame(rows)


def ablation(
    model: BuiltModel, tasks: Sequence[str], output: Path, data: Path | None
) -> pl.DataFrame:
    """Scores after each stage, and with the PCA changed (paper section 4)."""
    results = []
    for name, table in ablation_tables(model).items():
        encoder = EvaluatedModel(
            f"{model.name}/{name.replace(' ', '-').replace(',', '')}",
            hashlib.sha256(table.tobytes()).hexdigest()[:40],
            table_encoder(model.tokenize, table),
            table.shape[1],
        )
        outcome = run_tasks(encoder, find_tasks(tasks=tasks), output, data)
        if outcome.failures:
            raise ValueError(f"The ablation's tasks failed: {outcome.failures}")
        results.append(ModelScores(name, "measured", outcome.scores))
    rows = [
        {"table": r.name, **r.scores, "mean": np.mean(list(r.scores.values()))} for r in results
    ]
    return pl.DataFrame(rows)


def ablation_tables(model: BuiltModel) -> dict[str, Floats]:
    """The word table after each stage, and after two other ways to reduce it."""
    extracted, reduced = model.tables["extraction"], model.tables["pca"]
    dimension = reduced.shape[1]
    train = np.flatnonzero(~model.is_held_out)[:: max(1, len(model.is_held_out) // 100_000)]
    sentences = sentence_means(extracted, model.tokenize(model.selected.texts.take(train)))

    tables = {
        "extraction": extracted,
        "sentence PCA": reduced,
        "sentence PCA, nothing dropped": SentencePCA(dimension, n_remove=0)
        .fit(sentences)
        .transform_table(extracted),
        "vocabulary PCA": SentencePCA(dimension)
        .fit(model.rows_of_words(extracted))
        .transform_table(extracted),
    }
    if "distillation" in model.tables:
        tables["distillation"] = model.tables["distillation"]
    return tables
