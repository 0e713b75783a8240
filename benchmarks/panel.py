"""The development panel: ways to distil, trained from one extraction, and scored side by side.

    python benchmarks/panel.py --corpus DIR --data DIR [--variants NAME ...] [--figure FILE] \
        [--OPTION VALUE ...]

builds `benchmarks/development.yaml` into `work/development` once for each variant, into
`models/panel-N`, and prints two tables. The first is teacher agreement on texts that no variant was
trained on and that the teacher reads to their end: sentences, spans of 1 to 5 words, passages of 40
to 220 words, and spans with the passages that they are from, as search has them; and the seconds of
the training. The second is scores, their mean, and differences to the first variant: STS12 and
STS13; STSBenchmark's validation split; classification, trained and tested on other parts of the
train splits of Banking77 and AmazonCounterfactual; clustering, search, pairs and summaries as in
mteb. Choices are made on this panel: its figures are not those of a test. `--figure` draws the
differences. Stages that are complete in the work directory are not run again, and any value can be
overridden.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
from development_build import development_parser, parse_variants, variant_config
from local_tasks import evaluate
from measuring import log_to_terminal
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sts import SPLITS, sts_scores

from st_static.distill.agreement import Target, teacher_agreement
from st_static.distill.config import BuildConfig
from st_static.distill.corpus.sentences import sentence_key, sentence_shards
from st_static.distill.corpus.shards import Shards
from st_static.distill.corpus.spans_and_passages import PassagePlan, choose, draw_passages
from st_static.distill.engines import Processes
from st_static.distill.pipeline import build
from st_static.distill.stages import BuildResult
from st_static.distill.teacher import Teacher
from st_static.encode.fast_encoder import FastEncoder
from st_static.evaluate.figures import draw_signed, new_axes, save
from st_static.evaluate.models import load_model
from st_static.evaluate.tables import as_markdown
from st_static.model.vectors import unit_rows

LENGTHS = {"--selection.spans": "0.08", "--selection.passages": "0.02"}
FULL = {**LENGTHS, "--distillation.terms": "full"}


def head(units: int) -> dict[str, str]:
    """A head of so many units."""
    return {"--distillation.head": str(units)}


VARIANTS: dict[str, dict[str, str]] = {
    "table alone": {},
    "head 512, the paper's loss": head(512),
    "table, all terms, all lengths, words": FULL,
    "head 512, all terms, all lengths, words": {**head(512), **FULL},
    "head 256, the same": {**head(256), **FULL},
    "head 128, all terms, all lengths, words": {**head(128), **FULL},
    "head 64, the same": {**head(64), **FULL},
}
TASKS = {
    "TwentyNewsgroupsClustering": "20 Newsgroups",
    "NFCorpus": "NFCorpus",
    "TwitterURLCorpus": "TwitterURL",
    "SummEval": "SummEval",
}
# Sentences of a label to train on, as mteb has them; and how often other ones are drawn.
CLASSIFICATION = {
    "Banking77Classification": ("train.parquet", "Banking77", 8, 20),
    "AmazonCounterfactualClassification": ("en/train.parquet", "AmazonCF", 32, 60),
}
SPAN_WORDS, PASSAGE_WORDS = [1, 5], [40, 220]
N_SPANS, N_PASSAGES, NEIGHBOURS = 2000, 1000, 10
TESTED = 5000


# -- agreement by kind of text ---------------------------------------------------------


class Kinds:
    """Texts of all lengths that no variant learns from, with the teacher's vectors.

    Args:
        result: A build.
        teacher: Its teacher.
        trained_on: Texts that some variant learns from.
    """

    def __init__(self, result: BuildResult, teacher: Teacher, trained_on: set[str]) -> None:
        work = result.work
        sentences = work.selected.texts.filter(pa.array(work.is_held_out)).to_pylist()
        keys = set(map(sentence_key, trained_on))
        spans = choose(fit_ones({span_of(text) for text in sentences}, keys, teacher), N_SPANS)
        shards = Shards(sentence_shards(work.folder("sentences")), Processes(1))
        plan = PassagePlan(PASSAGE_WORDS, np.uint64(2**64 - 1), [])
        drawn = draw_passages(shards, 10 * N_PASSAGES, plan)
        with_new_span = (text for text in drawn if sentence_key(span_of(text)) not in keys)
        passages = choose(fit_ones(with_new_span, keys, teacher), N_PASSAGES)
        self.of_passages = [span_of(text) for text in passages]
        self.texts = {"sentences": sentences, "spans": spans, "passages": passages}
        target = Target.fit(work.sentence_vectors, work.for_words)
        encode = lambda texts: target(teacher.model.encode(texts, batch_size=64))  # noqa: E731
        self.teacher = {kind: encode(texts) for kind, texts in self.texts.items()}
        self._span_vectors = unit_rows(encode(self.of_passages))

    def agreement(self, model: FastEncoder) -> dict[str, float]:
        """Spearman x 100 of the model's and the teacher's cosines, by kind."""
        vectors = {kind: model.encode(texts) for kind, texts in self.texts.items()}
        found = {k: teacher_agreement(v, self.teacher[k]) for k, v in vectors.items()}
        student = unit_rows(model.encode(self.of_passages)), unit_rows(vectors["passages"])
        teacher = self._span_vectors, unit_rows(self.teacher["passages"])
        return found | {"span and passage": _agreement_of_search(student, teacher)}


def fit_ones(texts: Iterable[str], trained_on: set[int], teacher: Teacher) -> Iterator[str]:
    """Texts whose keys are not among those trained on, and that the teacher reads to their end."""
    limit = teacher.max_tokens
    for text in texts:
        is_whole = limit is None or len(teacher.tokenizer.encode(text)) <= limit
        if is_whole and sentence_key(text) not in trained_on:
            yield text


def span_of(text: str) -> str:
    """A run of words of a text, as white space parts them."""
    words = text.split()
    rng = np.random.default_rng(sentence_key(text))
    length = int(rng.integers(SPAN_WORDS[0], SPAN_WORDS[1], endpoint=True))
    first = int(rng.integers(max(1, len(words) - length + 1)))
    return " ".join(words[first : first + length])


def _agreement_of_search(
    student: tuple[NDArray[np.float32], NDArray[np.float32]],
    teacher: tuple[NDArray[np.float32], NDArray[np.float32]],
) -> float:
    """Spearman x 100 of a student's and the teacher's cosines of spans and passages, as in search.

    Args:
        student: Its vectors of P spans and of P passages, of length 1, [P, D] each.
        teacher: The teacher's. Each span is compared with the passages that are nearest to it by
            these, and with as many random ones.
    """
    cosines = teacher[0] @ teacher[1].T
    near = np.argpartition(-cosines, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    others = np.random.default_rng(0).integers(len(cosines), size=near.shape)
    span = np.repeat(np.arange(len(cosines)), 2 * NEIGHBOURS)
    passage = np.concatenate([near, others], axis=1).ravel()
    found = (student[0][span] * student[1][passage]).sum(axis=1)
    return 100 * float(spearmanr(found, cosines[span, passage]).statistic)


# -- scores ----------------------------------------------------------------------------


def accuracy(
    vectors: NDArray[np.floating], labels: NDArray[np.int64], n_per_label: int, repeats: int
) -> float:
    """Mean accuracy x 100 of mteb's classifier, on other parts than it is trained on."""
    rng, found = np.random.default_rng(0), []
    for _ in range(repeats):
        order = rng.permutation(len(labels))
        train = np.concatenate([order[labels[order] == k][:n_per_label] for k in np.unique(labels)])
        test = np.setdiff1d(order, train)
        test = rng.choice(test, min(TESTED, len(test)), replace=False)
        classifier = LogisticRegression(max_iter=100).fit(vectors[train], labels[train])
        found.append(float(classifier.score(vectors[test], labels[test])))
    return 100 * float(np.mean(found))


