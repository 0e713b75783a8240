"""Benchmarks that no other test runs still start, and print what they promise."""

import json
import re
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import align_lines
import cold_start
import cross_lingual
import numpy as np
import panel
import paper_switches
import phrases
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import search_scores
import transformers
from all_checkpoints import without_limit
from cluster_scaling import simulate
from matplotlib.figure import Figure
from panel_of_models import truncated
from paper_switches import SWITCHES
from ridge_start import ridge, shares
from scripts import output_here, run_script, status_here
from selection_order import Order
from sentence_transformers import SentenceTransformer
from small_build import generated_sentences, small_config, write_corpus
from transformers import BertConfig

from st_static.distill import distillation
from st_static.distill.config import SelectionConfig
from st_static.distill.corpus import selection
from st_static.distill.pipeline import build, select_sentences
from st_static.evaluate.figures import draw_signed, new_axes
from st_static.evaluate.models import EvaluatedModel
from st_static.files import write_arrow
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import sentence_means, unit_rows
from st_static.tokens.ragged import Ragged

FOLDER = Path(__file__).parents[1] / "benchmarks"
# The baseline runs in an environment of its own, with another transformers; the others are no
# scripts.
OTHERS = {"model2vec_baseline.py", "local_cluster.py", "measuring.py"}
OTHERS |= {"scaling_sample.py", "scaling_size.py"}
HERE = sorted({path.name for path in FOLDER.glob("*.py")} - OTHERS)


@pytest.mark.parametrize("script", HERE)
def test_a_benchmark_tells_how_it_is_run(script, capsys):
    if script == "peers.py":
        pytest.importorskip("gensim", reason="gensim has no release for this Python")
    assert status_here(FOLDER / script, "--help") == 0
    assert "usage:" in capsys.readouterr().out


def test_a_cold_start_of_the_model_in_the_package(monkeypatch, capsys):
    ways = {
        "none": "raise ValueError('another format')",
        "one": "import numpy, pathlib\n"
        "assert pathlib.Path(model, 'tokenizer.json').is_file()\n"
        "vector = numpy.ones(2)",
    }
    monkeypatch.setattr(cold_start, "WAYS", ways)
    arguments = ["cold_start.py", "st-static/english-384", "--turns", "1"]
    monkeypatch.setattr("sys.argv", arguments)
    cold_start.main()
    *_, none, one = capsys.readouterr().out.splitlines()
    assert none == "| none | does not load it | | | | |"
    assert re.fullmatch(r"\| one \| [\d.]+ \| 1\.0 \| \d+ \| 1\.0 \| 0e\+00 \|", one)
    monkeypatch.setattr("sys.argv", [*arguments[:1], "st-static/none"])
    with pytest.raises(SystemExit):
        cold_start.main()
    assert "there is no folder st-static/none" in capsys.readouterr().err


def test_ways_of_adding_bm25_with_their_intervals_and_whole_words(tmp_path):
    """Only stems join `boxes` and `box`, and the sets differ in this alone."""
    folders = []
    for name, query in {"same": "box", "plural": "boxes"}.items():
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        texts = ["A box of tea", *(f"A boat or {i} trains" for i in range(30))]
        ids = [f"d{i}" for i in range(len(texts))]
        corpus = pa.table({"_id": ids, "title": [""] * len(ids), "text": texts})
        pq.write_table(corpus, folders[-1] / "corpus.parquet")
        queries = pa.table({"_id": ["q", "unjudged"], "text": [query, "tea"]})
        pq.write_table(queries, folders[-1] / "queries.parquet")
        judged = pa.table({"query-id": ["q"], "corpus-id": ["d0"], "score": [1]})
        pq.write_table(judged, folders[-1] / "qrels.parquet")
    output = output_here(
        FOLDER / "hybrid_fusion.py",
        "st-static/english-384",
        "--beir",
        *map(str, folders),
    )
    heading, _, *lines = (line.strip("| ").split(" | ") for line in output.splitlines())
    rows = {way: cells for way, *cells in lines}
    assert heading == ["1 same", "1 plural", "mean"]
    assert rows["BM25"] == ["100.00 (+0.00 to +0.00)"] * 3
    assert rows["BM25, whole words"][0].startswith("100.00 ")
    assert rows["BM25, whole words"][1:] == [
        "0.00 (-100.00 to -100.00)",
        "50.00 (-50.00 to -50.00)",
    ]
    assert rows["SearchIndex"] == ["100.00"] * 3


