"""Models judged on data of one's own: values as libraries compute them from the vectors."""

import gzip
import json
import lzma
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

from st_static import FastEncoder, SearchIndex
from st_static.cli import main
from st_static.evaluate import own_data
from st_static.evaluate.models import load_model

MODEL = "st-static/english-384"
TOPICS = {
    "login": ["reset my password", "i cannot log in", "my account is locked", "change my login"],
    "hours": ["when do you open", "opening hours on sunday", "are you open today", "closing time"],
    "cards": ["my card was stolen", "block my card", "a new credit card", "lost my bank card"],
}
TEXTS = [f"{text}{end}" for texts in TOPICS.values() for text in texts for end in ("", " please")]
LABELS = [label for label, texts in TOPICS.items() for _ in texts for _ in range(2)]
SCORED = [(a, b, float(i % 4 == j % 3)) for i, a in enumerate(TEXTS) for j, b in enumerate(TEXTS)]


@pytest.fixture(autouse=True)
def fewer_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_data, "_HALVES", 60)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    folder = tmp_path_factory.mktemp("exported") / "model"
    assert main(["export", MODEL, "--output", str(folder)]) == 0
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS)


def values_of(file: str) -> dict[str, float]:
    """The first model's values in the table that `evaluate` wrote."""
    table = json.loads(Path("results", file).read_text())["table"].splitlines()
    names, cells = (
        [cell.strip() for cell in line.split("|")[2:-1]] for line in (table[0], table[2])
    )
    return {name: float(cell.split()[0]) for name, cell in zip(names, cells, strict=True)}


@pytest.mark.parametrize("are_labels", [False, True])
def test_pairs_are_ranked_by_their_cosines(vectors, are_labels: bool, capsys) -> None:
    rng = np.random.default_rng(0)
    # No pair twice, nor a text with itself: the last bits of equal cosines would rank them.
    first, second = rng.permutation(np.transpose(np.triu_indices(len(TEXTS), 1)))[:200].T
    same = [LABELS[i] == LABELS[j] for i, j in zip(first, second, strict=True)]
    scores = np.array(same, int) if are_labels else np.round(np.array(same) + rng.random(200), 2)
    columns = {"text1": [TEXTS[i] for i in first], "text2": [TEXTS[j] for j in second]}
    name = "label" if are_labels else "score"
    pl.DataFrame({**columns, name: scores}).write_csv("pairs.tsv", separator="\t")
    assert main(["evaluate", MODEL, "wordllama:256", "--pairs", "pairs.tsv"]) == 0
    cosines = (vectors[first] * vectors[second]).sum(axis=1)
    expected = average_precision_score(scores, cosines) if are_labels else None
    expected = spearmanr(scores, cosines).statistic if expected is None else expected
    [value] = values_of("own_pairs.json").values()
    assert value == pytest.approx(100 * expected, abs=0.01)
    assert "On 200 pairs, x 100, with 95 % intervals" in capsys.readouterr().out


def test_labels_are_predicted_from_other_texts(vectors) -> None:
    pl.DataFrame({"text": TEXTS, "label": LABELS}).write_ndjson("labelled.jsonl")
    assert main(["evaluate", MODEL, "--labelled", "labelled.jsonl"]) == 0
    found = values_of("own_labelled.json")
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scores = cross_val_score(LogisticRegression(max_iter=1000), vectors, LABELS, cv=folds)
    sizes = [len(test) for _, test in folds.split(vectors, LABELS)]
    assert found["accuracy"] == pytest.approx(100 * np.average(scores, weights=sizes), abs=0.01)
    assert set(found) == {"accuracy", "macro F1", "accuracy of k-NN", "V-measure"}
    assert all(value > 60 for value in found.values())


def test_answers_are_ranked_by_meaning_by_words_and_by_both(vectors) -> None:
    pl.DataFrame({"id": range(len(TEXTS)), "text": TEXTS}).write_parquet("documents.parquet")
    pl.DataFrame({"_id": ["a", "b"], "text": ["password please", "zzz"]}).write_csv("queries.csv")
    links = {"query_id": ["a", "a", "b"], "document_id": ["0", "4", "1"], "score": [2, 1, 1]}
    pl.DataFrame(links).write_csv("relevant.csv")
    files = ["--queries", "queries.csv", "--documents", "documents.parquet"]
    assert main(["evaluate", MODEL, *files, "--relevant", "relevant.csv"]) == 0
    query = load_model(MODEL).encode(["password please"])[0]
    order = np.argsort(-(vectors @ query), kind="stable").tolist()
    gains = [{0: 2, 4: 1}.get(i, 0) / np.log2(rank + 2) for rank, i in enumerate(order[:10])]
    ndcg = sum(gains) / (2 + 1 / np.log2(3))
    table = json.loads(Path("results/own_queries.json").read_text())["table"]
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == [
        *(MODEL, f"{MODEL} + stemmed BM25", "stemmed BM25")
    ]
    # The other query has no known word, and finds its answer at a place that its zeros decide.
    value = values_of("own_queries.json")["nDCG@10"]
    assert any(
        value == pytest.approx(50 * (ndcg + x), abs=0.5)
        for x in 1 / np.log2([*range(2, 12), np.inf])
    )


