"""Cuts inside of words: the same ids as the tokenizer's own, whatever the vocabulary and text."""
# ruff: noqa: RUF001

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ragged_rows import rows
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from st_static.model.tokenizer import Normalization
from st_static.tokens import unigram
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.unigram import exact_characters

n, p = normalizers, pre_tokenizers
MARK = "▁"

# Characters of each script, what combines with them, and all that may mislead.
CHARACTERS = [
    *"aabAZzéßİΣσςяЁ09٣",
    *"かきがはばぱーゞアァカガヴ々〆",
    *"ｱｶﾊﾞﾟｰＡｂ０！",
    *"日本語東京行漢字骨爫\U00020bb7",
    *"한국어가각\u1100\u1161\u11a8",
    *"กำไ์ที่ะ",
    *"कक़\u0915\u093c\u094dषि",
    *"שָׁلاإ\u0654",
    *"\u0301\u0308\u0338\u3099\u309a\u0345\u200d\u200c\ufe0f\u0327",
    *"、。「」・…！!.,-'<=>()_$%°№㍿ﬁ½´¨⒝℃",
    *" \t\n\x0b\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200b\ufeff\x00\x01\xad",
    *"😀👩👧🇯🇵🏽❤",
    *"▁▁",
]
FRAGMENTS = [
    *["が", "ﾊﾞ", "👩‍👩‍👧", "<s>", "<unk>", "[UNK]", "  "],
    *["aaa", "ーーー", "行く", "東京", " 日"],
]
text = st.lists(st.sampled_from([*CHARACTERS, *FRAGMENTS]), max_size=14).map("".join)
texts = st.lists(text | st.text(max_size=4), max_size=4)
# Few characters, of which pieces are made, so that many ways of splitting have the same score.
few = st.text("aか日本、 ーー\u3099\u0301Ａ가", max_size=12)
scores = st.sampled_from([-1.0, -2.0, -3.0, -1.5, -0.25, -7.0 / 4096, 0.0])