def test_all_checkpoints_of_a_distillation_are_kept(small_teacher, tmp_path):
    config = small_config(small_teacher, write_corpus(tmp_path / "corpus.txt"), tmp_path)
    training = replace(config.distillation, max_steps=20, eval_steps=5)
    with patch.object(distillation, "training_arguments", without_limit):
        result = build(replace(config, distillation=training))
    folder = result.stage("distillation").folder / "checkpoints"
    steps = {f"checkpoint-{step}" for step in (5, 10, 15, 20)}
    assert {path.name for path in folder.glob("checkpoint-*")} == steps


def test_extraction_of_the_gpu_benchmark_runs_on_a_processor(monkeypatch):
    monkeypatch.setattr(transformers, "BertConfig", partial(BertConfig, num_hidden_layers=1))
    arguments = ["--device", "cpu", "--sentences", "8", "--batch-tokens", "256"]
    lines = output_here(FOLDER / "gpu_extraction.py", *arguments).splitlines()
    assert lines[-2].startswith("bare model: ")
    assert lines[-1].startswith("extraction: ")


@pytest.mark.parametrize("share", [0, 0.25])
def test_columns_of_unknown_words_that_cannot_differ(built, tmp_path, monkeypatch, share):
    """What follows a prefix has no vector in a table that was trained with prefixes."""
    recipe = small_config(built / "teacher/teacher", built / "corpus.txt", tmp_path)
    build(replace(recipe, pca=replace(recipe.pca, continuations=share)))
    texts = write_corpus(tmp_path / "new.txt", seed=9)
    folders = [str(tmp_path / "model"), "--work_dir", str(tmp_path / "work")]
    monkeypatch.chdir(built / "teacher")  # which the record names without what it is in
    output = output_here(FOLDER / "unknown_words.py", *folders, "--texts", str(texts))
    heading, _, row, *said = output.splitlines()
    names, values = ([cell.strip() for cell in line.split("|")] for line in (heading, row))
    cells = dict(zip(names, values, strict=True))
    assert float(cells["unknown words"].split()[0]) > 0
    pieces, prefix = (cells[f"distillation: {way}"] for way in ("pieces", "prefix"))
    is_said = any("of `pieces`, `prefix` cannot differ" in line for line in said)
    assert (is_said, pieces == prefix) == ((share == 0),) * 2


@pytest.mark.parametrize(
    ("n_workers", "driver", "expected"),
    [
        (1, 0, 2 + 2 + 3),
        (2, 0, 2 + 3),
        (9, 0, 3),
        (9, 5, 5 + 5 + 5 + 3),  # all wait for the driver
    ],
)
def test_simulated_workers_take_parts_as_they_become_free(n_workers, driver, expected):
    assert simulate(np.array([2.0, 2.0, 3.0]), driver, n_workers) == expected


def configs_of(*overrides):
    """The recipe of each switch, by the switch's name."""
    return {name: paper_switches.config_of(name, Path("texts"), overrides) for name in SWITCHES}


def test_a_switch_keeps_what_is_not_overridden():
    options = ["--vocabulary.pieces", "used", "--distillation.max-steps=7"]
    before, after = configs_of(), configs_of(*options)
    assert len({config.output for config in after.values()}) == len(after)
    for name, config in after.items():
        expected = before[name].recipe()
        expected["vocabulary"]["pieces"] = "used"
        expected["distillation"]["max_steps"] = 7
        assert config.recipe() == expected
    batches = after["batches and steps of the paper"].distillation
    assert (batches.batch_size, batches.max_steps) == (128, 7)
    assert before["all, and no pieces"].distillation.max_steps == 30_000


def test_other_files_than_those_of_the_folder():
    configs = configs_of("--corpus.files", "mine.txt", "--work-dir", "here")
    assert {(c.corpus.files, c.work_dir) for c in configs.values()} == {("mine.txt", "here")}


