"""The whole build: a recipe in, a folder that SentenceTransformer() loads out."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path

from st_static.arguments import check_type
from st_static.distill.build_engine import BuildEngine, build_engine, with_absolute_paths
from st_static.distill.build_result import BuildResult, BuiltStage
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.piece_vocabulary import learn_pieces, write_piece_vocabulary
from st_static.distill.corpus.selection import write_selection
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.splitting import warn_of_other_language, warn_without_rules
from st_static.distill.corpus.vocabulary import write_vocabulary
from st_static.distill.pairs.reading import given_pairs
from st_static.distill.pieces import teacher_pieces
from st_static.distill.sentence_pca import check_sentences, resolve_components
from st_static.distill.sources import check_devices, check_places
from st_static.distill.stage_keys import (
    Key,
    distillation_key,
    fine_tuning_key,
    format_of,
    selection_key,
    sentences_key,
    teacher_key,
    vocabulary_key,
)
from st_static.distill.stages import Figures, digest, locked, run_stage, stage_folder
from st_static.distill.teacher import Teacher
from st_static.distill.word_tables import WordTables
from st_static.distill.work_directory import WorkDirectory
from st_static.languages import languages_of
from st_static.model.export import export_model

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

    What they cost, and how many sentences the teacher will read, is then in their figures; `build`
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
    """A build that can run: its work directory is locked, and its engine there."""
    check_type(
        config,
        BuildConfig,
        "a BuildConfig",
        "Make one: BuildConfig(corpus=CorpusConfig(files=…)); a recipe's file is built with "
        "st-static build.",
    )
    check_places(config)
    check_devices(config)
    with build_engine(config) as engine:
        run = _Build(config, engine)
        with locked(run.work.path):
            engine.check(run.work.path, run.corpus.files, run.teacher)
            yield run


class _Build:
    """One run of a recipe: knows each stage's folder and hands it to the next."""

    def __init__(self, config: BuildConfig, engine: BuildEngine) -> None:
        self.recipe = config.recipe()
        if config.engine == "ray":
            config = with_absolute_paths(config)
        self.config = config
        self.work = WorkDirectory(Path(config.work_dir))
        self.output = Path(config.output)
        self.vocabulary = config.vocabulary.with_defaults_of(languages_of(config.language))
        self.engine = engine.engine
        self.stages: list[BuiltStage] = []
        self.corpus = Corpus(config.corpus)
        if self.corpus.is_dataset and not self._has_sentences():
            self.corpus.require()
        self.pairs = given_pairs(config.pairs)
        self.teacher = Teacher.load(
            config.teacher, languages_of(config.language), engine.teacher_on
        )
        _, dimension = resolve_components(
            config.pca.n_components, config.pca.n_remove, self.teacher.dimension
        )
        check_sentences(config.pca, self.teacher.dimension, config.pca.n_sentences)
        config = replace(config, vocabulary=self.vocabulary)
        self.tables = WordTables(config, self.teacher, self.work, self.pairs, self.engine)
        dims = config.distillation.matryoshka_dims
        if dims and max(dims) > dimension:
            raise ValueError(
                f"distillation.matryoshka_dims ({dims}) must be at most {dimension}, the "
                "dimension that the sentence PCA leaves."
            )

    def run_corpus_stages(self) -> None:
        """Run the stages that need no teacher's vectors: sentences, vocabulary, selection."""
        config = self.config
        self._stage("sentences", self._sentences_key(), self._sentences)
        self._stage("vocabulary", self._vocabulary_key(), self._vocabulary)
        self._stage("selection", selection_key(config.selection, self.teacher), self._selection)
        self.tables.check()

    def run(self) -> None:
        """Run all stages and export the model."""
        config = self.config
        self.run_corpus_stages()
        self._stage("extraction", teacher_key(self.teacher), self.tables.extraction)
        seed = {"seed": config.seed}
        self._stage("pca", asdict(config.pca) | seed, self.tables.pca)
        if config.distillation.max_steps:
            key = distillation_key(config.distillation) | seed
            self._stage("distillation", key, self.tables.distillation)
        if config.pairs.is_wanted:
            key = fine_tuning_key(config.pairs, self.pairs, config.distillation) | seed
            self._stage("pairs", key, self.tables.pairs_training)
        self._export()

    def _stage(self, name: str, key: Key, compute: Callable[[Path], Figures]) -> None:
        key = self._whole_key(key)
        folder = run_stage(self.work.path, name, key, compute)
        self.work.hashes[name] = digest(key)
        self.stages.append(
            BuiltStage(name, folder, self.work.figures(name), self.work.seconds(name))
        )

    def _whole_key(self, key: Key) -> Key:
        previous = next(reversed(self.work.hashes.values()), None)
        return {**key, "format": format_of(self.vocabulary), "previous": previous}

    def _sentences_key(self) -> Key:
        config = self.config
        return sentences_key(config.sentences, self.corpus, config.language, self.engine)

    def _has_sentences(self) -> bool:
        """Whether the first stage is complete, so that the text itself is not needed."""
        key = digest(self._whole_key(self._sentences_key()))
        return stage_folder(self.work.path, "sentences", key).is_dir()

    def _vocabulary_key(self) -> Key:
        return vocabulary_key(self.vocabulary, self.teacher)

    # The stages: each writes its files into the folder that it is given, and returns its figures.

    def _sentences(self, folder: Path) -> Figures:
        config, languages = self.config, languages_of(self.config.language)
        warn_without_rules(languages)
        figures = write_sentences(self.corpus, folder, config.sentences, self.engine, languages)
        warn_of_other_language(sentence_shards(folder), config.language, self.engine)
        return figures | {"files_not_utf8": len(self.corpus.undecodable)}

    def _vocabulary(self, folder: Path) -> Figures:
        shards, config, engine = self.work.sentence_shards(), self.vocabulary, self.engine
        teacher = self.teacher.tokenizer
        if config.units == "pieces":
            learnt = learn_pieces(folder, shards, config, engine)
            return write_piece_vocabulary(folder, shards, teacher, learnt, config, engine)
        pieces = teacher_pieces(teacher, config.normalization)
        return write_vocabulary(folder, shards, teacher, pieces, config, engine)

    def _selection(self, folder: Path) -> Figures:
        config, limit = self.config, self.teacher.max_tokens
        around = sum(map(len, self.teacher.surroundings()))
        return write_selection(
            folder,
            self.work,
            config.selection,
            self.engine,
            languages_of(config.language),
            None if limit is None else limit - around,
        )

    def _export(self) -> None:
        last = self.work.last
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
            self.config.export.dtype,
            self.config.export.normalize,
            self.work.pca_file,
            head=self.work.head(last),
            onnx=self.config.export.onnx,
        )
