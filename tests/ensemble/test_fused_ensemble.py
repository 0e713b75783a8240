"""One table for several models: equal to the ensemble where it is exact, and how it is saved."""

import functools
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel as Model2Vec
from sentence_transformers import SentenceTransformer

from st_static import Ensemble, FastEncoder
from st_static.cards.check_card import check_card
from st_static.cards.check_folder import check_folder
from st_static.cards.facts import CardFacts
from st_static.cards.render import render
from st_static.encode.explain import explain
from st_static.ensemble.ensemble import token_rows
from st_static.model.export import export_model
from st_static.model.head import Head
from st_static.model.model_folder import ModelFolder
from st_static.model.model_name import read_named
from st_static.model.static_model import StatedFacts, StaticModel
from st_static.model.tokenizer import build_tokenizer
from st_static.model.vectors import unit_rows

WORDS = ["the", "old", "lighthouse", "keeper", "ships", "counted", "ship", "##wreck", "s", "##s"]
OTHER_WORDS = [
    *["keep", "##er", "light", "##house"],
    *["the", "o", "##l", "##d", "ship", "count", "##ed"],
]
TEXTS = ["The old keeper counted ships.", "the lighthouse", "Ships, ships!", "s", "zzz", "", "THE"]


def random_table(rows, dimension, seed):
    table = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    table[:2] = 0
    return table


def member(words, dimension, seed, license=None, **options):
    options |= {"state": functools.partial(StatedFacts, license)}
    tokenizer = build_tokenizer([*words, ",", ".", "!"])
    table = random_table(tokenizer.get_vocab_size(), dimension, seed)
    return FastEncoder(StaticModel(tokenizer, table, normalize=False, **options))


def ensemble_of(widths):
    first = member(WORDS, widths[0], 0, name="org/first", license="apache-2.0")
    second = member(OTHER_WORDS, widths[1], 1, name="org/second", license="cc-by-nc-nd-4.0")
    return Ensemble([first, second, member(["ships"], widths[2], 2)], weights=[1, 0.5, 2])


@pytest.fixture(scope="module")
def ensemble():
    return ensemble_of((5, 3, 2))


@pytest.fixture(scope="module")
def fused(ensemble):
    return ensemble.fuse()


@pytest.fixture(scope="module", params=[(5, 3, 2), (128, 64, 64)], ids=["narrow", "wide"])
def any_ensemble(request):
    return ensemble_of(request.param)


@pytest.fixture(scope="module")
def any_fused(any_ensemble):
    return any_ensemble.fuse()


words = st.sampled_from([w for w in WORDS if not w.startswith("##")] + [",", ".", "!", "The"])


@given(st.lists(st.lists(words).map(" ".join), min_size=1))
def test_texts_of_known_words_have_the_ensembles_vectors(any_ensemble, any_fused, texts):
    np.testing.assert_allclose(any_fused.encode(texts), any_ensemble.encode(texts), atol=1e-6)


class CustomSentenceTransformer(SentenceTransformer):
    pass


def test_a_subclass_of_sentence_transformer_is_a_member(ensemble, tmp_path):
    for i, encoder in enumerate(ensemble.members):
        model = encoder.model
        export_model(tmp_path / str(i), model.table, model.tokenizer, {})
    folders = [str(tmp_path / str(i)) for i in range(len(ensemble.members))]
    ours = Ensemble([FastEncoder.from_pretrained(folder) for folder in folders])
    theirs = Ensemble([CustomSentenceTransformer(folder, device="cpu") for folder in folders])
    expected = ours.encode(TEXTS)
    np.testing.assert_allclose(theirs.encode(TEXTS), expected, atol=1e-6)
    np.testing.assert_array_equal(theirs.fuse().table, ours.fuse().table)
    np.testing.assert_allclose(theirs.fuse().encode(TEXTS), ours.fuse().encode(TEXTS), atol=1e-6)