def test_an_option_that_is_not_there_is_told_before_the_first_build(tmp_path, monkeypatch, capsys):
    paths = ["--corpus", str(tmp_path), "--data", str(tmp_path)]
    options = [*paths, "--switches", "default", "dense Adam", "--vocabulary.sise", "9"]
    monkeypatch.chdir(tmp_path)
    assert status_here(FOLDER / "paper_switches.py", *options) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "no option --vocabulary.sise. Did you mean --vocabulary.size?" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("order", "expected"), [("shortest", [[0, 1]]), ("longest", [[2, 3]]), ("random", None)]
)
def test_an_order_takes_a_words_n_sentences_from_its_end(order, expected):
    pick = Order(order)
    config = SelectionConfig(sentences_per_word=2)
    found = [pick(np.arange(4), np.arange(4), {}, config).tolist() for _ in range(200)]
    assert all(rows == sorted(set(rows)) and len(rows) == 2 for rows in found)
    distinct = {tuple(rows) for rows in found}
    assert distinct == {tuple(rows) for rows in expected or combinations(range(4), 2)}
    assert pick(np.arange(1), np.arange(1), {}, config).tolist() == [0]


def test_a_build_with_an_order_chooses_by_it(built_config, tmp_path):
    lengths = {}
    for order in ("shortest", "random", "longest"):
        folder = tmp_path / order
        config = replace(built_config, output=str(folder / "model"), work_dir=str(folder / "work"))
        with patch.object(selection, "_pick", Order(order)):
            work = select_sentences(config).work
        lengths[order] = work.selected.lengths[~work.is_held_out].mean()
    assert lengths["shortest"] + 1 < lengths["random"] < lengths["longest"] - 1


def test_a_variant_of_the_panel_is_the_development_build_with_its_options():
    configs = {name: panel.config_of(name, Path("texts")) for name in panel.VARIANTS}
    assert len({config.output for config in configs.values()}) == len(configs)
    assert configs["table alone"].distillation.head == 0
    best = configs["head 512, all terms, all lengths, words"]
    assert (best.distillation.head, best.distillation.terms) == (512, "full")
    assert best.selection.passages == 0.02
    other = panel.config_of("head 64, the same", Path("texts"), ["--distillation.head", "32"])
    assert other.distillation.head == 32


def test_the_panel_shows_what_falls_and_what_rises():
    rows = {"first": {"A": 50.0, "B": 60.0}, "second": {"A": 53.0, "B": 59.0}}
    first, second = panel.score_table(rows).to_dicts()
    assert (first["mean difference"], first["largest fall"]) == (0, 0)
    assert (second["mean"], second["mean difference"], second["largest fall"]) == (56, 1, -1)


def test_a_model_with_fewer_dimensions_has_the_first_ones_of_its_vectors(built, tmp_path):
    texts = generated_sentences(9)
    short = SentenceTransformer(str(truncated(built / "model", 3, tmp_path / "short")))
    first = SentenceTransformer(str(built / "model")).encode(texts)[:, :3]
    np.testing.assert_allclose(short.encode(texts), unit_rows(first), atol=1e-6)


def test_the_panel_draws_falls_and_rises_as_numbers_with_a_sign(monkeypatch):
    saved: list[Figure] = []
    monkeypatch.setattr(panel, "save", lambda figure, _: saved.append(figure))
    rows = {"first": {"A": 50.0, "B": 60.0}, "second": {"A": 53.0, "B": 59.98}}
    panel.draw_differences(rows, Path("panel.png"))
    [axes] = saved[0].axes
    assert [text.get_text() for text in axes.texts] == ["+3.0", "0"]
    own = draw_signed(new_axes()[1], np.array([[3.0, -0.02]]), digits=1, fontsize=7)
    assert axes.images[0].cmap.name == own.cmap.name


def test_the_panel_tests_a_classifier_on_other_texts_than_it_learns_from():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 40)
    told_apart = np.stack([10.0 * labels, rng.normal(size=80)], axis=1)
    assert panel.accuracy(told_apart, labels, 8, 3) == 100
    noise = rng.normal(size=(80, 60))  # enough dimensions to learn all by heart
    assert 35 < panel.accuracy(noise, labels, 8, 20) < 65


