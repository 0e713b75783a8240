"""Intervals of 95 %: of 200 draws from a known distribution, how many hold the true value, and how
often two models that are equally good seem to differ."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from st_static.evaluate import own_data
from st_static.evaluate.own_data import LabelledTexts, ScoredPairs, Statistics

DRAWS = 200
ITEMS = 200
VERY_MANY = 300_000
# Of 200 draws that hold the value in 95 of 100 cases, so many do, but for one time in 200.
FEWEST, MOST = 181, 198

Draw = Callable[[np.random.Generator, int], Statistics]


class Drawn:
    """Items with the statistics of models."""

    items = "items"

    def __init__(self, statistics: Statistics, n: int = ITEMS) -> None:
        self.statistics, self.n = statistics, n

    def __len__(self) -> int:
        return self.n

    def measures(self, model: Any) -> Statistics:
        return self.statistics


def measured(statistics: Statistics, n: int = ITEMS) -> tuple[list, list]:
    return own_data.judge(Drawn(statistics, n), [SimpleNamespace(documents=None)])


def two(draw: Callable[[], Statistics]) -> Statistics:
    """The statistics of two models that are equally good."""
    return {
        (f"{number} {name}", measure): statistic
        for number in (1, 2)
        for (name, measure), statistic in draw().items()
    }


def search(rng: np.random.Generator, n: int) -> Statistics:
    """By the rank of each query's answer; the same queries are hard for both models."""
    ease = rng.normal(1.2, 1.2, n)

    def draw() -> Statistics:
        rank = np.ceil(np.exp(ease + rng.normal(0, 1.2, n)))
        values = {
            "MRR": 1 / rank,
            "nDCG@10": np.where(rank <= 10, 1 / np.log2(rank + 1), 0),
            "recall@100": (rank <= 25).astype(float),
            "accuracy": (rank <= 3).astype(float),
        }
        return {("", name): own_data._mean_of(100 * of) for name, of in values.items()}

    return two(draw)


def labels(rng: np.random.Generator, n: int) -> Statistics:
    """By predictions of labels, some of which are rare."""
    share = 1 / np.arange(1, 21)
    true = rng.choice(20, n, p=share / share.sum())

    def draw() -> Statistics:
        found = np.where(rng.random(n) < 0.5, true, rng.integers(0, 20, n))
        return {("", "macro F1"): own_data._macro_f1_of(true, found)}

    return two(draw)


def pairs(rng: np.random.Generator, n: int, are_labels: bool) -> Statistics:
    """By cosines that follow scores, of which many are equal, or labels."""
    drawn: Any = object.__new__(ScoredPairs)
    close = rng.normal(0, 1, n)
    drawn.scores = (close > 0.5).astype(float) if are_labels else np.clip(np.round(close), -2, 2)
    drawn.are_labels = are_labels
    drawn.second = np.ones((n, 1))

    def draw() -> Statistics:
        drawn.first = (close + rng.normal(0, 0.8, n))[:, None]
        statistics: Statistics = drawn.measures(SimpleNamespace(name=""))
        return statistics

    return draw() if are_labels else two(draw)  # scikit-learn takes its time


KINDS: dict[str, Draw] = {
    "search": search,
    "labels": labels,
    "scored pairs": lambda rng, n: pairs(rng, n, are_labels=False),
    "labelled pairs": lambda rng, n: pairs(rng, n, are_labels=True),
}


@pytest.fixture(autouse=True)
def models_that_are_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors stand for models, and few halves are drawn."""
    monkeypatch.setattr(own_data, "vectors_of", lambda model, vectors: vectors)
    monkeypatch.setattr(own_data, "_HALVES", 40)


@pytest.mark.parametrize("kind", KINDS)
def test_95_of_100_intervals_hold_the_true_value(kind: str) -> None:
    draw, whole = KINDS[kind], np.arange(VERY_MANY)
    true = {
        key: statistic(whole) if callable(statistic) else statistic
        for key, statistic in draw(np.random.default_rng(0), VERY_MANY).items()
    }
    holding = dict.fromkeys(true, 0)
    differing = {measure: 0 for model, measure in true if model.startswith("2")}
    for number in range(DRAWS):
        judged, differences = measured(draw(np.random.default_rng([1, number]), ITEMS))
        for one in judged:
            assert one.low <= one.value <= one.high
            holding[one.model, one.measure] += one.low <= true[one.model, one.measure] <= one.high
        for found in differences:
            differing[found.measure] += 1
    assert {key: n for key, n in holding.items() if not FEWEST <= n <= MOST} == {}
    same = {measure: DRAWS - n for measure, n in differing.items()}
    assert {measure: n for measure, n in same.items() if not FEWEST <= n <= MOST} == {}


def test_v_measure_has_no_interval() -> None:
    """Clusters that know nothing of 20 labels have one of 31 on 200 texts, and of 0 on very many,
    so that no interval around it would be right."""
    rng = np.random.default_rng(0)
    texts: Any = object.__new__(LabelledTexts)
    texts.labels, statistics = rng.integers(0, 20, ITEMS), {}
    for name in ("one", "other"):
        texts.texts = rng.normal(size=(ITEMS, 4))
        statistics |= texts.measures(SimpleNamespace(name=name))
    judged, differences = measured(statistics)
    of = {(one.model, one.measure): one for one in judged}
    assert of["one", "V-measure"].value > 25
    assert {key[1] for key, one in of.items() if one.low is None} == {"V-measure"}
    assert "V-measure" not in {found.measure for found in differences}
    facts = own_data.facts_of(Drawn(statistics), [SimpleNamespace(documents=None, revision="")])
    header, _, row, _ = facts["table"].splitlines()
    cells = dict(zip(header.split("|"), row.split("|"), strict=True))
    assert {key.strip() for key, cell in cells.items() if "no interval" in cell} == {"V-measure"}
    assert "V-measure has none, and no difference is listed: the fewer the" in facts["about"]


def test_few_items_have_no_interval() -> None:
    value = own_data._mean_of(np.arange(19.0))
    [one], _ = measured({("one", "accuracy"): value}, 19)
    assert one == ("one", "accuracy", 9, None, None)
    [one], _ = measured({("one", "accuracy"): own_data._mean_of(np.arange(20.0))}, 20)
    assert one.low < 9.5 < one.high


def test_what_some_half_does_not_define_has_no_interval() -> None:
    rare = np.arange(20) == 3

    def statistic(rows: np.ndarray) -> float:
        return 50.0 if rare[rows].any() else float("nan")

    [one], _ = measured({("one", "average precision"): statistic}, 20)
    assert one[2:] == (50, None, None)


@pytest.mark.parametrize(("measure", "range"), [("macro F1", (0, 100)), ("Spearman", (-100, 100))])
def test_an_interval_does_not_leave_the_range_of_its_measure(measure, range) -> None:
    values = np.arange(20.0) * 10
    for value in range:  # of which halves are up to 50 away

        def statistic(rows: np.ndarray, value: float = value) -> float:
            return value + (len(rows) < 20) * values[rows].mean()

        [one], _ = measured({("one", measure): statistic}, 20)
        assert range[0] <= one.low <= one.high <= range[1]
        assert value in (one.low, one.high)


@pytest.mark.parametrize("n", [20, 21])
def test_an_interval_stays_in_the_range_of_its_measure(n: int) -> None:
    for value in (0.0, 100.0):
        values = np.full(n, value)
        values[0] = 100 - value
        [one], _ = measured({("one", "recall@100"): own_data._mean_of(values)}, n)
        assert -1e-9 <= one.low < one.high <= 100 + 1e-9
