"""The whole build: a recipe in, a folder that SentenceTransformer() loads out."""

from __future__ import annotations

import contextlib
import functools
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from st_static.arguments import check_type
from st_static.distill.agreement import TableAgreement, Target
from st_static.distill.batches import TrainingSentences, training_sentences
from st_static.distill.config import BuildConfig, check_batch_size
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.piece_vocabulary import learn_pieces, write_piece_vocabulary
from st_static.distill.corpus.selection import write_selection
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.splitting import warn_of_other_language, warn_without_rules
from st_static.distill.corpus.vocabulary import write_vocabulary
from st_static.distill.distillation import (
    TrainingData,
    check_sizes,
    distill,
    sentence_ids,
    training_device,
)
from st_static.distill.engines import BuildEngine, build_engine, with_absolute_paths
from st_static.distill.extraction import extracted_table
from st_static.distill.fine_tuning import PairIds, check_batches, fine_tune, mined_pairs
from st_static.distill.pairs import given_pairs
from st_static.distill.pieces import teacher_pieces
from st_static.distill.sentence_pca import check_sentences, reduce_table, resolve_components
from st_static.distill.sources import check_places
from st_static.distill.stages import (
    BuildResult,
    BuiltStage,
    Figures,
    WorkDirectory,
    digest,
    locked,
    read_sentence_vectors,
    require_disk,
    run_stage,
    stage_folder,
    stage_record,
    write_student,
)
from st_static.distill.teacher import Teacher
from st_static.languages import is_english, languages_of
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.tokenizer import are_continuations
from st_static.tokens.ragged import Ragged

# Part of every stage's key: raised when stages are computed or laid out in another way, so that
# those of before are not used again.
_FORMAT = 2
_RECORDED_PACKAGES = ("st-static", "sentence-transformers", "transformers", "tokenizers", "torch")


