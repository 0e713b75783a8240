"""A card in its model's languages: examples, benchmark, and which subsets of a task count."""

import re
from dataclasses import replace

import mteb
import numpy as np
import pyarrow as pa
import pytest
from card_results import as_if_idle, facts_of, with_recipe, with_stages, write_result
from editing import card_of, set_in

from st_static.cards import gather
from st_static.cards.check_card import check_card
from st_static.cards.gather import measure_limits
from st_static.cards.render import name_languages, render
from st_static.distill.stages import WorkDirectory
from st_static.evaluate import tasks
from st_static.evaluate.models import revision_of
from st_static.evaluate.scores import counted_parts, read_published, read_results
from st_static.evaluate.speed import texts_in
from st_static.evaluate.tasks import USUAL_PEERS, benchmark_of
from st_static.examples import examples_for
from st_static.files import read_json
from st_static.languages import recorded_languages

COUNTERFACTUAL = "AmazonCounterfactualClassification"
MULTILINGUAL = "MTEB(Multilingual, v2)"
JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")


@pytest.mark.parametrize(
    ("languages", "language", "n_limits", "translated"),
    [
        ([], "en", 2, ("other languages", "The", "Die")),
        (["en"], "en", 2, ("other languages", "The", "Die")),
        (["ja"], "ja", 3, ("other languages", "子ども", "The")),
        (["fr", "ja"], "ja", 3, ("translation", "Les", "子ども")),
        (["en", "ja", "de"], "en", 2, ("translation", "The", "子ども")),
        (["ko"], "en", 2, ("other languages", "The", "Die")),
        (["multilingual"], "en", 2, ("other languages", "The", "Die")),
    ],
)
def test_examples_are_in_the_first_language_that_has_them(
    languages, language, n_limits, translated
):
    examples = examples_for(languages)
    assert examples.language == language
    limits = ["word order", "negation", "politeness"][:n_limits]
    assert [limit.limit for limit in examples.limits] == [*limits, translated[0]]
    assert examples.limits[-1].first.startswith(translated[1])
    assert examples.limits[-1].second.startswith(translated[2])
    own = [*examples.usage, *examples.heat_map]
    own += [text for limit in examples.limits[:-1] for text in (limit.first, limit.second)]
    assert all(bool(JAPANESE.search(text)) == (language == "ja") for text in own)


def test_limits_are_measured_on_the_examples():
    class Lengths:
        """As long texts as the other ones are alike."""

        def encode(self, texts):
            return np.array([[1.0, len(text)] for text in texts])

    limits = examples_for(["ja"]).limits
    order, negation, politeness, other = measure_limits(limits, Lengths(), [], [1])
    assert order.cosine == negation.cosine == 1
    assert other.cosine < politeness.cosine < 1
    assert (politeness.first, politeness.teacher) == (limits[2].first, None)


@pytest.mark.parametrize(
    ("language", "says"),
    [
        ("ja", "for a few Japanese sentences:"),
        (["en", "ja"], "for a few English sentences:"),
        ("fr", "for a few English sentences (this card has none in French):"),
        (["ko", "tlh"], "for a few English sentences (this card has none in Korean and Klingon):"),
        ("multilingual", "for a few English sentences:"),
        (None, "for a few English sentences:"),
    ],
)
def test_a_card_says_in_which_language_its_examples_are(written, language, says):
    card = render(with_recipe(facts_of(written), language=language))
    assert says in card
    assert check_card(card) == []
    [program] = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    assert bool(JAPANESE.search(program)) == (language == "ja")
    compile(program, "the program on the card", "exec")


def test_languages_are_named():
    codes = ["ja", "gsw", "sw", "el", "code", "xzz"]
    expected = "Japanese, Swiss German, Swahili, Greek, source code and `xzz`"
    assert name_languages(codes) == expected


def test_the_benchmark_is_that_of_the_language():
    assert benchmark_of([]) == benchmark_of(["en"]) == "MTEB(eng, v1)"
    assert benchmark_of(["ja"]) == benchmark_of(["code", "ja"]) == "JMTEB(v2)"
    assert benchmark_of(["code"]) == benchmark_of(["en", "code"]) == "MTEB(eng, v1)"
    assert benchmark_of(["ja", "en"]) == benchmark_of(["tlh"]) == MULTILINGUAL
    assert USUAL_PEERS.get("JMTEB(v2)", ()) == ("minishlab/potion-multilingual-128M",)
    assert USUAL_PEERS.get(MULTILINGUAL, ()) == ()


