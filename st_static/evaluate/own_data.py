"""Judge models on a user's own data: scored pairs, labelled texts, or queries with answers.

The evaluators of sentence-transformers and mteb return means. Intervals need the value of each
query or text, which pytrec_eval and scikit-learn give.

A 95 % interval comes from random halves of the items, drawn without replacement: a mean over a half
lies as far from the mean over all as that one lies from the mean over all that there could be.
Unlike a resample of the bootstrap, a half holds no item twice. That matters to what is no mean: the
bootstrap puts macro F1 too low and V-measure far too high, above its own interval.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pytrec_eval
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.cluster import MiniBatchKMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, v_measure_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier

from st_static.arguments import check_file, require
from st_static.encode.encoder import check_vectors
from st_static.evaluate.models import EvaluatedModel, batch_size_of
from st_static.evaluate.tables import as_markdown
from st_static.model.vectors import unit_rows
from st_static.progress import bar
from st_static.search.search_index import fuse
from st_static.search.word_index import Stemmer, WordIndex, split_texts, stemmer_for
from st_static.texts import arrow
from st_static.texts.columns import is_broken
from st_static.texts.csv_table import CsvTable
from st_static.texts.text_files import (
    InputFormat,
    input_format_of,
    listed,
    opened_text,
    read_objects,
)

BM25 = "BM25"
_HALVES = 1_000
_FEWEST = 20  # items from which on there are intervals
_FOLDS = 5
_NEIGHBOURS = 5
_BEST = 100  # documents that a ranking names for a query
_QUERIES_AT_A_TIME = 64
_HIGHEST_GRADE = 1_000
_FEW = 8  # differences that are read line by line
_WITHOUT_INTERVAL = {"V-measure": "the fewer the texts, the higher it is"}
# A quantity x 100 on some of N items, by their places, [n]; or its value alone, where no interval
# would hold what it is of other items.
Statistic = Callable[[NDArray[np.int64]], float] | float
# By the names of a model, or of another ranking of documents, and of the measure.
Statistics = dict[tuple[str, str], Statistic]


class Judged(NamedTuple):
    """A model's value x 100 in a measure, with its 95 % interval, or None if it has none."""

    model: str
    measure: str
    value: float
    low: float | None
    high: float | None


class Difference(NamedTuple):
    """The difference of a better and a worse model in a measure, with its 95 % interval."""

    measure: str
    better: str
    worse: str
    value: float
    low: float
    high: float


class ScoredPairs:
    """Pairs of texts with scores: how well cosines follow them; or with labels 0 and 1."""

    items = "pairs"

    def __init__(self, file: Path) -> None:
        columns = Columns(file)
        self.first = columns.texts("text1", "sentence1")
        self.second = columns.texts("text2", "sentence2")
        self.scores = columns.numbers("score", "label")
        kinds = np.unique(self.scores)
        message = f"{file}: all scores are {kinds[0]:g}. Give pairs of at least two scores."
        require(len(kinds) > 1, message)
        self.are_labels = set(kinds.tolist()) <= {0, 1}

    def __len__(self) -> int:
        return len(self.first)

    def measures(self, model: EvaluatedModel) -> Statistics:
        """Compare the cosines of pairs with their scores."""
        first, second = (vectors_of(model, side) for side in (self.first, self.second))
        cosines = (first * second).sum(axis=1)

        def statistic(rows: NDArray[np.int64]) -> float:
            scores = self.scores[rows]
            if not self.are_labels:
                return 100 * float(spearmanr(scores, cosines[rows]).statistic)
            if not scores.any():  # scikit-learn says 0, but there was nothing to find
                return float("nan")
            return 100 * float(average_precision_score(scores, cosines[rows]))

        name = "average precision" if self.are_labels else "Spearman"
        return {(model.name, name): statistic}