@pytest.fixture(autouse=True, scope="module")
def short_texts_are_cut():
    """Short texts, as they are here, would go to the library as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unigram, "_FEW_BYTES", 0)
        yield


SPLIT = [p.WhitespaceSplit(), p.Punctuation("isolated"), p.Metaspace(MARK, prepend_scheme="always")]


def published(normalizer=None):
    return normalizer or n.Sequence([n.NFKC(), n.Lowercase()]), p.Sequence(SPLIT)


UNMARKED = p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="never")])
CONFIGURATIONS = {
    "published": published(Normalization().normalizer_of_pieces()),
    "accents_stripped": published(Normalization(strip_accents=True).normalizer_of_pieces()),
    "as_it_is": published(Normalization(nfkc=False, lowercase=False).normalizer_of_pieces()),
    "not_cleaned": published(),
    "not_normalised": (None, published()[1]),
    "spaces_only": (n.NFC(), p.Sequence([p.WhitespaceSplit(), p.Metaspace()])),
    "without_mark": (n.Lowercase(), UNMARKED),
    "metaspace": (n.NFKC(), p.Metaspace()),
    "metaspace_first": (n.NFKD(), p.Metaspace(prepend_scheme="first")),
    "xlm_roberta": (n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), p.Metaspace()),
}


def build(pieces, configuration, unknown="<unk>"):
    """A Unigram tokenizer of pieces and scores."""
    vocabulary = {unknown: 0.0, **pieces}
    tokenizer = Tokenizer(models.Unigram(list(vocabulary.items()), 0, False))
    tokenizer.normalizer, tokenizer.pre_tokenizer = configuration
    return tokenizer


def assert_same_ids(tokenizer, texts):
    """Whether the parts of words go through the library, which few of them do, or the search."""
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    for fewest in (unigram._FEWEST, 1):
        encoder = FastTokenizer(tokenizer)
        assert encoder._unigram is not None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unigram, "_FEWEST", fewest)
            found = encoder(texts)
        assert rows(found) == expected


def chunks(tokenizer, text):
    """The chunks of a text; those inside of words after a hyphen."""
    parts, inside, _ = FastTokenizer(tokenizer)._unigram.cut(pa.array([text], pa.large_string()))
    return [
        f"-{part}" if is_inside else part
        for part, is_inside in zip(parts.to_pylist(), inside, strict=True)
    ]


EVERY = [*CHARACTERS, *n.NFKC().normalize_str("".join(CHARACTERS)), *"abc▁"]
ALL_CHARACTERS = dict.fromkeys(EVERY, -8.0)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=60)
@given(
    pieces=st.dictionaries(st.text(CHARACTERS, min_size=1, max_size=4), scores, max_size=12),
    dropped=st.sets(st.sampled_from(sorted(ALL_CHARACTERS)), max_size=6),
    texts=texts,
)
def test_ids_of_all_scripts_equal_the_tokenizers(name, pieces, dropped, texts):
    kept = {piece: score for piece, score in ALL_CHARACTERS.items() if piece not in dropped}
    assert_same_ids(build({**kept, **pieces}, CONFIGURATIONS[name]), texts)


pieces = st.dictionaries(st.text("aか日本ーが가▁、", min_size=1, max_size=3), scores, max_size=12)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@settings(max_examples=60)
@given(
    pieces=pieces, unknown=st.sampled_from(["<unk>", "a", "日本"]), texts=st.lists(few, max_size=5)
)
def test_ties_are_broken_as_in_the_whole_text(name, pieces, unknown, texts):
    assert_same_ids(build(pieces, CONFIGURATIONS[name], unknown), texts)


long_pieces = st.text("aか日本", min_size=2, max_size=4)
words = st.text("aか日本 、", max_size=12)


@pytest.mark.parametrize("name", ["published", "metaspace"])
@settings(max_examples=100)
@given(
    pieces=st.dictionaries(long_pieces | long_pieces.map("▁{}".format), scores, max_size=6),
    texts=st.lists(words, max_size=6),
)
def test_pieces_over_borders_are_found(name, pieces, texts):
    characters = dict.fromkeys("aか日本▁", -9.0)
    assert_same_ids(build({**characters, **pieces}, CONFIGURATIONS[name]), texts)


@pytest.fixture(scope="module")
def japanese():
    longer = ["日本", "の本", "行く", "く行日", "日々", "▁aa"]
    pieces = [*"日本語の行くa▁。.々株式会社", *longer]
    return build(dict.fromkeys(pieces, -2.0), published())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("日本語の本", ["日本", "-語", "-の本"]),
        ("行く日", ["行く", "-日"]),
        ("本行く行日々", ["本", "-行く行日々"]),
        ("日。日…日", ["日", "。", "日", "…", "日"]),
        (" 日 \u3000日\t", ["日", "日"]),
        ("日㍿日", ["日㍿日"]),  # becomes several characters
        ("日本行く", ["日本", "-行く"]),
        ("日謎語本", ["日謎語", "-本"]),  # an unknown character joins others
        ("日本語\u3099語", ["日本語\u3099語"]),  # may combine
        ("日。\u0338語", ["日。\u0338語"]),
        ("日本▁語", ["日本▁語"]),
        ("ＡＡ日a", ["ＡＡ", "-日", "-a"]),
    ],
)
def test_where_texts_are_cut(japanese, text, expected):
    assert chunks(japanese, text) == expected


@pytest.mark.parametrize("text", ["ｶﾞ日", "日ｶﾞ", "日ﾊﾟﾊ", "\uffa1\uffc2"])
def test_half_width_letters_that_become_marks_join_the_one_before_them(text):
    """Also where the step that makes marks of them is the normaliser's last."""
    pieces = dict.fromkeys("▁日カガハパ\u3099\u309a\u1100\u1161가", -2.0)
    assert_same_ids(build(pieces, published(n.NFKC())), [text])


def test_before_spaces_where_they_are_kept():
    tokenizer = build(dict.fromkeys("▁日本語", -2.0), CONFIGURATIONS["xlm_roberta"])
    assert chunks(tokenizer, "日本  語\u3000日") == ["日", "-本", "  語", "\u3000日"]


def test_a_sum_that_is_rounded_could_break_a_tie_otherwise():
    """Why the scores must add up exactly: what stands before decides how `aaa` is split."""
    pieces = {"x": -3.1, "y": -7.3, "a": -5.3, "aa": -6.7}
    inexact = build(pieces, published(None))
    assert FastTokenizer(inexact)._unigram is None
    last = {tuple(inexact.encode("xy" * k + "aaa").tokens[-2:]) for k in range(60)}
    assert last == {("a", "aa"), ("aa", "a")}
    exact = build({k: round(4096 * v) / 4096 for k, v in pieces.items()}, published(None))
    assert_same_ids(exact, ["xy" * k + "aaa" for k in range(60)])
    assert chunks(exact, "xyaaa") == ["x", "-y", "-aaa"]


