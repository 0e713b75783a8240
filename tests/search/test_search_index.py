"""Searching by meaning, by words and by both, in memory and in a saved index."""

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_model import write_random_model
from small_build import generated_sentences

import st_static.search.search_index as search_index
from st_static import FastEncoder, SearchIndex
from st_static.model.static_model import StatedFacts, StaticModel
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import unit_rows
from st_static.search.search_index import BLOCK, By

TEXTS = ["the auto", "a red boat", "the boat X7 is red", "", "?! zzz"]


@pytest.fixture(scope="module")
def encoder() -> FastEncoder:
    """A model in which `car` and `auto` mean the same."""
    tokenizer = build_tokenizer(["car", "auto", "boat", "red", "the", "is"])
    rows = tokenizer.get_vocab()
    table = np.zeros((len(rows), 3), np.float32)
    table[[rows["car"], rows["auto"]]] = [1, 0, 0]
    table[rows["boat"]] = [0, 1, 0]
    table[rows["red"]] = [0, 0, 1]
    return FastEncoder(StaticModel(tokenizer, table, normalize=True, name="cars"))


@pytest.fixture(scope="module")
def index(encoder: FastEncoder) -> SearchIndex:
    return SearchIndex.build(encoder, TEXTS)


def test_by_meaning_only_known_words_count(index: SearchIndex) -> None:
    hits = index.search("car X7", by="meaning")
    assert [hit.position for hit in hits] == [0, 1, 2]  # the others have no vector
    assert [hit.score for hit in hits] == [1, 0, 0]
    assert hits[0].row == {"text": "the auto"}
    assert index.search("zzz", by="meaning") == []


def test_by_words_texts_without_a_vector_are_found_too(index: SearchIndex) -> None:
    [hit] = index.search("ZZZ", by="words")
    assert (hit.position, hit.meaning) == (4, None)
    # One word of a text of one; the average of the five texts has 11 / 5 words.
    assert hit.words == pytest.approx(np.log(1 + 4.5 / 1.5) / (1 + 1.5 * (0.25 + 0.75 / 2.2)))
    assert index.search("car", by="words") == []


def test_bm25_is_scaled_and_both_are_halved(index: SearchIndex) -> None:
    hits = index.search("red X7")
    assert [hit.position for hit in hits] == [2, 1, 0]
    expected = np.log(1 + np.array([3.5 / 2.5, 4.5 / 1.5])).sum() / 2.5  # "red" and "x7"
    for hit, cosine in zip(hits, [0.5**0.5, 0.5**0.5, 0], strict=True):
        assert hit.meaning == pytest.approx(cosine, abs=1e-3)
        assert hit.score == pytest.approx((cosine + hit.words / expected) / 2, abs=1e-3)
    [alone] = index.search("zzz")
    assert (alone.position, alone.meaning) == (4, None)
    assert index.search("🎉") == []


def test_several_queries_and_few_hits(index: SearchIndex) -> None:
    one, two = index.search(pa.array(["car", "boat"]), top=1)
    assert one == index.search("car")[:1]
    assert two == index.search("boat")[:1]


@pytest.mark.parametrize("by", ["meaning", "words", "both"])
def test_a_hit_names_the_querys_words_that_its_text_has(encoder, tmp_path: Path, by: By) -> None:
    built = SearchIndex.build(encoder, TEXTS, {"id": list("abcde")})  # without the texts
    built.save(tmp_path)
    for index in (built, SearchIndex.open(tmp_path, encoder)):
        hits = index.search("RED? x7 and the car, red!", by=by)
        matched = {hit.row["id"]: hit.matched for hit in hits}
        assert matched == {"a": ["the"], "b": ["red"], "c": ["red", "x7", "the"]}


def test_pairs_of_words_make_the_cosine_of_a_hit(encoder: FastEncoder, index: SearchIndex) -> None:
    query = "a red red car"
    for hit in index.search(query, by="meaning"):
        pairs = index.pairs(query, hit)
        assert sum(pair.share for pair in pairs) == pytest.approx(hit.meaning, abs=1e-3)
    [hit] = index.search("CAR boat", top=1, by="meaning")
    pairs = {(pair.first, pair.second): pair.share for pair in index.pairs("CAR boat", hit)}
    expected = {("CAR", "auto"): 0.5**0.5, ("boat", "auto"): 0}
    assert pairs == pytest.approx(expected)
    assert index.pairs("zzz", hit) == []
    [unknown] = index.search("zzz")
    assert index.pairs("car", unknown) == []


