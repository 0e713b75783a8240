"""Run a whole build: from a recipe to a folder that SentenceTransformer() loads."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib import metadata
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.arguments import check_type, require
from st_static.distill.agreement import JointTarget, TableAgreement, Target, fit_target
from st_static.distill.batches import TrainingSentences, training_sentences
from st_static.distill.config import BuildConfig, DistillationConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.piece_vocabulary import learn_pieces, write_piece_vocabulary
from st_static.distill.corpus.selection import write_selection
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.splitting import warn_of_other_language, warn_without_rules
from st_static.distill.corpus.vocabulary import teacher_pieces, write_vocabulary
from st_static.distill.distillation import (
    TrainingData,
    check_sizes,
    distill,
    sentence_ids,
    training_device,
)
from st_static.distill.engines import Engine, build_engine
from st_static.distill.extraction import extracted_table
from st_static.distill.fine_tuning import PairIds, check_batches, fine_tune
from st_static.distill.pairs import given_pairs
from st_static.distill.sentence_pca import reduce_table, resolve_components
from st_static.distill.sources import check_places
from st_static.distill.stages import (
    BuildResult,
    BuiltStage,
    Figures,
    JoinedVectors,
    TeacherVectors,
    WorkDirectory,
    digest,
    extraction_of,
    kind_of,
    locked,
    read_sentence_vectors,
    require_disk,
    run_stage,
    shares_of,
    stage_folder,
    stage_record,
    write_student,
)
from st_static.distill.teacher import Teacher, fingerprint_of
from st_static.languages import are_in_pieces
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.modules import PCA_FILE
from st_static.model.tokenizer import Normalization, are_continuations
from st_static.tokens.ragged import Ragged

# Part of every stage's key: raised when the computation or layout of stages changes, so that
# earlier ones are not reused.
_FORMAT = 4
# The options that a training on pairs depends on, beside the pairs.
_PAIRS_OPTIONS = ("max_steps", "margin")
_RECORDED_PACKAGES = ("st-static", "sentence-transformers", "transformers", "tokenizers", "torch")


def build(config: BuildConfig) -> BuildResult:
    """Build a static model as a recipe says.

    Each stage writes its files into `config.work_dir`, and is not run again until something that
    determines it changes. An interrupted build goes on where it stopped, and gives the same
    bytes.

    Args:
        config: The recipe.

    Returns:
        Where the model is, and each stage's figures.

    Raises:
        ValueError: Something in the recipe cannot work: a missing file or package, an unfit
            teacher, dimensions that do not fit, an output folder that holds something else, too
            little disk, or a corpus that is too small.
        TypeError: The recipe is not a `BuildConfig`.

    Example:
        ::

            corpus = CorpusConfig(files="data/*.txt.xz")
            result = build(BuildConfig("models/ours", "work/ours", language="en", corpus=corpus))
            encoder = FastEncoder.from_pretrained(result.output)

        `examples/build_on_your_documents.py` is a whole program.
    """
    start = time.perf_counter()
    with _running(config) as run:
        run.run()
    return BuildResult(run.output, run.work, run.stages, time.perf_counter() - start)


def select_sentences(config: BuildConfig) -> BuildResult:
    """Load the teacher, and run the stages before its pass; `build` goes on from there."""
    with _running(config) as run:
        run.run_corpus_stages()
    return BuildResult(run.output, run.work, run.stages)


@contextlib.contextmanager
def _running(config: BuildConfig) -> Iterator[_Build]:
    """Start an engine and lock the work directory, until the block ends."""
    check_type(
        config,
        BuildConfig,
        "a BuildConfig",
        "Make one: BuildConfig(corpus=CorpusConfig(files=…)); a recipe's file is built with "
        "st-static build.",
    )
    check_places(config)
    with build_engine(config) as engine:
        run = _Build(config, engine)
        with locked(run.work.path):
            fingerprint = functools.partial(fingerprint_of, list(run.teachers.values()))
            engine.check_machines(run.work.path, run.corpus.files, fingerprint)
            yield run


class _Build:
    """One run of a recipe; each stage's method fills a folder and returns its figures."""

    def __init__(self, config: BuildConfig, engine: Engine) -> None:
        self.recipe, self.engine = config.recipe(), engine
        if engine.teacher_on:  # other processes, in other folders, read its files
            config = config.with_absolute_paths()
        self.config = config
        self.languages = config.languages
        self.normalization = Normalization.of_languages(self.languages)
        weights = shares_of(self.recipe.get("teachers") or [])
        self.work = WorkDirectory(Path(config.work_dir), weights=weights)
        self.output = Path(config.output)
        self.stages: list[BuiltStage] = []
        self.corpus = Corpus(config.corpus)
        # Ask the Hub now, not after hours; not if the sentences are there already.
        if self.corpus.is_dataset:
            folder = stage_folder(self.work.path, "sentences", self._key("sentences"))
            if not folder.is_dir():
                _ = self.corpus.dataset_copy
        self.pairs = given_pairs(config.pairs, config.distillation.batch_size)
        self.teachers = {  # by the stages of their passes
            extraction_of(number): Teacher.load(teacher, self.languages, engine.teacher_on)
            for number, teacher in enumerate(config.all_teachers)
        }
        self._by_each: dict[str, TableAgreement] = {}  # measures, by the teacher's stage
        self.teacher = self.teachers["extraction"]  # the first, whose tokens the selection counts
        if config.is_for_queries:
            asks = self.teacher.model.prompts.get("query") or ""
            require(
                config.all_teachers[0].prompt is not None or asks == self.teacher.prompt,
                f"The teacher has a prompt for queries, {asks!r}. Give --teacher.prompt {asks!r}, "
                "or '' to learn queries without it.",
            )
        else:
            pca, dims = config.pca, config.distillation.matryoshka_dims
            _, size = resolve_components(pca.n_components, "auto", self._dimension)
            require(
                not dims or max(dims) <= size,
                f"distillation.matryoshka_dims ({dims}) must be at most {size}, the dimension that "
                "the sentence PCA leaves.",
            )

    @property
    def _dimension(self) -> int:
        """The dimension of the teachers' vectors side by side."""
        return sum(teacher.dimension for teacher in self.teachers.values())

    def run_corpus_stages(self) -> None:
        """Run the stages without the teacher's vectors; check that there is text for the others."""
        self._stage("sentences", self._sentences)
        self._stage("vocabulary", self._vocabulary)
        self._stage("selection", self._selection)
        self._check_later_stages()  # not only after the teacher's pass

    def run(self) -> None:
        """Run all stages and export the model."""
        self.run_corpus_stages()
        for name in self.teachers:
            self._stage(name, functools.partial(self._extraction, name))
        if not self.config.is_for_queries:
            self._stage("pca", self._pca)
        if self.config.distillation.max_steps:
            self._stage("distillation", self._distillation)
        if self.pairs:
            self._stage("pairs", self._pairs)
        self._export()

    def _stage(self, name: str, compute: Callable[[Path], Figures]) -> None:
        """Run a stage unless it is complete."""
        key = self._key(name)
        folder = run_stage(self.work.path, kind_of(name), key, compute)
        self.work.hashes[name] = digest(key)
        record = stage_record(folder)
        self.stages.append(BuiltStage(name, folder, record["figures"], record["seconds"]))

    def _key(self, stage: str) -> dict[str, Any]:
        """Gather all that determines a stage: its own options, and the stages before it."""
        config, seed, hashes = self.config, {"seed": self.config.seed}, self.work.hashes
        previous = next(reversed(hashes.values()), None)
        key: dict[str, Any]
        match kind_of(stage):
            case "sentences":
                key = {"corpus": self.corpus.identity(self.engine), **asdict(config.sentences)}
                key["languages"] = self.languages or None
            case "vocabulary":
                key = {"teacher_tokenizer": digest(self.teacher.tokenizer.to_str())}
                key |= asdict(config.vocabulary) | {"normalization": self.normalization._asdict()}
                key["are_in_pieces"] = are_in_pieces(self.languages)
            case "selection":
                key = asdict(config.selection)
                if config.selection.passages:  # as long as the teacher reads behind its prompt
                    shortest, _ = self._shortest
                    key |= {"max_tokens": shortest.max_tokens, "prompt": shortest.prompt}
            case "extraction":
                teacher = self.teachers[stage]
                key = {
                    "weights": teacher.fingerprint(),
                    "dtype": str(teacher.dtype),  # `auto` would hide another machine's format
                    "prompt": teacher.prompt,
                    "batch_tokens": teacher.batch_tokens,
                }
                previous = hashes["selection"]  # no other teacher's pass
            case "pca":
                key = asdict(config.pca) | seed
                if len(self.teachers) > 1:
                    passes = [hashes[extraction] for extraction in self.work.extractions]
                    key["teachers"] = list(zip(passes, self.work.weights, strict=True))
            case "distillation":
                key = asdict(config.distillation) | seed
            case "pairs":
                key = {name: getattr(config.pairs, name) for name in _PAIRS_OPTIONS} | seed
                key["distillation"] = asdict(config.distillation)
                # By their content, wherever they come from.
                key["pairs"] = digest(self.pairs.to_pydict()) if self.pairs else None
        return {**key, "format": _FORMAT, "previous": previous}

    def _sentences(self, folder: Path) -> Figures:
        config, languages = self.config, self.languages
        warn_without_rules(languages)
        figures = write_sentences(
            self.corpus, folder, config.sentences, self.engine, languages=languages
        )
        warn_of_other_language(Shards(sentence_shards(folder), self.engine), config.language)
        return figures | {"files_not_utf8": len(self.corpus.undecodable)}

    def _vocabulary(self, folder: Path) -> Figures:
        shards = Shards(sentence_shards(self.work.folder("sentences")), self.engine)
        config, normalization = self.config.vocabulary, self.normalization
        options: dict[str, Any] = {"config": config, "normalization": normalization}
        teacher = self.teacher.tokenizer
        if are_in_pieces(self.languages):
            learnt = learn_pieces(folder, shards, config, normalization)
            return write_piece_vocabulary(folder, shards, teacher, learnt, **options)
        pieces = teacher_pieces(teacher, normalization)
        return write_vocabulary(folder, shards, teacher, pieces, **options)

    def _selection(self, folder: Path) -> Figures:
        return write_selection(
            folder,
            self.work,
            self.config.selection,
            self.engine,
            languages=self.languages,
            max_tokens=self._shortest[1],
        )

    @property
    def _shortest(self) -> tuple[Teacher, int | None]:
        """The teacher that cuts texts first, and the most tokens that it reads of a text."""
        limits = [
            (teacher, teacher.max_tokens - sum(map(len, teacher.surroundings())))
            for teacher in self.teachers.values()
            if teacher.max_tokens
        ]
        return min(limits, key=itemgetter(1), default=(self.teacher, None))

    def _check_later_stages(self) -> None:
        """Check that later stages have enough texts."""
        config, n_chosen = self.config, len(self.work.for_words)
        batch_size, pca = config.distillation.batch_size, config.pca
        if not config.is_for_queries:
            resolve_components(pca.n_components, "auto", self._dimension, n_chosen)
        if config.distillation.max_steps:
            check_sizes(*self._training_sentences, config.distillation)
        if self.pairs:
            check_batches(self._pair_ids, len(self._training_sentences.train), batch_size)

    def _extraction(self, stage: str, folder: Path) -> Figures:
        """Average the teacher's vectors of each word (paper section 2.1)."""
        teacher, work = self.teachers[stage], self.work
        with extracted_table(folder, teacher, work, self.engine) as (table, figures):
            write_student(folder, table)
            vectors = read_sentence_vectors(folder)
            target = Target.fit(vectors, work.for_words)
            measure = self._by_each[stage] = self._measure_of(vectors, target)
            figures["teacher_agreement"] = round(measure(table), 2)
            return figures | {"teacher_centered": target.is_centered}

    def _pca(self, folder: Path) -> Figures:
        """Reduce the table, or those of several teachers, by the sentence PCA (section 2.2)."""
        tables, config = list(map(self.work.table, self.work.extractions)), self.config
        continues, of_words = are_continuations(self.work.tokenizer), self.work.for_words
        reduced, figures = reduce_table(
            folder,
            tables,
            self.work.weights,
            continues=continues,
            ids=self._ids,
            sentences=of_words,
            config=config.pca,
            seed=config.seed,
        )
        return self._write(folder, reduced) | figures

    def _distillation(self, folder: Path) -> Figures:
        """Train the table, and a head if wanted, on the teacher's cosines (section 2.3), or on its
        vectors."""
        table, tokenizer, seed = self._table_to_train(folder), self.work.tokenizer, self.config.seed
        data, (train, development) = self._data, self._training_sentences
        checkpoints, measure = folder / "checkpoints", self._measures[0]
        distilled = distill(
            table,
            tokenizer,
            data,
            held_out=development,
            config=self._training,
            folder=checkpoints,
            seed=seed,
            train=train,
            measure=measure,
        )
        figures = {"centered": data.target.is_centered, "train_sentences": len(train)}
        return self._write(folder, distilled.table, distilled.head) | distilled.figures | figures

    def _pairs(self, folder: Path) -> Figures:
        """Train the table on pairs, in turns with more of the training before."""
        work = self.work
        tuned = fine_tune(
            work.tokenizer,
            self._table_to_train(folder),
            work.head(work.last),
            self._pair_ids,
            sentences=self._data,
            train=self._training_sentences.train,
            training=self._training,
            config=self.config.pairs,
            folder=folder / "checkpoints",
            seed=self.config.seed,
        )
        return self._write(folder, tuned.table, tuned.head) | tuned.figures

    def _table_to_train(self, folder: Path) -> NDArray[np.float32]:
        """Read the table of the stage before; check that there is disk space for its training."""
        table = self.work.table(self.work.last)
        # Three checkpoints of the table and its two moments, and the stage's own table.
        require_disk(folder, 10 * table.nbytes, "Training checkpoints")
        return table

    def _write(self, folder: Path, table: NDArray[np.float32], head: Head | None = None) -> Figures:
        """Write a stage's table, and measure it against the teachers' vectors."""
        write_student(folder, table, head)
        agreement, *of_each = (round(measure(table, head), 2) for measure in self._measures)
        figures = {"teacher_agreement": agreement, "teacher_centered": self._target.is_centered}
        return figures | ({"agreement_with_each": of_each} if of_each else {})

    # What several stages need; read or computed once.

    @functools.cached_property
    def _target(self) -> Target | JointTarget:
        """The target by which agreement is measured, whatever the recipe's `center`."""
        return fit_target(self.work.sentence_vectors, self.work.for_words)

    @functools.cached_property
    def _measures(self) -> list[TableAgreement]:
        """The measure of tables on held-out sentences; with several teachers, also by each."""
        vectors, target = self.work.sentence_vectors, self._target
        if not (isinstance(vectors, JoinedVectors) and isinstance(target, JointTarget)):
            return [self._by_each.get("extraction") or self._measure_of(vectors, target)]
        of_each = zip(vectors.parts, target.parts, strict=True)
        each = zip(self.work.extractions, of_each, strict=True)
        return [
            self._measure_of(vectors, target),
            *(self._by_each.get(name) or self._measure_of(*of_one) for name, of_one in each),
        ]

    def _measure_of(self, vectors: TeacherVectors, target: Target | JointTarget) -> TableAgreement:
        rows = np.flatnonzero(self.work.is_held_out)
        return TableAgreement(self._ids.take(rows), target(vectors[rows]))

    @functools.cached_property
    def _data(self) -> TrainingData:
        vectors, config = self.work.sentence_vectors, self.config.distillation
        if self.config.is_for_queries:
            return TrainingData(self._ids, vectors, padding=0)
        target = self._target
        if config.center != "auto":
            target = fit_target(vectors, self.work.for_words, config.center)
        return TrainingData(self._ids, vectors, target)

    @functools.cached_property
    def _training(self) -> DistillationConfig:
        """The options of the training, with the device that it takes here."""
        config, teacher = self.config.distillation, self.teacher.model.device.type
        return replace(config, device=training_device(config, teacher))

    @functools.cached_property
    def _training_sentences(self) -> TrainingSentences:
        words, config = self.work.selected.words, self.config
        return training_sentences(words, self.work.is_held_out, config.distillation, config.seed)

    @functools.cached_property
    def _ids(self) -> Ragged:
        return self._ids_of(self.work.selected.texts)

    def _ids_of(self, texts: pa.Array) -> Ragged:
        """Split texts into token ids, [S rows]."""
        return sentence_ids(self.work.tokenizer, texts)

    @functools.cached_property
    def _pair_ids(self) -> PairIds:
        return PairIds.of(self.pairs, self._ids_of)

    def _export(self) -> None:
        work, config = self.work, self.config.export
        hashes = work.hashes.items()
        record = {
            "recipe": self.recipe,
            "stages": {name: {"hash": key, **work.figures(name)} for name, key in hashes},
            "versions": {name: metadata.version(name) for name in _RECORDED_PACKAGES}
            | {"python": platform.python_version()},
        }
        table, tokenizer, head = work.table(work.last), work.tokenizer, work.head(work.last)
        export_model(
            self.output,
            table,
            tokenizer,
            record,
            normalize=config.normalize,
            pca=None if self.config.is_for_queries else work.folder("pca") / PCA_FILE,
            head=head,
        )
