"""Phrases: frequent pairs of words with rows of their own, against words alone.

    python benchmarks/phrases.py --corpus DIR --data DIR [--phrases 5000] [--min_count 500] \
        [--OPTION VALUE ...]

builds `benchmarks/development.yaml` into `work/development` and `models/phrases`, counts pairs of
neighbouring words in all sentences of the corpus, and asks the teacher for the vectors of those
that are frequent, and of their words, each as a text of its own. Phrases are the pairs whose vector
is farthest, by its cosine, from the sum of its words' vectors of length 1. Each gets a row in the
table that sentence PCA left, which is then distilled as the build's own was, in two ways:

- `in place`: a phrase takes the place of its two words wherever they stand side by side, from left
  to right, and counts once in the mean. Its row begins as the sum of its words' rows.
- `beside`: it comes behind its first word, and both words stay. Its row begins with next to nothing
  (not with nothing: rows of zeros stay zero).

Either way the sum over a text is at first that of its words, and the mean differs in length alone,
which no cosine sees: all trainings begin with the same student. Printed are agreement with the
teacher on held-out sentences, STS12, STS13 and STSBenchmark's validation split, of the build's own
student and of these.

Stages that are complete in the work directory are not run again, and any value can be overridden.
"""

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from development_build import development_config, development_parser
from measuring import log_to_terminal
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from sts import sts_scores
from tokenizers import Tokenizer

from st_static.distill.agreement import Target, teacher_agreement
from st_static.distill.batches import training_sentences
from st_static.distill.config import DistillationConfig
from st_static.distill.corpus.sentences import sentence_shards
from st_static.distill.distillation import TrainingData, distill
from st_static.distill.pipeline import build
from st_static.distill.stages import WorkDirectory
from st_static.distill.teacher import Teacher
from st_static.evaluate.tables import as_markdown
from st_static.files import read_arrow
from st_static.languages import are_in_pieces
from st_static.model.head import Head
from st_static.model.tokenizer import SPECIAL_TOKENS, are_continuations
from st_static.model.vectors import has_vector, sentence_means, unit_rows
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged, offsets_of

SHOWN = 20
Texts = Sequence[str] | pa.Array
logger = logging.getLogger(__name__)