def test_pairs_are_of_the_text_among_the_columns_with_the_prompts_that_were_used(encoder) -> None:
    prompts = {"query": "red ", "document": "boat "}
    prompted = FastEncoder(dataclasses.replace(encoder.model, prompts=prompts, prompt="is "))
    columns = {"id": [1], "title": ["red boat"], "body": ["An auto"]}
    index = SearchIndex.build(prompted, ["An auto"], columns)
    [hit] = index.search("car")
    shares = {(pair.first, pair.second): pair.share for pair in index.pairs("car", hit)}
    ways = [("red", "boat"), ("red", "auto"), ("car", "boat"), ("car", "auto")]
    assert shares == pytest.approx(dict(zip(ways, [0, 0, 0, 0.5], strict=True)))
    for texts, vectors in ((["boat"], None), (["An auto"], np.array([[0, 1, 0]]))):
        other = SearchIndex.build(prompted, texts, {"title": ["An auto"]}, vectors)
        assert other.pairs("car", other.search("car")[0]) == []
    with pytest.raises(TypeError, match="Expected a str as query"):
        index.pairs(["car"], hit)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[FastEncoder, list[str], np.ndarray]:
    """A random model, and sentences with their vectors in float32."""
    texts = generated_sentences(3000)
    words = sorted({word for text in texts for word in text.lower().strip(".").split()})
    folder = tmp_path_factory.mktemp("search") / "model"
    write_random_model(folder, build_tokenizer(words[::2]), 16)
    encoder = FastEncoder.from_pretrained(folder)
    return encoder, texts, encoder.encode(texts)


