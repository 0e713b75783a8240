"""Words to teacher tokens: against an exhaustive search, for three tokenizer families."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragged_rows import rows

from st_static.distill.alignment import WordSpans, align, find_words, word_bags
from st_static.distill.teacher import Teacher, TokenBatch
from st_static.model.tokenizer import build_tokenizer, split_words
from st_static.tokens.ragged import Ragged, offsets_of

FAMILIES = ("wordpiece", "unigram", "byte_level")

# Words, punctuation, accents, scripts, emoji and spaces that tokenizers count in their own ways.
FRAGMENTS = [
    *["the", "The", "keeper", "KEEPING", "unbelievably", "tokenization", "walking", "a", "I"],
    *["don't", "wasn't", "e-mail", "3.5%", "12,345.67", "someone@example.com", "#42", "(paid)"],
    *["café", "cafe\u0301", "naïve", "n\u0303", "Ångström", "Fluß", "İstanbul", "a\u0323\u0302"],
    *[
        *("東京タワー", "我喜欢", "Привет", "مرحبا", "สวัสดี", "한국어", "ﬁne", "Ⅷ", "½"),
        "\uff26\uff35\uff2c\uff2c",
    ],
    *["😀", "👩‍👩‍👧", "🇯🇵", "❤️", "soft\u00adhyphen", "zero\u200bwidth", "\u0301"],
    *["...", "!?", "—", "«", "“no”", "_", "[UNK]", "<s>", "▁"],
    *["  ", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x1f"],
]
mixed_text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=10).map(" ".join)
glued_text = st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join)
batches = st.lists(mixed_text | glued_text, min_size=1, max_size=4)


def text_tokens(teacher: Teacher, sentence: str) -> list[tuple[int, int, int]]:
    """Column, start and end of each token that the teacher reads, special ones left out."""
    encoding = teacher.tokenizer.encode(teacher.prompt + sentence)
    offsets, special = encoding.offsets, encoding.special_tokens_mask
    kept = list(range(len(offsets)))
    if len(offsets) > teacher.max_tokens:
        # Cut as the teacher cuts: from the end of the text, its last special token stays.
        kept = [*range(teacher.max_tokens - 1), len(offsets) - 1]
    return [
        (column, *(position - len(teacher.prompt) for position in offsets[token]))
        for column, token in enumerate(kept)
        if not special[token]
    ]


def exhaustive(teacher: Teacher, sentences: list[str], words: WordSpans) -> list[list[int]]:
    """Each word's tokens, by comparing it with every token of its sentence."""
    tokens = [text_tokens(teacher, sentence) for sentence in sentences]
    width = teacher.tokenize(sentences).input_ids.shape[1]
    return [
        [
            sentence * width + column
            for column, token_start, token_end in tokens[sentence]
            if max(token_start, start, 0) < min(token_end, end)
        ]
        for sentence, start, end in zip(words.sentence, words.starts, words.ends, strict=True)
    ]


@pytest.fixture(scope="module", params=["", "query: "])
def prompted(request, make_model):
    """Teachers of all families, without and with a prompt."""
    return {family: Teacher(make_model(family), prompt=request.param) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=batches)
def test_alignment_equals_an_exhaustive_search(prompted, student, family, texts):
    teacher = prompted[family]
    words = find_words(student, texts)
    if len(words.word):
        aligned = align(teacher.tokenize(texts), words)
        assert rows(aligned) == exhaustive(teacher, texts, words)


@pytest.mark.parametrize("family", FAMILIES)
def test_alignment_of_real_sentences(teachers, student, sentences, family):
    teacher = teachers[family]
    texts = [*sentences, " ".join(sentences)]
    words = find_words(student, texts)
    aligned = align(teacher.tokenize(texts), words)
    assert rows(aligned) == exhaustive(teacher, texts, words)
    # Words of the long text that lie beyond the teacher's limit have no token; all others have.
    is_long = words.sentence == len(sentences)
    assert (aligned.lengths[~is_long] > 0).mean() > 0.9
    assert (aligned.lengths[is_long] == 0).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokens_of_a_word_spell_it(teachers, student, family):
    teacher = teachers[family]
    texts = ["The old lighthouse keeper", "unbelievably long words", "bebió agua y comió piñas"]
    words = find_words(student, texts)
    batch = teacher.tokenize(texts)
    ids = batch.input_ids.ravel()
    assert [student.id_to_token(i) for i in words.word] == " ".join(texts).lower().translate(
        str.maketrans("óñ", "on")
    ).split()
    splitter = build_tokenizer([])
    for word, tokens in zip(words.word, rows(align(batch, words)), strict=True):
        spelled = "".join(teacher.tokenizer.decode([ids[t]]) for t in tokens)
        if family == "byte_level":
            spelled = teacher.tokenizer.decode([ids[t] for t in tokens])
        spelled = spelled.replace("##", "").replace("▁", "")
        assert split_words(splitter, spelled) == [student.id_to_token(word)]


def test_alignment_by_hand(tiny_teacher):
    # [CLS] token ##ization is fun [SEP]
    # [CLS] fun             [SEP]
    texts = ["Tokenization is fun", "fun"]
    tokenizer = build_tokenizer(["tokenization", "is", "fun"])
    batch = tiny_teacher.tokenize(texts)
    assert batch.input_ids.shape == (2, 6)
    aligned = align(batch, find_words(tokenizer, texts))
    assert rows(aligned) == [[1, 2], [3], [4], [6 + 1]]