def test_sums_are_exact_up_to_a_length():
    assert exact_characters([-1.5, 0.0]) == 2**52 / 11.5 // 1
    assert exact_characters([-0.1]) == 0
    assert exact_characters([]) == exact_characters([float("-inf")]) == 0


def with_changes(**changes):
    """The published format with some parts of its description changed."""
    description = json.loads(build({"日": -1.0, "本": -2.0}, published()).to_str())
    description.update(changes)
    return Tokenizer.from_str(json.dumps(description))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.1]], "byte_fallback": False}},
        {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.5]], "byte_fallback": True}},
        {"normalizer": {"type": "Prepend", "prepend": "x"}},
        {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}},
        {"normalizer": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}},
        {"pre_tokenizer": {"type": "WhitespaceSplit"}},
        {"pre_tokenizer": {"type": "Punctuation", "behavior": "Isolated"}},
        {"pre_tokenizer": None},
    ],
)
def test_other_tokenizers_are_run_as_before(changes):
    assert FastTokenizer(with_changes(**changes))._unigram is None


def test_other_pre_tokenizers_are_run_as_before():
    for parts in (
        [p.WhitespaceSplit(), p.Punctuation("merged_with_next"), p.Metaspace()],
        [p.WhitespaceSplit(), p.Digits(), p.Metaspace()],
        [p.Punctuation("isolated"), p.WhitespaceSplit(), p.Metaspace()],
        [p.WhitespaceSplit(), p.Metaspace(prepend_scheme="first")],
        [p.Metaspace(split=False)],
    ):
        tokenizer = build({"a": -1.0}, (None, p.Sequence(parts)))
        assert FastTokenizer(tokenizer)._unigram is None


@settings(max_examples=40)
@given(texts=texts)
def test_added_tokens_keep_their_texts_from_being_cut(texts):
    tokenizer = build(ALL_CHARACTERS, published())
    tokenizer.add_special_tokens([AddedToken("<s>", normalized=False)])
    tokenizer.add_special_tokens([AddedToken("京", normalized=False)])
    assert_same_ids(tokenizer, [*texts, "日<s>本", "a<s>", "東京行"])
    tokenizer.add_tokens([AddedToken("語", normalized=True)])
    assert FastTokenizer(tokenizer)._unigram is None


@settings(max_examples=30)
@given(texts=texts)
def test_truncated_texts(texts):
    tokenizer = build(ALL_CHARACTERS, published())
    tokenizer.enable_truncation(3)
    assert_same_ids(tokenizer, texts)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.lists(text, max_size=9).map("。日".join), max_size=4))
def test_long_texts(tiny_parts, texts):
    assert_same_ids(build(ALL_CHARACTERS, published()), texts)


def test_long_japanese_texts_are_cut_into_pieces(japanese, tiny_parts, monkeypatch):
    encoder, longest = FastTokenizer(japanese), []
    encode = encoder._encode
    monkeypatch.setattr(
        encoder, "_encode", lambda part: longest.append(part.nbytes) or encode(part)
    )
    assert encoder(["日本。" * 300]).values.tolist() == japanese.encode("日本。" * 300).ids
    assert 0 < max(longest) < 250


def test_a_long_part_inside_of_a_word_and_the_same_as_a_word(japanese):
    part = "行く" * 20
    assert_same_ids(japanese, [part, f"語{part}", part, f"0{part}", f"語{part}"])


def test_texts_too_long_for_exact_sums_are_not_cut(japanese, monkeypatch):
    encoder = FastTokenizer(japanese)
    monkeypatch.setattr(encoder._unigram, "_longest", 5)
    monkeypatch.delattr(encoder._unigram, "_kinds")
    assert encoder(["日本語"]).values.tolist() == japanese.encode("日本語").ids


def test_a_few_short_texts_are_not_cut(japanese, monkeypatch):
    monkeypatch.setattr(unigram, "_FEW_BYTES", 1000)
    encoder, text = FastTokenizer(japanese), "日本語 行く。"
    monkeypatch.delattr(encoder._unigram, "_kinds")
    assert encoder([text] * 2).values.tolist() == japanese.encode(text).ids * 2
    with pytest.raises(AttributeError, match="_kinds"):
        encoder([text] * 100)
