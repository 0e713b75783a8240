"""The whole build: a recipe in, a folder that SentenceTransformer() loads out."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from st_static.arguments import check_type
from st_static.distill.agreement import table_agreement
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.selection import (
    CandidatePlan,
    by_word_range,
    gather_selected,
    held_out_threshold,
    key_thresholds,
    largest_candidates,
    select,
    write_candidates,
)
from st_static.distill.corpus.sentences import sentence_shards, write_sentences
from st_static.distill.corpus.vocabulary import choose_pieces, choose_words, count_shards
from st_static.distill.distillation import TrainingData, distill
from st_static.distill.extraction import SENTENCE_VECTORS_FILE, Selected, extract
from st_static.distill.pieces import teacher_pieces, vectors_alone
from st_static.distill.sentence_pca import SentencePCA, resolve_components
from st_static.distill.stages import (
    Figures,
    digest,
    locked,
    require_disk,
    run_stage,
    stage_figures,
    stage_folder,
    stage_hash,
    stage_seconds,
)
from st_static.distill.teacher import Teacher
from st_static.encode.file_names import split_name
from st_static.files import read_arrays, read_table, write_arrays, write_table
from st_static.model.export import PCA_FILE, check_output, export_model
from st_static.model.vectors import has_vector, sentence_means
from st_static.tokens.chunk_tokenizer import ChunkTokenizer
from st_static.tokens.ragged import Ragged
from st_static.tokens.tokenizer import SPECIAL_TOKENS, build_tokenizer

_TABLE_FILE = "table.safetensors"
_ALONE_FILE = "alone.safetensors"
_WORDS_FILE = "words.arrow"
_SELECTED_FILE = "selected.arrow"
_TOKENIZER_FILE = "tokenizer.json"
_TEACHER_TOKENIZER_FILE = "teacher_tokenizer.json"
# Of the stages' files; to be raised when they are computed or laid out in another way.
_FORMAT = 1
_COMPRESSION = 5  # of text, for the estimate of the disk that is needed
_RECORDED_PACKAGES = ("st-static", "sentence-transformers", "transformers", "tokenizers", "torch")


@dataclass(frozen=True)
class BuiltStage:
    """A complete stage.

    Attributes:
        name: The stage.
        folder: Its files.
        figures: What it measured.
        seconds: How long it took, in all its runs.
    """

    name: str
    folder: Path
    figures: Figures
    seconds: float


@dataclass(frozen=True)
class BuildResult:
    """A built model.

    Attributes:
        output: The folder that SentenceTransformer() loads.
        stages: The stages, in order.
        seconds: How long this run took; stages that were complete before took it no time.
    """

    output: Path
    stages: list[BuiltStage]
    seconds: float = 0.0

    def stage(self, name: str) -> BuiltStage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)


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

            corpus = CorpusConfig(files="data/*.txt.xz", language="en")
            result = build(BuildConfig(output="models/ours", work_dir="work/ours", corpus=corpus))
            encoder = FastEncoder.from_pretrained(result.output)

        `examples/build_on_your_documents.py` is a whole program.
    """
    start = time.perf_counter()
    run = _Build(config)
    with locked(run.work_dir):
        run.run()
    return BuildResult(run.output, run.stages, time.perf_counter() - start)


def select_sentences(config: BuildConfig) -> BuildResult:
    """Run the stages before the teacher's: sentences, vocabulary and selection.

    What they cost, and how many sentences the teacher will read, is then in their figures; `build`
    goes on from there.

    Args:
        config: The recipe.

    Raises:
        ValueError: As `build`.
    """
    run = _Build(config)
    with locked(run.work_dir):
        run.run_corpus_stages()
    return BuildResult(run.output, run.stages)