def test_a_token_that_spans_two_words_belongs_to_both():
    words = WordSpans(*np.array([[2, 0, 0, 1], [3, 0, 2, 3]]).T)  # "a.b"
    batch = TokenBatch(
        input_ids=np.array([[5, 6]]),
        attention_mask=np.array([[1, 1]]),
        starts=np.array([[0, 0]]),
        ends=np.array([[0, 3]]),
        is_text=np.array([[False, True]]),
    )
    assert rows(align(batch, words)) == [[1], [1]]


# -- finding words ---------------------------------------------------------------------


@given(texts=batches)
def test_the_characters_of_a_found_word_spell_it(student, texts):
    words = find_words(student, texts)
    for word, sentence, start, end in zip(*words, strict=True):
        token = student.id_to_token(int(word))
        if token != "[UNK]":
            assert split_words(student, texts[sentence][start:end]) == [token]


@pytest.fixture(scope="module")
def vocabulary(student):
    return student.get_vocab()


@given(texts=batches)
def test_every_vocabulary_word_is_found_and_no_piece(student, vocabulary, texts):
    expected = []
    for number, text in enumerate(texts):
        for word in split_words(student, text):
            # A word of more than 100 characters is unknown to WordPiece.
            if word in vocabulary and len(word) <= 100:
                expected.append((number, vocabulary[word]))
    words = find_words(student, texts)
    known = words.word != vocabulary["[UNK]"]
    assert list(zip(words.sentence[known], words.word[known], strict=True)) == expected


def test_words_that_the_tokenizer_spells_with_pieces_are_left_out():
    tokenizer = build_tokenizer(["read", "it"], ["##er", "##s"])
    words = find_words(tokenizer, ["Reader read readers", "it", "", "reads it"])
    assert words.word.tolist() == [2, 3, 3]
    assert words.sentence.tolist() == [0, 1, 3]
    assert words.starts.tolist() == [7, 0, 6]
    assert words.ends.tolist() == [11, 2, 8]


def test_no_sentences_and_sentences_without_words(student):
    for texts in ([], ["", " "]):
        words = find_words(student, texts)
        assert [len(column) for column in words] == [0, 0, 0, 0]


# -- weights ---------------------------------------------------------------------------


def bags_by_loop(spans: list[list[int]], words: WordSpans) -> dict[int, dict[int, float]]:
    """Word -> token position -> weight, by the definition."""
    bags: dict[int, dict[int, float]] = {}
    for word in set(words.word.tolist()):
        for sentence in set(words.sentence.tolist()):
            places = [
                span
                for span, w, s in zip(spans, words.word, words.sentence, strict=True)
                if w == word and s == sentence and span
            ]
            for span in places:
                for token in span:
                    weights = bags.setdefault(word, {})
                    weights[token] = weights.get(token, 0) + 1 / len(places) / len(span)
    return bags


def test_weights_by_hand():
    # Word 7: twice in sentence 0 (one and two pieces), once in sentence 1; word 4: once; word 9:
    # cut off by the teacher.
    words = WordSpans(
        word=np.array([7, 4, 7, 7, 9]),
        sentence=np.array([0, 0, 0, 1, 1]),
        starts=np.zeros(5, dtype=np.int64),
        ends=np.zeros(5, dtype=np.int64),
    )
    spans = Ragged(
        np.array([1, 2, 3, 4, 11, 12], dtype=np.int32), offsets_of(np.array([1, 1, 2, 2, 0]))
    )
    bags = word_bags(spans, words)
    assert bags.word.tolist() == [4, 7]
    assert bags.counts.tolist() == [1, 2]
    assert rows(bags.tokens) == [[2], [1, 3, 4, 11, 12]]
    assert bags.weights.tolist() == [1, 0.5, 0.25, 0.25, 0.5, 0.5]


occurrences = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.lists(st.integers(0, 20), max_size=3)),
    max_size=12,
).map(lambda places: sorted(places, key=lambda place: place[0]))


@given(occurrences)
def test_weights_equal_the_definition(places):
    sentence, word, spans = ([place[i] for place in places] for i in range(3))
    zeros = np.zeros(len(places), dtype=np.int64)
    words = WordSpans(
        np.array(word, dtype=np.int64), np.array(sentence, dtype=np.int64), zeros, zeros
    )
    values = np.array([t for span in spans for t in span], dtype=np.int32)
    lengths = np.array([len(span) for span in spans], dtype=np.int64)
    bags = word_bags(Ragged(values, offsets_of(lengths)), words)
    expected = bags_by_loop(spans, words)
    assert bags.word.tolist() == sorted(expected)
    weights = np.split(bags.weights, bags.tokens.offsets[1:-1])
    for i, word_ in enumerate(bags.word.tolist()):
        found: dict[int, float] = {}
        for token, weight in zip(rows(bags.tokens)[i], weights[i].tolist(), strict=True):
            found[token] = found.get(token, 0) + weight
        assert found == pytest.approx(expected[word_], rel=1e-6)
        # Each sentence's weights add up to 1.
        assert sum(found.values()) == pytest.approx(bags.counts[i], rel=1e-6)


def test_no_words_give_no_bags():
    empty = np.zeros(0, dtype=np.int64)
    words = WordSpans(empty, empty, empty, empty)
    bags = word_bags(Ragged(empty.astype(np.int32), np.zeros(1, dtype=np.int64)), words)
    assert len(bags.word) == len(bags.counts) == len(bags.weights) == 0
