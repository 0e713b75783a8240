"""Words, letters and languages are told in any script."""

import unicodedata
from itertools import groupby

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.model.scripts import count_words, fit_languages, share_of_letters

texts = st.lists(st.text(st.characters(codec="utf-8"), min_size=1))


def words_of(text: str, *languages: str) -> int:
    return int(count_words(pa.array([text]), languages)[0])


def letters_of(text: str, *languages: str) -> float:
    return float(share_of_letters(pa.array([text]), languages)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("two words", 2),
        ("don't - stop", 3),
        ("Él está aquí", 3),
        ("日", 1),
        ("日本", 1),
        ("日本語", 2),
        ("今日は、いい天気です。", 5),  # 9 characters
        ("「今日」は（雨）。", 2),  # 4
        ("Pythonで書く。", 3),  # Python, で書, く
        ("2023年5月", 4),
        ("東京 大阪", 2),
        ("ﾊﾟｿｺﾝ", 2),  # 4 with the mark
        ("がか", 1),  # a kana and its mark
        ("データ", 2),
        ("人々", 1),
        ("สวัสดี", 2),  # 4 with their marks
        ("우리는 갔다", 2),
        ("мы пошли домой", 3),
    ],
)
def test_two_characters_without_spaces_are_a_word(text: str, words: int) -> None:
    assert words_of(text, "ja") == words


def kind(character: str) -> str:
    """By its name in Unicode."""
    names = ("CJK UNIFIED", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI", "KHMER")
    names = (*names, "MYANMAR", "TIBETAN", "LAO")
    if character == " ":
        return "space"
    return "unspaced" if unicodedata.name(character).startswith(names) else "other"


@settings(max_examples=300)
@given(st.text("京都かガーｶไกខမབລ한국дaé1 ", min_size=1))
def test_runs_of_a_kind_are_words_or_pairs_of_characters(text: str) -> None:
    text = " ".join(text.split()) or "a"
    runs = [(name, len(list(run))) for name, run in groupby(text, kind)]
    expected = sum((n + 1) // 2 for name, n in runs if name == "unspaced")
    assert words_of(text, "ja") == expected + sum(name == "other" for name, _ in runs)


@settings(max_examples=300)
@given(st.text("京かไ", min_size=1), st.sampled_from("、。」\u0301\u0e48ﾞ"))
def test_punctuation_and_marks_after_characters_are_no_words(text: str, follower: str) -> None:
    assert words_of(follower.join(text) + follower, "ja") == words_of(text, "ja")


@settings(max_examples=300)
@given(texts)
def test_english_words_are_those_between_spaces(texts: list[str]) -> None:
    expected = [len(text.split(" ")) for text in texts]
    for languages in ([], ["en"], ["en-US", "code"]):
        assert count_words(pa.array(texts, pa.string()), languages).tolist() == expected


@given(st.lists(st.lists(st.text("abcéßдю-'.", min_size=1), min_size=1)))
def test_words_of_scripts_with_spaces_are_those_between_spaces(sentences: list[list[str]]) -> None:
    texts = pa.array(map(" ".join, sentences), pa.string())
    assert count_words(texts, ["ru", "ja"]).tolist() == list(map(len, sentences))


@settings(max_examples=200)
@given(texts)
def test_in_english_the_share_of_letters_equals_counting_them(texts: list[str]) -> None:
    expected = [sum(map(str.isalpha, text)) / len(text) for text in texts]
    assert share_of_letters(pa.array(texts, pa.string()), []).tolist() == pytest.approx(expected)


@settings(max_examples=200)
@given(texts)
def test_elsewhere_marks_are_part_of_their_letter(texts: list[str]) -> None:
    bare = [[c for c in text if unicodedata.category(c)[0] != "M"] for text in texts]
    expected = [sum(map(str.isalpha, text)) / max(len(text), 1) for text in bare]
    shares = share_of_letters(pa.array(texts, pa.string()), ["hi"])
    assert shares.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    "word", ["हिन्दी", "ภาษาไทยที่นี่", "العَرَبِيَّةُ", "தமிழ்", "ខ្មែរ", "がんばって", "ﾆﾎﾝｺﾞ", "भाषा"]
)
def test_a_word_of_any_script_is_all_letters(word: str) -> None:
    assert letters_of(word, "hi") == 1


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("We went home.", "en"),
        ("家に帰った。", "ja"),
        ("回家了。", "zh-Hant"),
        ("他在《ゆき》一书中写道，这是一个关于一位年轻人离开家乡的故事。", "zh-Hant"),
        ("私はGitHub Actionsで自動化しました", "ja"),
        ("The word 京都 means capital city", "en"),
        ("집에 갔다.", "ko"),
        ("Мы пошли домой.", "ru"),
        ("ذهبنا إلى البيت", "ar"),
        ("हम घर गए", "hi"),
        ("เรากลับบ้าน", "th"),
        ("Wir gingen heim.", "en"),  # the first in Latin letters
        ("Πήγαμε σπίτι.", "en"),  # none is written so: the first
        ("1234 …", "en"),
        ("", "en"),
    ],
)
def test_a_text_is_in_the_language_of_its_script(text: str, language: str) -> None:
    languages = ["en", "de", "ja", "zh-Hant", "ko", "ru", "ar", "hi", "th"]
    assert fit_languages(pa.array([text]), languages) == [language]


def test_han_without_kana_is_japanese_where_chinese_is_not_named() -> None:
    assert fit_languages(pa.array(["東京都", "行く"]), ["en", "ja"]) == ["ja", "ja"]
    assert fit_languages(pa.array(["東京都", "行く"]), ["en", "zh"]) == ["zh", "zh"]


@pytest.mark.parametrize(
    ("tag", "text"), [("hak", "去屋下"), ("kv", "Ми мунім"), ("pnb", "اسی گئے"), ("dv", "އަޅުގަނޑު")]
)
def test_languages_with_few_speakers_have_their_scripts(tag: str, text: str) -> None:
    assert fit_languages(pa.array([text, "We went."]), ["en", tag]) == [tag, "en"]


def test_a_tag_may_name_the_script() -> None:
    languages = ["sr-Latn", "sr-Cyrl"]
    assert fit_languages(pa.array(["Идемо кући", "Idemo kući"]), languages) == languages[::-1]


@settings(max_examples=200)
@given(texts, st.permutations(["en", "ja", "zh", "ru", "th"]))
def test_the_language_is_always_one_of_the_list(texts: list[str], languages: list[str]) -> None:
    fitting = fit_languages(pa.array(texts, pa.string()), languages)
    assert len(fitting) == len(texts)
    assert set(fitting) <= set(languages)