@pytest.mark.parametrize("by", ["meaning", "words", "both"])
def test_search_ranks_as_numpy_does(
    many, monkeypatch: pytest.MonkeyPatch, by: search_index.By
) -> None:
    encoder, texts, vectors = many
    monkeypatch.setattr(search_index, "BLOCK", 700)
    index = SearchIndex.build(encoder, texts)
    has_vector = vectors.any(axis=1)
    steps = np.abs(vectors).max(axis=1, keepdims=True) / 127
    rounded = np.rint(np.divide(vectors, steps, where=steps > 0, out=np.zeros_like(vectors)))
    for query in texts[:20]:
        vector = encoder.encode(query, normalize_embeddings=True)
        cosines = np.full(len(texts), np.inf)
        lengths = np.linalg.norm(rounded[has_vector], axis=1)
        cosines[has_vector] = rounded[has_vector] @ vector / lengths
        exact = vectors[has_vector] @ vector / np.linalg.norm(vectors[has_vector], axis=1)
        np.testing.assert_allclose(cosines[has_vector], exact, atol=0.01)
        cosines[~has_vector] = 0
        words, complete = index.words.scores(query)
        both = (cosines + words / complete) / 2
        expected = np.sort({"meaning": cosines, "words": words, "both": both}[by])[::-1][:10]
        found = [hit.score for hit in index.search(query, by=by)]
        assert len(found) == (min(10, np.count_nonzero(words)) if by == "words" else 10)
        np.testing.assert_allclose(found, expected[: len(found)], atol=1e-5)


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 3, 8, 33]),
    st.sampled_from([1, 7, 300, 6_000]),
    st.sampled_from([0.02, 0.5, 1, 3]),
)
def test_the_best_are_found_whatever_the_halves_hold(seed, dimension, n, share) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, dimension)).astype(np.float32)
    vectors[:, dimension // 2 :] *= share  # much or little of the length is in the second half
    vectors[rng.random(n) < 0.1] = 0
    query = rng.normal(size=(1, dimension)).astype(np.float32)
    tokenizer = build_tokenizer(["car"])
    table = np.repeat(query, tokenizer.get_vocab_size(), axis=0)
    model = StaticModel(tokenizer, table, normalize=True, name="cars")
    index = SearchIndex.build(FastEncoder(model), None, {"id": range(n)}, vectors)
    rows = np.hstack([index.first, index.second]).astype(np.float64) - 128
    lengths = np.linalg.norm(rows, axis=1)
    cosines = rows[lengths > 0] @ unit_rows(query)[0] / lengths[lengths > 0]
    found = [hit.score for hit in index.search("car", top=5)]
    np.testing.assert_allclose(found, np.sort(cosines)[::-1][:5] / 2, atol=1e-5)


@pytest.mark.parametrize("n_texts", [1, 20, 255, 256, 257, 30_000])
@pytest.mark.parametrize("n_different", [1, 3, 100_000])
@pytest.mark.parametrize("floor", [-np.inf, 0])
def test_the_largest_scores_are_found_also_among_equal_ones(n_texts, n_different, floor):
    scores = np.random.default_rng(0).integers(n_different, size=n_texts).astype(np.float32)
    for n in (1, 20, 40):
        found = search_index._largest(scores, n, floor)
        assert (np.diff(found) > 0).all()
        best = np.argsort(-scores, kind="stable")[:n]
        np.testing.assert_array_equal(found, np.sort(best[scores[best] > floor]))


def test_a_saved_index_finds_the_same(many, tmp_path: Path) -> None:
    encoder, texts, _ = many
    columns = pa.table({"id": range(len(texts))})
    index = SearchIndex.build(encoder, texts, columns)
    index.save(tmp_path / "index")
    (tmp_path / "index" / "notes.txt").write_text("mine")
    index.save(tmp_path / "index")
    assert (tmp_path / "index" / "notes.txt").read_text() == "mine"
    again = SearchIndex.open(tmp_path / "index", encoder)
    assert all(isinstance(half, np.memmap) for half in (again.first, again.second))
    assert again.search(texts[:9]) == index.search(texts[:9])
    assert again.search(texts[5])[0].row == {"id": 5}
    int8 = dataclasses.replace(again, encoder=FastEncoder(encoder.model, dtype="int8"))
    SearchIndex.open(tmp_path / "index", int8.encoder)  # the same model


def test_indexes_of_other_models_are_refused(many, encoder, index, tmp_path: Path) -> None:
    index.save(tmp_path)
    with pytest.raises(
        ValueError, match=r"with the model cars and has vectors of 3 dimensions, bu"
    ):
        SearchIndex.open(tmp_path, many[0])
    table = encoder.model.table
    for another in (table[:, [1, 0, 2]], table + np.float32([0, 0.1, 0])):
        other = FastEncoder(dataclasses.replace(encoder.model, table=another, name="boats"))
        with pytest.raises(
            ValueError, match="model cars, but boats gives that model's words other vectors"
        ):
            SearchIndex.open(tmp_path, other)
    with pytest.raises(ValueError, match=r"There is no index in .*nothere"):
        SearchIndex.open(tmp_path / "nothere", encoder)


def test_an_index_without_its_header_is_told_as_broken(encoder, index, tmp_path: Path) -> None:
    index.save(tmp_path)
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ValueError, match=r"is broken: index\.json cannot be read\. Remove"):
        SearchIndex.open(tmp_path, encoder)


@pytest.mark.parametrize("header", ["{}", '{"probes": 1}', '["format", "model", "probes"]'])
def test_other_folders_are_not_overwritten(index, tmp_path: Path, header: str) -> None:
    (tmp_path / "index.json").write_text(header)
    with pytest.raises(ValueError, match="holds something that is not a search index"):
        index.save(tmp_path)
    with pytest.raises(ValueError, match="There is no index in"):
        SearchIndex.open(tmp_path, index.encoder)


def test_texts_without_a_vector_change_nothing_for_the_others(encoder: FastEncoder) -> None:
    texts = ["the auto", "a red boat", "red auto"]
    alone = SearchIndex.build(encoder, texts)
    among = SearchIndex.build(encoder, [*[""] * 300, *texts, *["!?"] * 300])
    for by in ("both", "meaning"):
        hits = among.search("car", by=by)
        assert [hit.position - 300 for hit in hits] == [0, 2, 1]
        expected = [hit.score for hit in alone.search("car", by=by)]
        assert [hit.score for hit in hits] == pytest.approx(expected)


