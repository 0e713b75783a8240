"""What a recipe may say: a section for each stage, with its options' types, bounds and `--help`."""

from __future__ import annotations

from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Le
from pydantic import model_validator

from st_static.arguments import require
from st_static.distill.section import (
    AtLeastTwo,
    Count,
    CountOrZero,
    NotNegative,
    PathText,
    Positive,
    section,
)
from st_static.distill.teacher_config import TeacherConfig, Teachers
from st_static.languages import check_language, is_english, languages_of

Teacher = TypeVar("Teacher", bound=TeacherConfig)

MAX_WORDS = 64
"""The most words of a sentence."""
MAX_CANDIDATES = 2000
"""The most sentences that those of a word are chosen from."""


def _require_order(low: str, least: float, high: str, most: float) -> None:
    """Raise a ValueError if the option `low` is above the option `high`."""
    require(least <= most, f"{low} ({least}) must be at most {high} ({most}).")


def _patterns(files: str | list[str] | None) -> list[str]:
    return [files] if isinstance(files, str) else list(files or [])


@section
class CorpusConfig:
    """Where the text comes from: files, or else docstrings of packages, or else a Hub dataset.

    Example:
        >>> CorpusConfig(files="data/*.txt.xz", license="cc0-1.0").patterns
        ['data/*.txt.xz']
    """

    files: str | list[str] | None = None
    """Paths or glob patterns of .txt (one document per line), .jsonl and .parquet files, the last
    two with documents in the key or column `text`; .txt and .jsonl also compressed as .gz, .xz or
    .zst. A folder stands for all such files in it."""
    docstrings: list[str] | None = None
    """Names of installed packages whose docstrings are the text; `stdlib` is Python's standard
    library."""
    dataset: str | None = None
    """Hub id of a dataset, whose column `text` of the split `train` is streamed."""
    dataset_config: str | list[str] | None = None
    """Name of the dataset's configuration; with several, their documents alternate."""
    revision: str | None = None
    """Branch, tag or commit of the dataset on the Hub: name a commit for the same text again."""
    max_documents: Count | None = None
    """Stop after this many documents."""
    description: str | None = None
    """What the text is, for the model card: kinds of text and where they come from."""
    license: str | None = None
    """Its licence, for the model card."""

    @model_validator(mode="after")
    def _values_fit(self) -> CorpusConfig:
        names = self.dataset_configs
        require(
            0 < len(names) == len(set(names)),
            "corpus.dataset_config must be null, a name or several different ones, but it is "
            f"{self.dataset_config}.",
        )
        return self

    @property
    def dataset_configs(self) -> list[str | None]:
        """`dataset_config` as a list."""
        name = self.dataset_config
        return [*name] if isinstance(name, list) else [name]

    @property
    def patterns(self) -> list[str]:
        """`files` as a list."""
        return _patterns(self.files)

    @property
    def source(self) -> tuple[object, ...]:
        """What the text is read from, whatever its `revision` and however much of it."""
        if self.files:
            return ("files", *self.patterns)
        if self.docstrings:
            return ("docstrings", *self.docstrings)
        return ("dataset", self.dataset, *self.dataset_configs)

    @property
    def is_named(self) -> bool:
        """Whether any text is named."""
        return bool(self.files or self.docstrings or self.dataset)


@section
class SentencesConfig:
    """Which sentences are kept.

    Example:
        >>> SentencesConfig(min_letters=0.7).min_words
        3
    """

    min_words: Annotated[int, Ge(1), Le(MAX_WORDS)] = 3
    """The fewest words, counted by white space; outside English, two characters of a script without
    spaces count as a word, too. The most are 64."""
    min_letters: Annotated[float, Ge(0), Le(1)] = 0.5
    """Least share of letters among the characters, 0 to 1."""


@section
class VocabularyConfig:
    """Which words, or pieces of words, get a vector of their own.

    A Unigram model learns pieces, for scripts without spaces and for several languages.

    Example:
        >>> VocabularyConfig(size=8000, min_count=3).pieces
        'all'
    """

    size: Count = 150_000
    """How many of the most frequent words are kept, V; or how many pieces at most, besides single
    characters, which are all kept."""
    min_count: int = 5
    """Fewest occurrences in the corpus."""
    pieces: Literal["all", "used", "none"] = "all"
    """Where the units are words: which of the teacher's word pieces get a vector, too. `used` keeps
    those that some word of the corpus needs, `none` only single characters."""


