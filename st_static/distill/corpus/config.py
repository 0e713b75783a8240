"""What a recipe may say about its text: where it is, and which sentences and words are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from st_static.arguments import check_fields, require
from st_static.languages import are_several, has_dotless_i, has_spaces, is_english
from st_static.model.tokenizer import Normalization


@dataclass(frozen=True)
class CorpusConfig:
    """Where the text comes from: files, or else docstrings of packages, or else a Hub dataset.

    Args:
        files: Paths or glob patterns of .txt (one document per line), .jsonl and .parquet files;
            .txt and .jsonl also compressed as .gz, .xz or .zst. A folder stands for all such files
            in it. They take the place of the other two.
        docstrings: Names of installed packages whose docstrings are the text; `stdlib` is
            Python's standard library. They take the place of a dataset.
        dataset: Hub id of a dataset, streamed.
        dataset_config: Name of the dataset's configuration, or several, such as one a language: a
            document of each is read in turn.
        split: Split of the dataset.
        revision: Branch, tag or commit of the dataset.
        text_column: Column or key that holds the text, in a dataset, .jsonl or .parquet.
        max_documents: Stop after this many documents.
        description: What the text is, for the model card: kinds of text and where they come from.
        license: Its licence, for the model card.
        redistributable: Whether the text may be passed on. Where it may not, the model card says
            that the model is rebuilt from an open corpus before it is uploaded.

    Example:
        >>> CorpusConfig(files="data/*.txt.xz", license="cc0-1.0").patterns
        ['data/*.txt.xz']
    """

    files: str | list[str] | None = None
    docstrings: list[str] | None = None
    dataset: str | None = None
    dataset_config: str | list[str] | None = None
    split: str = "train"
    revision: str | None = None
    text_column: str = "text"
    max_documents: int | None = None
    description: str | None = None
    license: str | None = None
    redistributable: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            self.max_documents is None or self.max_documents > 0,
            f"corpus.max_documents must be positive or null, but it is {self.max_documents}.",
        )
        names = self.dataset_configs
        require(
            0 < len(names) == len(set(names)),
            "corpus.dataset_config must be null, a name or several different ones, but it is "
            f"{self.dataset_config}.",
        )

    @property
    def dataset_configs(self) -> list[str | None]:
        """`dataset_config` as a list."""
        name = self.dataset_config
        return list(name) if isinstance(name, list) else [name]

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
        return ("dataset", self.dataset, *self.dataset_configs)

    @property
    def is_named(self) -> bool:
        """Whether any text is named."""
        return bool(self.files or self.docstrings or self.dataset)


@dataclass(frozen=True)
class SentencesConfig:
    """Which sentences are kept.

    Args:
        min_words: Fewest words, counted by white space; in languages other than English, two
            characters of a script that is written without spaces are a word, too.
        max_words: Most words, counted in the same way.
        min_letters: Least share of letters among the characters, 0 to 1.

    Example:
        >>> SentencesConfig(max_words=32).min_words
        3
    """

    min_words: int = 3
    max_words: int = 64
    min_letters: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        require(
            1 <= self.min_words <= self.max_words,
            "Expected 1 <= sentences.min_words <= sentences.max_words, but they are "
            f"{self.min_words} and {self.max_words}.",
        )
        require(
            0 <= self.min_letters <= 1,
            f"sentences.min_letters is a share, 0 to 1, but it is {self.min_letters}.",
        )


@dataclass(frozen=True)
class VocabularyConfig:
    """Which words get a vector of their own.

    Args:
        size: The most frequent words that are kept, V; of pieces, how many at most, besides single
            characters, all of which are kept.
        min_count: Fewest occurrences in the corpus.
        units: What stands for a word. `words` are told apart by spaces and punctuation. `pieces`
            are strings that a Unigram model learns from the corpus, for languages without spaces
            between words and for several languages at once. `auto` decides by the recipe's
            languages.
        pieces: Of units that are words: which of the teacher's word pieces get a vector as well,
            for words outside the vocabulary. `used` keeps those that some word of the corpus needs,
            `none` leaves only single characters. Fewer pieces make a smaller model.
        unknown: Of units that are words: what a word outside the vocabulary becomes. `prefix` takes
            the longest word or piece that it begins with and leaves the rest out, as the paper's
            authors do. `pieces` spells all of it by word pieces and characters.
        nfkc: Whether forms of a character that differ in width or composition become one (Unicode
            NFKC); null is true, and false for English.
        lowercase: Whether capitals become small letters.
        strip_accents: Whether combining marks go, as from é; null is false, and true for English.
        dotless_i: Whether I becomes ı and İ becomes i where capitals become small letters; null is
            true for Turkish, Azeri, Crimean Tatar and Gagauz.

    Example:
        >>> VocabularyConfig(size=8000, min_count=3).pieces
        'all'
    """

    size: int = 150_000
    min_count: int = 5
    units: Literal["auto", "words", "pieces"] = "auto"
    pieces: Literal["all", "used", "none"] = "all"
    unknown: Literal["prefix", "pieces"] = "prefix"
    nfkc: bool | None = None
    lowercase: bool = True
    strip_accents: bool | None = None
    dotless_i: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.size > 0, f"vocabulary.size must be positive, but it is {self.size}.")

    def with_defaults_of(self, languages: Sequence[str]) -> VocabularyConfig:
        """The same with what the languages decide: units and normalisation.

        Raises:
            ValueError: The units are words, but a language puts no spaces between them.
        """
        english = is_english(languages)
        unspaced = [language for language in languages if not has_spaces(language)]
        units = self.units
        if units == "auto":
            units = "pieces" if unspaced or are_several(languages) else "words"
        require(
            units != "words" or not unspaced,
            f"vocabulary.units is words, but {', '.join(unspaced)} has no spaces between words. "
            "Take pieces.",
        )
        unknown = "pieces" if units == "pieces" else self.unknown
        nfkc = not english if self.nfkc is None else self.nfkc
        strip = english if self.strip_accents is None else self.strip_accents
        dotless = has_dotless_i(languages) if self.dotless_i is None else self.dotless_i
        return replace(
            self,
            units=units,
            unknown=unknown,
            nfkc=nfkc,
            strip_accents=strip,
            dotless_i=dotless and self.lowercase,
        )

    @property
    def normalization(self) -> Normalization:
        """What becomes of a text before it is split."""
        return Normalization(
            bool(self.nfkc), self.lowercase, bool(self.strip_accents), bool(self.dotless_i)
        )


@dataclass(frozen=True)
class SelectionConfig:
    """Which sentences the teacher reads.

    Args:
        sentences_per_word: Sentences that a word's vector is the mean over, N.
        max_candidates: A word's sentences are chosen from a fair sample of this many.
        min_words: Fewest words of a sentence that a word's vector is taken from, counted by
            white space; where units are pieces, its fewest pieces.
        reuse_length: A sentence that another word has already chosen is preferred while it has
            at most `reuse_length` times as many teacher tokens as the word's N-th shortest
            candidate. 1 takes the N shortest and reuses among equals; larger saves teacher
            passes.
        held_out: Sentences, drawn at random and used nowhere else, on which teacher agreement
            and the held-out loss are measured.
        further: For distillation, sentences that no word has chosen, too: their number as a share
            of that of the chosen ones.
        spans: The same for runs of neighbouring words of the chosen sentences.
        span_words: Fewest and most words of a span.
        passages: The same for runs of neighbouring sentences of the corpus.
        passage_words: Fewest and most words of a passage. Passages that are longer than the teacher
            reads are left out.

    Example:
        >>> SelectionConfig(sentences_per_word=8).reuse_length
        3.0
    """

    sentences_per_word: int = 100
    max_candidates: int = 2000
    min_words: int = 4
    reuse_length: float = 3.0
    held_out: int = 4096
    further: float = 0.0
    spans: float = 0.0
    span_words: list[int] = field(default_factory=lambda: [1, 5])
    passages: float = 0.0
    passage_words: list[int] = field(default_factory=lambda: [40, 220])

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("further", "spans", "passages"):
            value = getattr(self, name)
            require(value >= 0, f"selection.{name} must not be negative, but it is {value}.")
        for name, usual in (("span_words", [1, 5]), ("passage_words", [40, 220])):
            value = getattr(self, name)
            require(
                len(value) == 2 and 1 <= value[0] <= value[1],
                f"selection.{name} must be two numbers, the fewest and the most words, such as "
                f"{usual}, but it is {value}.",
            )
        require(
            1 <= self.sentences_per_word <= self.max_candidates,
            "Expected 1 <= selection.sentences_per_word <= selection.max_candidates, but they are "
            f"{self.sentences_per_word} and {self.max_candidates}.",
        )
        require(self.reuse_length >= 1, "selection.reuse_length must be at least 1.")
        require(self.held_out >= 2, "selection.held_out must be at least 2.")
