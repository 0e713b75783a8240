"""The page's modules, run by node: what they compute is what Python computes."""

import shutil
import subprocess
from dataclasses import replace
from unicodedata import category

import numpy as np
import pyarrow.compute as pc
import pytest
from demo_models import (
    CHARACTERS,
    SENTENCES,
    as_on_the_page,
    odd_texts,
    random_table,
    words_tokenizer,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd_texts import odd_texts as changed_texts
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from st_static.encode.explain import explain
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.export import export_model
from st_static.model.model_folder import read_static_model
from st_static.model.vectors import unit_rows
from st_static.search.search_index import SearchIndex
from st_static.search.word_index import split_texts
from st_static.texts import arrow
from st_static.tokens.fast_tokenizer import FastTokenizer

FORMS = ["words", "pieces", "given words", "head", "ensemble"]
PAIRS = [
    (SENTENCES[0], SENTENCES[11]),
    ("  Café-au-lait, naïve!", "CAFÉ au lait… 我喜欢"),
    ("今日は晴れ、dogs", "The quick dog は 今日"),
    ("wasn't the U.S. old", "the old, old C++"),
    ("", "the dog"),
    ("qqq", "?!"),
]
# White space in JavaScript or in Python, but not in both.
RARE_SPACES = ["foo\x85bar", "\ufeffa", "the\ufeff dog", "a \x85 \x85\x85 b", "\x85", "\ufeff"]
# A process is asked for each example, and node takes a moment to start.
checked = settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


def ids_in_python(folder, texts):
    encoding = read_static_model(folder).tokenizer.encode_batch(texts, add_special_tokens=False)
    return [one.ids for one in encoding]


@pytest.mark.parametrize("form", FORMS)
def test_token_ids_are_those_of_python(form, models, node):
    texts = odd_texts()
    found = node(form).ask(what="ids", texts=texts)["value"]
    assert found == ids_in_python(models[form], texts)
    assert sum(map(len, found)) > 10_000
    chunked = FastTokenizer(read_static_model(models[form]).tokenizer)(texts)
    assert chunked.values.tolist() == [i for row in found for i in row]


@pytest.mark.parametrize("form", ["words", "pieces", "given words"])
@checked
@given(text=st.text(st.sampled_from(CHARACTERS), max_size=40))
def test_token_ids_of_any_text_are_those_of_python(form, text, models, node):
    assert node(form).ask(what="ids", texts=[text])["value"] == ids_in_python(models[form], [text])


@pytest.mark.parametrize("form", FORMS)
def test_vectors_are_those_of_the_rounded_table(form, models, node):
    texts = odd_texts()
    found = np.array(node(form).ask(what="vectors", texts=texts)["value"])
    expected = FastEncoder(as_on_the_page(models[form])).encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-4)  # of 10,000 words, added in float32
    is_known = expected.any(axis=1)
    assert 10 < is_known.sum() < len(texts)
    assert not found[~is_known].any()
    exact = FastEncoder.from_pretrained(models[form]).encode(texts)
    cosines = (unit_rows(found) * unit_rows(exact)).sum(axis=1)[is_known]
    assert cosines.min() >= 0.999


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_shares_are_those_of_explain(form, pair, models, node):
    found = node(form).ask(what="explain", first=pair[0], second=pair[1])["value"]
    expected = explain(as_on_the_page(models[form]), *pair)
    known = expected.of_known_words()
    for side in ("first", "second"):
        words = [word.text for word in getattr(known, side)]
        assert found[side] == words
    shares = np.array(found["shares"]).reshape(known.contributions.shape)
    np.testing.assert_allclose(shares, known.contributions, atol=1e-6)
    assert found["similarity"] == pytest.approx(shares.sum(), abs=1e-9)
    unknown = [w.text for w in expected.first + expected.second if not w.known]
    assert found["unknown"] == unknown
    exact = explain(read_static_model(models[form]), *pair).of_known_words()
    np.testing.assert_allclose(shares, exact.contributions, atol=0.01)


@pytest.mark.parametrize("pair", PAIRS[:2], ids=range(2))
def test_with_a_head_it_is_said_what_the_cosine_loses_without_each_word(pair, models, node):
    found = node("head").ask(what="explain", first=pair[0], second=pair[1])["value"]
    expected = explain(as_on_the_page(models["head"]), *pair).of_known_words()
    for side, falls in zip(("first", "second"), expected.left_out, strict=True):
        np.testing.assert_allclose(found["leftOut"][side], falls, atol=1e-5)
    assert node("words").ask(what="explain", first="dog", second="dog")["value"]["leftOut"] is None


def test_long_texts_are_put_together_without_a_change_of_the_similarity(models, node):
    texts = " ".join(SENTENCES[:10]), " ".join(SENTENCES[8:])
    found = node("words").ask(what="explain", first=texts[0], second=texts[1], most=12)["value"]
    assert len(found["first"]) == len(found["second"]) == 12
    assert found["first"][-1].endswith(" other words")
    expected = explain(as_on_the_page(models["words"]), *texts)
    assert np.sum(found["shares"]) == pytest.approx(expected.similarity, abs=1e-6)


