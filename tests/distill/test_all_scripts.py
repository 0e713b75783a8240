"""Text of any script keeps its ids and places on the way from a sentence to a vector."""
# ruff: noqa: RUF001

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from ragged_rows import rows
from sentence_transformers import SentenceTransformer
from small_build import small_config
from test_alignment import exhaustive
from tokenizers import Tokenizer, models, pre_tokenizers

from st_static.cli import main
from st_static.distill.alignment import align, find_words
from st_static.distill.config import SentencePCAConfig, SentencesConfig, VocabularyConfig
from st_static.distill.corpus.sentences import filter_sentences, split_sentences
from st_static.distill.pipeline import build
from st_static.distill.teacher import Teacher
from st_static.encode.fast_encoder import FastEncoder
from st_static.model.tokenizer import (
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
)
from st_static.tokens.fast_tokenizer import FastTokenizer

FRAGMENTS = [
    *[
        *["ab", "Ab", "café", "cafe\u0301", "Größe"],
        *["Gro\u0308ße", "İstanbul", "IŞIK", "ﬁne", "½", "٣"],
    ],
    # Half-width kana, whose voicing is a character of its own, and kana without a composed form.
    *["ｶﾞﾊﾞ", "ﾊﾟｿｺﾝ", "ｶ", "ﾞ", "か\u3099", "がんばる", "か゚", "先生", "㍿", "。", "「", "ー"],
    # From right to left, with and without points, and marks of direction.
    *["שלום", "שָׁלוֹם", "مرحبا", "مُحَمَّد", "لا", "؟", "\u200f", "\u202babc\u202c"],
    # Korean syllables and their letters; Thai and Hindi, whose marks make no composed character.
    *["한국어", "\u1112\u1161\u11ab", "\u1100\u1161", "สวัสดี", "हिन्दी", "Привет", "й", "и\u0306"],
    # Letters of scripts that nothing here knows, and no letters at all.
    *["𓀀𓂀", "ᚠᚢ", "😀", "👩‍👩‍👧", "🇯🇵", "—", "\u0301", "\u200b", "\ufeff"],
]
pieces_of_text = st.lists(st.sampled_from([*FRAGMENTS, " ", " "]), max_size=9).map("".join)
any_text = pieces_of_text | st.text(max_size=4)
any_texts = st.lists(any_text, min_size=1, max_size=4)

OTHER = Normalization()
NORMALIZE = OTHER.normalizer_of_pieces().normalize_str
CHARACTERS = sorted({c for text in FRAGMENTS for c in NORMALIZE(text)} - set("𓀀ᚠ "))
LONGER = ["ガバ", "先生", "株式会社", "שלום", "مرحبا", "가", "ครับ", "хо", "がん", "café", "größe"]


def piece_student() -> Tokenizer:
    scores = {**dict.fromkeys(CHARACTERS, -8.0), **dict.fromkeys([*LONGER, "▁ab"], -2.0)}
    return build_piece_tokenizer(list(scores.items()), OTHER)


def word_student(normalization: Normalization = OTHER) -> Tokenizer:
    words = [*LONGER, "ab", "istanbul", "ışık"]
    return build_tokenizer(words, [f"##{c}" for c in CHARACTERS], normalization)