@section
class SelectionConfig:
    """Which sentences the teacher reads.

    Example:
        >>> SelectionConfig(sentences_per_word=8).reuse_length
        3.0
    """

    sentences_per_word: Annotated[int, Ge(1), Le(MAX_CANDIDATES)] = 100
    """Sentences that a word's vector is the mean over, N; chosen from a fair sample of 2,000."""
    min_words: Annotated[int, Le(MAX_WORDS)] = 4
    """Fewest words, or pieces where units are these, of a sentence that a word's vector is from."""
    reuse_length: Annotated[float, Ge(1)] = 3.0
    """A sentence that another word has chosen is preferred while it has at most this many times the
    teacher tokens of the word's N-th shortest candidate; larger saves teacher passes."""
    held_out: AtLeastTwo = 4096
    """Sentences for agreement and the held-out loss; beside these, only their words are counted."""
    spans: NotNegative = 0.0
    """Runs of 1 to 5 neighbouring words of the chosen sentences that distillation uses, too, as a
    share of these sentences."""
    passages: NotNegative = 0.0
    """The same for runs of neighbouring sentences, of 40 to 220 words, which the teacher reads to
    their end."""


@section
class SentencePCAConfig:
    """Sentence-level PCA of the word table (paper section 2.2).

    Example:
        >>> SentencePCAConfig(n_components=128).continuations
        0.25
    """

    n_components: int | None = 256
    """Output dimension D; null keeps all that remain when the first floor(d / 100) components are
    dropped, as in the paper."""
    continuations: Annotated[float, Ge(0), Le(1)] = 0.25
    """Where units are words: by how much the vectors of pieces behind the beginning of an unknown
    word are multiplied; with 0 the beginning alone counts, as with the paper's authors."""


@section
class DistillationConfig:
    """In-batch distillation of the teacher's similarities (paper section 2.3), or of its vectors.

    The paper draws random batches of 128 and trains at most 30,000 steps at a constant 1e-3; why
    the defaults differ is in docs/measurements/ablations.md.

    Example:
        >>> DistillationConfig(max_steps=30_000, batch_size=128, groups_per_batch=0).temperature
        0.05
    """

    target: Literal["cosines", "vectors"] = "cosines"
    """What the student learns: `cosines`, how similar texts are to each other; or `vectors`, where
    the teacher puts a text, so that it encodes queries for documents that the teacher encoded. The
    table then keeps the teacher's dimensions: there is no sentence PCA."""
    max_steps: CountOrZero = 10_000
    """The most training steps; 0 skips distillation."""
    batch_size: AtLeastTwo = 256
    """Sentences in a batch, K."""
    groups_per_batch: CountOrZero = 16
    """Groups in a batch, each of sentences that are close in the teacher's space, from one cluster
    or two; 0 draws the batch from all sentences, as in the paper."""
    temperature: Positive = 0.05
    """Softmax temperature τ of both similarity distributions."""
    terms: Literal["paper", "full"] = "paper"
    """Terms of the loss: `paper` orders similarities as the teacher does; `full` adds all others of
    `SimilarityDistillationLoss`."""
    center: bool | Literal["auto"] = "auto"
    """Whether to subtract their mean over the corpus from the teacher's vectors; `auto` does if the
    mean cosine of two sentences is above 0.3."""
    optimizer: Literal["sparse_adam", "adam"] = "sparse_adam"
    """`sparse_adam` changes the rows of the words in a batch, at a rate that falls linearly to 0;
    `adam`, the paper's, moves all rows at each step, which takes far longer, at a constant rate and
    with gradients clipped to a norm of 1; take a `learning_rate` of 0.001 with it."""
    sentences_per_word: Count | None = None
    """Train on this many of each word's selected sentences, drawn at random, and measure the
    held-out loss on others of them, as in the paper; null trains on all, and measures it on
    sentences that are held out from everything."""
    device: Literal["cpu", "cuda", "mps"] | None = None
    """Where to train; null is the processor for `sparse_adam`, the teacher's device for `adam`."""
    learning_rate: Positive = 3e-3
    """Adam's learning rate, at its highest."""
    eval_steps: Count = 1000
    """Steps between two measurements of the held-out loss, each with a checkpoint. Five without an
    improvement end the training."""
    head: CountOrZero = 0
    """Hidden units of a head, a small network behind the mean; 0 is none. Model2Vec does not load a
    model with a head."""
    matryoshka_dims: list[Count] | None = None
    """Smaller dimensions to which vectors can be truncated and stay good."""

    @property
    def is_sparse(self) -> bool:
        """Whether a step changes the rows of the words in its batch alone."""
        return self.optimizer == "sparse_adam"

    @model_validator(mode="after")
    def _values_fit(self) -> DistillationConfig:
        require(
            bool(self.max_steps) or not self.head,
            f"distillation.head is {self.head}, but distillation.max_steps is 0: a head is trained "
            "in the distillation. Give steps, or leave the head out.",
        )
        require(
            self.groups_per_batch == 0 or self.batch_size % self.groups_per_batch == 0,
            f"distillation.batch_size ({self.batch_size}) must be a multiple of "
            f"distillation.groups_per_batch ({self.groups_per_batch}).",
        )
        return self