@pytest.mark.parametrize("name", ["words", "ensemble"])
def test_search_finds_what_the_search_index_finds(models, node, name):
    texts = [*SENTENCES, "qqq xzxz", "東京都の店", "?!"]
    index = SearchIndex.build(FastEncoder(as_on_the_page(models[name])), texts)
    for query in [SENTENCES[3], "the DOG", "xzxz dog", "東京", "🎉"]:
        found = node(name).ask(what="search", texts=texts, query=query)["value"]
        hits = index.search(query, 20)
        # The index rounds vectors to int8, and the page does not.
        np.testing.assert_allclose([h["score"] for h in found], [h.score for h in hits], atol=6e-3)
        expected = {hit.row["text"]: hit.score for hit in hits}
        for hit in found:  # close ones may be in another order
            assert hit["score"] == pytest.approx(expected[hit["text"]], abs=6e-3)


def test_texts_with_the_same_score_are_found_in_their_order(node):
    texts = ["the dog", "THE DOG", "The dog", "the Dog", "a dog", "A DOG"]
    found = node("words").ask(what="search", texts=texts, query="the dog")["value"]
    assert [hit["text"] for hit in found] == texts
    assert len({hit["score"] for hit in found[:4]}) == 1


def words_in_python(texts):
    words, counts = split_texts(arrow.strings(texts))
    ends = np.cumsum(counts)
    found = words.to_pylist()
    return [sorted(found[end - n : end]) for end, n in zip(ends, counts, strict=True)]


@pytest.fixture
def known_texts(node):
    """Those of some texts whose characters the Unicode of Python, Arrow and node all have."""

    def choose(texts):
        in_node = node("words").ask(what="assigned", texts=texts)["value"]
        in_arrow = pc.match_substring_regex(texts, r"^[\pL\pM\pN\pP\pS\pZ\pC]*$").to_pylist()
        in_python = ["Cn" not in map(category, text) for text in texts]
        return [texts[i] for i in np.flatnonzero(np.all([in_node, in_arrow, in_python], axis=0))]

    return choose


def test_odd_texts_are_cut_into_the_words_of_python(node, known_texts):
    sentences = [
        *SENTENCES,
        "Δρόμος ΟΔΟΣ",
        "Straße",
        "日本語ภาษาไทย",
        "x\u0327日e\u0301本",
        "it\u00b4s",
    ]
    texts = known_texts([*changed_texts(sentences, 2_500), *odd_texts()])
    assert len(texts) > 2_000
    found = node("words").ask(what="words", texts=texts)["value"]
    assert [sorted(words) for words in found] == words_in_python(texts)


def test_all_characters_are_cut_and_folded_as_in_python(node, known_texts):
    """But for private ones, and most ideographs and syllables of Hangul, which are all alike."""
    alike = range(0x3400, 0xD7A4), range(0x20000, 0x32000)
    codes = [i for i in range(0x110000) if i % 97 == 0 or not any(i in some for some in alike)]
    characters = known_texts([chr(i) for i in codes if category(chr(i)) not in ("Cn", "Co", "Cs")])
    assert len(characters) > 35_000
    texts = [f"a{one}b {one}日{one}本 {one}" for one in characters]
    found = node("words").ask(what="words", texts=texts)["value"]
    pairs = zip(texts, map(sorted, found), words_in_python(texts), strict=True)
    assert [(ascii(text), ours, theirs) for text, ours, theirs in pairs if ours != theirs] == []


def test_nearest_words_are_whole_words_with_a_vector(models, node):
    found = node("words").ask(what="nearest", text="Dog")["value"]
    model = as_on_the_page(models["words"])
    rows = unit_rows(model.table)
    tokens = [model.tokenizer.id_to_token(i) for i in range(len(rows))]
    cosines = rows @ rows[tokens.index("dog")]
    candidates = [
        i
        for i, token in enumerate(tokens)
        if rows[i].any() and not token.startswith("##") and token != "dog"
    ]
    best = sorted(candidates, key=lambda i: -cosines[i])[:20]
    assert [hit["text"] for hit in found] == [tokens[i] for i in best]
    np.testing.assert_allclose([h["score"] for h in found], cosines[best], atol=1e-5)
    assert node("words").ask(what="nearest", text="?!")["value"] == []


def test_pieces_are_shown_as_they_are_read(node):
    found = {hit["text"] for hit in node("pieces").ask(what="nearest", text="今日")["value"]}
    assert {"the", "quick", "dog", "は", "晴れ"} <= found
    assert not found & {"a", "ing", "▁the", "今日", "▁"}


