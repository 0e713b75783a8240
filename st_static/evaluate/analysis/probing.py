"""Probe sentence vectors: what of a sentence does a linear classifier read from its vector?

The tasks are five of SentEval's ten (Conneau et al. 2018), made from a text of any size. Each class
has as many texts as the others, so that a guess is right in 100 / classes of 100.

| task | classes |
|---|---|
| sentence length | SentEval's six ranges of words |
| word content | which of up to 100 words of medium frequency is in the sentence |
| word order | is the sentence as it was, or are two neighbouring words swapped? |
| tense | is the only finite verb past or present? |
| subject number | is the subject's noun singular or plural? |
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from st_static.evaluate.analysis.built_model import BuiltModel, Floats
from st_static.evaluate.analysis.tagged_text import simple_tag, tokens_of
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.own_data import vectors_of
from st_static.model.vectors import unit_rows
from st_static.texts.text_files import read_lines

_LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))  # words
_SENTENCES = 50_000  # that tasks are made from
_TEXTS = 8_000  # of a task
_FEWEST = 20  # texts of a class
_WORDS = 100  # of word content
_SENTENCES_OF_WORD = 50  # that have one of these words, at least
_FOLDS = 4  # of which one is held out

# Brown's tags of finite verbs; VB, DO and HV may be infinitives, too.
_TENSES = {
    **dict.fromkeys(("VBD", "BED", "BEDZ", "DOD", "HVD"), "past"),
    **dict.fromkeys(("VBZ", "BEZ", "BER", "BEM", "DOZ", "HVZ"), "present"),
    "MD": "modal",
}
# A noun phrase at the beginning, with a noun as its head, before a finite verb.
_SUBJECT = re.compile(
    r"(?:(?:A[TP]|CD|OD|DT[IS]?|JJ[RST]?|PP\$|N[NP]S?\$?) )*(NNS?) "
    r"(?:VB[DZ]?|MD|(?:BE|HV|DO)[DMRZ]*) "
)

Encode = Callable[[list[str]], Floats]
# Texts of each class, each with its group, which is held out as a whole or not at all.
Classes = dict[str, list[tuple[str, str]]]


class Sentence(NamedTuple):
    """A sentence, and its tokens with their tags if the text is tagged."""

    text: str
    tokens: Sequence[tuple[str, str]] = ()


class ProbingTask(NamedTuple):
    """Texts with the numbers of their classes, [N], and whether they are held out, [N]."""

    name: str
    texts: list[str]
    labels: NDArray[np.int64]
    is_held_out: NDArray[np.bool_]

    @property
    def chance(self) -> float:
        """The accuracy x 100 of a guess."""
        return 100 / len(np.unique(self.labels))

    def accuracy(self, encode: Encode) -> float:
        """Learn the classes of vectors, and find the mean accuracy x 100 over the classes of those
        held out."""
        vectors, held_out = unit_rows(encode(self.texts)), self.is_held_out
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
        classifier.fit(vectors[~held_out], self.labels[~held_out])
        predicted = classifier.predict(vectors[held_out])
        return 100 * float(balanced_accuracy_score(self.labels[held_out], predicted))


def probe(
    model: BuiltModel, others: Mapping[str, EvaluatedModel], tasks: Sequence[ProbingTask]
) -> pl.DataFrame:
    """Probe a model's vectors after each stage, and those of other models, at length 1."""
    encoders: dict[str, Encode] = {
        **{student.name: student.encode for student in model.students() if student.kind == "stage"},
        **{name: functools.partial(vectors_of, other) for name, other in others.items()},
    }
    chance = {"model": "chance", **{task.name: task.chance for task in tasks}}
    rows = [
        {"model": name, **{task.name: task.accuracy(encode) for task in tasks}}
        for name, encode in encoders.items()
    ]
    return pl.DataFrame([chance, *rows])


def read_sentences(file: Path) -> list[Sentence]:
    """Read at most 50,000 different lines of 5 to 28 words, drawn at random; they are tagged if
    almost all tokens have the form word/TAG."""
    lines = [line for line in read_lines(file) if line.strip()]
    has_slash = ["/" in token for line in lines[:1000] for token in line.split()]
    is_tagged = bool(has_slash) and np.mean(has_slash) > 0.9
    sentences = map(_without_tags if is_tagged else Sentence, lines)
    shortest, longest = _LENGTHS[0][0], _LENGTHS[-1][1]
    different = {
        sentence.text: sentence
        for sentence in sentences
        if shortest <= len(sentence.text.split()) <= longest
    }
    order = np.random.default_rng(0).permutation(len(different))[:_SENTENCES]
    kept = list(different.values())
    return [kept[i] for i in order]


def _without_tags(line: str) -> Sentence:
    """Write a tagged sentence as a text, without quotation marks and spaces before marks."""
    tokens = [(word, tag) for word, tag in tokens_of(line) if word not in ("``", "''")]
    text = re.sub(r" (?=[.,;:?!])", "", " ".join(word for word, _ in tokens))
    return Sentence(text, tokens)