@section
class PairsConfig:
    """Training on pairs of texts that belong together, after the distillation.

    Batches of pairs (multiple negatives ranking loss) and of the corpus's sentences (distillation
    loss) alternate.

    Example:
        >>> PairsConfig(files="clicks.jsonl").max_steps
        2000
    """

    files: str | list[str] | None = None
    """Paths or glob patterns of .jsonl files, also compressed as .gz, .xz or .zst. Each line is an
    object with the texts `anchor` and `positive`, and, if all have one, a hard `negative`: a text
    near to the anchor that does not belong to it."""
    max_steps: Count = 2000
    """Training steps, half of them on pairs."""
    margin: NotNegative = 0.0
    """How much larger a pair's cosine must be than those with other texts; LaBSE has 0.3."""

    @model_validator(mode="after")
    def _values_fit(self) -> PairsConfig:
        require(self.files != [], "pairs.files must name a file, or be null, but it is [].")
        require(
            bool(self.files) or not self.margin,
            "pairs.margin needs pairs. Give pairs.files, too.",
        )
        return self

    @property
    def patterns(self) -> list[str]:
        """`files` as a list."""
        return _patterns(self.files)


@section
class ExportConfig:
    """The folder that SentenceTransformer loads.

    Example:
        >>> ExportConfig(license="apache-2.0").normalize
        True
    """

    normalize: bool = True
    """Whether the model scales vectors to length 1; see docs/measurements/quality.md."""
    license: str | None = None
    """The model's licence, for its card, as the Hub spells it, such as `apache-2.0`."""


