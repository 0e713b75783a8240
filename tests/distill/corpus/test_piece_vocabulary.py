"""A vocabulary of pieces: what is learnt, what is kept, and how it spells."""

import json
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_rows import rows
from sentence_files import write_shards
from tokenizers import Tokenizer

from st_static.distill.config import VocabularyConfig
from st_static.distill.corpus import piece_vocabulary
from st_static.distill.corpus.piece_vocabulary import (
    add_words,
    choose_used,
    count_pieces,
    frequent_words,
    learn_pieces,
    merge_spellings,
    sample_texts,
    train_pieces,
    write_piece_vocabulary,
)
from st_static.distill.corpus.sentences import sentence_key
from st_static.distill.corpus.shards import Shards
from st_static.distill.engines import Processes
from st_static.files import read_arrow
from st_static.languages import are_in_pieces
from st_static.model.tokenizer import Normalization, build_piece_tokenizer, is_punctuation
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.unigram import unigram_tokenizer

NOUNS = ["彼女", "先生", "友達", "学生", "東京タワー", "本", "手紙", "新聞", "映画", "iPhone"]
PARTICLES = ["は", "が", "を", "に", "も", "の", "と", "では", "から", "まで"]
VERBS = [
    *["読みます", "書きました", "見ていました"],
    *["がんばって直した", "がんばって買う", "がんばった"],
]
RNG = np.random.default_rng(0)
JAPANESE = [
    "".join(f"{RNG.choice(NOUNS)}{RNG.choice(PARTICLES)}" for _ in range(3)) + f"{verb}。"
    for verb in VERBS
    for _ in range(100)
]
CONFIG = VocabularyConfig(size=300, min_count=2)


@pytest.fixture(scope="module")
def learnt():
    return train_pieces(JAPANESE, 300, Normalization())


@pytest.fixture(scope="module")
def tokenizer(learnt):
    return build_piece_tokenizer(list(learnt.items()), Normalization())


IN_PIECES = [["ja"], ["zh-Hant"], ["th"], ["en", "de"], ["multilingual"]]
IN_PIECES += [["nan"], ["shn"]]  # Chinese of Taiwan; in the script of Burmese
IN_WORDS = [[], ["en"], ["de"], ["ja-Latn"], ["en", "code"], ["pt-BR", "pt-PT"]]


@pytest.mark.parametrize("languages", [*IN_PIECES, *IN_WORDS])
def test_the_languages_decide_the_units(languages):
    assert are_in_pieces(languages) == (languages in IN_PIECES)


def test_the_languages_decide_the_normalization():
    english = Normalization(nfkc=False, lowercase=True, strip_accents=True, dotless_i=False)
    assert Normalization.of_languages([]) == Normalization.of_languages(["en"]) == english
    other = Normalization(nfkc=True, lowercase=True, strip_accents=False, dotless_i=False)
    assert Normalization.of_languages(["de"]) == Normalization.of_languages(["en", "tr"]) == other
    assert Normalization.of_languages(["tr", "az"]) == other._replace(dotless_i=True)


def test_frequent_strings_become_pieces_and_every_character_is_one(learnt):
    assert {"東京タワー", "がんばっ", "を", "▁iphone"} <= learnt.keys()
    characters = {c for text in JAPANESE for c in text.lower() if not is_punctuation(c)}
    assert characters <= learnt.keys()


def test_the_same_text_teaches_the_same_pieces():
    """Also the characters that are too rare to be learnt."""
    rare = [f"{chr(0x4E00 + i)}は{chr(0x4E01 + i)}です。" for i in range(0, 400, 2)]
    first, second = (train_pieces(JAPANESE + rare, 900, Normalization()) for _ in range(2))
    assert first == pytest.approx(second, abs=1e-9)


def test_more_characters_than_pieces_are_an_error():
    with pytest.raises(ValueError, match=r"No 20 pieces .* Raise vocabulary\.size"):
        train_pieces(JAPANESE, 20, Normalization())


def test_no_piece_goes_from_hiragana_to_other_letters(learnt):
    """So that texts can be cut there, and particles do not stick to the next word."""
    borders = re.compile("[ぁ-ゖ][^ぁ-ゖ]")
    assert not [piece for piece in learnt if borders.search(piece)]