def test_the_panel_measures_on_texts_that_are_new_and_whole():
    teacher = SimpleNamespace(tokenizer=build_tokenizer(["one", "two"]), max_tokens=3)
    texts = ["one", "Two", "one two", "one two one", "one two one two"]
    trained_on = {panel.sentence_key("two")}  # capitals do not make a text new
    assert list(panel.fit_ones(texts, trained_on, teacher)) == ["one", "one two", "one two one"]


def test_the_panel_compares_spans_with_the_passages_near_them():
    rng = np.random.default_rng(0)
    spans, passages, others = (panel.unit_rows(rng.normal(size=(40, 8))) for _ in range(3))
    assert panel._agreement_of_search((spans, passages), (spans, passages)) == pytest.approx(100)
    assert abs(panel._agreement_of_search((others, passages), (spans, passages))) < 40


@pytest.mark.parametrize("beside", [False, True])
def test_phrases_in_the_place_of_their_words_and_beside_them(beside):
    tokenizer = build_tokenizer(["new", "york", "city"], ["##s"])  # ids 2, 3, 4 and 5
    pairs = np.array([[3, 4], [2, 3], [3, 3]])  # ids 6, 7 and 8
    encode = phrases.Phrases(tokenizer, 3, pairs, beside)
    expected = {
        "New York City": ([7, 4], [2, 7, 3, 6, 4]),
        "new": ([2], [2]),
        "york": ([3], [3]),
        "york york york york city": ([8, 8, 4], [3, 8, 3, 8, 3, 8, 3, 6, 4]),
        "": ([], []),
        "city new, york city": ([4, 2, 1, 6], [4, 2, 1, 3, 6, 4]),
        "new yorks city": ([2, 3, 5, 4], [2, 3, 5, 4]),
    }
    ids = encode(list(expected))
    found = [row.tolist() for row in np.split(ids.values, ids.offsets[1:-1])]
    assert found == [ways[beside] for ways in expected.values()]
    assert encode.tokenizer().get_vocab_size() == 9
    assert encode.tokenizer().encode("new york").ids == [2, 3]
    # No cosine is another one at first.
    table = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    alone = phrases.Student(encode.encode_words, table, None)
    together = phrases.Student(encode, encode.add_rows(table), None)
    first, second = (phrases.unit_rows(s.encode(list(expected))) for s in (alone, together))
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert encode.add_rows(table)[6:].any(axis=1).all()  # or they stay what they are


def test_scores_of_search_are_told_by_what_reaches_them(tmp_path, monkeypatch, capsys):
    data = {"cars": ["a red car", "the fast train"], "food": ["bread and butter", "a fresh salad"]}
    for name, texts in data.items():
        (tmp_path / name).mkdir()
        rows = [{"_id": str(i), "title": "", "text": text} for i, text in enumerate(texts)]
        judged = [{"query-id": str(i), "corpus-id": str(i), "score": 1} for i in range(2)]
        for file, table in (("corpus", rows), ("queries", rows), ("qrels", judged)):
            write_table_of(tmp_path / name / f"{file}.parquet", table)
    pairs = [{"sentence1": "a dog", "sentence2": "a dog", "score": 5.0}]
    pairs += [{"sentence1": "a cat", "sentence2": "blue sky", "score": 1.0}]
    write_table_of(tmp_path / "pairs.parquet", pairs)
    folders = [str(tmp_path / name) for name in data]
    arguments = ["search_scores.py", "st-static/english-384", *folders]
    monkeypatch.setattr("sys.argv", [*arguments, "--pairs", str(tmp_path / "pairs.parquet")])
    search_scores.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| 0.70 |")]
    for row in rows:  # each text is its own query; "same field" has a share of each collection
        assert row[1:2] + row[3:] == ["0", "100", "100", "100", "0 |"]
    assert len(rows) == 2
    chances = [line.strip("| ").split(" | ") for line in lines[-6:]]
    assert [row[:2] for row in chances[:2]] == [["cars", "both"], ["cars", "meaning"]]
    assert all(0 < float(row[2]) < 0.6 and row[3] == "0" for row in chances)


def write_table_of(file, rows):
    """Write rows into a Parquet file."""
    pq.write_table(pa.Table.from_pylist(rows), file)