def test_benchmarks_and_peers_exist():
    known = {benchmark.name for benchmark in mteb.get_benchmarks()}
    assert {*tasks._OF_LANGUAGE.values(), MULTILINGUAL} <= known
    published = read_published()
    for benchmark in known:
        assert all((benchmark, peer) in published for peer in USUAL_PEERS.get(benchmark, ()))


def test_subsets_in_the_models_languages_count(tmp_path):
    counted = counted_parts(MULTILINGUAL, ["en", "ja"])
    assert counted["STS17"].subsets == {"en-en"}
    assert counted["JSICK"].subsets == {"default"}
    # Of a task in none of them all that the benchmark counts.
    assert counted["FaroeseSTS"] == counted_parts(MULTILINGUAL)["FaroeseSTS"]
    folder = tmp_path / "org__model/1"
    write_result(folder, "STS17", "local", {"test": [("en-en", 0.9), ("ko-ko", 0.1)]})
    assert read_results(folder, MULTILINGUAL, ["ja", "en"]).scores["STS17"] == pytest.approx(90)
    assert read_results(folder, MULTILINGUAL).scores["STS17"] == pytest.approx(50)


def test_the_card_of_a_japanese_model(write, model, caplog):
    set_in(model / "st_static.json", {"recipe.language": "ja"})
    home, revision = model.parent / "results", revision_of(str(model))
    for results in (home / f"local__tiny/{revision}-local", home / "local__peer/1-local"):
        write_result(results, "JSTS", "local", {"validation": [("default", 0.7)]})
        both = [("ja", 0.6), ("en", 0.8)]
        write_result(results, COUNTERFACTUAL, "local", {"test": both, "validation": both})
    assert write(model) == 0
    facts = facts_of(model)
    assert facts.benchmark == "JMTEB(v2)"
    assert [limit.limit for limit in facts.limits][2:] == ["politeness", "other languages"]
    ours, peer, published = facts.scores["rows"]
    assert ours["Class. (1/7)"] == peer["Class. (1/7)"] == pytest.approx(60)
    assert published["model"] == "minishlab/potion-multilingual-128M"
    counts = {(entry.task, entry.config) for entry in facts.results if entry.counts}
    assert counts == {("JSTS", "default"), (COUNTERFACTUAL, "ja")}
    card = card_of(model)
    # Not on English text, where none in Japanese is at hand.
    assert (facts.speed, facts.speed_texts) == ([], "")
    assert "Speeds were not measured: no text in Japanese was at hand" in card
    assert not {"speed.png"} & {figure.file for figure in facts.figures}
    assert "no text in ja to measure them on. Give --work_dir" in caplog.text
    assert "\nlanguage: ja\n" in card
    assert "encoder for Japanese" in card
    assert check_card(card) == []


def test_a_teacher_of_which_only_means_were_published_is_not_among_the_rows(write, model):
    hub_id = "intfloat/multilingual-e5-small"
    changes = {"recipe.language": "ja", "recipe.teacher.hub_id": hub_id}
    set_in(model / "st_static.json", changes)
    for name in (f"local__tiny/{revision_of(str(model))}-local", "local__peer/1-local"):
        results = model.parent / "results" / name
        write_result(results, "JSTS", "local", {"validation": [("default", 0.7)]})
    teachers = {"JMTEB(v1)": False, "JMTEB(v2)": True}
    for benchmark, is_there in teachers.items():
        assert write(model, "--benchmark", benchmark) == 0
        rows = [row["model"] for row in facts_of(model).scores["rows"]]
        assert (hub_id in rows) == is_there
        assert ("classification is macro F1" in card_of(model)) != is_there


def test_a_card_in_several_languages_offers_the_papers_averages_by_option(write, model):
    set_in(model / "st_static.json", {"recipe.language": ["en", "ja"]})
    assert write(model, "--benchmark", "MTEB(eng, v1)") == 0
    facts = facts_of(model)
    assert facts.benchmark == "MTEB(eng, v1)"
    assert facts.scores["columns"][2:] == ["STS (2/10)", "Avg-s2s (2/33)", "Avg (2/56)"]
    ours = facts.scores["rows"][0]
    assert ours["Avg-s2s (2/33)"] == pytest.approx(100 * (0.612345 + 0.712345) / 2, abs=1e-3)
    assert "`Avg-s2s` over those whose texts are sentences on both sides" in card_of(model)