def test_a_latin_word_is_one_piece_after_kana_too():
    texts = [
        text
        for word in ("python", "ruby", "java")
        for noun in NOUNS
        for text in (f"{word}は{noun}です。", f"{noun}は{word}です。")
    ]
    learnt = train_pieces(texts + JAPANESE, 300, Normalization())
    tokenizer = build_piece_tokenizer(list(learnt.items()), Normalization())
    for text in ("本はPythonです", "Pythonは本です"):
        assert "python" in "|".join(tokenizer.encode(text).tokens).replace("▁", "").split("|")


def test_only_words_of_spaced_scripts_are_marked_and_punctuation_has_no_piece(learnt):
    assert all(piece[1].isascii() for piece in learnt if piece.startswith("▁"))
    assert not [piece for piece in learnt if is_punctuation(piece.removeprefix("▁"))]
    marked = merge_spellings([("▁слово", -1.0), ("▁ไทย", -1.0), ("▁12", -1.0), ("▁", -1.0)])
    assert marked.keys() == {"▁слово", "ไทย", "12"}


def test_scores_of_two_spellings_are_the_logarithm_of_the_sum_of_their_probabilities():
    merged = merge_spellings([("▁今日", np.log(0.2)), ("は", -1.0), ("今日", np.log(0.3))])
    assert merged == {"今日": pytest.approx(np.log(0.5)), "は": -1.0}


def test_pieces_are_counted_in_all_shards(tmp_path, tokenizer):
    shards = write_shards(tmp_path, [JAPANESE[:100], [], JAPANESE[100:]])
    expected = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for text in JAPANESE:
        for index in tokenizer.encode(text).ids:
            expected[index] += 1
    for workers in (1, 2):
        counts = count_pieces(tmp_path, Shards(shards, Processes(workers)), tokenizer)
        np.testing.assert_array_equal(counts, expected)
    assert sorted(tmp_path.iterdir()) == shards


def test_the_bar_tells_the_sentences_that_are_counted(tmp_path, tokenizer, told):
    shards = write_shards(tmp_path, [JAPANESE[:40], [], JAPANESE[40:100]])
    count_pieces(tmp_path, Shards(shards, Processes(1)), tokenizer)
    assert told == {"piece counts": "100 sentences/s"}


def test_rare_pieces_go_single_characters_stay_and_the_rest_is_sorted():
    learnt = dict.fromkeys(["ab", "cd", "e", "f", "gh"], -1.0)
    counts = np.array([5, 1, 0, 9, 5])
    kept = choose_used(learnt, counts, VocabularyConfig(size=9, min_count=2))
    assert kept.to_pydict() == {"text": ["f", "ab", "gh", "e"], "count": [9, 5, 5, 0]}
    small = choose_used(learnt, counts, VocabularyConfig(size=2, min_count=2))
    assert small["text"].to_pylist() == ["f", "ab", "e"]
    with pytest.raises(ValueError, match="no pieces of letters"):
        choose_used({"ab": -1.0}, np.array([1]), VocabularyConfig(min_count=2))


def test_frequent_words_of_spaced_scripts_are_pieces_also_where_no_other_word_holds_them(tmp_path):
    texts = [f"Schöne {number} Lieder、слово 今日は AIが進化する。" for number in range(20)]
    shards = write_shards(tmp_path, [texts[:7], texts[7:]])

    def words_of(**options: int) -> dict[str, int]:
        config, corpus = replace(CONFIG, **options), Shards(shards, Processes(1))
        return frequent_words(tmp_path, corpus, config, Normalization())

    words = words_of(min_count=3)
    assert words == {"▁schöne": 20, "▁lieder": 20, "▁слово": 20}
    assert list(words_of(size=2)) == ["▁lieder", "▁schöne"]
    assert words_of(min_count=21) == {}
    assert sorted(tmp_path.iterdir()) == shards
    pieces = add_words({"▁lieder": -2.0, "今日": -1.0}, words, 80.0)
    assert pieces == {
        "▁lieder": -2.0,
        "今日": -1.0,
        "▁schöne": pytest.approx(np.log(1 / 4)),
        "▁слово": pytest.approx(np.log(1 / 4)),
    }


@given(st.integers(1, 6), st.integers(1, 15_000))
@settings(deadline=None, max_examples=30)
def test_a_sample_is_the_same_however_the_corpus_is_cut(n_shards, n_characters):
    """Those with the smallest keys, as long as they have so many characters at most."""
    with TemporaryDirectory() as folder:
        files = write_shards(Path(folder), [JAPANESE[start::n_shards] for start in range(n_shards)])
        texts, share = sample_texts(Shards(files, Processes(1)), n_characters)
        found = texts.to_pylist()
    by_key = sorted(JAPANESE, key=sentence_key)
    lengths = np.cumsum([len(text) for text in by_key])
    n = int((lengths <= n_characters).sum())
    assert found == by_key[:n]
    assert share == (lengths[n - 1] / lengths[-1] if n else 0)


