"""Documents to distinct sentences: what is kept, what is dropped and why, and in which shards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from st_static.distill.config import CorpusConfig, SentencesConfig
from st_static.distill.corpus import sentences as module
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import (
    filter_sentences,
    sentence_key,
    sentence_shards,
    split_block,
    split_sentences,
    write_sentences,
)
from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Processes
from st_static.files import read_arrow, write_json

CONFIG = SentencesConfig()


def kept(sentences, **options):
    return filter_sentences(sentences, SentencesConfig(**options))[0]["text"].to_pylist()


def written(folder):
    return [
        text for shard in sentence_shards(folder) for text in read_arrow(shard)["text"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("document", "sentences"),
    [
        ("Mr. Smith went home. He slept well!", ["Mr. Smith went home.", "He slept well!"]),
        ("a heading without a stop\nand text", ["a heading without a stop", "and text"]),
        ("One\u200btwo \u2060three.", ["One\u200btwo \u2060three."]),
        *((nothing, []) for nothing in ("", "\n", " \t\n\x00\n", "\u2003", "\u200b")),
    ],
)
def test_splits_documents_into_sentences(document, sentences):
    assert split_sentences([document]) == sentences
    assert split_sentences([document, "Did he?"]) == [*sentences, "Did he?"]


def test_a_lower_cased_corpus_gives_its_sentences(tmp_path):
    """However few documents are split at a time, and whether they are long or short."""
    short = [f"it was {word}. we saw {word} again!" for word in ("rain", "snow", "dr. smith")]
    long = " ".join(f"here is number {'x' * number} of many." for number in range(80))
    figures = write_sentences([*short, long], tmp_path, CONFIG, Processes(1))
    assert (figures["read"], figures["too_long"], figures["kept"]) == (86, 0, 86)
    assert written(tmp_path)[4:6] == ["it was dr. smith.", "we saw dr. smith again!"]


@pytest.mark.parametrize(
    "space",
    [
        *(" ", "   ", "\t", "\r", "\x0b", "\x1c", "\x85", "\u00a0", "\u2003", "\u2028", "\u2029"),
        *("\u3000", "\x00", "\x00 \x00", " \t\u00a0 "),
    ],
)
def test_white_space_of_every_kind_collapses_to_one_space(space):
    assert split_sentences([f"{space}one{space}two three{space}"]) == ["one two three"]


@settings(max_examples=200)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf"])), max_size=4))
def test_splitting_neither_loses_nor_adds_anything_but_space(documents):
    sentences = split_sentences(documents)
    assert "".join("".join(sentences).split()) == "".join("".join(documents).split())
    assert all(sentence == " ".join(sentence.split()) != "" for sentence in sentences)


def test_half_of_a_surrogate_pair_in_a_document_becomes_a_question_mark():
    """A Python string may hold it, and a docstring does where it is spelled out."""
    assert split_sentences(["One \ud800 is lost."]) == ["One ? is lost."]
    assert split_sentences(["\udc00半分です。次です。"], ["ja"]) == ["?", "半分です。", "次です。"]


def test_a_block_is_split_a_few_documents_at_a_time_alike(monkeypatch):
    texts = ["".join(SENTENCES[tag]) * 3 for tag in ("ja", "hi", "de", "th")] + ["One is short."]
    texts += ["it rains today. we stay.", "it rains here. we stay. " * 20]  # one is long enough
    whole, counts = split_block(texts, CONFIG, ["ja", "en"])
    monkeypatch.setattr(module, "_SPLIT_AT_ONCE", 20)
    table, same_counts = split_block(texts, CONFIG, ["ja", "en"])
    assert len(whole) > 8
    assert table.equals(whole)
    assert same_counts == counts
    assert table["text"].num_chunks == 1


@pytest.mark.parametrize(
    ("sentence", "options", "is_kept"),
    [
        *((" ".join(["word"] * n), {}, 3 <= n <= 64) for n in (2, 3, 64, 65)),
        ("one two", {"min_words": 2}, True),
        # Half of the characters are letters.
        ("ab cd 12", {}, True),  # 4 letters of 8 characters, spaces counted
        ("abc 1 2 3", {}, False),  # 3 of 9
        ("ab cd 123", {}, False),  # 4 of 9
        ("äß це 世界", {}, True),
        ("1.5 2.5 3.5", {}, False),
        ("२३ ४५ abcdef", {}, True),  # digits of any script are no letters: 6 of 12
        ("२३ ४५६ abcdef", {}, False),
        ("😀😀 😀😀 abcdef", {}, True),  # an emoji is one character: 6 of 12
        ("😀😀 😀😀😀 abcdef", {}, False),
        ("a 1 2", {"min_letters": 0.4}, False),
        ("a b 1", {"min_letters": 0.4}, True),
        ("1 2 3", {"min_letters": 0}, True),
    ],
)
def test_sentences_of_three_to_sixty_four_words_of_letters_are_kept(sentence, options, is_kept):
    assert kept([sentence], **options) == [sentence] * is_kept


def test_dropped_sentences_are_counted_by_reason():
    sentences = ["too short", "w " * 70 + "w", "1 2 3", "this one is kept", "4 5 6 7"]
    table, counts = filter_sentences(sentences, CONFIG)
    assert table["text"].to_pylist() == ["this one is kept"]
    reasons = {name: counts[name] for name in ("read", "too_short", "too_long", "few_letters")}
    assert reasons == {"read": 5, "too_short": 1, "too_long": 1, "few_letters": 2}


def test_the_key_is_that_of_the_lower_cased_text():
    assert sentence_key("This One") == sentence_key("this one") != sentence_key("this two")
    table, _ = filter_sentences(["This One Here"], CONFIG)
    assert table["key"].to_pylist() == [sentence_key("this one here")]


SENTENCES = {
    "ja": ("がんばって走りました。", "でも、電車はもう出ていた。"),
    "zh": ("我们昨天去了图书馆。", "你喜欢看书吗？"),
    "th": ("เมื่อวานนี้เราไปห้องสมุดด้วยกัน", "วันนี้ฝนตกหนักมาก"),
    "hi": ("हम कल पुस्तकालय गए थे।", "क्या आपको किताबें पढ़ना पसंद है?"),
    "ar": ("ذَهَبْنَا إِلَى المَكْتَبَةِ أَمْسِ.", "هل تحب قراءة الكتب؟"),
    "fa": ("دیروز به کتابخانه رفتیم.", "کتاب‌ها را دوست داری؟"),
    "he": ("הלכנו אתמול לספרייה.", "אתה אוהב לקרוא ספרים?"),
    "ru": ("Вчера мы ходили в библиотеку.", "Ты любишь читать книги?"),
    "ko": ("우리는 어제 도서관에 갔습니다.", "책 읽는 것을 좋아하세요?"),
    "de": ("Wir waren z. B. am 3. Mai in der Bücherei.", "Liest du gern Bücher?"),
    "km": ("យើងបានទៅបណ្ណាល័យម្សិលមិញ។", "ខ្ញុំចូលចិត្តអានសៀវភៅ។"),
    "my": ("မနေ့က စာကြည့်တိုက်ကို သွားခဲ့တယ်။", "စာဖတ်ရတာ ကြိုက်လား။"),
}
UNSPACED = {"ja", "zh"}


@pytest.mark.parametrize("language", SENTENCES)
def test_sentences_of_any_language_are_split_and_kept(language):
    space = "" if language in UNSPACED else " "
    document = space.join(SENTENCES[language])
    table, _ = split_block([document], CONFIG, [language])
    assert table["text"].to_pylist() == list(SENTENCES[language])


def test_english_is_not_counted_in_another_way():
    """Its builds stay what they were: Japanese in between is counted by spaces, marks count."""
    texts = ["Kyoto (京都市) is old", "京都 東京 大阪", "क्या है यह", "天気がいいですね"]
    for languages in ([], ["en"], ["en-GB", "code"]):
        table, counts = filter_sentences(texts, CONFIG, languages)
        assert table["text"].to_pylist() == texts[:3]
        assert counts["too_short"] == 1


def documents(n_documents):
    """Documents of three sentences each; the middle one is in every fourth document again."""
    return [
        f"Here is document {'x' * i} of several. It says {'y' * (i % 4)} again and again. "
        f"Too short. IT ENDS WITH {'z' * i} here."
        for i in range(n_documents)
    ]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_CHARACTERS", 500)


@pytest.mark.usefixtures("small_blocks")
def test_counts_add_up_and_are_the_same_when_nothing_is_left_to_do(tmp_path):
    figures = write_sentences(documents(30), tmp_path, CONFIG, Processes(1))
    assert len(sentence_shards(tmp_path)) > 3
    assert write_sentences([], tmp_path, CONFIG, Processes(1)) == figures
    reasons = ("too_short", "too_long", "few_letters", "repeated", "kept")
    assert figures["read"] == sum(figures[reason] for reason in reasons)


@pytest.mark.usefixtures("small_blocks")
def test_a_shard_that_is_not_there_is_named_and_never_left_out(tmp_path):
    write_sentences(documents(12), tmp_path, CONFIG, Processes(1))
    n_shards = len(sentence_shards(tmp_path))
    (tmp_path / "sentences-00001.arrow").unlink()
    assert len(sentence_shards(tmp_path)) == n_shards > 2
    with pytest.raises(FileNotFoundError, match=r"sentences-00001\.arrow"):
        Shards(sentence_shards(tmp_path), Processes(1))


def test_half_of_a_surrogate_pair_costs_its_sentence_at_most(tmp_path):
    """JSON may spell half of a pair, and UTF-8 cannot."""
    (tmp_path / "a.jsonl").write_text('{"text": "One \\ud800 is lost. The rest is fine here."}\n')
    documents = Corpus(CorpusConfig(files=str(tmp_path / "a.jsonl")))
    table, _ = split_block(list(documents), CONFIG)
    assert table["text"].to_pylist()[-1] == "The rest is fine here."


def test_japanese_is_too_short_only_where_it_is_taken_for_english():
    document = "今日はとてもいい天気です。"
    assert split_block([document], CONFIG)[1]["too_short"] == 1
    assert split_block([document], CONFIG, ["ja"])[0]["text"].to_pylist() == [document]


def test_shards_are_in_order_when_five_digits_are_too_few(tmp_path):
    blocks = {"files": ["block"] * 100_002, "n_keys": 0, "undecodable": []}
    write_json(tmp_path / "blocks.json", blocks)
    shards = sentence_shards(tmp_path)
    assert [path.name for path in shards[99_999:]] == [
        "sentences-99999.arrow",
        "sentences-100000.arrow",
        "sentences-100001.arrow",
    ]


LONG = " ".join(["so it goes on and on"] * 20)
NO_MARKS = r"1 of too many words.*needs one sentence per line; text"


@pytest.mark.parametrize(
    ("text", "languages", "says"),
    [
        ("猫。", [], r"1 of too few words.*needs --language\.$"),
        ("猫。", ["en"], r"1 of too few words.*needs --language\.$"),
        ("猫。", ["ja"], r"1 of too few words((?!--language).)*$"),
        (LONG, [], NO_MARKS),
    ],
)
def test_where_no_sentence_is_found_it_is_said_what_the_text_needs(tmp_path, text, languages, says):
    with pytest.raises(ValueError, match=says):
        write_sentences([text], tmp_path, CONFIG, Processes(1), languages)