def make_tasks(file: Path) -> list[ProbingTask]:
    """Make the tasks from a file of sentences: three from any, and two more from a tagged one."""
    sentences = read_sentences(file)
    makers = {"sentence length": _by_length, "word content": _by_word, "word order": _by_order}
    if any(sentence.tokens for sentence in sentences):
        makers |= {"tense": _by_tense, "subject number": _by_number}
    tasks = []
    for name, make in makers.items():
        classes = {key: of for key, of in make(sentences).items() if len(of) >= _FEWEST}
        if len(classes) < 2:
            raise ValueError(
                f"{file}: the probe of {name} needs two classes of {_FEWEST} sentences, but of the "
                f"{len(sentences):,} lines of {_LENGTHS[0][0]} to {_LENGTHS[-1][1]} words only "
                f"{len(classes)} came. Give more text, a sentence a line, with spaces between "
                "words; tags are those of the Brown corpus."
            )
        tasks.append(_task(name, classes))
    return tasks


def _by_length(sentences: Iterable[Sentence]) -> Classes:
    classes: Classes = defaultdict(list)
    for text, _ in sentences:
        n_words = len(text.split())
        [label] = (f"{low}-{high}" for low, high in _LENGTHS if low <= n_words <= high)
        classes[label].append((text, text))
    return classes


def _by_word(sentences: Sequence[Sentence]) -> Classes:
    """Take the sentences with exactly one of the rarest words that enough sentences have."""
    words_of = [set(re.findall(r"[^\W\d_]+", text.lower())) for text, _ in sentences]
    counts = Counter(itertools.chain.from_iterable(words_of))
    known = sorted((n, word) for word, n in counts.items() if n >= _SENTENCES_OF_WORD)
    # Most sentences of a small text would have several of many words.
    targets = {word for _, word in known[: min(_WORDS, len(known) // 3)]}
    classes: Classes = defaultdict(list)
    for (text, _), words in zip(sentences, words_of, strict=True):
        if len(found := words & targets) == 1:
            classes[found.pop()].append((text, text))
    return classes


def _by_order(sentences: Iterable[Sentence]) -> Classes:
    """Take each sentence as it was, and with two neighbouring words swapped: a model that does not
    see the order gives both the same vector, and so finds exactly one of them. Only words without
    capitals at the beginning or marks at the end are swapped, which would give it away."""
    rng = np.random.default_rng(0)
    classes: Classes = {"as it was": [], "swapped": []}
    for text, _ in sentences:
        words = text.split()
        places = [
            i
            for i, (one, other) in enumerate(itertools.pairwise(words))
            if i and one.isalpha() and other.isalpha() and one.lower() != other.lower()
        ]
        if places:
            i = int(rng.choice(places))
            swapped = [*words[:i], words[i + 1], words[i], *words[i + 2 :]]
            classes["as it was"].append((" ".join(words), text))
            classes["swapped"].append((" ".join(swapped), text))
    return classes


def _by_tense(sentences: Iterable[Sentence]) -> Classes:
    """Take the sentences with one finite verb, unless it is an auxiliary, by its form: no form is
    both learnt from and held out."""
    classes: Classes = defaultdict(list)
    for text, tokens in sentences:
        verbs = [
            (word.lower(), part)
            for word, tag in tokens
            for part in re.split("[-+*]", tag)
            if part in _TENSES
        ]
        if len(verbs) == 1 and verbs[0][1] in ("VBD", "VBZ"):
            [(form, part)] = verbs
            classes[_TENSES[part]].append((text, form))
    return classes


def _by_number(sentences: Iterable[Sentence]) -> Classes:
    """Take the sentences that begin with their subject, by its noun: none is both learnt from and
    held out."""
    classes: Classes = defaultdict(list)
    for text, tokens in sentences:
        tags = "".join(f"{simple_tag(tag).replace('*', '')} " for _, tag in tokens)
        if found := _SUBJECT.match(tags):
            noun, _ = tokens[tags[: found.start(1)].count(" ")]
            number = "plural" if found[1] == "NNS" else "singular"
            classes[number].append((text, noun.lower()))
    return classes


def _task(name: str, classes: Classes) -> ProbingTask:
    """Take as many texts of each class as of the others, and hold out a fourth."""
    size = min(_TEXTS // len(classes), *map(len, classes.values()))
    chosen = [pair for of in classes.values() for pair in of[:size]]
    texts, groups = [text for text, _ in chosen], [group for _, group in chosen]
    labels = np.repeat(np.arange(len(classes)), size)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    is_held_out = np.zeros(len(texts), dtype=bool)
    is_held_out[next(folds.split(labels, labels, groups))[1]] = True
    return ProbingTask(name, texts, labels, is_held_out)