class Phrases:
    """Token ids of texts in which phrases are tokens of their own.

    Args:
        tokenizer: A student's tokenizer of words, V tokens.
        n_words: Words of its vocabulary.
        pairs: The ids of both words of each phrase, [N, 2]; by default there are none. Phrase i
            has the id V + i.
        beside: Whether words stay where a phrase is.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        n_words: int,
        pairs: NDArray[np.int64] | None = None,
        beside: bool = False,
    ) -> None:
        self.encode_words, self.n_tokens = FastTokenizer(tokenizer), tokenizer.get_vocab_size()
        self.n_words, self.beside = n_words, beside
        self.pairs = np.zeros((0, 2), np.int64) if pairs is None else pairs
        self._continues = are_continuations(tokenizer)

    def __call__(self, texts: Texts) -> Ragged:
        """Encode texts [B], without special tokens, as [B rows]."""
        ids = self.encode_words(texts)
        at, phrases = self._find(ids)
        return (self._put_beside if self.beside else self._put_in_place)(ids, at, phrases)

    def begin_pairs(self, ids: Ragged) -> NDArray[np.int64]:
        """Where words stand that have another one behind them: places in the ids of texts, [P].

        A word of the vocabulary with a continuation behind it is the beginning of another word.
        """
        first = len(SPECIAL_TOKENS)
        is_word = (ids.values >= first) & (ids.values < first + self.n_words)
        is_word[:-1] &= ~self._continues[ids.values[1:]]
        return np.flatnonzero(is_word[:-1] & is_word[1:] & (np.diff(ids.row_of_value) == 0))

    def add_rows(self, table: NDArray[np.float32]) -> NDArray[np.float32]:
        """A table [V, D] with a row for each phrase to begin with, [V + N, D]."""
        return np.concatenate([table, table[self.pairs].sum(axis=1) * (1e-6 if self.beside else 1)])

    def tokenizer(self) -> Tokenizer:
        """The student's tokenizer with N more tokens, which it finds in no text."""
        description = json.loads(self.encode_words.tokenizer.to_str())
        new = {f"phrase {i}": self.n_tokens + i for i in range(len(self.pairs))}
        description["model"]["vocab"] |= new
        return Tokenizer.from_str(json.dumps(description))

    def _find(self, ids: Ragged) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where phrases begin in the ids of texts, [F], and which ones they are, [F]."""
        at = self.begin_pairs(ids)
        keys = self.pairs[:, 0] * self.n_tokens + self.pairs[:, 1]
        sought = ids.values[at].astype(np.int64) * self.n_tokens + ids.values[at + 1]
        is_phrase, order = np.isin(sought, keys), np.argsort(keys)
        found = np.searchsorted(keys, sought[is_phrase], sorter=order)
        return at[is_phrase], order[found]

    def _put_in_place(
        self, ids: Ragged, at: NDArray[np.int64], phrases: NDArray[np.int64]
    ) -> Ragged:
        # Of those that overlap, one behind the other, the first, the third and so on.
        number = np.arange(len(at))
        run = np.maximum.accumulate(np.where(np.diff(at, prepend=-2) > 1, number, 0))
        taken = (number - run) % 2 == 0
        values, kept = ids.values.copy(), np.ones(len(ids.values), np.bool_)
        values[at[taken]] = self.n_tokens + phrases[taken]
        kept[at[taken] + 1] = False
        return Ragged(values, ids.offsets).filter(kept)

    def _put_beside(self, ids: Ragged, at: NDArray[np.int64], phrases: NDArray[np.int64]) -> Ragged:
        n_new = np.bincount(ids.row_of_value[at], minlength=len(ids.lengths))
        values = np.insert(ids.values, at + 1, self.n_tokens + phrases)
        return Ragged(values, offsets_of(ids.lengths + n_new))


class Student(NamedTuple):
    """A table of words and phrases, and what comes behind the mean, if anything does."""

    tokenize: Callable[[Texts], Ragged]
    table: NDArray[np.float32]
    head: Head | None

    def encode(self, sentences: Texts, /) -> NDArray[np.float32]:
        """The vectors of texts, [B, D]."""
        means = sentence_means(self.table, self.tokenize(sentences))
        return self.head(means) if self.head else means


def frequent_pairs(shards: Iterable[Path], words: Phrases, min_count: int) -> NDArray[np.int64]:
    """Pairs of neighbouring words that are seen often enough in files of sentences, ids [P, 2]."""
    shape = words.n_tokens, words.n_tokens
    counts = csr_array(shape, dtype=np.int64)
    for shard in shards:
        ids = words.encode_words(read_arrow(shard)["text"].combine_chunks())
        at = words.begin_pairs(ids)
        seen = np.ones(len(at), np.int64), (ids.values[at], ids.values[at + 1])
        counts = counts + coo_array(seen, shape=shape).tocsr()
    found = counts.tocoo()
    return np.stack(found.coords, axis=1)[found.data >= min_count].astype(np.int64)


def farthest(pairs: NDArray[np.floating], words: NDArray[np.floating], n: int) -> NDArray[np.int64]:
    """The pairs of words whose vectors are farthest from what their words give.

    Args:
        pairs: Vectors of pairs, [P, d].
        words: Vectors of both words of each, [P, 2, d].
        n: How many are wanted.

    Returns:
        Numbers of pairs, the farthest first, [at most n].
    """
    sums = unit_rows(words[:, 0]) + unit_rows(words[:, 1])
    cosines = (unit_rows(pairs) * unit_rows(sums)).sum(axis=1)
    return np.argsort(cosines, kind="stable")[:n]


def choose(work: WorkDirectory, teacher: Teacher, n: int, min_count: int) -> NDArray[np.int64]:
    """The phrases of a build's corpus, ids of both words, [at most n, 2]."""
    tokens = [*SPECIAL_TOKENS, *work.words["text"].to_pylist()]
    words = Phrases(work.tokenizer, work.words.num_rows)
    pairs = frequent_pairs(sentence_shards(work.folder("sentences")), words, min_count)
    if not len(pairs):
        raise SystemExit(
            f"No two words are seen side by side {min_count} times. Lower --min_count."
        )
    used, place = np.unique(pairs, return_inverse=True)
    names = [" ".join(tokens[i] for i in pair) for pair in pairs]
    of_words = teacher.model.encode([tokens[i] for i in used], batch_size=256)
    of_pairs = teacher.model.encode(names, batch_size=256)
    chosen = farthest(of_pairs, of_words[place.reshape(pairs.shape)], n)
    shown = ", ".join(names[i] for i in chosen[:SHOWN])
    logger.info("%d of %d frequent pairs: %s ...", len(chosen), len(pairs), shown)
    return pairs[chosen]