class LabelledTexts:
    """Texts with labels: how well classifiers on vectors find them, and clusters match them."""

    items = "texts"

    def __init__(self, file: Path) -> None:
        columns = Columns(file)
        self.texts, labels = columns.texts("text"), columns.names("label")
        counts = Counter(labels)
        require(len(counts) > 1, f"{file}: all texts have the label {labels[0]!r}; give two.")
        label, n = min(counts.items(), key=lambda item: (item[1], item[0]))
        require(
            n >= _FOLDS,
            f"{file}: {n} of the {len(labels):,} texts have the label {label!r}, but "
            f"cross-validation needs {_FOLDS}. Merge rare labels, or leave them out.",
        )
        # Numbers: measures on halves take a quarter of the time that they take of strings.
        self.labels = np.unique(labels, return_inverse=True)[1]

    def __len__(self) -> int:
        return len(self.texts)

    def measures(self, model: EvaluatedModel) -> Statistics:
        """Predict each text's label from the others, and cluster all texts."""
        vectors, labels = vectors_of(model, self.texts), self.labels
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
        regression = LogisticRegression(max_iter=1_000)
        neighbours = KNeighborsClassifier(_NEIGHBOURS)  # of unit vectors: as by the cosine
        predicted = cross_val_predict(regression, vectors, labels, cv=folds)
        near = cross_val_predict(neighbours, vectors, labels, cv=folds)
        n_labels = len(np.unique(labels))
        clusters = MiniBatchKMeans(n_labels, n_init=10, random_state=0).fit_predict(vectors)
        return {
            (model.name, "accuracy"): _mean_of(100.0 * (predicted == labels)),
            (model.name, "macro F1"): _macro_f1_of(labels, predicted),
            (model.name, "accuracy of k-NN"): _mean_of(100.0 * (near == labels)),
            # In ten clusters, it is 9 higher on 200 texts than on very many: see _WITHOUT_INTERVAL.
            (model.name, "V-measure"): 100 * float(v_measure_score(labels, clusters)),
        }


def _macro_f1_of(labels: NDArray[np.integer], predicted: NDArray[np.integer]) -> Statistic:
    """Make a statistic of the mean F1 of the labels that occur or are predicted, both [N]."""
    n = int(max(labels.max(), predicted.max())) + 1

    def statistic(rows: NDArray[np.int64]) -> float:
        true, guessed = labels[rows], predicted[rows]
        counts = np.bincount(true, minlength=n) + np.bincount(guessed, minlength=n)
        right = np.bincount(true[true == guessed], minlength=n)
        return 200 * float((right[counts > 0] / counts[counts > 0]).mean())

    return statistic