def byte_fallback() -> Tokenizer:
    """Llama's kind: what is no piece is spelled by its bytes."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokens = [*special, *(f"<0x{i:02X}>" for i in range(256)), "▁", "▁ab", "先生", "שלום", "a"]
    scores = [(token, -9.0 if token.startswith("<0x") else -2.0) for token in tokens]
    scores += [(f"filler{i}", -9.0) for i in range(100)]
    tokenizer = Tokenizer(models.Unigram(scores, 1, True))
    tokenizer.normalizer = OTHER.normalizer_of_pieces()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


STUDENTS = {
    "pieces": piece_student(),
    "words": word_student(),
    "Turkish words": word_student(Normalization(dotless_i=True)),
    "byte_fallback": byte_fallback(),
}
FAMILIES = ("wordpiece", "unigram", "byte_level", "byte_fallback")


@pytest.fixture(scope="module")
def byte_teacher(make_model) -> SentenceTransformer:
    model = make_model("byte_level")
    backend, fallback = model[0].tokenizer.backend_tokenizer, byte_fallback()
    backend.model = fallback.model
    backend.normalizer, backend.pre_tokenizer = fallback.normalizer, fallback.pre_tokenizer
    return model


@pytest.fixture(scope="module")
def all_teachers(teachers, byte_teacher) -> dict[str, Teacher]:
    return {**teachers, "byte_fallback": Teacher(byte_teacher, batch_tokens=256)}


@pytest.mark.parametrize("language", ["en", "ja", "he", "ar", "th", "ko", "hi", "tlh"])
@given(st.lists(any_text | st.text(st.characters(categories=["Cs", "Lo", "Zs", "Po"]), max_size=6)))
@example(["\u200b"])
def test_sentences_are_text_that_utf8_can_spell(language, documents):
    sentences = split_sentences(documents, [language])
    table, counts = filter_sentences(sentences, SentencesConfig(min_words=1), [language])
    assert counts["read"] == len(sentences)
    for sentence in sentences:
        assert sentence.encode().decode() == sentence
        assert sentence.strip() == sentence != ""
    assert set(table["text"].to_pylist()) <= set(sentences)


def is_mark(character):
    return unicodedata.category(character).startswith("M") or character in "ﾞﾟ"


@pytest.mark.parametrize("name", ["pieces", "words", "Turkish words"])
@settings(max_examples=400)
@given(text=any_text | st.text("IİiıŞş\u0327\u0307 ", max_size=9))
def test_the_characters_of_a_found_token_spell_it(name, text):
    """Also where the normaliser composes it of several, or makes several of one."""
    student = STUDENTS[name]
    decomposed = unicodedata.normalize("NFKD", text)
    # The order of several marks is changed by the normaliser, and so that of their places.
    assume(not any(is_mark(a) and is_mark(b) for a, b in pairwise(decomposed)))
    assume("▁" not in text)
    words = find_words(student, [text])
    assert (np.diff(words.starts) >= 0).all()
    assert ((words.starts >= 0) & (words.ends <= len(text))).all()
    for word, start, end in zip(words.word, words.starts, words.ends, strict=True):
        token = student.id_to_token(int(word))
        spelled = student.normalizer.normalize_str(text[start:end])
        if token != "[UNK]":
            assert token.removeprefix("▁").removeprefix("##") in spelled


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("ｶﾞﾊﾞ", [(0, 4)]),
        ("ab ｶﾞﾊﾞ先生", [(0, 2), (3, 7), (7, 9)]),
        ("cafe\u0301 ab", [(0, 5), (6, 8)]),
        ("\u1100\u1161", [(0, 2)]),
        ("\u202bשלום\u202c", [(1, 5)]),
        ("مرحبا שלום", [(0, 5), (6, 10)]),
    ],
)
def test_places_by_hand(text, spans):
    longer = set(LONGER) | {"▁ab"}
    words = find_words(STUDENTS["pieces"], [text, text])
    for number in (0, 1):
        of_text = words.sentence == number
        found = zip(words.word[of_text], words.starts[of_text], words.ends[of_text], strict=True)
        assert [
            (s, e) for word, s, e in found if STUDENTS["pieces"].id_to_token(int(word)) in longer
        ] == spans


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["pieces", "words"])
@settings(max_examples=60)
@given(texts=any_texts)
def test_alignment_equals_an_exhaustive_search(all_teachers, family, name, texts):
    teacher = all_teachers[family]
    words = find_words(STUDENTS[name], texts)
    if len(words.word):
        assert rows(align(teacher.tokenize(texts), words)) == exhaustive(teacher, texts, words)


@pytest.mark.parametrize("name", STUDENTS)
@settings(max_examples=200)
@given(texts=any_texts)
def test_ids_equal_the_tokenizers(name, texts):
    tokenizer = STUDENTS[name]
    expected = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    assert rows(FastTokenizer(tokenizer)(texts)) == expected


WORDS = ["שלום", "עולם", "ילד", "ספר", "مرحبا", "كتاب", "ولد", "بيت", "ﾊﾟｿｺﾝ", "ｶﾞﾊﾞ", "先生"]


def write_lines(path, words, n_lines=300):
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(words, 5)) + "." for _ in range(n_lines)]
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def byte_teacher_folder(byte_teacher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("byte_teacher")
    byte_teacher.save_pretrained(str(folder))
    return folder


@pytest.mark.parametrize("language", ["he", ["ar", "he", "ja"]])
def test_a_build_from_right_to_left_by_a_teacher_of_bytes(byte_teacher_folder, tmp_path, language):
    corpus = write_lines(tmp_path / "corpus.txt", WORDS)
    changes = {
        "language": language,
        "pca": SentencePCAConfig(n_components=4),
        "vocabulary": VocabularyConfig(size=12 if language == "he" else 120, min_count=2),
    }
    result = build(small_config(byte_teacher_folder, corpus, tmp_path, **changes))
    words = {word.removeprefix("▁") for word in result.work.words["text"].to_pylist()}
    assert {"שלום", "مرحبا"} <= words
    table = result.work.table("extraction")
    assert table[2:].any(axis=1).all()
    texts = [*FRAGMENTS, "שלום עולם ﾊﾟｿｺﾝ", "مرحبا,ab"]
    expected = SentenceTransformer(str(result.output), device="cpu").encode(texts)
    np.testing.assert_allclose(
        FastEncoder.from_pretrained(result.output).encode(texts), expected, atol=1e-5
    )


@pytest.mark.parametrize("language", ["en", "ja", "tlh"])
def test_a_corpus_without_letters_is_refused(byte_teacher_folder, tmp_path, language, capsys):
    corpus = write_lines(tmp_path / "corpus.txt", ["😀", "123", "٣", "—", "½"])
    options = {
        "--corpus.files": corpus,
        "--teacher.model": byte_teacher_folder,
        "--teacher.expect": "{}",
        "--work_dir": tmp_path / "work",
        "--output": tmp_path / "model",
        "--language": language,
        "--workers": 1,
        "--pca.n_components": 4,
    }
    arguments = [str(part) for option in options.items() for part in option]
    assert main(["build", *arguments]) == 1
    assert "300 with too few letters" in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "model").exists()