def scores(folder: Path, data: Path) -> dict[str, float]:
    """A model's scores on the panel."""
    model = SentenceTransformer(str(folder.resolve()), device="cpu")
    sts = sts_scores(model, data)
    found = {task: sts[task] for task in SPLITS}
    for task, (file, name, n_per_label, repeats) in CLASSIFICATION.items():
        table = pl.read_parquet(data / task / file)
        vectors = model.encode(table["text"].to_list(), batch_size=1024)
        labels = table["label"].to_numpy().astype(np.int64)
        found[name] = accuracy(vectors, labels, n_per_label, repeats)
    outcome = evaluate(load_model(str(folder)), list(TASKS), ["en"], data)
    if outcome.failures:
        raise SystemExit(f"{folder}: {outcome.failures}")
    return found | {name: outcome.scores[task] for task, name in TASKS.items()}


def score_table(rows: dict[str, dict[str, float]]) -> pl.DataFrame:
    """Scores by variant, with their mean, and what falls and rises against the first one."""
    first = next(iter(rows.values()))
    return pl.DataFrame(
        [
            {
                "variant": name,
                **found,
                "mean": float(np.mean(list(found.values()))),
                "mean difference": float(np.mean([found[k] - first[k] for k in first])),
                "largest fall": min(0.0, *(found[k] - first[k] for k in first)),
            }
            for name, found in rows.items()
        ]
    )


def draw_differences(rows: dict[str, dict[str, float]], file: Path) -> None:
    """Differences of all scores to those of the first variant, as a map of colours."""
    names, tasks = list(rows), list(next(iter(rows.values())))
    values = np.array([[rows[n][t] - rows[names[0]][t] for t in tasks] for n in names[1:]])
    figure, axes = new_axes()
    draw_signed(axes, values, digits=1, fontsize=7)
    axes.set_xticks(range(len(tasks)), tasks, rotation=40, ha="right", fontsize=8)
    axes.set_yticks(range(len(names) - 1), names[1:], fontsize=8)
    axes.set_title(f"Scores x 100, above or below those of: {names[0]}", fontsize=11)
    save(figure, file)


# -- the whole -------------------------------------------------------------------------


def config_of(name: str, corpus: Path, overrides: Sequence[str] = ()) -> BuildConfig:
    """The recipe of a variant."""
    return variant_config(VARIANTS, name, "models/panel", corpus, overrides)


def main() -> None:
    """Build, measure and print."""
    parser = development_parser(__doc__)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--figure", type=Path)
    arguments, overrides = parse_variants(parser)
    # All of them, so that what is wrong with an option is told before the first build.
    configs = {name: config_of(name, arguments.corpus, overrides) for name in arguments.variants}
    log_to_terminal()
    results = {name: build(config) for name, config in configs.items()}
    trained_on = {t for r in results.values() for t in r.work.selected.texts.to_pylist()}
    first = arguments.variants[0]
    kinds = Kinds(results[first], Teacher.load(configs[first].teacher), trained_on)
    agreements, rows = [], {}
    for name, result in results.items():
        agreement = kinds.agreement(FastEncoder.from_pretrained(result.output))
        seconds = sum(s.seconds for s in result.stages if s.name in ("distillation", "pairs"))
        agreements.append({"variant": name, **agreement, "seconds of training": seconds})
        rows[name] = scores(result.output, arguments.data)
        logging.info("%s: %s %s", name, agreement, rows[name])
    print(as_markdown(pl.DataFrame(agreements)))
    print(as_markdown(score_table(rows)))
    if arguments.figure:
        draw_differences(rows, arguments.figure)


if __name__ == "__main__":
    main()