def test_phrases_are_frequent_pairs_that_mean_more_than_their_words(tmp_path):
    shard = tmp_path / "sentences-00000.arrow"
    sentences = ["hot dog", "a hot dog, a dog", "dog", "a dogs hot"]
    write_arrow(shard, pa.table({"text": sentences}))
    words = phrases.Phrases(build_tokenizer(["a", "hot", "dog"], ["##s"]), 3)
    for least, expected in ((1, [[2, 3], [2, 4], [3, 4]]), (2, [[3, 4]])):
        assert phrases.frequent_pairs([shard], words, least).tolist() == expected
    # Lengths do not count: the sum is that of vectors of length 1.
    of_words = np.array([[[5, 0], [0, 1]], [[1, 0], [0, 5]], [[1, 0], [1, 0]]], np.float32)
    of_pairs = np.array([[3, 3], [1, 0], [0, 1]], np.float32)
    assert phrases.farthest(of_pairs, of_words, 2).tolist() == [2, 1]


def best_sum(gains):
    """The largest sum of pairs in ascending order on both sides, cell by cell."""
    best = np.zeros((len(gains) + 1, gains.shape[1] + 1))
    for i, j in np.ndindex(gains.shape):
        best[i + 1, j + 1] = max(best[i, j + 1], best[i + 1, j], best[i, j] + gains[i, j])
    return best[-1, -1]


@pytest.mark.parametrize("sizes", [(9, 14), (14, 9), (1, 5), (6, 6)])
def test_lines_are_aligned_by_the_largest_sum_of_cosines(sizes):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        one, other = (unit_rows(rng.normal(size=(n, 3)).astype(np.float32)) for n in sizes)
        pairs = align_lines.align(one, other, least=0.3, width=50)
        assert (np.diff(pairs, axis=0) > 0).all()
        gains = one @ other.T - 0.3
        assert gains[tuple(pairs.T)].sum() == pytest.approx(best_sum(gains), abs=1e-5)


def test_lines_that_are_missing_on_either_side_are_left_out():
    """Also where the band around the diagonal is narrow, and where a translation is free."""
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng.normal(size=(400, 32)).astype(np.float32))
    kept = [np.sort(rng.choice(400, 360, replace=False)) for _ in range(2)]
    one, other = (vectors[rows] + 0.05 * rng.normal(size=(360, 32)) for rows in kept)
    free = np.flatnonzero(np.isin(kept[0], kept[1]))[50]
    one[free] = -one[free]
    pairs = align_lines.align(unit_rows(one), unit_rows(other), least=0.8, width=60)
    both = np.intersect1d(*kept)
    expected = np.stack([np.searchsorted(rows, both) for rows in kept], axis=1)
    assert np.array_equal(pairs, expected[expected[:, 0] != free])
    assert align_lines.with_lines_between(np.array([[0, 2], [3, 5], [4, 7]])).tolist() == [
        [0, 2],
        [1, 3],
        [2, 4],
        [3, 5],
        [4, 7],
    ]