class AnsweredQueries:
    """Queries, documents, and relevance: how high a search ranks the answers, by the model, by
    BM25, and by both as `SearchIndex` adds them."""

    items = "queries"

    def __init__(self, queries: Path, documents: Path, relevant: Path) -> None:
        texts_of = {}
        for file in (documents, queries):
            columns = Columns(file)
            names, texts = columns.names("id", "_id"), columns.texts("text")
            if repeated := [name for name, n in Counter(names).items() if n > 1]:
                raise ValueError(f"{file}: the id {repeated[0]!r} comes twice. Give each its own.")
            texts_of[file] = dict(zip(names, texts, strict=True))
        columns = Columns(relevant)
        ids = columns.names("query_id", "query-id"), columns.names("document_id", "corpus-id")
        has_scores = "score" in columns.table.columns
        scores = columns.numbers("score") if has_scores else np.ones(len(ids[0]))
        self.relevant: dict[str, dict[str, int]] = {}
        for row, (query, document, grade) in enumerate(zip(*ids, scores.tolist(), strict=True), 1):
            for name, file in ((query, queries), (document, documents)):
                require(
                    name in texts_of[file],
                    f"{relevant}, row {row}, names {name!r}, but {file} has no such id. Correct "
                    "the row, or leave it out.",
                )
            require(
                grade.is_integer() and 0 <= grade <= _HIGHEST_GRADE,
                f"{relevant}, row {row}: expected a whole number from 0 to {_HIGHEST_GRADE:,} as "
                f"score, but got {grade:g}. Correct the row, or leave it out.",
            )
            judged = self.relevant.setdefault(query, {})
            message = f"{relevant} judges {document!r} for {query!r} twice, differently: leave one."
            require(judged.setdefault(document, int(grade)) == grade, message)
        grades = [grade for of_query in self.relevant.values() for grade in of_query.values()]
        message = f"{relevant} judges no document as relevant. Give some a score above 0."
        require(max(grades) > 0, message)
        self.documents = texts_of[documents]
        self.queries = {name: texts_of[queries][name] for name in self.relevant}
        self._split = split_texts(arrow.strings(list(self.documents.values())))
        self._words: dict[Stemmer | None, WordIndex] = {}
        self.unknown: dict[str, str] = {}  # by model, what it has no vectors for

    def __len__(self) -> int:
        return len(self.queries)

    def measures(self, model: EvaluatedModel) -> Statistics:
        """Rank the documents for each query, ties by their order in the file."""
        # Each text once: products of equal rows may differ in their last bits.
        rows = {text: i for i, text in enumerate(dict.fromkeys(self.documents.values()))}
        of_document = np.array([rows[text] for text in self.documents.values()])
        documents = vectors_of(model, list(rows), "document")
        queries = vectors_of(model, list(self.queries.values()), "query")
        stemmer = stemmer_for(model.state().languages)  # as `SearchIndex`
        if stemmer not in self._words:
            self._words[stemmer] = WordIndex.of([self._split], stemmer)
        alone = f"stemmed {BM25}" if stemmer else BM25
        both = f"{model.name} + {alone}"
        runs: dict[str, dict[str, dict[str, float]]] = {model.name: {}, both: {}, alone: {}}
        names = np.array(list(self.documents))
        with_vector = np.asarray(documents.any(axis=1))[of_document]
        missing = (~queries.any(axis=1)).sum(), (~with_vector).sum()
        if any(missing):
            self.unknown[model.name] = (
                f"{missing[0]:,} of {len(queries):,} queries and {missing[1]:,} of "
                f"{len(names):,} documents"
            )
        for i, (name, text) in enumerate(self.queries.items()):
            if i % _QUERIES_AT_A_TIME == 0:
                products = queries[i : i + _QUERIES_AT_A_TIME] @ documents.T
            cosines = products[i % _QUERIES_AT_A_TIME][of_document]
            words, complete = self._words[stemmer].scores(text)
            fused = fuse(cosines, words, complete)
            has_meaning: NDArray[np.bool_] = with_vector & queries[i].any()
            for ranking, scores, is_hit in (
                (model.name, cosines, has_meaning),
                (both, fused, has_meaning | (words > 0)),
                (alone, words, words > 0),
            ):
                best = np.argsort(-np.where(is_hit, scores, -np.inf), kind="stable")[:_BEST]
                best = best[is_hit[best]]
                # The rank as a score: of equal scores, pytrec_eval would take the last id first.
                ranks = np.arange(len(best), 0.0, -1).tolist()
                runs[ranking][name] = dict(zip(names[best].tolist(), ranks, strict=True))
        measures = {"nDCG@10": "ndcg_cut_10", "recall@100": "recall_100", "MRR": "recip_rank"}
        evaluator = pytrec_eval.RelevanceEvaluator(self.relevant, set(measures.values()))
        statistics = {}
        for ranking, run in runs.items():
            by_query = evaluator.evaluate(run)
            for name in self.queries:
                require(name in by_query, f"pytrec_eval left out the query {name!r}: rename it.")
            for shown, key in measures.items():
                values = [100 * by_query[name][key] for name in self.queries]
                statistics[ranking, shown] = _mean_of(np.array(values))
        return statistics


def _mean_of(values: NDArray[np.float64]) -> Statistic:
    return lambda rows: float(values[rows].mean())


OwnData = ScoredPairs | LabelledTexts | AnsweredQueries


