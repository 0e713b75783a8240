"""Probe sentence vectors: what of a sentence does a linear classifier read from its vector?

The tasks are eight of SentEval's ten (Conneau et al. 2018), made from a text of any size. Each
class has as many texts as the others, so that a guess is right in 100 / classes of 100. The other
two, tree depth and top constituents, need parsed sentences: SentEval's own files, which are read,
too.

| task | classes |
|---|---|
| sentence length | SentEval's six ranges of words |
| word content | which of up to 100 words of medium frequency is in the sentence |
| word order | is the sentence as it was, or are two neighbouring words swapped? |
| tense | is the only finite verb past or present? |
| subject number | is the subject's noun singular or plural? |
| object number | is the object's noun singular or plural? |
| odd word | is the sentence as it was, or is a noun or verb that of another sentence? |
| order of clauses | is the sentence as it was, or have two clauses around `and` changed places? |
"""

from __future__ import annotations

import functools
import itertools
import logging
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

from st_static.evaluate.built_model import BuiltModel, Floats
from st_static.evaluate.models import EvaluatedModel
from st_static.evaluate.own_data import vectors_of
from st_static.lab.tagged_text import simple_tag, split_tagged
from st_static.model.vectors import unit_rows
from st_static.texts.text_files import read_lines

_LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))  # words
_SENTENCES = 50_000  # that tasks are made from
_TEXTS = 8_000  # of a task
_FEWEST = 20  # texts of a class
_WORDS = 100  # of word content
_SENTENCES_OF_WORD = 50  # that have one of these words, at least
_FOLDS = 4  # of which one is held out
_SPLITS = ("tr", "va", "te")  # of SentEval's files
_log = logging.getLogger(__name__)

# Brown's tags of finite verbs; VB, DO and HV may be infinitives, too.
_TENSES = {
    **dict.fromkeys(("VBD", "BED", "BEDZ", "DOD", "HVD"), "past"),
    **dict.fromkeys(("VBZ", "BEZ", "BER", "BEM", "DOZ", "HVZ"), "present"),
    "MD": "modal",
}
_MODIFIER = r"(?:A[TP]|CD|OD|DT[IS]?|JJ[RST]?|PP\$|N[NP]S?\$?) "  # before a noun that is a head
_FINITE = r"(?:VB[DZ]?|MD|(?:BE|HV|DO)[DMRZ]*) "
# A noun phrase at the beginning, with a noun as its head, before a finite verb.
_SUBJECT = re.compile(rf"(?:{_MODIFIER})*(NNS?) {_FINITE}")
# The same behind a verb in past or present, with no further noun behind it.
_OBJECT = re.compile(rf"\bVB[DZ] (?:{_MODIFIER})*(NNS?) (?![NJ])")
# The beginning of a clause: its subject, also a name or a pronoun, and its verb.
_CLAUSE = re.compile(rf"(?:(?:{_MODIFIER})*N[NP]S? |PPSS? |EX ){_FINITE}")
_REPLACED = ("NN", "NNS", "VB", "VBD", "VBG", "VBN", "VBZ")

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
    distinct = list(different.values())
    return [distinct[i] for i in order]


def _without_tags(line: str) -> Sentence:
    """Write a tagged sentence as a text, without quotation marks."""
    tokens = [(word, tag) for word, tag in split_tagged(line) if word not in ("``", "''")]
    return Sentence(_written(word for word, _ in tokens), tokens)


def _written(words: Iterable[str]) -> str:
    """Join words, without spaces before marks."""
    return re.sub(r" (?=[.,;:?!])", "", " ".join(words))


def _tags(tokens: Iterable[tuple[str, str]]) -> str:
    """Join simple tags, with a space behind each."""
    return "".join(f"{simple_tag(tag).replace('*', '')} " for _, tag in tokens)


def read_tasks(files: Sequence[Path]) -> list[ProbingTask]:
    """Make or read the tasks of some files; a ValueError if two have one name."""
    tasks = [task for file in files for task in make_tasks(file)]
    repeated = [name for name, n in Counter(task.name for task in tasks).items() if n > 1]
    if repeated:
        raise ValueError(f"Two files give the probe {repeated[0]}: give one, or rename a file.")
    return tasks