def test_what_search_does_not_find_is_no_answer() -> None:
    pl.DataFrame({"id": ["x", "y", "z"], "text": ["the cat", "!?", "a dog"]}).write_csv("d.csv")
    pl.DataFrame({"id": ["q"], "text": ["zzxqz"]}).write_csv("q.csv")
    pl.DataFrame({"query_id": ["q"], "document_id": ["z"]}).write_csv("r.csv")
    files = ["--queries", "q.csv", "--documents", "d.csv", "--relevant", "r.csv"]
    assert main(["evaluate", MODEL, *files]) == 0
    facts = json.loads(Path("results/own_queries.json").read_text())
    assert facts["table"].splitlines()[-1].split("|")[2].strip() == "0.00 (no interval)"
    assert facts["differences"] == []  # of one query, nothing can be told
    assert facts["about"].endswith(f"{MODEL} knows no word of 0 of 1 queries and 1 of 3 documents.")


class Fixed:
    """200 items, and rankings that are right on some of them."""

    items = "items"

    def __init__(self, **rankings) -> None:
        self.rankings = rankings

    def __len__(self) -> int:
        return 200

    def measures(self, model):
        return {
            (name, measure): own_data._mean_of(100.0 * right)
            for name, right in self.rankings.items()
            for measure in ("share", "again")
        }


MEASURED = [SimpleNamespace(documents=None, revision="")]


def test_a_difference_counts_if_its_interval_is_above_zero() -> None:
    """One is right on nine items of ten, the others on every second."""
    good, bad = np.arange(200) % 10 > 0, np.arange(200) % 2 > 0
    data = Fixed(**{"good": good, "bad": bad, "as bad": np.roll(bad, 1)})
    judged, differences = own_data.judge(data, MEASURED)
    assert [of.value for of in judged] == [90, 90, 50, 50, 50, 50]
    # The standard error of a share of 0.9 in 200 is 2.1.
    assert judged[0].low == pytest.approx(90 - 2 * 2.1, abs=1.5)
    assert {(of.better, of.worse) for of in differences} == {("good", "bad"), ("good", "as bad")}
    lines = own_data.facts_of(data, MEASURED)["differences"]
    assert [line.partition(" by 40.00 (")[0] for line in lines] == [
        *("share: good above bad", "share: good above as bad"),
        *("again: good above bad", "again: good above as bad"),
    ]


def test_many_differences_are_a_table() -> None:
    """Four models with BM25 had eighty lines; now a row says which rows it is above."""
    shares = {f"local/m{i}": np.arange(200) % 100 < 90 - 15 * i for i in range(5)}
    facts = own_data.facts_of(Fixed(**shares), MEASURED)
    rows = facts["above"].splitlines()
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    assert cells[0] == ["row", "model", "share", "again"]
    below = ["2 3 4 5", "3 4 5", "4 5", "5", ""]
    assert cells[2:] == [[f"{i + 1}", f"m{i}", of, of] for i, of in enumerate(below)]
    assert len(facts["differences"]) == 20


def test_the_command_prints_the_table_of_many_differences(monkeypatch, capsys) -> None:
    facts = {"table": "| a |", "about": "", "above": "| row |", "differences": ["one"]}
    monkeypatch.setattr(own_data, "facts_of", lambda data, models: facts)
    pl.DataFrame(ROWS).write_csv("labelled.csv")
    assert main(["evaluate", MODEL, "--labelled", "labelled.csv"]) == 0
    *_, said, above, _ = capsys.readouterr().out.splitlines()
    file = Path("results/own_labelled.json")
    assert (said, above) == (
        f"The rows that each row is above by more than chance; by how much: {file}",
        "| row |",
    )
    assert json.loads(file.read_text()) == facts