def test_blocks_without_any_vector_are_searched_by_their_words(encoder, monkeypatch) -> None:
    monkeypatch.setattr(search_index, "BLOCK", 2)
    index = SearchIndex.build(encoder, ["zzz", "xyz", "car", "boat", "zzz xyz"])
    assert len(index._blocks) == 3

    def positions(by: By) -> list[int]:
        return [hit.position for hit in index.search("zzz car", by=by)]

    assert positions("meaning") == [2, 3]
    assert sorted(positions("words")) == [0, 2, 4]
    assert positions("both")[0] == 2
    assert sorted(positions("both")) == [0, 2, 3, 4]
    assert [hit.position for hit in index.search("zzz")] == [0, 4]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 30, 400]),
    st.sampled_from([1, 50, 400, 6_000]),
    st.sampled_from(["the red car zzz", "auto", "boat zzz", "zzz xyz", "car"]),
    st.sampled_from(["both", "meaning", "words"]),
)
def test_the_best_few_are_the_first_of_the_best_many(encoder, seed, n_texts, n, query, by) -> None:
    """By their scores, then by their positions, however many texts are equal."""
    rng = np.random.default_rng(seed)
    words = ["car", "auto", "Auto", "boat", "red", "the", "is", "zzz", "xyz"]
    texts = [" ".join(rng.choice(words, size=rng.integers(1, 9))) for _ in range(n_texts)]
    index = SearchIndex.build(encoder, [texts[i] for i in rng.integers(n_texts, size=n)])
    hits = index.search(query, top=n, by=by)
    assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.position))
    same = {hit.row["text"]: hit.score for hit in hits}
    assert all(hit.score == same[hit.row["text"]] for hit in hits)
    for top in {1, 2, 7, 50, 150, n // 3 + 1}:
        assert index.search(query, top=top, by=by) == hits[:top]
        for floor in {0.0, -0.5, 1.5, *(hit.score for hit in hits[:: len(hits) // 5 + 1])}:
            for at_least in (floor, math.nextafter(floor, 2)):
                enough = [hit for hit in hits if hit.score >= at_least][:top]
                assert index.search(query, top, by, at_least) == enough


def test_without_a_vector_equal_means_are_ranked_by_position(encoder, monkeypatch) -> None:
    index = SearchIndex.build(encoder, ["zzz"] * 9)
    words = np.float32(1.9) + np.arange(9, dtype=np.float32) * np.float32(2**-23)
    means = search_index.fuse(np.zeros_like(words), words, 0.9)
    assert len(set(means.tolist())) < len(set(words.tolist()))
    monkeypatch.setattr(type(index.words), "scores", lambda _, query: (words, 0.9))
    best = np.argsort(-means, kind="stable").tolist()
    for top in range(1, 10):
        assert [hit.position for hit in index.search("zzz", top=top)] == best[:top]


def test_fewer_texts_are_compared_if_few_can_reach_the_least_score(many, monkeypatch) -> None:
    encoder, texts, _ = many
    index, compared = SearchIndex.build(encoder, texts), []
    compare = SearchIndex._cosines

    def counted(self, vector, positions):
        compared.append(len(positions))
        return compare(self, vector, positions)

    monkeypatch.setattr(SearchIndex, "_cosines", counted)
    hits = index.search(texts[0], 10, "meaning")
    of_all = sum(compared)
    compared.clear()
    assert index.search(texts[0], 10, "meaning", hits[0].score)[0] == hits[0]
    assert 0 < sum(compared) < of_all / 3


QUESTIONS = [
    "How do I reset my password?",
    "What are your opening hours?",
    "Can I pay by credit card?",
    "Where is my order?",
    "How do I return a broken item?",
    "Do you deliver to other countries?",
    "Why was my account locked?",
    "How do I change my address?",
]


@pytest.mark.parametrize("shift", [0, 1], ids=["the model in the package", "with high cosines"])
def test_what_fits_is_above_chance_and_what_does_not_is_not(shift: float) -> None:
    model = FastEncoder.from_pretrained("st-static/english-384").model
    table = np.array(model.table, np.float32)
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    table += shift * lengths * np.float32(table.shape[1] ** -0.5)  # all in the same direction
    encoder = FastEncoder(dataclasses.replace(model, table=table))
    index = SearchIndex.build(encoder, QUESTIONS)
    assert index.chance() == index.chance("both")
    for by in ("meaning", "both"):
        chance = index.chance(by)
        assert chance > 0.6 * shift * (1 if by == "meaning" else 0.5)
        for query, position in [("money back, damaged goods", 4), ("forgotten password", 0)]:
            hits = index.search(query, by=by)
            assert hits[0].position == position
            assert hits[0].score > chance
        assert index.search("volcanic sediments", by=by)[0].score <= chance
    assert index.chance("words") == 0


def test_chance_needs_no_words_in_the_texts(encoder: FastEncoder) -> None:
    index = SearchIndex.build(encoder, None, {"id": [1]}, np.array([[0, 1, 0]]))
    assert 0.1 < index.chance("meaning") <= 1
    assert index.chance("both") == pytest.approx(index.chance("meaning") / 2)


@pytest.mark.parametrize("dimension", [2, 7, 100, 513, 9_000])
def test_equal_texts_have_equal_cosines(encoder: FastEncoder, dimension: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(encoder.model.tokenizer.get_vocab()), dimension))
    model = dataclasses.replace(encoder.model, table=table.astype(np.float32))
    which = rng.integers(3, size=700)
    vectors = rng.normal(size=(3, dimension))[which]
    index = SearchIndex.build(FastEncoder(model), None, {"id": which}, vectors)
    hits = index.search("the red car", top=700, by="meaning")
    assert len({hit.score for hit in hits}) == 3
    assert {hit.score for hit in index.search("the red car", top=3)} <= {h.score / 2 for h in hits}


def test_among_many_nearly_equal_texts_the_best_are_found(encoder: FastEncoder) -> None:
    vectors = 1 + np.random.default_rng(0).normal(size=(20_000, 3)) / 100_000
    index = SearchIndex.build(encoder, None, {"id": range(len(vectors))}, vectors)
    rows = unit_rows(np.hstack([index.first, index.second]).astype(np.float32) - 128)
    found = [hit.score for hit in index.search("a red car", top=2_000, by="meaning")]
    expected = np.sort(rows @ unit_rows(encoder.encode_query(["a red car"]))[0])[::-1][:2_000]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("whole", [False, True])
def test_no_cosine_is_above_its_bound(encoder: FastEncoder, whole: bool) -> None:
    vectors = np.random.default_rng(0).normal(size=(BLOCK + 1, 3))  # the last block has one row
    vectors[5], vectors[6] = 0, -vectors[7]
    index = SearchIndex.build(encoder, None, {"id": range(len(vectors))}, vectors)
    query = np.array([0.6, 0, 0.8], np.float32)
    with ThreadPoolExecutor(2) as pool:
        above = index._bounds(query, whole, pool)
    above -= unit_rows(np.hstack([index.first, index.second]).astype(np.float32) - 128) @ query
    assert above.min() >= 0
    if whole:
        assert above.max() < 0.01
    else:
        assert 0.1 < above.max() < 2 * 0.8 + 0.01  # the second half of the query is 0.8 long


@pytest.mark.parametrize("dtype", ["int64", "int8", "float64", "float16"])
def test_vectors_that_are_there_are_taken(encoder: FastEncoder, dtype: str) -> None:
    vectors = np.array([[0, 0, 2], [-128, 30, 0], [0, 0, 0], [128 / 2, 0, 0]], dtype)
    index = SearchIndex.build(encoder, ["one", "two", "three", "four"], vectors=vectors)
    assert [hit.position for hit in index.search("car", by="meaning")] == [3, 0, 1]
    away = index.search("car", by="meaning")[2].meaning
    assert away == pytest.approx(-128 / np.hypot(128, 30), abs=1e-3)


def test_vectors_without_texts_are_found_by_meaning(encoder: FastEncoder, tmp_path: Path) -> None:
    vectors, ids = np.array([[0, 1, 1], [3, 0, 0], [0, 0, 0]]), {"id": ["a", "b", "c"]}
    index = SearchIndex.build(encoder, None, ids, vectors)
    index.save(tmp_path)
    for one in (index, SearchIndex.open(tmp_path, encoder)):
        for by in ("both", "meaning"):
            hits = one.search("a red car", by=by)
            assert [(hit.row["id"], hit.words) for hit in hits] == [("b", 0), ("a", 0)]
            assert [hit.meaning for hit in hits] == pytest.approx([0.5**0.5, 0.5])
        with pytest.raises(ValueError, match="has vectors alone, without words: search it by mean"):
            one.search("a red car", by="words")
    other = FastEncoder(dataclasses.replace(encoder.model, table=encoder.model.table[:, [1, 0, 2]]))
    with pytest.raises(ValueError, match="gives that model's words other vectors"):
        SearchIndex.open(tmp_path, other)


def test_categories_of_several_dictionaries_can_be_saved(encoder, tmp_path: Path) -> None:
    parts = [pa.table({"kind": pa.array([kind]).dictionary_encode()}) for kind in "ab"]
    index = SearchIndex.build(encoder, ["a red car", "a car"], pa.concat_tables(parts))
    index.save(tmp_path)
    hits = SearchIndex.open(tmp_path, encoder).search("red", by="words")
    assert [hit.row for hit in hits] == [{"kind": "a"}]


def test_an_index_whose_replacement_was_killed_is_found(encoder, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    SearchIndex.build(encoder, ["a red car"]).save(folder)
    folder.rename(tmp_path / ".index.old")  # the first of the two renames
    assert len(SearchIndex.open(folder, encoder)) == 1


def test_a_part_without_texts_changes_nothing(encoder: FastEncoder) -> None:
    parts = [pa.table({"text": pa.array(texts, pa.large_string())}) for texts in ([], ["a car"])]
    index = SearchIndex.of_parts(encoder, [(part["text"], part) for part in parts])
    assert [hit.row for hit in index.search("car")] == [{"text": "a car"}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"vectors": np.zeros((5, 4))},
            r"of the shape \(5, 3\), one for each text in the dimension",
        ),
        ({"vectors": np.full((5, 3), 1e300)}, "Expected finite vectors, but some hold NaN"),
        ({"vectors": np.zeros((4, 3))}, r"of the shape \(5, 3\), .* but got \(4, 3\)"),
        (
            {"columns": {"id": [1, 2]}},
            "Expected columns of 5 rows, one for each text or vector, but got 2",
        ),
        (
            {"columns": {"id": [1] * 5, "x": [2]}},
            "Expected columns as a table, or as values by their names, .* but got dict",
        ),
        ({"texts": []}, "Expected texts to search in, but got none"),
        ({"texts": ["", "?!"]}, "no words to search for, no letters and digits, and no vectors"),
        (
            {"texts": None, "vectors": np.ones((5, 3))},
            "Expected texts, or both columns and vectors",
        ),
        ({"texts": None, "columns": {"id": [1]}}, "Expected texts, or both columns and vectors"),
        (
            {"texts": None, "columns": {"id": [1]}, "vectors": np.ones((5, 3))},
            "Expected columns of 5 rows, one for each text or vector, but got 1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(encoder: FastEncoder, arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SearchIndex.build(encoder, **{"texts": TEXTS, **arguments})


def test_wrong_arguments_of_a_search(index: SearchIndex) -> None:
    with pytest.raises(ValueError, match="Expected top of at least 1, but got 0"):
        index.search("car", top=0)
    with pytest.raises(
        ValueError, match="Expected by to be both or meaning or words, but got 'all'"
    ):
        index.search("car", by="all")
    with pytest.raises(TypeError, match="position 1, but the text is missing"):
        index.search(["car", None])
    for wrong in (math.nan, math.inf, np.float32(-np.inf), 10**400):
        with pytest.raises(ValueError, match=r"Expected at_least to be a score, .* but got"):
            index.search("car", at_least=wrong)
    for wrong in ("0.3", True, [0.3]):
        with pytest.raises(TypeError, match="Expected a number as at_least, but got"):
            index.search("car", at_least=wrong)


@pytest.mark.parametrize(
    ("languages", "found"),
    [(("en",), [0, 1]), ((), [1]), (("de",), [1]), (("de", "en"), [1]), (("en", "code"), [1])],
)
def test_words_have_stems_if_the_model_states_english_alone(
    encoder: FastEncoder, tmp_path: Path, languages: tuple[str, ...], found: list[int]
) -> None:
    model = dataclasses.replace(encoder.model, state=lambda: StatedFacts(languages=languages))
    built = SearchIndex.build(FastEncoder(model), ["a plate", "plates, boats", "nothing"])
    built.save(tmp_path / "index")
    # What an index holds does not depend on what a copy of its model states.
    for index in (built, SearchIndex.open(tmp_path / "index", encoder)):
        hits = index.search("PLATES", by="words")
        assert [hit.position for hit in hits] == found
        assert [hit.matched for hit in hits] == [["plates"]] * len(found)