def make_tasks(file: Path) -> list[ProbingTask]:
    """Make the tasks from a file of sentences: three, and up to five more if it is tagged, with a
    warning for each task with too few sentences; or read one of SentEval's files, whose lines have
    a split, a label and a sentence, separated by tabs."""
    first = next((line for line in read_lines(file) if line.strip()), "")
    if first.partition("\t")[0] in _SPLITS:
        return [_read_split(file)]
    sentences = read_sentences(file)
    makers = {"sentence length": _by_length, "word content": _by_word, "word order": _by_order}
    of_tags = {
        "tense": _by_tense,
        "subject number": _by_subject,
        "object number": _by_object,
        "odd word": _by_odd_word,
        "order of clauses": _by_clauses,
    }
    if any(sentence.tokens for sentence in sentences):
        makers |= of_tags
    tasks = []
    for name, make in makers.items():
        classes = {key: of for key, of in make(sentences).items() if len(of) >= _FEWEST}
        if len(classes) >= 2:
            tasks.append(_task(name, classes))
            continue
        fault = (
            f"{file}: the probe of {name} needs two classes of {_FEWEST} sentences, but of the "
            f"{len(sentences):,} lines of {_LENGTHS[0][0]} to {_LENGTHS[-1][1]} words only "
            f"{len(classes)} came."
        )
        if name not in of_tags:
            raise ValueError(
                f"{fault} Give more text, a sentence a line, with spaces between words; tags are "
                "those of the Brown corpus."
            )
        _log.warning("%s It is left out.", fault)
    return tasks