def test_translations_that_people_made_are_found_among_all_lines(tmp_path):
    file = tmp_path / "pairs.jsonl"
    sides = [("a1", "b2"), ("a0", "b0"), ("a1", "b1"), ("a2", "b0"), ("a3", "elsewhere")]
    lines = [json.dumps({"anchor": one, "positive": other}) for one, other in sides]
    file.write_text("\n".join(lines))
    pairs = cross_lingual.read_pairs(file, [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2"]])
    assert pairs.tolist() == [[1, 2], [0, 0]]
    one = unit_rows(np.array([[1, 0.2], [0.1, 1], [0, 1], [1, 1]], np.float32))
    other = unit_rows(np.array([[1, 0], [0, 1], [0.5, 1]], np.float32))
    # Of the pairs' lines all are found; b1 of all lines is nearer to a1 than its translation is.
    assert cross_lingual.measure(one, other, pairs) == [100, 100, 100, 50, 50, 50]


def sure_pairs(one, other, margin):
    """Unit vectors that are each other's nearest, far before four neighbours, pair by pair."""

    def around(row, rows):
        return np.mean(sorted(near @ row for near in rows)[-4:])

    return [
        [i, j]
        for i, j in np.ndindex(len(one), len(other))
        if all(one[i] @ other[j] >= one[i] @ row for row in other)
        and all(one[i] @ other[j] >= row @ other[j] for row in one)
        and one[i] @ other[j] >= margin * (around(one[i], other) + around(other[j], one)) / 2
    ]


@pytest.mark.parametrize("margin", [0.0, 1.2, 1.5])
def test_pairs_are_sure_that_are_far_nearer_than_their_neighbours(margin):
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        one = 1 + rng.normal(size=(20, 6))
        other = rng.permutation(one + rng.normal(size=(20, 6)) * rng.uniform(0, 1.5, (20, 1)))
        centred = [unit_rows(rows) - unit_rows(rows).mean(axis=0) for rows in (one, other)]
        expected = sure_pairs(*map(unit_rows, centred), margin)
        assert cross_lingual.find_translations(one, other, margin).tolist() == expected
        found += len(expected)
    assert 0 < found < 400


@pytest.mark.parametrize("is_unit", [False, True])
def test_peers_encode_a_text_once(is_unit):
    pytest.importorskip("gensim", reason="gensim has no release for this Python")
    from peers import remembering

    encoded = []

    def encode(texts):
        encoded.extend(texts)
        return np.array([[3.0, 4.0] if text else [0.0, 0.0] for text in texts])

    model = remembering(EvaluatedModel("local/peer", "1", encode, 2), is_unit)
    whole = [0.6, 0.8] if is_unit else [3, 4]
    np.testing.assert_allclose(model.encode(["one", "", "one"]), [whole, [0, 0], whole])
    np.testing.assert_allclose(model.encode(["", "two"]), [[0, 0], whole])
    assert encoded == ["one", "", "two"]
    assert model.name == "local/peer" + "-unit" * is_unit


def test_ridge_regression_is_the_solution_of_its_normal_equations():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = Ragged(rng.integers(0, 8, lengths.sum()).astype(np.int32), offsets)
    near, y = (rng.normal(size=(n, 3)).astype(np.float32) for n in (8, 60))
    x = shares(ids, 8)
    np.testing.assert_allclose(x @ near, sentence_means(near, ids), atol=1e-6)
    x = x.toarray()
    found = ridge(shares(ids, 8), y, near, penalty=0.5, rounds=20)
    expected = np.linalg.solve(x.T @ x + 0.5 * np.eye(8), x.T @ y + 0.5 * near)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.fixture
def judged_folder(tmp_path):
    """A query for each of 20 documents, with a word of its own and others that all have."""
    texts = [f"the keeper of lighthouse zq{100 + i}" for i in range(20)]
    ids = [str(i) for i in range(20)]
    folder = tmp_path / "judged"
    folder.mkdir()
    tables = {
        "corpus": {"_id": ids, "title": [""] * 20, "text": texts},
        "queries": {"_id": ids, "text": [text.split()[-1] for text in texts]},
        "qrels": {"query-id": ids, "corpus-id": ids, "score": [1] * 20},
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def cells_of(output: str) -> list[list[str]]:
    rows = [line for line in output.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


@pytest.mark.parametrize("engine", ["SearchIndex", "LanceDB", "Qdrant"])
def test_engines_find_the_text_with_the_word(judged_folder, engine):
    if engine == "Qdrant":
        pytest.importorskip("qdrant_client", reason="tests/clients.txt has it")
    arguments = "st-static/english-384", str(judged_folder), "--engines", engine
    [_, _, best, *_] = cells_of(output_here(FOLDER / "search_engines.py", *arguments))
    assert best[:3] == [engine, "both", "100.00"]
    assert best[4] == "100 %"


@pytest.mark.slow
def test_what_an_index_costs_here_and_in_lancedb(judged_folder):
    (judged_folder / "texts.txt").write_text("\n".join(generated_sentences(3_000)), "utf-8")
    arguments = "st-static/english-384", judged_folder, "--texts", judged_folder / "texts.txt"
    *_, heading, _, here, there = cells_of(
        run_script(FOLDER / "search_engines.py", *map(str, arguments))
    )
    assert (here[0], there[0]) == ("SearchIndex", "LanceDB")
    assert len(heading) == len(here) == len(there)
    assert all(float(cell) > 0 for cell in there[1:])