def test_words_count_in_all_of_the_corpus_pieces_in_the_sample(tmp_path, monkeypatch):
    """So that a word has the score of its share of all tokens."""
    monkeypatch.setattr(piece_vocabulary, "_FEWEST_CHARACTERS", 2000)
    monkeypatch.setattr(piece_vocabulary, "_CHARACTERS_PER_PIECE", 1)
    shards = write_shards(tmp_path, [[f"{text} Wort {i}" for i, text in enumerate(JAPANESE)]])
    learnt = learn_pieces(
        tmp_path, Shards(shards, Processes(1)), replace(CONFIG, size=80), Normalization()
    )
    tokenizer = build_piece_tokenizer(list(learnt.items()), Normalization())
    n_tokens = count_pieces(tmp_path, Shards(shards, Processes(1)), tokenizer).sum()
    assert learnt["▁wort"] == pytest.approx(np.log(len(JAPANESE) / n_tokens), abs=0.3)


def test_the_stage_leaves_a_tokenizer_whose_ids_follow_its_words(tmp_path):
    shards = write_shards(tmp_path, [JAPANESE])
    teacher = build_piece_tokenizer([("a", -1.0)], Normalization())
    corpus = Shards(shards, Processes(1))
    learnt = learn_pieces(tmp_path, corpus, CONFIG, Normalization())
    options = {"config": CONFIG, "normalization": Normalization()}
    figures = write_piece_vocabulary(tmp_path, corpus, teacher, learnt, **options)
    words = read_arrow(tmp_path / "words.arrow")
    student = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert figures["words"] == len(words) == student.get_vocab_size() - 2
    texts = words["text"].to_pylist()
    assert [student.id_to_token(2 + i) for i in range(len(texts))] == texts
    assert words["count"].to_pylist() == sorted(words["count"].to_pylist(), reverse=True)
    tokens = student.encode("先生はがんばって手紙を書きました。").tokens
    assert "".join(tokens).replace("▁", "") == "先生はがんばって手紙を書きました。"
    assert "がんばっ" in tokens


@given(st.text(st.sampled_from("今日はがﾊﾞば\uff21aée\u0301。、 \u3000▁1ไท")))
def test_dakuten_and_accents_survive_and_offsets_point_at_the_text(text):
    pieces = [(c, -1.0) for c in "今日はがばaé1ไท"]
    tokenizer = build_piece_tokenizer(pieces, Normalization())
    encoding = tokenizer.encode(text)
    known = [token for token in encoding.tokens if token in dict(pieces)]
    normalised = tokenizer.normalizer.normalize_str(text)
    assert known == [character for character in normalised if character in dict(pieces)]
    ends = [end for _, end in encoding.offsets]
    assert ends == sorted(ends)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)


@pytest.mark.parametrize("invisible", ["\u00ad", "\u200b", "\u200f", "\u2060", "\ufeff"])
def test_invisible_characters_do_not_break_a_piece(invisible):
    tokenizer = build_piece_tokenizer([("▁donau", -1.0), ("日本", -1.0)], Normalization())
    encoding = tokenizer.encode(f"{invisible}Do{invisible}nau、日{invisible}本")
    assert [t for t in encoding.tokens if t.strip("▁、")] == ["▁donau", "日本"]
    assert encoding.offsets[0] == (1, 7)


def test_texts_can_be_cut_inside_of_words_and_keep_their_ids(tokenizer):
    description = json.loads(tokenizer.to_str())
    assert unigram_tokenizer(tokenizer, description) is not None
    texts = [*JAPANESE, "ｶﾞﾝﾊﾞﾙ 鬱。", ""]
    expected = [tokenizer.encode(text).ids for text in texts]
    assert rows(FastTokenizer(tokenizer)(texts)) == expected


def test_the_published_description_is_of_three_steps(tokenizer):
    description = json.loads(tokenizer.to_str())
    steps = [step["type"] for step in description["normalizer"]["normalizers"]]
    assert steps == ["BertNormalizer", "NFKC", "Lowercase"]
    steps = description["pre_tokenizer"]["pretokenizers"]
    assert [s["type"] for s in steps] == ["WhitespaceSplit", "Punctuation", "Metaspace"]
    assert description["model"]["unk_id"] == 1
    assert description["added_tokens"] == []