@pytest.mark.parametrize("family", ["wordpiece", "byte_level"])
def test_foreign_tokenizers_have_the_ids_of_python(family, tokenizers_by_family, tmp_path, node_of):
    tokenizer = tokenizers_by_family[family]
    export_model(tmp_path / "model", random_table(tokenizer), tokenizer, {})
    process = node_of(tmp_path / "model")
    texts = [*odd_texts(), *RARE_SPACES]
    found = process.ask(what="ids", texts=texts)["value"]
    shares = process.ask(what="explain", first=SENTENCES[2], second=SENTENCES[11])["value"]
    assert found == ids_in_python(tmp_path / "model", texts)
    expected = explain(as_on_the_page(tmp_path / "model"), SENTENCES[2], SENTENCES[11])
    assert shares["first"] == [word.text for word in expected.of_known_words().first]


@pytest.mark.parametrize(
    "splits",
    [
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(add_prefix_space=True),
    ],
    ids=["white space", "BERT", "bytes"],
)
def test_white_space_is_that_of_python(splits, tmp_path, node_of):
    """Where no normalizer has removed the characters before."""
    texts = [*odd_texts(), *RARE_SPACES]
    words = dict.fromkeys(word for t in texts for word, _ in splits.pre_tokenize_str(t))
    vocabulary = {word: i for i, word in enumerate(["[UNK]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splits
    export_model(tmp_path / "model", random_table(tokenizer), tokenizer, {})
    process = node_of(tmp_path / "model")
    found = process.ask(what="ids", texts=texts)["value"]
    assert found == ids_in_python(tmp_path / "model", texts)


@pytest.mark.parametrize("direction", ["left", "right"])
def test_added_tokens_and_truncation_count(direction, tmp_path, node_of):
    tokenizer = words_tokenizer()
    added = [AddedToken("New York", normalized=True), AddedToken("<X>", normalized=False)]
    tokenizer.add_tokens([*added, AddedToken("<Y>", lstrip=True, rstrip=True, normalized=False)])
    tokenizer.enable_truncation(7, direction=direction)
    export_model(tmp_path / "model", random_table(tokenizer), tokenizer, {})
    process = node_of(tmp_path / "model")
    texts = ["The dog <X> new york", "New York<x> a  <Y>  dog", "<Y><X>", *odd_texts()]
    found = process.ask(what="ids", texts=texts)["value"]
    words = process.ask(what="explain", first=texts[0], second="dog <Y> New  York")["value"]
    assert found == ids_in_python(tmp_path / "model", texts)
    assert max(map(len, found)) == 7
    model = as_on_the_page(tmp_path / "model")
    known = explain(model, texts[0], "dog <Y> New  York").of_known_words()
    assert words["first"] == [word.text for word in known.first]
    np.testing.assert_allclose(words["shares"], known.contributions, atol=1e-6)


def test_a_prompt_and_fewer_dimensions_count(models, node_of, tmp_path):
    """As a model has them that was changed after its export."""
    shutil.copytree(models["words"], tmp_path / "model")
    config = tmp_path / "model" / "config_sentence_transformers.json"
    settings = '"prompts": {"query": "the dog "}, "default_prompt_name": "query"'
    text = config.read_text().replace('"prompts": {}', settings)
    text = text.replace('"default_prompt_name": null', '"truncate_dim": 10')
    config.write_text(text)
    process = node_of(tmp_path / "model")
    found = np.array(process.ask(what="vectors", texts=SENTENCES)["value"])
    shares = process.ask(what="explain", first=SENTENCES[0], second=SENTENCES[1])["value"]
    model = as_on_the_page(tmp_path / "model")
    assert (model.prompt, model.truncate_dim) == ("the dog ", 10)
    np.testing.assert_allclose(found, FastEncoder(model).encode(SENTENCES), atol=1e-5)
    expected = explain(model, SENTENCES[0], SENTENCES[1])
    assert shares["similarity"] == pytest.approx(expected.similarity, abs=1e-6)
    without = replace(model, prompt="")
    assert not np.allclose(found, FastEncoder(without).encode(SENTENCES), atol=1e-3)


def test_a_vector_of_unknown_words_counts_as_in_python(tmp_path, node_of):
    tokenizer = words_tokenizer()
    table = random_table(tokenizer)
    table[tokenizer.token_to_id("[UNK]")] = 1
    export_model(tmp_path / "model", table, tokenizer, {})
    process = node_of(tmp_path / "model")
    texts = ["qqq", "the qqq dog", "我 the dog", ""]
    found = np.array(process.ask(what="vectors", texts=texts)["value"])
    shares = process.ask(what="explain", first=texts[0], second=texts[1])["value"]
    model = as_on_the_page(tmp_path / "model")
    np.testing.assert_allclose(found, FastEncoder(model).encode(texts), atol=1e-5)
    assert found.any(axis=1).tolist() == [True, True, True, False]
    expected = explain(model, texts[0], texts[1])
    assert shares["similarity"] == pytest.approx(expected.similarity, abs=1e-6)
    assert shares["unknown"] == [w.text for w in expected.first + expected.second if not w.known]
    assert shares["first"] == ["qqq"]


def test_every_module_is_sound_javascript(demos, node):
    modules = sorted((demos["words"] / "js").glob("*.js"))
    assert len(modules) > 10
    for module in modules:
        result = subprocess.run(["node", "--check", module], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