ROWS = {"text": TEXTS, "label": LABELS}
PAIRS = {"text1": ["a", "b"], "text2": ["c", "d"], "score": ["1", "2"]}
IDS = {"id": ["1", "2"], "text": ["a", "b"]}
LINK = {"query_id": ["1"], "document_id": ["2"]}
TWO_LINKS = {"query_id": ["1", "1"], "document_id": ["2", "1"]}
SAME_LINK = {"query_id": ["1", "1"], "document_id": ["2", "2"], "score": [1, 2]}
QUERIES = ("--queries", "--documents", "--relevant")
NAN = float("nan")


def pairs(**columns):
    return [PAIRS | columns]


def labelled(texts, labels):
    return [{"text": texts, "label": labels}]


def relevant(links, **columns):
    return [IDS, IDS, links | columns]


# What is given, as CSV if it is a dict of strings, else as JSON lines, and what is said of it.
REFUSED = [
    ("--pairs", [{"a": ["1"]}], "expected a column text1 or sentence1, but its columns are a."),
    ("--pairs", [{"text1": []}], "has no rows."),
    ("--pairs", pairs(score=["1", "x"]), "row 2: expected a finite number, such as 0 or 1 for"),
    ("--pairs", pairs(score=["nan", "1"]), "row 1: expected a finite number"),
    ("--pairs", pairs(score=[NAN, 1.0]), "row 1 has no score"),
    ("--pairs", pairs(score=["3", "3"]), "all scores are 3. Give pairs of at least two scores"),
    ("--pairs", pairs(text2=["c", None]), "row 2 has no text2. Fill it, or leave the row out"),
    ("--labelled", labelled(TEXTS, ["x"] * 24), "all texts have the label 'x'"),
    ("--labelled", labelled(["a"] * 9, [*"xxxxxxxxy"]), "1 of the 9 texts have the label 'y'"),
    ("--labelled", labelled([*TEXTS, "b"], [*LABELS, NAN]), "row 25 has no label"),
    ("--labelled", labelled(["a", "b"], [1.0, NAN]), "row 2 has no label"),
    ("--labelled", labelled([*TEXTS, NAN], [*LABELS, "a"]), "row 25 has no text"),
    ("--labelled", labelled([1, 2], ["a", "b"]), "row 1: expected a text, but got 1."),
    ("--labelled", labelled(["\ud800"], [1]), "row 1: expected a text, but got '\\ud800'"),
    (
        "--labelled",
        labelled(TEXTS, ["a", "a\0"] * 12),
        "row 2: expected a label or id of whole cha",
    ),
    (QUERIES, [IDS, IDS | {"id": ["1", "1"]}, LINK], "the id '1' comes twice"),
    (QUERIES, [IDS, IDS | {"id": [1.0, NAN]}, LINK], "data1.jsonl: row 2 has no id"),
    (QUERIES, [IDS, IDS | {"id": ["1", "2\0"]}, LINK], "without NUL, but got '2\\x00'."),
    (QUERIES, relevant(SAME_LINK), "judges '2' for '1' twice, differently"),
    (QUERIES, relevant(LINK, document_id=["7"]), "row 1, names '7', but data1.csv has no such id"),
    (QUERIES, relevant(LINK, query_id=["7"]), "row 1, names '7', but data0.csv has no such id"),
    (QUERIES, relevant(LINK, query_id=[NAN]), "row 1 has no query_id"),
    (QUERIES, relevant(LINK, score=[NAN]), "row 1 has no score"),
    (QUERIES, relevant(LINK, score=["0"]), "judges no document as relevant"),
    *(
        (
            QUERIES,
            relevant(TWO_LINKS, score=["1", grade]),
            f"from 0 to 1,000 as score, but got {of}",
        )
        for grade, of in [
            ("0.5", "0.5"),
            ("-1", "-1"),
            ("1001", "1001"),
            ("2147483648", "2.14748e"),
        ]
    ),
    (
        QUERIES[:2],
        [IDS, IDS],
        "Expected --pairs, --labelled, or --queries with --documents and --r",
    ),
]


def write_table(table: dict[str, list], stem: str) -> str:
    """Write a table as CSV; in JSON lines what CSV does not hold."""
    if all(isinstance(value, str | None) for values in table.values() for value in values):
        pl.DataFrame(table).write_csv(f"{stem}.csv")
        return f"{stem}.csv"
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    Path(f"{stem}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return f"{stem}.jsonl"


@pytest.mark.parametrize(("options", "tables", "says"), REFUSED)
def test_what_cannot_be_judged_is_said_before_the_work(options, tables, says: str, capsys) -> None:
    options = [options] if isinstance(options, str) else options
    files = [write_table(table, f"data{i}") for i, table in enumerate(tables)]
    named = [part for pair in zip(options, files, strict=True) for part in pair]
    assert main(["evaluate", MODEL, *named]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
    assert not Path("results").exists()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (["a", "a"], "all rows have the label 'a': give two or more."),
        (["a", "b"], "each label has one text, so no pair has the same label."),
        ([1.0, NAN], "row 2 has no label. Fill it, or leave the row out."),
    ],
)
def test_labels_that_tell_nothing_apart_are_refused(labels: list, says: str, capsys) -> None:
    pl.DataFrame({"text": ["Rain.", "Snow."], "label": labels}).write_parquet("labels.parquet")
    assert main(["analyse", MODEL, "--labelled", "labels.parquet"]) == 1
    assert capsys.readouterr().err == f"Error: labels.parquet: {says}\n"


