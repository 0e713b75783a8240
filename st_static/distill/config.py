"""What a recipe may say: one dataclass a stage, checked when it is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from st_static.arguments import check_fields, require
from st_static.distill.corpus.config import (
    CorpusConfig,
    SelectionConfig,
    SentencesConfig,
    VocabularyConfig,
)
from st_static.distill.pairs.config import PairsConfig
from st_static.distill.teacher_config import TeacherConfig
from st_static.languages import check_language

__all__ = [
    "BuildConfig",
    "CorpusConfig",
    "DistillationConfig",
    "ExportConfig",
    "PairsConfig",
    "SelectionConfig",
    "SentencePCAConfig",
    "SentencesConfig",
    "TeacherConfig",
    "VocabularyConfig",
    "as_text",
]


def as_text(config: Any, *names: str) -> None:
    """Let fields of a frozen dataclass that name a place be given as a `Path`, too."""
    for name in names:
        if isinstance(getattr(config, name), Path):
            object.__setattr__(config, name, str(getattr(config, name)))


Device = Literal["cpu", "cuda", "mps"]


@dataclass(frozen=True)
class SentencePCAConfig:
    """Sentence-level PCA of the word table (paper section 2.2).

    Args:
        n_components: Output dimension D; null keeps all that remain.
        n_remove: Leading components to drop, k; `auto` is floor(d / 100), as in the paper.
        n_sentences: Sentences that the PCA is fitted on, M.

    Example:
        >>> SentencePCAConfig(n_components=128).n_remove
        'auto'
    """

    n_components: int | None = 256
    n_remove: int | Literal["auto"] = "auto"
    n_sentences: int = 100_000

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class DistillationConfig:
    """In-batch distillation of the teacher's similarities (paper section 2.3).

    The paper draws random batches of 128 and trains at most 30,000 steps at a constant 1e-3. The
    defaults differ. On one teacher, all-MiniLM-L6-v2, with a linear decay from 3e-3, clustered
    batches of 256 instead of 128 gained 0.5 points on STSBenchmark's validation split and 0.6 of
    teacher agreement. Clustered instead of random batches, of 128 both, gained 0.1 and lost 0.6.
    Batches of 512 gained another 0.1 of each, in 6,000 steps that took twice as long per step.

    Args:
        max_steps: Most training steps; 0 leaves distillation out. A schedule that decays ends here.
        batch_size: Sentences in a batch, K.
        batches: `random` draws a batch from all sentences, as in the paper; `clustered` draws
            groups of sentences that are close in the teacher's space, which makes similarities
            within a batch larger.
        n_clusters: Clusters of teacher vectors, for clustered batches.
        groups_per_batch: Groups in a clustered batch, each from one cluster or two.
        temperature: Softmax temperature τ of both similarity distributions.
        cosines: Weight of a term that makes cosines as large as the teacher's, see
            `SimilarityDistillationLoss`; the softmax alone leaves this free.
        spread: Weight of a term that spreads vectors into all directions.
        estimate: Weight of a term by which the teacher's vectors can be estimated from the
            student's, by a linear map that is learnt with it.
        words: Share of the student's own words in what it follows, 0 to less than 1, see
            `SimilarityDistillationLoss`. It keeps words that a teacher passes over, such as "wish"
            or "had", readable for classifiers.
        center: Whether to take the mean over the corpus away from the teacher's vectors. `auto`
            does where the mean cosine of two sentences is above 0.3: where all cosines are high,
            the student would learn little else.
        optimizer: `sparse_adam` changes the rows of the words in a batch, and takes little time
            with any vocabulary. `adam`, the paper's, moves the other rows on by their moments, too,
            and takes time for each row at each step.
        max_grad_norm: With `adam`, gradients are scaled down to this norm at most; 0 leaves them.
        device: Where to train, on the first of several such devices; null is the processor for
            `sparse_adam`, and the teacher's device for `adam`.
        sentences_per_word: Train on this many of the sentences that were selected for each word,
            drawn at random; null takes all of them. Words share sentences, so one may have more.
        development: Which sentences the held-out loss is measured on: `corpus` takes those that
            are held out from everything, drawn from all of the text; `selection` as many of those
            that words were selected for and that training leaves out, which are shorter.
        learning_rate: Adam's learning rate, at its highest.
        schedule: Course of the learning rate after the warm-up.
        warmup_steps: Steps in which the learning rate rises from 0.
        eval_steps: Steps from one held-out loss, and checkpoint, to the next.
        patience: Stop after this many held-out losses without improvement.
        head: Hidden units of a head, a small network behind the mean that follows the teacher where
            a mean of words cannot; 0 is none. Model2Vec does not load a model with a head.
        matryoshka_dims: Smaller dimensions at which a truncated vector is to be good, too; null
            trains the full dimension only.
        log_steps: Steps from one logged training loss to the next.

    Example:
        >>> DistillationConfig(max_steps=30_000, batch_size=128, batches="random").temperature
        0.05
    """

    max_steps: int = 10_000
    batch_size: int = 256
    batches: Literal["random", "clustered"] = "clustered"
    n_clusters: int = 8192
    groups_per_batch: int = 16
    temperature: float = 0.05
    cosines: float = 0.0
    spread: float = 0.0
    estimate: float = 0.0
    words: float = 0.0
    center: bool | Literal["auto"] = "auto"
    optimizer: Literal["sparse_adam", "adam"] = "sparse_adam"
    max_grad_norm: float = 0.0
    device: Device | None = None
    sentences_per_word: int | None = None
    development: Literal["corpus", "selection"] = "corpus"
    learning_rate: float = 3e-3
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup_steps: int = 0
    eval_steps: int = 1000
    patience: int = 5
    head: int = 0
    matryoshka_dims: list[int] | None = None
    log_steps: int = 100

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.batch_size >= 2, "distillation.batch_size must be at least 2: the loss compares."
        )
        for name in ("max_steps", "warmup_steps", "head", "cosines", "spread", "estimate"):
            value = getattr(self, name)
            require(value >= 0, f"distillation.{name} must not be negative, but it is {value}.")
        require(
            0 <= self.words < 1,
            f"distillation.words is a share, 0 to less than 1, but it is {self.words}.",
        )
        require(
            bool(self.max_steps) or not self.head,
            f"distillation.head is {self.head}, but distillation.max_steps is 0: a head is trained "
            "in the distillation. Give steps, or leave the head out.",
        )
        require(
            min(self.matryoshka_dims or [1]) > 0,
            f"distillation.matryoshka_dims must be positive, but they are {self.matryoshka_dims}.",
        )
        counts = ("groups_per_batch", "n_clusters", "eval_steps", "patience", "log_steps")
        for name in (*counts, "temperature", "learning_rate"):
            value = getattr(self, name)
            require(value > 0, f"distillation.{name} must be positive, but it is {value}.")
        require(
            self.max_grad_norm >= 0 and (self.optimizer == "adam" or not self.max_grad_norm),
            "distillation.max_grad_norm must be positive with distillation.optimizer adam, and 0 "
            f"with sparse_adam, whose gradients cannot be clipped, but it is {self.max_grad_norm}.",
        )
        require(
            self.sentences_per_word is None or self.sentences_per_word > 0,
            "distillation.sentences_per_word must be positive, or null for all, but it is "
            f"{self.sentences_per_word}.",
        )
        require(
            self.batches == "random" or self.batch_size % self.groups_per_batch == 0,
            f"distillation.batch_size ({self.batch_size}) must be a multiple of "
            f"distillation.groups_per_batch ({self.groups_per_batch}).",
        )


@dataclass(frozen=True)
class ExportConfig:
    """The folder that SentenceTransformer loads.

    Args:
        dtype: Number format of the word table. float16 halves the size; a text without any known
            word then gets NaN instead of zeros from sentence-transformers.
        normalize: Whether the model scales vectors to length 1. Without it, cosines are the same,
            and some tasks of classification come out better, clustering and search by dot product
            worse (docs/measurements/quality.md).
        license: The model's licence, for its card, as the Hub spells it, such as `apache-2.0`.
        onnx: Whether ONNX files are written, too, as `st-static export --onnx` writes them; `int8`
            adds the quantised one.

    Example:
        >>> ExportConfig(dtype="float16", license="apache-2.0").dtype
        'float16'
    """

    dtype: Literal["float32", "float16"] = "float32"
    normalize: bool = True
    license: str | None = None
    onnx: bool | Literal["int8"] = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class BuildConfig:
    """A recipe: everything that determines a model.

    Args:
        output: Folder that the model is written to.
        work_dir: Folder for the stages' files; an interrupted build goes on from there.
        language: The language of the text as a BCP 47 tag such as `en`, or several. It decides how
            text is split into sentences and words, and the model card says it. Text of a language
            that is not named is treated as English.
        seed: Seed of the sentences that the PCA sees and of training. Held-out sentences and
            candidates are drawn by a hash of their text, the same with any seed.
        workers: Processes for the corpus stages; 0 is one per processor. With the engine `ray`: how
            many processors each process of the teacher takes where there is no GPU; 0 is one.
        engine: What runs the corpus stages and the teacher: processes of this machine, or a Ray
            cluster, whose nodes all see `work_dir` and the text. The model is the same where the
            teacher has the same number format.
        address: Of the Ray cluster: `auto`, `local`, `HOST:PORT` or `ray://HOST:PORT`; by default
            what RAY_ADDRESS says, or a new one on this machine.
        questions: After the build, answered by searching the corpus with the new model.

    Example:
        >>> corpus = CorpusConfig(files="data/*.txt.xz")
        >>> BuildConfig(output="models/ours", language="en", corpus=corpus).vocabulary.size
        150000
    """

    output: str = "models/static"
    work_dir: str = "work"
    language: str | list[str] | None = None
    seed: int = 0
    workers: int = 0
    engine: Literal["processes", "ray"] = "processes"
    address: str | None = None
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    sentences: SentencesConfig = field(default_factory=SentencesConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    pca: SentencePCAConfig = field(default_factory=SentencePCAConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    pairs: PairsConfig = field(default_factory=PairsConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    questions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        as_text(self, "output", "work_dir")
        check_fields(self)
        check_language(self.language)
        require(
            self.workers >= 0, f"workers must be positive, or 0 for all, but it is {self.workers}."
        )
        require(
            self.address is None or self.engine == "ray",
            "address is that of a Ray cluster: set engine to ray, too.",
        )
        require(
            "@" not in (self.address or ""),
            "address has a user or password, but that of a Ray cluster is HOST:PORT, or "
            "ray://HOST:PORT.",
        )
        output, work_dir = Path(self.output).resolve(), Path(self.work_dir).resolve()
        require(
            output != work_dir and output not in work_dir.parents,
            f"work_dir ({self.work_dir}) must lie outside output ({self.output}), the folder of "
            "the model.",
        )
        require(
            not self.distillation.max_steps
            or self.selection.held_out >= self.distillation.batch_size,
            f"selection.held_out ({self.selection.held_out}) must be at least "
            f"distillation.batch_size ({self.distillation.batch_size}): the held-out loss is "
            "measured on whole batches.",
        )
        require(
            self.selection.min_words <= self.sentences.max_words,
            f"selection.min_words ({self.selection.min_words}) must be at most "
            f"sentences.max_words ({self.sentences.max_words}).",
        )
        self._check_dimensions()
        groups = self.distillation.groups_per_batch
        require(
            not self.pairs.is_wanted
            or self.distillation.batches == "random"
            or self.pairs.batch_size % groups == 0,
            f"pairs.batch_size ({self.pairs.batch_size}) must be a multiple of "
            f"distillation.groups_per_batch ({groups}): sentences are trained on in turns with "
            "pairs.",
        )

    def _check_dimensions(self) -> None:
        dims, size = self.distillation.matryoshka_dims, self.pca.n_components
        require(
            self.pca.n_sentences >= (size or 1),
            f"pca.n_sentences ({self.pca.n_sentences}) must be at least pca.n_components ({size}).",
        )
        require(
            not dims or size is None or max(dims) <= size,
            f"distillation.matryoshka_dims ({dims}) must be at most pca.n_components ({size}).",
        )

    def recipe(self) -> dict[str, Any]:
        """What determines the model, without the places where files lie on this machine."""
        recipe = asdict(self)
        for key in ("output", "work_dir", "workers", "engine", "address", "questions"):
            del recipe[key]
        for section in ("corpus", "pairs"):
            patterns = getattr(self, section).patterns
            recipe[section]["files"] = [Path(pattern).name or "." for pattern in patterns] or None
        if Path(self.teacher.model).is_dir():
            recipe["teacher"]["model"] = Path(self.teacher.model).name
        return recipe