class _Build:
    """One run of a recipe: knows each stage's folder and hands it to the next."""

    def __init__(self, config: BuildConfig) -> None:
        check_type(
            config,
            BuildConfig,
            "a BuildConfig",
            "Make one: BuildConfig(corpus=CorpusConfig(files=…)); a recipe's file is built with "
            "st-static build.",
        )
        self.config = config
        self.work_dir = Path(config.work_dir)
        self.output = Path(config.output)
        check_output(self.output)
        self.stages: list[BuiltStage] = []
        self.corpus = Corpus(config.corpus)
        if self.corpus.is_dataset and not self._stage_folder(*self._sentences_stage()).is_dir():
            self.corpus.require()
        self.teacher = Teacher.load(config.teacher)
        _, dimension = resolve_components(
            config.pca.n_components, config.pca.n_remove, self.teacher.dimension
        )
        dims = config.distillation.matryoshka_dims
        if dims and max(dims) > dimension:
            raise ValueError(
                f"distillation.matryoshka_dims ({dims}) must be at most {dimension}, the "
                "dimension that the sentence PCA leaves."
            )

    def run_corpus_stages(self) -> None:
        """Run the stages that need no teacher's vectors: sentences, vocabulary, selection."""
        config = self.config
        vocabulary_key = {
            **asdict(config.vocabulary),
            "teacher_tokenizer": digest(self.teacher.tokenizer.to_str()),
        }
        if config.vocabulary.pieces == "all":  # stages of before there was a choice stay valid
            del vocabulary_key["pieces"]
        self._stage(*self._sentences_stage(), self._sentences)
        self._stage("vocabulary", vocabulary_key, self._vocabulary)
        self._stage("selection", asdict(config.selection), self._selection)

    def run(self) -> None:
        """Run all stages and export the model."""
        config = self.config
        self.run_corpus_stages()
        self._stage("extraction", self._teacher_key(), self._extraction)
        seed = {"seed": config.seed}
        self._stage("pca", asdict(config.pca) | seed, self._pca)
        if config.distillation.max_steps:
            self._stage("distillation", asdict(config.distillation) | seed, self._distillation)
        self._export()

    def _stage(self, name: str, key: dict[str, Any], compute: Callable[[Path], Figures]) -> None:
        folder = run_stage(self.work_dir, name, self._whole_key(key), compute)
        self.stages.append(BuiltStage(name, folder, stage_figures(folder), stage_seconds(folder)))

    def _whole_key(self, key: dict[str, Any]) -> dict[str, Any]:
        previous = stage_hash(self.stages[-1].folder) if self.stages else None
        return {**key, "format": _FORMAT, "previous": previous}

    def _stage_folder(self, name: str, key: dict[str, Any]) -> Path:
        """Where the next stage's files are if it is complete."""
        return stage_folder(self.work_dir, name, self._whole_key(key))

    def _sentences_stage(self) -> tuple[str, dict[str, Any]]:
        """The first stage's name and key."""
        return "sentences", asdict(self.config.sentences) | {"corpus": self.corpus.identity()}

    def _folder(self, name: str) -> Path:
        return next(stage.folder for stage in self.stages if stage.name == name)

    def _teacher_key(self) -> dict[str, Any]:
        """What determines the teacher's vectors; `auto` would hide another machine's format."""
        return {
            "weights": self.teacher.fingerprint(),
            "dtype": str(self.teacher.dtype),
            "prompt": self.teacher.prompt,
            "batch_tokens": self.teacher.batch_tokens,
        }

    def _bytes_of_corpus(self) -> int:
        return sum(
            file.stat().st_size * (_COMPRESSION if split_name(file)[1] else 1)
            for file in self.corpus.files
        )

    # The stages: each writes its files into the folder that it is given.

    def _sentences(self, folder: Path) -> Figures:
        require_disk(folder, self._bytes_of_corpus(), "The sentences of the corpus")
        figures = write_sentences(self.corpus, folder, self.config.sentences, self.config.workers)
        return figures | {"files_not_utf8": len(self.corpus.undecodable)}

    def _vocabulary(self, folder: Path) -> Figures:
        shards = sentence_shards(self._folder("sentences"))
        require_disk(folder, sum(shard.stat().st_size for shard in shards) // 2, "Counting words")
        counts = count_shards(shards, self.config.workers, folder)
        words = choose_words(counts, self.config.vocabulary)
        vocabulary = words["text"].to_pylist()
        kind = self.config.vocabulary.pieces
        pieces = teacher_pieces(self.teacher.tokenizer)
        tokenizer = build_tokenizer(
            vocabulary, choose_pieces(vocabulary, pieces, counts["text"], kind)
        )
        write_table(folder / _WORDS_FILE, words)
        tokenizer.save(str(folder / _TOKENIZER_FILE))
        self.teacher.tokenizer.save(str(folder / _TEACHER_TOKENIZER_FILE))
        return {
            "distinct_words": len(counts),
            "words": len(words),
            "smallest_count": words["count"][-1].as_py(),
            "tokens": tokenizer.get_vocab_size(),
        }

    def _selection(self, folder: Path) -> Figures:
        config = self.config.selection
        shards = sentence_shards(self._folder("sentences"))
        counts = read_table(self._folder("vocabulary") / _WORDS_FILE)["count"].to_numpy()
        keys = np.concatenate([read_table(path)["key"].to_numpy() for path in shards])
        plan = CandidatePlan(
            thresholds=key_thresholds(counts, config.max_candidates),
            held_out_from=held_out_threshold(keys, config.held_out),
            min_words=config.min_words,
        )
        require_disk(folder, largest_candidates(counts, config.max_candidates), "Candidates")
        vocabulary = self._folder("vocabulary")
        finder_files = (vocabulary / _WORDS_FILE, vocabulary / _TEACHER_TOKENIZER_FILE)
        candidates = write_candidates(shards, folder, finder_files, plan, self.config.workers)
        pairs = select(by_word_range(candidates), len(keys), config)
        held_out = np.flatnonzero(keys >= plan.held_out_from)
        table = gather_selected(pairs, held_out, shards, self._teacher_lengths)
        write_table(folder / _SELECTED_FILE, table)
        n_sentences = len(table) - len(held_out)
        return {
            "candidates": sum(len(part.word) for part in candidates),
            "pairs": len(pairs.word),
            "sentences": n_sentences,
            "sentences_per_pair": round(n_sentences / max(len(pairs.word), 1), 4),
            "naive_passes": len(counts) * config.sentences_per_word,
            "held_out": len(held_out),
        }

    def _teacher_lengths(self, texts: pa.Array) -> NDArray[np.int32]:
        return ChunkTokenizer(self.teacher.tokenizer)(texts).lengths.astype(np.int32)

    def _extraction(self, folder: Path) -> Figures:
        selected = self._selected
        dimension = self.teacher.dimension
        n_tokens = self._tokenizer.get_vocab_size()
        needed = 2 * len(selected.lengths) * dimension + 4 * 4 * n_tokens * dimension
        require_disk(folder, needed, "The teacher's vectors")
        sums = extract(self.teacher, self._tokenizer, selected, folder)
        table = sums.means()
        alone = np.flatnonzero(sums.counts == 0)[len(SPECIAL_TOKENS) :]
        names = [str(self._tokenizer.id_to_token(int(i))) for i in alone]
        table[alone] = vectors_alone(self.teacher, names, folder / _ALONE_FILE)
        known = has_vector(table)
        table[known] = self.teacher.to_sentence_space(table[known])
        n_words = read_table(self._folder("vocabulary") / _WORDS_FILE).num_rows
        vectors = np.load(folder / SENTENCE_VECTORS_FILE, mmap_mode="r")
        return self._write_table(folder, table, vectors) | {
            "dtype": str(self.teacher.dtype),
            "teacher_tokens": int(selected.lengths.sum()),
            "words_alone": int((alone < n_words + len(SPECIAL_TOKENS)).sum()),
            "pieces_alone": int((alone >= n_words + len(SPECIAL_TOKENS)).sum()),
        }

    def _pca(self, folder: Path) -> Figures:
        table = self._read_table("extraction")
        train = np.flatnonzero(~self._is_held_out)
        n_sentences = min(self.config.pca.n_sentences, len(train))
        rng = np.random.default_rng(self.config.seed)
        rows = np.sort(rng.choice(train, n_sentences, replace=False))
        pca = SentencePCA(self.config.pca.n_components, n_remove=self.config.pca.n_remove)
        pca.fit(sentence_means(table, self._ids.take(rows)))
        pca.save(folder / PCA_FILE)
        reduced = pca.transform_table(table)
        return self._write_table(folder, reduced, self._sentence_vectors) | {
            "dimension": reduced.shape[1],
            "removed": pca.n_remove_,
            "sentences": n_sentences,
        }

    def _distillation(self, folder: Path) -> Figures:
        table = self._read_table("pca")
        # A checkpoint holds the table and two moments; two are kept while one is written.
        needed = 10 * table.nbytes
        require_disk(folder, needed, "Training checkpoints")
        table, figures = distill(
            table,
            self._tokenizer,
            TrainingData(self._ids, self._sentence_vectors),
            np.flatnonzero(self._is_held_out),
            self.config.distillation,
            folder / "checkpoints",
            self.config.seed,
        )
        return self._write_table(folder, table, self._sentence_vectors) | figures

    def _export(self) -> None:
        last = self.stages[-1].name
        record = {
            "recipe": self.config.recipe(),
            "stages": {s.name: {"hash": stage_hash(s.folder), **s.figures} for s in self.stages},
            "versions": {name: metadata.version(name) for name in _RECORDED_PACKAGES}
            | {"python": platform.python_version()},
        }
        export_model(
            self.output,
            self._read_table(last),
            self._tokenizer,
            record,
            self.config.export.dtype,
            self._folder("pca") / PCA_FILE,
        )

    # What stages read of the earlier ones.

    def _write_table(
        self, folder: Path, table: NDArray[np.float32], vectors: NDArray[np.float16]
    ) -> Figures:
        write_arrays(folder / _TABLE_FILE, {"table": table})
        held_out = np.flatnonzero(self._is_held_out)
        agreement = table_agreement(table, self._ids.take(held_out), vectors[held_out])
        return {"teacher_agreement": round(agreement, 2)}

    def _read_table(self, stage: str) -> NDArray[np.float32]:
        table: NDArray[np.float32] = read_arrays(self._folder(stage) / _TABLE_FILE)["table"]
        return table

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self._folder("vocabulary") / _TOKENIZER_FILE))

    @functools.cached_property
    def _selected(self) -> Selected:
        return read_selected(self._folder("selection"))

    @functools.cached_property
    def _is_held_out(self) -> NDArray[np.bool_]:
        table = read_table(self._folder("selection") / _SELECTED_FILE)
        held_out: NDArray[np.bool_] = table["held_out"].to_numpy()
        return held_out

    @functools.cached_property
    def _ids(self) -> Ragged:
        """Token ids of the selected sentences, without [UNK], whose row is zero."""
        ids = ChunkTokenizer(self._tokenizer)(self._selected.texts)
        return ids.filter(ids.values >= len(SPECIAL_TOKENS))

    @functools.cached_property
    def _sentence_vectors(self) -> NDArray[np.float16]:
        file = self._folder("extraction") / SENTENCE_VECTORS_FILE
        vectors: NDArray[np.float16] = np.load(file, mmap_mode="r")
        return vectors


def read_selected(folder: Path) -> Selected:
    """Read the sentences that the selection stage left in its folder."""
    table = read_table(folder / _SELECTED_FILE).combine_chunks()
    words = table["words"].combine_chunks()
    return Selected(
        texts=table["text"].combine_chunks(),
        lengths=table["length"].to_numpy(),
        words=Ragged(words.flatten().to_numpy(), words.offsets.to_numpy().astype(np.int64)),
    )
