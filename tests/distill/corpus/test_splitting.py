"""Paragraphs are split by the rules of their language, and nothing is lost."""

import logging

import pytest
import sentencex
from blingfire import text_to_sentences
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.distill.corpus.docstrings import read_docstrings
from st_static.distill.corpus.splitting import are_lower_cased, split_paragraphs, warn_without_rules

LANGUAGES = ["ja", "zh", "ko", "th", "lo", "km", "bo", "my", "ru", "ar", "hi", "de", "fr"]
# What the splitters look for, letters of many scripts, and odd characters.
ODD = st.text(
    "ab1.!?。！？｡「」（）\"'“”‘’«»…,;:·՞։۔؟।༎།។ ﾞｶ字かガก่ลᄀ한ي😀אà"
    "\u200b\u200d\u0301\u3099\u202e\ufeff"
)
paragraph = st.one_of(ODD, st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]))).map(
    lambda text: " ".join(text.split())
)


@settings(max_examples=300)
@given(st.lists(paragraph.filter(bool)), st.sets(st.sampled_from(LANGUAGES), min_size=1))
def test_nothing_but_spaces_is_lost_in_any_language(paragraphs, languages):
    """BlingFire drops a zero-width space at the beginning, so that its English is left out."""
    lower_cased = [True] * len(paragraphs)
    for tags, flags in ((sorted(languages), None), (["en", *sorted(languages)], lower_cased)):
        sentences = split_paragraphs(paragraphs, tags, flags)
        assert "".join(sentences).replace(" ", "") == "".join(paragraphs).replace(" ", "")
        assert all(sentence == sentence.strip() != "" for sentence in sentences)


def test_english_is_split_as_blingfire_does():
    paragraphs = [
        line for text in read_docstrings(["argparse", "pathlib"]) for line in text.split("\n")
    ]
    paragraphs = [text for line in paragraphs if (text := " ".join(line.split()))]
    expected = [part for text in paragraphs for part in text_to_sentences(text).split("\n")]
    assert len(expected) > len(paragraphs) > 50
    for languages in ([], ["en"], ["en-GB"], ["code"], ["en", "code"]):
        assert split_paragraphs(paragraphs, languages) == expected
    assert split_paragraphs(paragraphs, ["en", "ja"]) == expected  # all in Latin letters


@pytest.mark.parametrize("languages", [[], ["en-GB"], ["code"], ["en", "ja"]])
def test_lower_cased_english_is_split_without_capitals(languages):
    """BlingFire leaves all of it together, but for what stands before a digit."""
    sentences = [
        *("dr. smith moved to the u.s. in jan. 1999.", "why?", "e.g. for http://a.org/b?c=d."),
        *("so they say... and go.", "it costs $3.50.", '"yes," he said.', "j. k. rowling, too"),
    ]
    assert split_paragraphs([" ".join(sentences)], languages, [True]) == sentences
    assert len(split_paragraphs([" ".join(sentences)], languages)) < 4


def test_text_is_lower_cased_where_capitals_are_missing_and_not_by_accident():
    cased, short = "It was late. We went.", "so it was. it rained."
    long = "it rained. we stayed. " * 20
    assert are_lower_cased([cased] * 20 + [short, long]).tolist() == [False] * 21 + [True]
    assert are_lower_cased([short, f"{long} the PDF. {long} {long} {long} {long}", ""]).all()
    assert not are_lower_cased([cased, "猫が好き。" * 100, "", "\ud800"]).any()
    assert not are_lower_cased(["猫が好き。", ""]).any()
    assert are_lower_cased([]).tolist() == []


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("ja", ["「行こう。」", "と彼は言った。", "本当？", "はい！"]),
        ("ja", ["ﾊﾟｿｺﾝを買った｡", "ガンダムだ。"]),
        (
            "ja",
            [
                *["彼は帰った。", "1958年のことである。", "本当？"],
                *["３回も！", "3.5％増えた｡", "5人だ。"],
            ],
        ),
        ("zh-Hant", ["他昨天來了。", "2009年出版。", "你呢？"]),
        ("de", ["Am 3. Mai kam Dr. Müller.", "Er blieb."]),
        ("fr", ["« Oui. » dit-il.", "Elle rit."]),
        ("hi", ["वह आया।", "वे बैठे।"]),
        ("ar", ["هل أنت بخير؟", "نعم."]),
        ("ur", ["یہ ایک جملہ ہے۔", "یہ دوسرا ہے۔"]),
        ("km", ["ខ្ញុំទៅផ្សារ។", "គាត់ទៅសាលា។"]),
        ("bo", ["ཁྱེད་རང་ག་པར་འགྲོ།", "ང་ནང་ལ་འགྲོ།"]),
        ("th", ["วันนี้อากาศดีมาก", "ฉันมี 5 เล่ม", "แล้วก็กลับบ้าน"]),
        ("th", ["เด็ก ๆ เล่นน้ำ", "พวกเขามีความสุขมาก ๆ"]),
        ("lo", ["ຂ້ອຍໄປຕະຫຼາດ", "ລາວໄປໂຮງຮຽນ"]),
        ("he", ["מה שלומך?", "טוב!"]),
        ("sv", ["Hur mår du?", "Bra!"]),
    ],
)
def test_marks_of_every_script_end_sentences(language, sentences):
    space = "" if language in ("ja", "zh-Hant") else " "
    assert split_paragraphs([space.join(sentences)], [language]) == sentences


def test_a_long_paragraph_is_split_as_its_sentences_are():
    """A window at a time, since sentencex would take minutes for this one at once."""
    sentences = [f"第{number}の文は「これ。」です。" for number in range(20_000)]
    sentences += ["あ" * 5_000 + "。", *sentences[:50]]
    expected = [part for text in sentences for part in sentencex.segment("ja", text)]
    assert split_paragraphs(["".join(sentences)], ["ja"]) == expected


def test_paragraphs_of_several_languages_are_split_in_theirs():
    german, japanese = "Das ist z. B. so.", "行こう。外は雨だ。"
    languages = ["de", "ja"]
    paragraphs = [german, japanese, german, german]
    expected = [german, "行こう。", "外は雨だ。", german, german]
    assert split_paragraphs(paragraphs, languages) == expected
    assert split_paragraphs([german], ["ja", "en"]) == text_to_sentences(german).split("\n")


def test_no_paragraphs_give_no_sentences():
    assert split_paragraphs([], []) == split_paragraphs([], ["ja"]) == []
    assert split_paragraphs([], ["en", "ja"]) == []


def test_languages_without_rules_are_named_in_one_warning(caplog):
    warn_without_rules(["ja", "sv", "th", "zh-Hant", "eo"])
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "splitting sv and eo into sentences" in caplog.text


def test_languages_with_rules_give_no_warning(caplog):
    warn_without_rules([])
    warn_without_rules(["en", "ja", "de-AT", "pt-BR", "zh", "th", "code", "multilingual"])
    assert caplog.records == []


@pytest.mark.parametrize(
    ("language", "has_rules"),
    [("de", True), ("lb", True), ("ru", True), ("tt", True), ("sv", False), ("eo", False)],
)
def test_rules_are_those_that_sentencex_has(language, has_rules, caplog):
    """A language without rules is split as an unknown one, `qq`."""
    texts = ["Es kam z. B. am 3. Mai.", "Он жил в г. Москве и т. д. Потом уехал."]
    differs = any(
        sentencex.segment(language, text) != sentencex.segment("qq", text) for text in texts
    )
    warn_without_rules([language])
    assert differs == has_rules == (caplog.records == [])