def test_the_length_is_that_of_the_members_that_know_a_word(fused):
    lengths = np.linalg.norm(fused.encode(["the", "ships", "zzz", ""]), axis=1)
    both = np.sqrt((1 + 0.25) / (1 + 0.25 + 4))
    np.testing.assert_allclose(lengths, [both, np.sqrt((1 + 4) / 5.25), 0, 0], atol=1e-6)


def test_one_text_and_many_and_half_precision(any_fused):
    texts = [*TEXTS, "the old keeper ships " * 3_000]
    many = any_fused.encode(texts)
    for text, vector in zip(texts, many, strict=True):
        np.testing.assert_allclose(any_fused.encode(text), vector, atol=1e-6)
    model = any_fused.model
    large = StaticModel(model.tokenizer, model.table * 99, False, segments=model.segments)
    half = FastEncoder(large, dtype="float16").encode(texts)  # the last one's sums would overflow
    np.testing.assert_allclose(half, many, atol=2e-3)


def test_truncation_comes_after_scaling(any_fused):
    model = any_fused.model
    truncated = StaticModel(model.tokenizer, model.table, False, "", 7, model.segments)
    found = FastEncoder(truncated).encode(TEXTS)
    np.testing.assert_allclose(found, any_fused.encode(TEXTS)[:, :7], atol=1e-7)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_member_whose_row_is_infinite_spoils_its_own_part_only(any_fused, dtype):
    model, first = any_fused.model, any_fused.members[0].width
    table = model.table.copy()
    table[model.tokenizer.token_to_id("ships"), 0] = np.inf
    spoilt = StaticModel(model.tokenizer, table, False, segments=model.segments)
    encoder = FastEncoder(spoilt, dtype=dtype)
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(vectors[:, first:], any_fused.encode(TEXTS)[:, first:], atol=2e-3)


def test_a_vocabulary_of_ones_own(ensemble):
    fused, texts = ensemble.fuse(["lighthouse", "old"]), ["old lighthouse"]
    np.testing.assert_allclose(fused.encode(texts), ensemble.encode(texts), atol=1e-6)
    assert not fused.encode(["keeper"]).any()


def test_pieces_and_punctuation_are_as_they_stand_behind_a_word(tokenizers_by_family):
    tokens = ["[PAD]", "[UNK]", "keeper", "##s", ",", "##,"]
    for family, tokenizer in tokenizers_by_family.items():
        table = random_table(tokenizer.get_vocab_size(), 4, 3)
        rows = token_rows(StaticModel(tokenizer, table, normalize=False), tokens)

        def total(text, tokenizer=tokenizer, table=table):
            return table[tokenizer.encode(text, add_special_tokens=False).ids].sum(axis=0)

        assert not rows[:2].any()
        np.testing.assert_allclose(rows[2], total("keeper"), atol=1e-6)
        expected = total("a,") - total("a")
        np.testing.assert_allclose(rows[4], expected, atol=1e-5, err_msg=family)
        if family == "wordpiece":
            np.testing.assert_array_equal(rows[3], table[tokenizer.token_to_id("##s")])


def test_wordllama_with_words_of_ours(ensemble):
    llama = FastEncoder(read_named("wordllama:256"))
    unfused = Ensemble([ensemble.members[0], llama])
    texts = ["the old keeper counted", "ships"]
    np.testing.assert_allclose(unfused.fuse().encode(texts), unfused.encode(texts), atol=1e-6)


def test_a_member_in_int8_is_fused_by_its_rounded_rows(ensemble):
    first, *others = ensemble.members
    small = FastEncoder(first.model, dtype="int8")
    rounded = FastEncoder(replace(first.model, table=np.asarray(small.model.table)))
    expected = Ensemble([rounded, *others]).fuse().table
    np.testing.assert_array_equal(Ensemble([small, *others]).fuse().table, expected)