class Columns:
    """The columns of a table in CSV, TSV, JSON lines or Parquet; a ValueError if it has no rows."""

    def __init__(self, file: Path) -> None:
        readers: dict[InputFormat, Callable[[Path], pl.DataFrame]] = {
            "csv": _read_csv,
            "tsv": _read_csv,
            "jsonl": _read_json_lines,
            "parquet": pl.read_parquet,
        }
        check_file(file)
        kind = input_format_of(file)
        require(kind in readers, f"{file}: expected a name that ends with {listed(readers)}.")
        try:
            self.table = readers[kind](file)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise ValueError(f"{file} cannot be read: {error}") from error
        require(len(self.table) > 0, f"{file} has no rows.")
        self.file = file

    def __call__(self, *names: str) -> list[Any]:
        """Take the column with the first of the names; a missing value is an error."""
        present = [name for name in names if name in self.table.columns]
        if not present:
            raise ValueError(
                f"{self.file}: expected a column {' or '.join(names)}, but its columns are "
                f"{', '.join(self.table.columns)}. Rename one."
            )
        values = self.table[present[0]].to_list()
        missing = [row for row, value in enumerate(values, 1) if _is_missing(value)]
        if missing:
            raise ValueError(
                f"{self.file}: row {missing[0]} has no {present[0]}. Fill it, or leave the row out."
            )
        return values

    def numbers(self, *names: str) -> NDArray[np.float64]:
        """Take a column of finite numbers."""
        values = self(*names)
        for row, value in enumerate(values, 1):
            try:
                is_finite = math.isfinite(float(value))
            except (TypeError, ValueError, OverflowError):
                is_finite = False
            require(
                is_finite,
                f"{self.file}, row {row}: expected a finite number, such as 0 or 1 for a label of "
                f"a pair, but got {value!r:.60}. Correct the row, or leave it out.",
            )
        return np.array(values, np.float64)

    def names(self, *names: str) -> list[str]:
        """Take a column of labels or ids, as strings; libraries cut those with NUL."""
        values = list(map(str, self(*names)))
        for row, value in enumerate(values, 1):
            require(
                "\0" not in value and not is_broken(value),
                f"{self.file}, row {row}: expected a label or id of whole characters, "
                f"without NUL, but got {value!r:.60}. Rename it.",
            )
        return values

    def texts(self, *names: str) -> list[str]:
        """Take a column of texts."""
        values = self(*names)
        for row, value in enumerate(values, 1):
            if not isinstance(value, str) or is_broken(value):
                raise ValueError(
                    f"{self.file}, row {row}: expected a text, but got {value!r:.60}. Correct the "
                    "row, or leave it out."
                )
        return values