def train(
    work: WorkDirectory, phrases: Phrases, target: Target, config: DistillationConfig, seed: int
) -> Student:
    """A student with phrases, trained as the build trained its own."""
    table, ids = phrases.add_rows(work.table("pca")), phrases(work.selected.texts)
    seen = np.bincount(ids.values, minlength=len(table))[phrases.n_tokens :]
    logger.info("half of the phrases are seen %d times or more by the teacher", np.median(seen))
    data = TrainingData(ids.filter(has_vector(table)[ids.values]), work.sentence_vectors, target)
    split = training_sentences(work.selected.words, work.is_held_out, config, seed)
    with tempfile.TemporaryDirectory() as folder:
        found = distill(
            table,
            phrases.tokenizer(),
            data,
            held_out=split.development,
            config=config,
            folder=Path(folder),
            seed=seed,
            train=split.train,
        )
    return Student(phrases, found.table, found.head)


def measured(student: Student, work: WorkDirectory, target: Target, data: Path) -> dict[str, float]:
    """Agreement and scores of a student."""
    texts = work.selected.texts.filter(pa.array(work.is_held_out))
    teacher = target(work.sentence_vectors[work.is_held_out])
    agreement = teacher_agreement(student.encode(texts), teacher)
    return {"agreement": agreement, **sts_scores(student, data)}


def main() -> None:
    """Build, choose, train, measure and print."""
    parser = development_parser(__doc__)
    parser.add_argument("--phrases", type=int, default=5000, help="how many, at most")
    parser.add_argument("--min_count", type=int, default=500, help="times that one is seen")
    arguments, overrides = parser.parse_known_args()
    if min(arguments.phrases, arguments.min_count) < 1:
        parser.error("--phrases and --min_count must be 1 or more")
    log_to_terminal()
    config = development_config(arguments.corpus, "models/phrases", overrides)
    if are_in_pieces(config.languages):
        parser.error("a phrase is a pair of words, but this recipe's units are pieces")
    if not config.distillation.max_steps:
        parser.error("phrases are learnt in distillation, but --distillation.max_steps is 0")
    work = build(config).work
    target = Target.fit(work.sentence_vectors, work.for_words, config.distillation.center)
    last = "distillation"
    words = Student(FastTokenizer(work.tokenizer), work.table(last), work.head(last))
    rows = [{"": "words", **measured(words, work, target, arguments.data)}]
    teacher = Teacher.load(config.teacher)
    pairs = choose(work, teacher, arguments.phrases, arguments.min_count)
    for name, beside in (("phrases in place", False), ("phrases beside", True)):
        phrases = Phrases(work.tokenizer, work.words.num_rows, pairs, beside)
        student = train(work, phrases, target, config.distillation, config.seed)
        rows.append({"": name, **measured(student, work, target, arguments.data)})
    print(as_markdown(pl.DataFrame(rows)))


if __name__ == "__main__":
    main()