@pytest.mark.parametrize("few", [False, True])
def test_a_fused_ensemble_in_int8_keeps_the_vectors_of_members_of_any_length(ensemble, few):
    first, *others = ensemble.members
    long = FastEncoder(replace(first.model, table=first.model.table * np.float32(50)))
    fused = Ensemble([long, *others], ensemble.weights).fuse()
    small = FastEncoder(fused.model, dtype="int8")
    texts = [text for text in TEXTS if fused.encode([text]).any()] * (1 if few else 50)
    found, expected = small.encode(texts), fused.encode(texts)
    cosines = (unit_rows(found) * unit_rows(expected)).sum(axis=1)
    assert cosines.min() > 0.999


def test_glove_is_a_member_like_others(tmp_path):
    (tmp_path / "glove.txt").write_text("the 1 0\nships 0 2\n")
    glove = FastEncoder(read_named(f"glove:{tmp_path / 'glove.txt'}"))
    np.testing.assert_allclose(glove.encode(["The ships zzz", ""]), [[1 / 3, 2 / 3], [0, 0]])
    fused = Ensemble([member(WORDS, 4, 0), glove]).fuse()
    np.testing.assert_allclose(fused.encode(["the ships"])[0, 4:], [1 / 10**0.5, 2 / 10**0.5])


def test_saved_exactly_it_loads_where_st_static_cannot_be_imported(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    script = (
        "import sys, json; sys.modules['st_static'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        "model = SentenceTransformer(sys.argv[1], trust_remote_code=True)\n"
        "print(json.dumps(model.encode(json.loads(sys.argv[2])).tolist()))\n"
        "model.save_pretrained(sys.argv[1] + '-again')\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model"), json.dumps(TEXTS)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    vectors = np.array(json.loads(result.stdout.splitlines()[-1]))
    np.testing.assert_allclose(vectors, fused.encode(TEXTS), atol=1e-6)
    again = str(tmp_path / "model-again")
    theirs = SentenceTransformer(again, trust_remote_code=True)
    for loaded in (FastEncoder.from_pretrained(again), theirs):
        np.testing.assert_allclose(loaded.encode(TEXTS), fused.encode(TEXTS), atol=1e-6)
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path / "model"))


def test_the_code_is_not_run_by_ours(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model", dtype="float16")
    (tmp_path / "model" / "segment_normalize.py").write_text("raise SystemExit")
    encoder = FastEncoder.from_pretrained(tmp_path / "model")
    np.testing.assert_allclose(encoder.encode(TEXTS), fused.encode(TEXTS), atol=2e-3)


def test_the_module_in_float16(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model", dtype="float16")
    model = SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True)
    np.testing.assert_allclose(model.encode(TEXTS), fused.encode(TEXTS), atol=2e-3)


def test_calibrated_has_each_part_at_its_mean_length(ensemble, fused, tmp_path):
    texts = TEXTS[:4]
    fused.export_calibrated(tmp_path / "model", texts)
    model = SentenceTransformer(str(tmp_path / "model"))  # built-ins only
    words = [len(fused.tokenizer.encode(text).ids) for text in texts]
    parts = []
    for encoder, weight in zip(ensemble.members, ensemble.weights, strict=True):
        table, encode = encoder.model.table, encoder.model.tokenizer.encode
        sums = np.stack([table[encode(text).ids].sum(axis=0) for text in texts])
        means = sums / np.array(words)[:, None]
        parts.append(weight * means / np.linalg.norm(means, axis=1).mean())
    expected = unit_rows(np.concatenate(parts, axis=1))
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-6)