@section
class BuildConfig:
    """A recipe: everything that determines a model.

    Example:
        >>> corpus = CorpusConfig(files="data/*.txt.xz")
        >>> BuildConfig(output="models/ours", language="en", corpus=corpus).vocabulary.size
        150000
    """

    output: PathText = "models/static"
    """Folder that the model is written to."""
    work_dir: PathText = "work"
    """Folder for the stages' files; an interrupted build continues from there."""
    language: str | list[str] | None = None
    """The language of the text as a BCP 47 tag such as `en`, or several: decides how text is split
    into sentences and words; null is English."""
    seed: int = 0
    """Seed of the sentences that the PCA sees, and of training; all others are drawn by hashes."""
    workers: CountOrZero = 0
    """Processes for the corpus stages; 0 is one per processor. With the engine `ray`: processors
    for each process of the teacher where there is no GPU; 0 is one."""
    engine: Literal["processes", "ray"] = "processes"
    """What runs the corpus stages and the teacher: processes of this machine; or a Ray cluster,
    which the environment variable RAY_ADDRESS names, or else a new one on this machine. All its
    nodes see `work_dir` and the text."""
    teacher: TeacherConfig = field(default_factory=TeacherConfig)
    teachers: Teachers = field(default_factory=list)
    """Several teachers in place of `teacher`, each with its keys and a `weight`, 1 by default: the
    student learns the weighted mean of their cosines. Pieces of words are those of the first."""
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    sentences: SentencesConfig = field(default_factory=SentencesConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    pca: SentencePCAConfig = field(default_factory=SentencePCAConfig)
    distillation: DistillationConfig = field(default_factory=DistillationConfig)
    pairs: PairsConfig = field(default_factory=PairsConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
    questions: list[str] = field(default_factory=list)
    """Questions that are answered after the build, by searching the corpus with the new model."""

    @model_validator(mode="after")
    def _values_fit(self) -> BuildConfig:
        check_language(self.language)
        output, work_dir = Path(self.output).resolve(), Path(self.work_dir).resolve()
        require(
            output != work_dir and output not in work_dir.parents,
            f"work_dir ({self.work_dir}) must lie outside output ({self.output}), the folder of "
            "the model.",
        )
        require(
            not self.teachers or self.teacher == TeacherConfig(),
            "teacher and teachers are both given, but the list has all of them. Leave teacher out.",
        )
        require(
            len(self.teachers) < 2 or not self.is_for_queries,
            "distillation.target is vectors, which are those of one teacher, but teachers has "
            f"{len(self.teachers)}: leave the others out, or take the target cosines.",
        )
        batch_size = "distillation.batch_size", self.distillation.batch_size
        if self.distillation.max_steps:  # the held-out loss is measured on whole batches
            _require_order(*batch_size, "selection.held_out", self.selection.held_out)
        if self.is_for_queries:
            unused = ["pca"] if self.pca != SentencePCAConfig() else []
            unused += ["pairs"] if self.pairs.files else []
            for name in ("temperature", "terms", "center", "matryoshka_dims"):
                if getattr(self.distillation, name) != getattr(DistillationConfig(), name):
                    unused.append(f"distillation.{name}")
            reason = f"distillation.target is vectors, which has no use for {', '.join(unused)}"
            require(not unused, f"{reason}: leave the one or the other out.")
        dims, size = self.distillation.matryoshka_dims, self.pca.n_components
        if dims and size is not None:
            _require_order("distillation.matryoshka_dims", max(dims), "pca.n_components", size)
        return self

    @property
    def is_for_queries(self) -> bool:
        """Whether the table learns the teacher's vectors, and so keeps their dimensions."""
        return self.distillation.target == "vectors"

    @property
    def all_teachers(self) -> list[TeacherConfig]:
        """`teachers`, or `teacher` alone."""
        return [*self.teachers] or [self.teacher]

    @property
    def languages(self) -> list[str]:
        """`language` as a list; empty for English."""
        return [] if is_english(self.language) else languages_of(self.language)

    def recipe(self) -> dict[str, Any]:
        """What determines the model, without the places where files lie on this machine."""
        recipe = asdict(self)
        for key in ("output", "work_dir", "workers", "engine", "questions"):
            del recipe[key]
        for name, patterns in (("corpus", self.corpus.patterns), ("pairs", self.pairs.patterns)):
            recipe[name]["files"] = [Path(pattern).name or "." for pattern in patterns] or None
        del recipe["teacher" if self.teachers else "teachers"]
        for teacher in recipe.get("teachers") or [recipe["teacher"]]:
            if Path(teacher["model"]).is_dir():
                teacher["model"] = Path(teacher["model"]).name
        return recipe

    def with_absolute_paths(self) -> BuildConfig:
        """The same for processes that run in other folders."""

        def absolute(teacher: Teacher) -> Teacher:
            folder = Path(teacher.model)
            return replace(teacher, model=str(folder.absolute())) if folder.is_dir() else teacher

        patterns = self.corpus.patterns
        files = [str(Path(pattern).absolute()) for pattern in patterns] or None
        corpus, work_dir = replace(self.corpus, files=files), str(Path(self.work_dir).absolute())
        teacher, teachers = absolute(self.teacher), list(map(absolute, self.teachers))
        return replace(self, work_dir=work_dir, teacher=teacher, teachers=teachers, corpus=corpus)