def build(config: BuildConfig) -> BuildResult:
    """Build a static model as a recipe says.

    Each stage leaves its files in `config.work_dir` and is not run again as long as nothing that
    determines it has changed. A build that was interrupted goes on where it stopped, and gives
    the same bytes.

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
    """Run the stages before the teacher's: sentences, vocabulary and selection.

    Their figures then tell what they cost, and how many sentences the teacher will read; `build`
    goes on from there.

    Args:
        config: The recipe.

    Raises:
        ValueError: As `build`.
    """
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
            engine.check(run.work.path, run.corpus.files, run.teacher.fingerprint)
            yield run


class _Build:
    """One run of a recipe.

    A method of a stage writes its files into the folder that it is given, and returns its figures;
    the next ones read them through the work directory.
    """

    def __init__(self, config: BuildConfig, engine: BuildEngine) -> None:
        self.recipe = config.recipe()
        if engine.teacher_on:  # other processes read its files
            config = with_absolute_paths(config)
        self.config = config
        self.languages = languages_of(config.language)
        self.vocabulary = config.vocabulary.with_defaults_of(self.languages)
        self.work = WorkDirectory(Path(config.work_dir))
        self.output = Path(config.output)
        self.engine = engine.engine
        self.stages: list[BuiltStage] = []
        self.corpus = Corpus(config.corpus)
        # Texts that no stage will read again need not be available.
        if self.corpus.is_dataset and not self._has_sentences():
            self.corpus.require_dataset()
        self.pairs = given_pairs(config.pairs, config.distillation.batch_size)
        self.teacher = Teacher.load(config.teacher, self.languages, engine.teacher_on)
        n_components, n_remove = config.pca.n_components, config.pca.n_remove
        _, dimension = resolve_components(n_components, n_remove, self.teacher.dimension)
        dims = config.distillation.matryoshka_dims
        if dims and max(dims) > dimension:
            raise ValueError(
                f"distillation.matryoshka_dims ({dims}) must be at most {dimension}, the "
                "dimension that the sentence PCA leaves."
            )

    def run_corpus_stages(self) -> None:
        """Run the stages that need no teacher's vectors: sentences, vocabulary, selection."""
        config, teacher = self.config, self.teacher
        self._stage("sentences", self._sentences_key(), self._sentences)
        self._stage("vocabulary", self._vocabulary_key(), self._vocabulary)
        key = asdict(config.selection)
        if config.selection.passages:  # which are as long as the teacher reads behind its prompt
            key |= {"max_tokens": teacher.max_tokens, "prompt": teacher.prompt}
        self._stage("selection", key, self._selection)
        self._check_later_stages()

    def run(self) -> None:
        """Run all stages and export the model."""
        config, teacher, seed = self.config, self.teacher, {"seed": self.config.seed}
        self.run_corpus_stages()
        key = {
            "weights": teacher.fingerprint(),
            "dtype": str(teacher.dtype),  # `auto` would hide another machine's format
            "prompt": teacher.prompt,
            "batch_tokens": teacher.batch_tokens,
        }
        self._stage("extraction", key, self._extraction)
        self._stage("pca", asdict(config.pca) | seed, self._pca)
        if config.distillation.max_steps:
            self._stage("distillation", asdict(config.distillation) | seed, self._distillation)
        if config.pairs.is_wanted:
            # Given pairs count by their content, wherever they come from.
            names = {"files", "dataset", "columns"}
            names |= {"mined"} if self.pairs else set()
            key = {name: v for name, v in asdict(config.pairs).items() if name not in names}
            if self.pairs:
                key["pairs"] = digest(self.pairs.to_pydict())
            key["distillation"] = asdict(config.distillation)
            self._stage("pairs", key | seed, self._pairs)
        self._export()

    def _stage(self, name: str, key: dict[str, Any], compute: Callable[[Path], Figures]) -> None:
        """Run a stage unless it is complete; its key is what determines it beside earlier ones."""
        key = self._whole_key(key)
        folder = run_stage(self.work.path, name, key, compute)
        self.work.hashes[name] = digest(key)
        record = stage_record(folder)
        self.stages.append(BuiltStage(name, folder, record["figures"], record["seconds"]))

    def _whole_key(self, key: dict[str, Any]) -> dict[str, Any]:
        return {
            **key,
            "format": _FORMAT,
            "previous": next(reversed(self.work.hashes.values()), None),
        }

    def _has_sentences(self) -> bool:
        key = self._whole_key(self._sentences_key())
        return stage_folder(self.work.path, "sentences", key).is_dir()

    def _sentences_key(self) -> dict[str, Any]:
        return asdict(self.config.sentences) | {
            "corpus": self.corpus.identity(self.engine),
            "languages": None if is_english(self.languages) else self.languages,
        }

    def _sentences(self, folder: Path) -> Figures:
        config, languages = self.config, self.languages
        warn_without_rules(languages)
        figures = write_sentences(self.corpus, folder, config.sentences, self.engine, languages)
        warn_of_other_language(sentence_shards(folder), config.language, self.engine)
        return figures | {"files_not_utf8": len(self.corpus.undecodable)}

    def _vocabulary_key(self) -> dict[str, Any]:
        tokenizer = digest(self.teacher.tokenizer.to_str())
        return asdict(self.vocabulary) | {"teacher_tokenizer": tokenizer}

    def _vocabulary(self, folder: Path) -> Figures:
        shards = sentence_shards(self.work.folder("sentences"))
        config, engine = self.vocabulary, self.engine
        teacher = self.teacher.tokenizer
        if config.units == "pieces":
            learnt = learn_pieces(folder, shards, config, engine)
            return write_piece_vocabulary(folder, shards, teacher, learnt, config, engine)
        pieces = teacher_pieces(teacher, config.normalization)
        return write_vocabulary(folder, shards, teacher, pieces, config, engine)

    def _selection(self, folder: Path) -> Figures:
        config, limit = self.config.selection, self.teacher.max_tokens
        longest = limit and limit - sum(map(len, self.teacher.surroundings()))
        return write_selection(folder, self.work, config, self.engine, self.languages, longest)

    def _check_later_stages(self) -> None:
        """Check that later stages have enough texts; not only after the teacher's pass."""
        config, chosen = self.config, self.work.for_words
        check_sentences(config.pca, self.teacher.dimension, len(chosen))
        if config.distillation.max_steps:
            check_sizes(*self._training_sentences, config.distillation)
        if self.pairs:
            n_sentences = len(self._training_sentences.train)
            batch_size = config.distillation.batch_size
            check_batches(PairIds.of(self.pairs, self._ids_of), n_sentences, batch_size)
        elif config.pairs.mined:  # at most one pair of a sentence
            n_sentences = min(len(self._training_sentences.train), len(chosen))
            check_batch_size(config.distillation.batch_size, n_sentences, "training sentences")

    def _extraction(self, folder: Path) -> Figures:
        """Each word gets the mean of the teacher's vectors of it (paper section 2.1)."""
        with extracted_table(folder, self.teacher, self.work, self.engine) as (table, figures):
            table[self._has_no_vector] = 0
            vectors = read_sentence_vectors(folder)
            return self._write(folder, table, vectors=vectors) | figures

    def _pca(self, folder: Path) -> Figures:
        """The sentence PCA reduces the table (section 2.2)."""
        table, config = self.work.table("extraction"), self.config
        reduced, figures = reduce_table(
            folder, table, self._ids, self.work.for_words, config.pca, config.seed
        )
        return self._write(folder, reduced) | figures

    def _distillation(self, folder: Path) -> Figures:
        """The table, with a head if one is wanted, learns the teacher's cosines (section 2.3)."""
        table, config = self.work.table("pca"), self.config.distillation
        # A checkpoint holds the table and two moments; two are kept while one is written.
        require_disk(folder, 10 * table.nbytes, "Training checkpoints")
        sentences, data = self._training_sentences, self._training_data
        measure, _ = self._agreement(data.vectors)
        distilled = distill(
            table,
            self.work.tokenizer,
            data,
            sentences.development,
            replace(config, device=training_device(config, self.teacher.model.device.type)),
            folder / "checkpoints",
            self.config.seed,
            sentences.train,
            measure,
        )
        figures = {"centered": data.target.is_centered, "train_sentences": len(sentences.train)}
        return self._write(folder, distilled.table, distilled.head) | distilled.figures | figures

    def _pairs(self, folder: Path) -> Figures:
        """The table learns from pairs, in turns with more of the training before."""
        work, config, seed = self.work, self.config, self.config.seed
        table, data = work.table(work.last), self._training_data
        require_disk(folder, 10 * table.nbytes, "Training checkpoints")
        pairs = self.pairs or mined_pairs(folder, work, data.target, config.pairs, seed)
        device = training_device(config.distillation, self.teacher.model.device.type)
        tuned = fine_tune(
            work.tokenizer,
            table,
            work.head(work.last),
            PairIds.of(pairs, self._ids_of),
            data,
            self._training_sentences.train,
            config.pairs,
            replace(config.distillation, device=device),
            folder / "checkpoints",
            seed,
        )
        figures = {"mined": self.pairs is None}
        return self._write(folder, tuned.table, tuned.head) | tuned.figures | figures

    def _write(
        self,
        folder: Path,
        table: NDArray[np.float32],
        head: Head | None = None,
        vectors: NDArray[np.float16] | None = None,
    ) -> Figures:
        """Leave a stage's table, and measure it against the teacher's vectors [S, d]."""
        write_student(folder, table, head)
        vectors = self.work.sentence_vectors if vectors is None else vectors
        measure, is_centered = self._agreement(vectors)
        return {
            "teacher_agreement": round(measure(table, head), 2),
            "teacher_centered": is_centered,
        }

    def _agreement(self, vectors: NDArray[np.float16]) -> tuple[TableAgreement, bool]:
        """Give the measure of tables on held-out sentences; true if the teacher is centred."""
        held_out, target = self.work.is_held_out, Target.fit(vectors, self.work.for_words)
        ids = self._ids.take(np.flatnonzero(held_out))
        return TableAgreement(ids, target(vectors[held_out])), target.is_centered

    # What several stages need; read or computed once.

    @functools.cached_property
    def _training_sentences(self) -> TrainingSentences:
        words, config = self.work.selected.words, self.config
        return training_sentences(words, self.work.is_held_out, config.distillation, config.seed)

    @functools.cached_property
    def _has_no_vector(self) -> NDArray[np.bool_]:
        """Tokens that never get a vector, [V]: of an unknown word, all behind its prefix."""
        continues = are_continuations(self.work.tokenizer)
        return continues if self.vocabulary.unknown == "prefix" else np.zeros_like(continues)

    @functools.cached_property
    def _ids(self) -> Ragged:
        return self._ids_of(self.work.selected.texts)

    def _ids_of(self, texts: pa.Array) -> Ragged:
        """The tokens of texts that have a vector, [S rows]."""
        ids = sentence_ids(self.work.tokenizer, texts)
        return ids.filter(~self._has_no_vector[ids.values])

    @functools.cached_property
    def _training_data(self) -> TrainingData:
        vectors = self.work.sentence_vectors
        target = Target.fit(vectors, self.work.for_words, self.config.distillation.center)
        return TrainingData(self._ids, vectors, target)

    def _export(self) -> None:
        last, config = self.work.last, self.config.export
        record = {
            "recipe": self.recipe,
            "stages": {
                name: {"hash": key_hash, **self.work.figures(name)}
                for name, key_hash in self.work.hashes.items()
            },
            "versions": {name: metadata.version(name) for name in _RECORDED_PACKAGES}
            | {"python": platform.python_version()},
        }
        export_model(
            self.output,
            self.work.table(last),
            self.work.tokenizer,
            record,
            config.dtype,
            config.normalize,
            self.work.pca_file,
            head=self.work.head(last),
            onnx=config.onnx,
        )