def _read_split(file: Path) -> ProbingTask:
    """Read a task with its own split: learn from `tr`, hold out `te`, and leave out `va`."""
    rows: list[tuple[bool, str, str]] = []
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        split, *cells = line.split("\t", 2)
        if split not in _SPLITS or len(cells) < 2 or not all(map(str.strip, cells)):
            raise ValueError(
                f"{file}, line {number}: expected tr, va or te, a label and a sentence, with tabs "
                f"between them, but got {line!r:.60}. Correct the line, or leave it out."
            )
        if split != "va":
            label, text = cells
            rows.append((split == "te", label, text))
    is_held_out = np.array([is_test for is_test, _, _ in rows], dtype=bool)
    kinds, labels = np.unique([label for _, label, _ in rows], return_inverse=True)
    learnt = np.unique(labels[~is_held_out])
    if len(learnt) < 2 or not is_held_out.any() or set(labels) != set(learnt):
        raise ValueError(
            f"{file}: expected two labels or more in lines of tr, and the same in those of te, but "
            f"of {len(kinds)} labels {len(learnt)} are in tr, and {is_held_out.sum():,} lines are "
            "of te. Give the whole file."
        )
    texts = [text for _, _, text in rows]
    return ProbingTask(file.name.partition(".")[0], texts, labels, is_held_out)


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
    frequent = sorted((n, word) for word, n in counts.items() if n >= _SENTENCES_OF_WORD)
    # Most sentences of a small text would have several of many words.
    targets = {word for _, word in frequent[: min(_WORDS, len(frequent) // 3)]}
    classes: Classes = defaultdict(list)
    for (text, _), words in zip(sentences, words_of, strict=True):
        if len(present := words & targets) == 1:
            classes[present.pop()].append((text, text))
    return classes


def _by_order(sentences: Iterable[Sentence]) -> Classes:
    """Take each sentence as it was, and with two neighbouring words swapped: a model that does not
    see the order gives both the same vector, and so finds exactly one of them. First words, and
    words with marks, are not swapped, as that would give it away."""
    rng = np.random.default_rng(0)
    classes: Classes = {"as it was": [], "swapped": []}
    for text, _ in sentences:
        words = text.split()
        positions = [
            i
            for i, (first, second) in enumerate(itertools.pairwise(words))
            if i and first.isalpha() and second.isalpha() and first.lower() != second.lower()
        ]
        if positions:
            i = int(rng.choice(positions))
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


def _by_subject(sentences: Iterable[Sentence]) -> Classes:
    """Take the sentences that begin with their subject."""
    return _by_number(sentences, lambda tags: [_SUBJECT.match(tags)])


def _by_object(sentences: Iterable[Sentence]) -> Classes:
    """Take the sentences in which one verb has a noun behind it."""
    return _by_number(sentences, lambda tags: list(_OBJECT.finditer(tags)))


def _by_number(
    sentences: Iterable[Sentence], find: Callable[[str], list[re.Match[str] | None]]
) -> Classes:
    """Take the sentences with one such noun, by it: none is both learnt from and held out."""
    classes: Classes = defaultdict(list)
    for text, tokens in sentences:
        nouns = find(tags := _tags(tokens))
        if len(nouns) == 1 and nouns[0]:
            noun, _ = tokens[tags[: nouns[0].start(1)].count(" ")]
            number = "plural" if nouns[0][1] == "NNS" else "singular"
            classes[number].append((text, noun.lower()))
    return classes


def _by_odd_word(sentences: Sequence[Sentence]) -> Classes:
    """Take each sentence as it was, and with a noun or verb that another sentence has, of the same
    form: words are as frequent in one class as in the other."""
    rng = np.random.default_rng(0)
    words_of: dict[str, list[str]] = defaultdict(list)
    for _, tokens in sentences:
        for word, tag in filter(_is_replaced, tokens):
            words_of[tag].append(word)
    classes: Classes = {"as it was": [], "replaced": []}
    for text, tokens in sentences:
        positions = [i for i, token in enumerate(tokens) if _is_replaced(token)]
        if not positions:
            continue
        i = int(rng.choice(positions))
        words = [word for word, _ in tokens]
        others = words_of[tokens[i][1]]
        other = others[rng.integers(len(others))]
        if other not in words:
            classes["as it was"].append((text, text))
            classes["replaced"].append((_written([*words[:i], other, *words[i + 1 :]]), text))
    return classes


def _is_replaced(token: tuple[str, str]) -> bool:
    word, tag = token
    return tag in _REPLACED and word.islower()


def _by_clauses(sentences: Iterable[Sentence]) -> Classes:
    """Take the sentences of two clauses with a comma and a conjunction between them, as they were
    and with the clauses in the other order."""
    classes: Classes = {"as it was": [], "changed": []}
    for text, tokens in sentences:
        tags = [simple_tag(tag) for _, tag in tokens]
        if tags.count("CC") != 1 or "CC" in tags[:2] or tags[-1] != ".":
            continue
        i = tags.index("CC")
        first, second, end = tokens[: i - 1], tokens[i + 1 : -1], tokens[-1]
        if tags[i - 1] != "," or not all(_CLAUSE.match(_tags(part)) for part in (first, second)):
            continue
        (word, tag), (other, _) = first[0], second[0]
        lowered = word if tag.startswith("NP") or word == "I" else word[0].lower() + word[1:]
        changed = [other[0].upper() + other[1:], *(w for w, _ in second[1:]), ",", tokens[i][0]]
        changed += [lowered, *(w for w, _ in first[1:]), end[0]]
        classes["as it was"].append((text, text))
        classes["changed"].append((_written(changed), text))
    return classes


def _task(name: str, classes: Classes) -> ProbingTask:
    """Take equally many texts of each class, and hold out a quarter."""
    size = min(_TEXTS // len(classes), *map(len, classes.values()))
    chosen = [pair for of in classes.values() for pair in of[:size]]
    texts, groups = [text for text, _ in chosen], [group for _, group in chosen]
    labels = np.repeat(np.arange(len(classes)), size)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    is_held_out = np.zeros(len(texts), dtype=bool)
    is_held_out[next(folds.split(labels, labels, groups))[1]] = True
    return ProbingTask(name, texts, labels, is_held_out)