def test_speed_is_measured_on_text_in_the_models_language(write, model, built, monkeypatch):
    set_in(model / "st_static.json", {"recipe.language": "tr"})
    measured = []

    def measure(makers, texts):
        measured.extend(texts)
        return as_if_idle(makers, texts)

    monkeypatch.setattr(gather.speed, "sentences_per_second", measure)
    assert write(model, "--work_dir", built / "work") == 0
    stages = read_json(model / "st_static.json")["stages"]
    work = WorkDirectory.of_record(built / "work", stages)
    held_out = work.selected.texts.filter(pa.array(work.is_held_out)).to_pylist()
    assert sorted(measured) == sorted(held_out)
    assert measured != held_out  # which go by length
    card = card_of(model)
    assert facts_of(model).speed_texts == "corpus"
    assert "\nTurkish sentences of the corpus below, on which this model was not trained.\n" in card
    assert check_card(card) == []


@pytest.mark.parametrize(
    ("language", "source", "says"),
    [
        (None, "stdlib", "Python's standard library."),
        (["en-GB", "code"], "stdlib", "Python's standard library."),
        (["ja", "en"], "stdlib", "Python's standard library, in English."),
        ("multilingual", "stdlib", "Python's standard library, in English."),
        ("ja", "", "Speeds were not measured: no text in Japanese was at hand"),
        (["fr", "code"], "", "no text in French and source code was at hand"),
    ],
)
def test_a_card_says_on_what_text_speed_was_measured(written, language, source, says):
    facts = with_recipe(facts_of(written), language=language)
    found, texts = texts_in(recorded_languages(facts.record["recipe"]))
    assert (found, bool(texts)) == (source, bool(source))
    speed = facts.speed if source else []
    assert says in render(replace(facts, speed=speed, speed_texts=source))


def test_a_card_in_several_languages_says_which_subsets_count(written):
    facts = replace(with_recipe(facts_of(written), language=["en", "ja"]), benchmark=MULTILINGUAL)
    says = "If a task has subsets in many languages, those in English and Japanese count."
    assert says in render(facts)
    assert "those in" not in render(replace(facts, benchmark="JMTEB(v2)"))
    says = "pair classification binary F1, that of the pairs labelled 1"
    assert says in render(replace(facts, benchmark="JMTEB(v1)"))


@pytest.mark.parametrize("centered", [True, False])
def test_a_card_says_whether_the_teachers_mean_is_removed(written, centered):
    stages = {"pca": {"teacher_centered": centered}, "distillation": {"centered": centered}}
    card = render(with_stages(facts_of(written), **stages))
    assert ("those of its vectors without their mean over the\ncorpus." in card) == centered
    assert ("follow the teacher's, of vectors without their mean." in card) == centered
    assert "follow the teacher's" in card


def test_a_card_names_what_the_paper_does_not_have(written):
    facts = facts_of(written)
    below = "Terms of the loss and kinds of text that the paper does not have are named [below]"
    card = render(facts)
    assert "| number format in which it read them | float32 |" in card
    assert not re.search("Four terms|it trains on|does not have", card)
    card = render(with_recipe(facts, distillation={"terms": "full"}))
    assert "Four terms of its loss are not in the paper: cosines become as large" in card
    assert below in card
    card = render(with_stages(facts, selection={"spans": 1200, "passages": 30}))
    assert "; 1,200 spans of words; 30 passages |" in card
    assert "it trains on spans of words and passages, which the paper does not." in card
    assert below in card


def test_a_card_counts_pieces_which_no_least_count_holds_for(written):
    facts = facts_of(written)
    assert "words seen at least" in render(facts)
    assert "for each word |" in render(facts)
    pieces = {"learnt_pieces": 900, "words": 800, "smallest_count": 0, "tokens": 802}
    card = render(with_stages(facts, vocabulary=pieces))
    assert "| vocabulary | 800 pieces of words, learnt from the corpus |" in card
    assert "seen at least" not in card
    assert "for each piece |" in card