def _is_missing(value: Any) -> bool:
    """Tell whether a cell is empty: pandas and numpy write NaN for a missing value."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _read_json_lines(file: Path) -> pl.DataFrame:
    """Read JSON lines; not with polars, which takes keys and types from the first lines alone."""
    rows = [row for _, row in read_objects(file)]
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame(columns, dict.fromkeys(names, pl.Object))


def _read_csv(file: Path) -> pl.DataFrame:
    """Read CSV or TSV as strings; not with polars, which makes one row of all between quotes."""
    with opened_text(file) as stream:
        delimiter = "\t" if input_format_of(file) == "tsv" else ","
        try:
            table = CsvTable(stream, delimiter, "line {}".format)
            names = table.header
            require(len(set(names)) == len(names), f"line 1: two of {', '.join(names)} are equal.")
            batches = list(table.read(names[0], keep=True)) if names else []
            for batch in batches:
                for row, fault in batch.faults.items():
                    raise ValueError(f"line {batch.numbers[row]}: {fault}.")
        except ValueError as error:
            has_quotes = "--quoting" in str(error)  # which this command does not have
            remedy = " Here, give such a file in Parquet or JSON lines." if has_quotes else ""
            raise ValueError(f"{file}, {error}{remedy}") from None
    columns = [batch.columns for batch in batches if batch.columns is not None]
    return pl.DataFrame(pl.from_arrow(pa.concat_tables(columns))) if columns else pl.DataFrame()


def vectors_of(model: EvaluatedModel, texts: list[str], role: str = "") -> NDArray[np.float32]:
    """Encode texts at length 1, [B, D], behind the prompt of queries or documents if any."""
    if role == "document":
        model = model.documents or model
    encode = model.encode
    if (core := model.sentence_transformer) is not None:
        call = getattr(core, f"encode_{role}" if role else "encode")
        encode = functools.partial(call, batch_size=batch_size_of(core), show_progress_bar=False)
    return unit_rows(check_vectors(np.asarray(encode(texts)), texts, model.name))


def judge(data: OwnData, models: Sequence[EvaluatedModel]) -> tuple[list[Judged], list[Difference]]:
    """Measure models one after the other; measure random halves of the items, the same for all;
    return values, and the differences whose 95 % interval is on one side of 0."""
    statistics: Statistics = {}
    with bar("models", len(models), "model") as progress:
        for model in models:
            statistics |= data.measures(model)
            progress.update()
    whole, values = np.arange(len(data)), {}
    for (name, measure), statistic in statistics.items():
        value = statistic(whole) if callable(statistic) else statistic
        message = f"The {measure} of {name} is not defined: its cosines are all equal."
        require(bool(np.isfinite(value)), message)
        values[name, measure] = value
    deviations = _on_halves(statistics, len(data))
    judged = []
    for key, value in values.items():
        low, high = None, None
        if key in deviations:  # which may lead out of the range of all measures but Spearman's
            ends = np.array(_interval(value, deviations[key]))
            low, high = ends.clip(-100 if key[1] == "Spearman" else 0, 100).tolist()
        judged.append(Judged(*key, value, low, high))
    differences = []
    for first, second in itertools.combinations(deviations, 2):
        if first[1] != second[1]:
            continue
        better, worse = (first, second) if values[first] >= values[second] else (second, first)
        value = values[better] - values[worse]
        low, high = _interval(value, deviations[better] - deviations[worse])
        if low > 0:
            differences.append(Difference(better[1], better[0], worse[0], value, low, high))
    return judged, differences


def _on_halves(statistics: Statistics, n: int) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Measure random halves of n items, and find by how much each is above their mean, [H]; without
    the statistics that have a value alone, or are undefined on some half."""
    if n < _FEWEST:
        return {}
    measured = {key: statistic for key, statistic in statistics.items() if callable(statistic)}
    halves = {key: np.empty((_HALVES // 2, 2)) for key in measured}
    # Libraries warn of halves on which a quantity is not defined.
    with (
        bar("halves", _HALVES // 2, "pair") as progress,
        warnings.catch_warnings(action="ignore"),
    ):
        for number in range(_HALVES // 2):
            order = np.random.default_rng([0, number]).permutation(n)
            for side, rows in enumerate((order[: n // 2], order[n // 2 :])):
                for key, statistic in measured.items():
                    halves[key][number, side] = statistic(rows)
            progress.update()
    shares = np.array([n // 2, n - n // 2]) / n  # by which the mean of a mean is that of all items
    return {
        key: (values - (values @ shares).mean()).ravel()
        for key, values in halves.items()
        if np.isfinite(values).all()
    }


def _interval(value: float, deviations: NDArray[np.float64]) -> tuple[float, float]:
    """Put the 2.5th and 97.5th percentiles of deviations around a value."""
    low, high = value + np.percentile(deviations, [2.5, 97.5], method="weibull")
    return float(low), float(high)


def facts_of(data: OwnData, models: Sequence[EvaluatedModel]) -> dict[str, Any]:
    """Judge models, and put the results into words: a `table` in Markdown, what it is `about`, a
    text for each of the `differences` that exceed chance, and the models' `revisions`. If there are
    too many differences to read, the table `above` lists the rows that each row is above."""
    judged, differences = judge(data, models)
    rows: dict[str, dict[str, str]] = {}
    for row in judged:
        name = row.model.removeprefix("local/")
        interval = "no interval" if row.low is None else f"{row.low:z.2f} to {row.high:z.2f}"
        value = f"{row.value:z.2f} ({interval})"
        rows.setdefault(name, {"model": name})[row.measure] = value
    measures = list(dict.fromkeys(row.measure for row in judged))
    lines = [
        f"{gap.measure}: {gap.better} above {gap.worse} by {gap.value:.2f} "
        f"({gap.low:.2f} to {gap.high:.2f})".replace("local/", "")
        for gap in sorted(differences, key=lambda gap: measures.index(gap.measure))
    ]
    numbers = {name: str(number) for number, name in enumerate(rows, 1)}
    above = {
        name: {"row": numbers[name], "model": name, **dict.fromkeys(measures, "")} for name in rows
    }
    for gap in differences:
        better, worse = (name.removeprefix("local/") for name in (gap.better, gap.worse))
        above[better][gap.measure] += f" {numbers[worse]}"
    about = f"On {len(data):,} {data.items}, x 100, with 95 % intervals from random halves."
    if len(data) < _FEWEST:
        about = f"On {len(data):,} {data.items}, x 100. Intervals need {_FEWEST} or more."
    else:
        for measure in dict.fromkeys(row.measure for row in judged if row.low is None):
            reason = _WITHOUT_INTERVAL.get(measure, "it is not defined on some of the halves")
            about += f" {measure} has none, and no difference is listed: {reason}."
    if by := {model.documents.name for model in models if model.documents}:
        about += f" Documents were encoded by {', '.join(by)}."
    if isinstance(data, AnsweredQueries):
        for name, missing in data.unknown.items():
            about += f" {name.removeprefix('local/')} knows no word of {missing}."
    return {
        "table": as_markdown(pl.DataFrame(list(rows.values()))),
        "about": about,
        "differences": lines,
        "above": as_markdown(pl.DataFrame(list(above.values()))) if len(lines) > _FEW else "",
        "revisions": [model.revision for model in models],
    }