QUOTED = 'text1\ttext2\tscore\n"Hello\tbye\t1\n%s\tsix\t2\nred\tblue\t3\n'
A_QUOTE = "line 2: a quote is opened"
BROKEN_FILES = [
    ("pairs.tsv", QUOTED % 'five" pipe', A_QUOTE),
    ("pairs.tsv", QUOTED % 'five pipe"', "Here, give such a file in Parquet or JSON lines."),
    (
        "pairs.csv",
        "text1,text2,score\na,b\n",
        "line 2: expected 3 cells, as in the header, but got 2",
    ),
    ("pairs.csv", "text1,text2,text1\na,b,1\n", "line 1: two of text1, text2, text1 are equal."),
    ("pairs.csv", "", "has no rows."),
    ("pairs.jsonl", "\n", "has no rows."),
]


@pytest.mark.parametrize(("name", "content", "says"), BROKEN_FILES)
def test_broken_files_are_told_by_line(name: str, content: str, says: str, capsys) -> None:
    Path(name).write_text(content)
    assert main(["evaluate", MODEL, "--pairs", name]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {name}")
    assert says in said
    assert (A_QUOTE in said) == (name == "pairs.tsv")


def test_json_lines_may_differ_in_keys_and_kinds_of_numbers() -> None:
    links = [LINK | {"query_id": 1, "document_id": 2}] * 101 + [
        {"query_id": "1", "document_id": "1", "score": 0.0}
    ]
    Path("relevant.jsonl").write_text("".join(f"{json.dumps(link)}\n" for link in links))
    with pytest.raises(ValueError, match="row 1 has no score"):
        own_data.Columns(Path("relevant.jsonl")).numbers("score")
    lines = [{"text1": "a", "text2": "b", "score": i % 7} for i in range(150)]
    lines.append({"text1": "a", "text2": "b", "score": 4.5})
    text = "".join(f"{json.dumps(line)}\n\n" for line in lines)
    Path("pairs.jsonl").write_text(text, "utf-8-sig")
    assert own_data.ScoredPairs(Path("pairs.jsonl")).scores[-2:].tolist() == [149 % 7, 4.5]


def test_whole_numbers_may_be_floats() -> None:
    pl.DataFrame(IDS).write_csv("texts.csv")
    pl.DataFrame({**LINK, "score": [2.0]}).write_parquet("relevant.parquet")
    data = own_data.AnsweredQueries(*map(Path, ["texts.csv", "texts.csv", "relevant.parquet"]))
    assert data.relevant == {"1": {"2": 2}}


def test_a_half_without_a_positive_pair_has_no_value() -> None:
    pl.DataFrame({**PAIRS, "score": ["0", "1"]}).write_csv("pairs.csv")
    pairs = own_data.ScoredPairs(Path("pairs.csv"))
    [statistic] = pairs.measures(load_model(MODEL)).values()
    assert np.isnan(statistic(np.array([0, 0])))
    assert statistic(np.array([1, 1])) == 100


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", ["pairs.jsonl.gz", "pairs.csv.xz", "pairs.TSV.zst"])
def test_files_may_be_compressed(name: str) -> None:
    table = pl.DataFrame(SCORED, ["text1", "text2", "score"], orient="row")
    separator = "\t" if "TSV" in name else ","
    plain = table.write_ndjson() if "jsonl" in name else table.write_csv(separator=separator)
    compress = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}
    Path(name).write_bytes(compress[name[name.rindex(".") + 1 :]](plain.encode()))
    pairs = own_data.ScoredPairs(Path(name))
    assert list(zip(pairs.first, pairs.second, pairs.scores, strict=True)) == SCORED


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    labels, found = np.array([*pairs, pairs[0]]).T  # the last is not in the half
    statistic = own_data._macro_f1_of(labels, found)
    rows = np.arange(len(pairs))
    expected = 100 * f1_score(labels[rows], found[rows], average="macro")
    assert statistic(rows) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([MODEL, "--pairs", "pairs.csv", "--tasks", "STS12"], "--tasks is of MTEB tasks"),
        ([MODEL, MODEL, "--pairs", "pairs.csv"], "A model is named twice"),
        ([MODEL, "--pairs", "nothere.csv"], "There is no file nothere.csv"),
        ([MODEL, "--tasks", "NFCorpus", "--documents", "org/m"], "documents is --documents_by."),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: list[str], says: str, capsys) -> None:
    pl.DataFrame(PAIRS).write_csv("pairs.csv")
    assert main(["evaluate", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_distributions_by_label_are_drawn(capsys) -> None:
    pl.DataFrame(ROWS).write_csv("labelled.csv")
    assert main(["analyse", MODEL, "--labelled", "labelled.csv", "--output", "out"]) == 0
    rows = json.loads(Path("out/labels.json").read_text())
    lengths = [len(text.split()) for text in TEXTS[:8]]
    assert (rows[0]["group"], rows[0]["median"]) == ("login", np.median(lengths))
    same, other = rows[-2:]
    assert (same["group"], other["group"]) == ("same label", "two labels")
    assert same["median"] > other["median"]
    assert same["area"] + other["area"] == pytest.approx(100)
    assert same["n"] == other["n"] == 20_000
    for name in ("lengths_by_label", "cosines_by_label"):
        assert Path("out", f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    pairs = {"text1": TEXTS, "text2": TEXTS[::-1], "label": ["yes", "no"] * 12}
    pl.DataFrame(pairs).write_csv("pairs.csv")
    assert main(["analyse", MODEL, "--labelled", "pairs.csv", "--output", "out"]) == 0
    groups = [row["group"] for row in json.loads(Path("out/labels.json").read_text())]
    assert groups == ["yes", "no"] * 2
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["analyse", MODEL, "--labelled", "pairs.csv", "--tasks", "STS12"])
    assert "--labelled takes MODEL and --output alone." in capsys.readouterr().err


def test_equal_documents_are_ranked_as_search_ranks_them() -> None:
    """The first of them is the best, whatever they are called: by meaning, by words, by both."""
    rng = np.random.default_rng(0)
    texts = [TEXTS[i] for i in rng.integers(0, len(TEXTS), 203)]
    queries = ["passwords", "opening hours", "a bank card", "please"]
    index = SearchIndex.build(FastEncoder.from_pretrained(MODEL), texts)
    found = []
    for names in (range(203), range(202, -1, -1), rng.permutation(203)):
        ids = [f"{name:03}" for name in names]
        pl.DataFrame({"id": ids, "text": texts}).write_csv("d.csv")
        pl.DataFrame({"id": queries, "text": queries}).write_csv("q.csv")
        links = [(query, ids[i], 1 + i % 5) for query in queries for i in range(0, 203, 3)]
        columns = ["query_id", "document_id", "score"]
        pl.DataFrame(links, columns, orient="row").write_csv("r.csv")
        data = own_data.AnsweredQueries(Path("q.csv"), Path("d.csv"), Path("r.csv"))
        measured = data.measures(load_model(MODEL))
        found.append({key: [of(np.array([i])) for i in range(4)] for key, of in measured.items()})
    assert found[0] == found[1] == found[2]
    grades = np.array([1 + i % 5 if i % 3 == 0 else 0 for i in range(203)])
    ideal = (np.sort(grades)[::-1][:10] / np.log2(np.arange(2, 12))).sum()
    rankings = {MODEL: "meaning", f"{MODEL} + stemmed BM25": "both", "stemmed BM25": "words"}
    for ranking, by in rankings.items():
        hits = [index.search(query, len(texts), by)[:10] for query in queries]
        gains = [grades[[hit.position for hit in of]] for of in hits]
        dcg = [(of / np.log2(np.arange(len(of)) + 2)).sum() for of in gains]
        expected = (100 * np.array(dcg) / ideal).tolist()
        assert found[0][ranking, "nDCG@10"] == pytest.approx(expected, abs=1e-6)


def test_a_query_that_is_not_evaluated_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = SimpleNamespace(evaluate=lambda run: {})
    monkeypatch.setattr(own_data.pytrec_eval, "RelevanceEvaluator", lambda *_: evaluator)
    pl.DataFrame(IDS).write_csv("texts.csv")
    pl.DataFrame(LINK).write_csv("relevant.csv")
    data = own_data.AnsweredQueries(*map(Path, ["texts.csv", "texts.csv", "relevant.csv"]))
    with pytest.raises(ValueError, match="left out the query '1'"):
        data.measures(load_model(MODEL))