def test_model2vec_refuses_the_exact_form_and_loads_the_calibrated_one(tmp_path):
    """It knows no segments: the table alone would give other vectors."""
    fused = ensemble_of((3, 4, 2)).fuse()
    fused.save_pretrained(tmp_path / "exact")
    assert not (tmp_path / "exact" / "config.json").exists()
    with pytest.raises(ValueError, match="layouts"):
        Model2Vec.from_pretrained(tmp_path / "exact")
    fused.export_calibrated(tmp_path / "calibrated", TEXTS)
    vectors = Model2Vec.from_pretrained(tmp_path / "calibrated").encode(TEXTS)
    expected = FastEncoder.from_pretrained(tmp_path / "calibrated").encode(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_folder_with_the_table_beside_the_segments_is_read_as_well(tmp_path):
    """As older versions of st_static wrote it."""
    fused = ensemble_of((3, 4, 2)).fuse()
    folder = tmp_path / "model"
    fused.save_pretrained(folder)
    for file in (folder / "word_table").iterdir():
        file.rename(folder / file.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = ""
    (folder / "modules.json").write_text(json.dumps(modules))
    found = FastEncoder.from_pretrained(folder).encode(TEXTS)
    np.testing.assert_array_equal(found, fused.encode(TEXTS))


def test_calibration_wants_texts_that_members_know(fused, tmp_path):
    with pytest.raises(ValueError, match="member 2 knows no word of the 1 texts"):
        fused.export_calibrated(tmp_path / "model", ["the"])
    with pytest.raises(ValueError, match="org/first knows no word of the 0 texts"):
        fused.export_calibrated(tmp_path / "model", [])
    with pytest.raises(ValueError, match="one str"):
        fused.export_calibrated(tmp_path / "model", "the")
    assert not (tmp_path / "model").exists()


def test_the_card_names_members_that_may_not_be_passed_on(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    assert "| org/second | 3 | 0.5 | cc-by-nc-nd-4.0 |" in card
    assert "- org/second (cc-by-nc-nd-4.0) may not be redistributed in a changed form" in card
    assert "- member 2 names no licence" in card
    assert "- org/first" not in card
    record = json.loads((tmp_path / "model" / "st_static.json").read_text("utf-8"))
    assert record["ensemble"]["members"][1]["license"] == "cc-by-nc-nd-4.0"


@pytest.mark.parametrize(
    ("license_id", "says"),
    [
        ("mit", ""),
        ("Apache-2.0", ""),
        ("cc-by-nc-4.0", "commercially"),
        ("CC-BY-NC-ND-4.0", "may not be redistributed"),
        ("proprietary", "has the licence proprietary"),
        ("other", "has the licence other"),
    ],
)
def test_what_a_licence_does_not_allow_is_said(license_id, says):
    fused = Ensemble([member(WORDS, 2, 0, name="ours", license=license_id)]).fuse()
    card = render(CardFacts("two", fused.record("exact")))
    note = card.partition("Before you pass this model on:")[2]
    assert says in note
    assert bool(note) == bool(says)
    assert check_card(card) == []


def test_segments_that_do_not_fit_are_refused(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    config = tmp_path / "model" / "1_SegmentNormalize" / "config.json"
    for values, says in (
        ({"widths": [4, 1], "weights": [1, 1]}, "segments of 10 dimensions together"),
        ({"widths": [9, 1], "weights": [1, -1]}, r"config.json .* > 0.0 at `weights\[1\]`"),
        ({"widths": [10], "weights": [1, 1]}, "1 widths, but 2 weights"),
        ({"weights": [1]}, "missing required field `widths`"),
        ([], "expected `object`, got `array`"),
    ):
        config.write_text(json.dumps(values))
        with pytest.raises(ValueError, match=says):
            read_named(str(tmp_path / "model"))
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    modules.append({**modules[1], "type": "sentence_transformers.models.Normalize"})
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="it has StaticEmbedding, SegmentNormalize, Normalize"):
        read_named(str(tmp_path / "model"))


def test_the_folders_are_fit_to_be_published(ensemble, fused, tmp_path):
    fused.save_pretrained(tmp_path / "exact")
    fused.export_calibrated(tmp_path / "calibrated", TEXTS[:4])
    check_folder(ModelFolder.local(tmp_path / "calibrated"))
    check_folder(ModelFolder.local(tmp_path / "exact"), allow_remote_code=True)
    with pytest.raises(ValueError, match="would run code"):
        check_folder(ModelFolder.local(tmp_path / "exact"))


def test_the_shares_of_words_add_up_to_the_cosine(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    model = SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True)
    texts = [("the old keeper", "Ships counted the ships"), ("the", "zzz")]
    for first, second in [*texts, ("the old ships", "ships")]:
        expected = float(model.similarity(model.encode(first), model.encode(second)))
        explanation = explain(fused.model, first, second)
        assert explanation.similarity == pytest.approx(expected, abs=1e-6)


def test_similarity_is_the_mean_of_the_members_cosines(ensemble, fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    model = SentenceTransformer(str(tmp_path / "model"), trust_remote_code=True)
    vectors = ensemble.encode(TEXTS)
    lengths = np.linalg.norm(vectors, axis=1)
    assert lengths.min() < 0.9 < lengths.max()  # a member knows no word of some
    similarities = model.similarity(model.encode(TEXTS), model.encode(TEXTS))
    np.testing.assert_allclose(similarities, vectors @ vectors.T, atol=1e-6)


def test_an_objective_may_fuse(ensemble):
    tuning = ensemble.tune(lambda trial: -abs(trial.fuse().members[1].weight - 2))
    assert tuning.ensemble.weights[1] == pytest.approx(2, abs=0.1)


def test_a_models_licence_is_read_from_its_card(fused, tmp_path):
    fused.save_pretrained(tmp_path / "model")
    read = read_named(str(tmp_path / "model"))
    assert (read.name, read.license) == ("model", "other")
    (tmp_path / "model" / "README.md").write_text("---\nlicense: [\n---\n")
    assert read_named(str(tmp_path / "model")).license is None
    (tmp_path / "model" / "README.md").unlink()
    assert read_named(str(tmp_path / "model")).license is None


def test_members_that_sentence_transformers_has_loaded(ensemble, tmp_path, tiny_teacher_folder):
    first = ensemble.members[0].model
    export_model(tmp_path / "first", first.table, first.tokenizer, {})
    loaded = SentenceTransformer(str(tmp_path / "first"))
    mixed = Ensemble([loaded, *ensemble.members[1:]], ensemble.weights).fuse()
    np.testing.assert_allclose(mixed.encode(TEXTS), ensemble.fuse().encode(TEXTS), atol=1e-6)
    with pytest.raises(ValueError, match="head between them, but the model has Transformer"):
        Ensemble([SentenceTransformer(str(tiny_teacher_folder))]).fuse()


def test_what_cannot_be_fused(ensemble, tokenizers_by_family):
    class Encoder:
        def encode(self, texts):
            return np.ones((len(texts), 1))

    with pytest.raises(ValueError, match="but member 1 is a Encoder"):
        Ensemble([ensemble.members[0], Encoder()]).fuse()
    with pytest.raises(ValueError, match="at least one word in the vocabulary"):
        ensemble.fuse([])
    with pytest.raises(
        ValueError, match="float32 or float16, but the table of a head or an ensemble"
    ):
        ensemble.fuse().save_pretrained("model", dtype="int8")
    with pytest.raises(ValueError, match="list of words"):
        ensemble.fuse("the")
    with pytest.raises(ValueError, match=r"Member 0 \(ours\) cannot be fused: .* prompt"):
        Ensemble([member(WORDS, 2, 0, prompt="query: ", name="ours")]).fuse()
    head = Head(np.ones((1, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match=r"Member 0 \(ours\) cannot be fused: .* or a head"):
        Ensemble([member(WORDS, 2, 0, head=head, name="ours")]).fuse()
    unigram = tokenizers_by_family["unigram"]
    table = random_table(unigram.get_vocab_size(), 2, 0)
    other = FastEncoder(StaticModel(unigram, table, normalize=False))
    with pytest.raises(ValueError, match="not WordPiece but Unigram"):
        Ensemble([other]).fuse()
