"""The tokenizer of given words: what it splits is what its rules say, word by word, and fast."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragged_rows import rows
from tokenizers import Tokenizer

from st_static.model.tokenizer import (
    KnownWords,
    build_word_tokenizer,
    canonical_form,
    capitalised,
    capitalised_spellings,
    normalization_of,
)
from st_static.tokens.fast_tokenizer import FastTokenizer

CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
PARTS = [
    *["dog", "do", "don", "ca", "n't", "'t", "'s", "t", "s", "well", "known", "new", "york", "u"],
    *["'", "-", ".", "..", "...", "_", "#", "|", "(", "\\", "^", "é", "e", "ß", "1", "2", "喜"],
    *["я", CURLY],
]
word = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join)
words = st.lists(word, unique=True, max_size=12)
texts = st.lists(
    st.lists(st.sampled_from([*PARTS, " ", "  ", "\t", "\n"]), max_size=12).map("".join), max_size=4
)


def is_run(character):
    return unicodedata.category(character)[0] in "LMN"


def split_by_hand(text, given):
    """The rules of the module, character by character; a `?` is what is not given."""
    found = []
    if CURLY not in "".join(given) and "'" in "".join(given):
        text = text.replace(CURLY, "'")
    for chunk in text.replace("喜", " 喜 ").split():
        place = 0
        while place < len(chunk):
            stop = stop_by_hand(chunk, place, given)
            found.append(chunk[place:stop] if chunk[place:stop] in given else "?")
            place = stop
    return found


def stop_by_hand(chunk, place, given):
    for stop in range(len(chunk), place, -1):
        piece = chunk[place:stop]
        inside = stop < len(chunk) and is_run(chunk[stop - 1]) and is_run(chunk[stop])
        if len(piece) > 1 and piece in given and not all(map(is_run, piece)) and not inside:
            return stop
    if not is_run(chunk[place]):
        return place + 1
    stop = place
    while stop < len(chunk) and is_run(chunk[stop]):
        stop += 1
        before = chunk[stop : stop + 3] == "n't" and not is_run((chunk + " ")[stop + 3])
        if before and "n't" in given:
            break
    return stop


def split(tokenizer, text):
    tokens = tokenizer.encode(text).tokens
    return ["?" if token == "[UNK]" else token for token in tokens]


@given(given=words, texts=texts)
def test_texts_are_split_as_the_rules_say(given, texts):
    tokenizer = build_word_tokenizer(given)
    accents = not normalization_of(given).strip_accents
    for text in texts:
        plain = text if accents else text.replace("é", "e")
        assert split(tokenizer, text) == split_by_hand(plain, given), given


@given(given=words, texts=texts)
def test_fast_ids_are_the_tokenizers(given, texts):
    tokenizer = build_word_tokenizer(given)
    encode = FastTokenizer(tokenizer)
    ids = encode(texts)
    expected = [tokenizer.encode(text).ids for text in texts]
    assert rows(ids) == expected


# Letters with their marks, composed or not, half composed (ê and a dot), in another order, and what
# composes with what is behind it in another word.
FORMS = [
    *["e\u0302\u0323", "ê\u0323", "e\u0323\u0302", "ệ", "\u0301", "\u0323", "e", "d", "-", "'"],
    *[
        *["한", "하", "ᆫ", "\u1112\u1161", "か", "\u3099", "が"],
        *["क\u093c", "\u0958", "أ", "\u0627\u0654"],
    ],
]
words_in_forms = st.lists(
    st.lists(st.sampled_from(FORMS), min_size=1, max_size=3).map("".join), unique=True, max_size=9
)
texts_in_forms = st.lists(
    st.lists(st.sampled_from([*FORMS, " "]), max_size=12).map("".join), max_size=4
)


@given(given=words_in_forms, texts=texts_in_forms)
def test_words_and_texts_are_brought_to_one_form(given, texts):
    """Split by hand, after Python's own normalisation; the first of words that are one counts."""
    known = KnownWords(given)
    form = known.form or "NFD"  # which strips accents
    first = {}
    for place, word in enumerate(given):
        first.setdefault(unicodedata.normalize(form, word), place)
    for text, row in zip(texts, rows(known(texts)), strict=True):
        if known.form is None:
            text = "".join(c for c in unicodedata.normalize("NFD", text) if not is_mark(c))
        found = split_by_hand(unicodedata.normalize(form, text), set(first))
        assert row == [first[word] for word in found if word in first], (text, given)
    assert known.alike == [w for i, w in enumerate(given) if i not in first.values()]
    assert known.brought == [w for w in given if unicodedata.normalize(form, w) != w]


@given(given=words_in_forms, texts=texts_in_forms)
def test_fast_ids_are_the_tokenizers_where_characters_compose(given, texts):
    tokenizer = KnownWords(given).tokenizer
    encode = FastTokenizer(tokenizer)
    assert rows(encode(texts)) == [tokenizer.encode(text).ids for text in texts]


def is_mark(character):
    return unicodedata.category(character) == "Mn"


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ([], None),
        (["dog", "喜", "ะ"], None),  # no accent that could be stripped
        (["é", "dog"], "NFC"),
        (["e\u0301", "dog"], "NFD"),
        (["é", "è", "e\u0302"], "NFC"),
        (["é", "e\u0300", "e\u0302"], "NFD"),
        (["é", "e\u0301"], "NFC"),
        (["\u0958"], "NFC"),  # which no text in either form has
        (["ê\u0323", "e\u0301"], "NFD"),  # half composed: in neither
    ],
)
def test_the_form_is_that_of_most_words(given, form):
    assert canonical_form(given) == form


@given(given=words)
def test_words_that_are_never_found_are_those_that_are_split(given):
    found = {word for word in given if build_word_tokenizer(given).encode(word).tokens == [word]}
    assert set(KnownWords(given).never_found()) == set(given) - found


@pytest.mark.parametrize(
    ("given", "text", "tokens"),
    [
        # Either style of contractions, and both.
        (["don't", "do"], "Don't!", ["don't", "?"]),
        (["do", "ca", "n't"], "Don't, can't", ["do", "n't", "?", "ca", "n't"]),
        (["don't", "do", "ca", "n't"], "Don't can't", ["don't", "ca", "n't"]),
        (["don", "'", "t"], "don't", ["don", "'", "t"]),
        (["dog", "'s"], "The dog's dog'sx", ["?", "dog", "'s", "dog", "?", "?"]),
        # Curly apostrophes are straight ones, unless there are words with them or none with either.
        (["don't", "'s"], f"don{CURLY}t it{CURLY}s '{CURLY}", ["don't", "?", "'s", "?", "?"]),
        (["don't", f"it{CURLY}s"], f"don{CURLY}t it{CURLY}s", ["?", "?", "?", f"it{CURLY}s"]),
        (["don"], f"don{CURLY}", ["don", "?"]),
        # Hyphens, dots and underscores, with and without an entry.
        (["well-known", "well", "known", "-"], "well-known known-well", [
            "well-known", "known", "-", "well"]),
        (["u.s", "u.s.", "."], "U.S. u.s, u.s.. u.s.a", [
            "u.s.", "u.s", "?", "u.s.", ".", "u.s.", "?"]),
        (["new_york", "york"], "New_York new_yorkers new york", [
            "new_york", "?", "?", "?", "?", "york"]),
        (["3.5", "3"], "3.5% 3.51", ["3.5", "?", "3", "?", "?"]),
        (["dog", ".", "..."], "dog. dog.... (dog)", [
            "dog", ".", "dog", "...", ".", "?", "dog", "?"]),
        # A capital or an accent among the words counts in the texts.
        (["New", "york"], "New new York", ["New", "?", "?"]),
        (["cafe"], "Café", ["cafe"]),
        (["café", "cafe"], "Café cafe", ["café", "cafe"]),
        *[([mark, "dog"], "Dog", ["dog"]) for mark in ("<UNK>", "[UNK ]", "UNK", "</S>")],
        (["안녕", "dog"], "안녕", ["안녕"]),  # which are taken apart to strip accents
        (["हिन्दी"], "हिन्दी", ["हिन्दी"]),  # marks are part of a word
        ([], "dog.", ["?", "?"]),
    ],
)  # fmt: skip
def test_examples(given, text, tokens):
    assert split(build_word_tokenizer(given), text) == tokens


def test_words_that_no_text_is_split_into():
    lost = ["new york", "", "\xad-", "喜欢", "-" * 101, "a\xa0b"]
    kept = ["-" * 100, "x" * 300, "喜", "</s>", "a-b", "\\d+", "[a-z]", "(?:", "a|b", "$1^"]
    assert KnownWords([*kept, *lost]).never_found() == lost


words_with_capitals = st.lists(
    st.lists(st.sampled_from(["The", "the", "US", "Us", "é", "'s", "-", "n't", "ß", " "]))
    .map("".join)
    .filter(bool),
    unique=True,
    max_size=8,
)


@given(given=words_with_capitals, texts=texts)
def test_a_word_may_begin_with_a_capital_unless_that_is_another_word(given, texts):
    """Looked up as it is, then in small letters; by hand, on what the rules split."""
    known = KnownWords(given)
    cased = any(word != word.lower() for word in given)
    texts = [*texts, *given, *(word.capitalize() for word in given)]
    for text, row in zip(texts, rows(known(texts)), strict=True):
        text = text if cased else text.lower()
        if normalization_of(given).strip_accents:
            text = text.replace("é", "e").replace("É", "E")
        found = split_by_hand(text, {*given, *(capital(word) for word in given if cased)} - {" "})
        found = [piece if piece in given else piece[:1].lower() + piece[1:] for piece in found]
        assert [given[i] for i in row] == [word for word in found if word in given], (text, given)


def capital(word):
    """The word with a first capital if it has none at all, and no space."""
    first = word[0].upper() if word[0] != "ß" else "ß"
    return word if word != word.lower() or " " in word else first + word[1:]


@pytest.mark.parametrize(
    ("given", "spellings"),
    [
        (["US", "the", "dog", "Dog"], {"The": 1}),
        (["US", "well-known", "n't", "'s", "éa", "3d"], {"Well-known": 1, "N't": 2, "Éa": 4}),
        # What has no capital of one letter, or would become another word; what no text has.
        (["US", "ßa", "iPhone", "\u017fa", "sa", "new york", "ﬁx"], {"Sa": 4}),
        (["the", "dog"], {}),
    ],
)
def test_spellings_that_are_added(given, spellings):
    assert capitalised_spellings(given) == spellings
    known = KnownWords(given)
    assert [known([spelling]).values.tolist() for spelling in spellings] == [
        [place] for place in spellings.values()
    ]


@pytest.mark.parametrize(("n_words", "lowercase"), [(99, False), (100, True), (1000, True)])
def test_a_few_words_with_capitals_do_not_count(n_words, lowercase):
    given = ["the", "X", *(f"w{i}" for i in range(n_words - 2))]
    known = KnownWords(given)
    assert normalization_of(given).lowercase == lowercase
    assert known(["The the"]).values.tolist() == [0, 0]
    assert known(["THE X"]).values.tolist() == ([0] if lowercase else [1])
    assert known.never_found() == ["X"] * lowercase


DOTTED = "i\u0307stanbul"


@pytest.mark.parametrize(
    ("given", "told", "expected"),
    [
        (["istanbul", "ışık"], None, True),
        (["istanbul", "ışık"], False, False),
        (["ışık", *(f"w{i}" for i in range(99))], None, False),  # a loan word
        (["ışık", *(f"w{i}" for i in range(99))], True, True),
        (["istanbul", "isik", "çok"], True, False),  # no text would be found by ı
        (["ışık", DOTTED, "işik"], None, False),  # as `str.lower` has it
        (["ışık", DOTTED, *(f"w{i}" for i in range(98))], True, True),
        ([], True, False),
    ],
)
def test_whether_i_has_a_dot_is_what_words_and_languages_say(given, told, expected):
    assert normalization_of(given, told).dotless_i == expected


@given(texts=st.lists(st.text("aIİiış\u0307 -", max_size=12), max_size=4))
def test_turkish_capitals_are_those_of_the_words(texts):
    """In small letters the words are found in all texts; else at the beginning of a sentence."""
    for form in ("NFC", "NFD"):
        given = [unicodedata.normalize(form, word) for word in ("iş", "ışı", "a-i", "i", "ı", "ş")]
        known = KnownWords(given)
        encode = FastTokenizer(known.tokenizer)
        assert rows(encode(texts)) == [known.tokenizer.encode(text).ids for text in texts]
        found = known(["İŞ IŞI", "I\u0307ŞI", "A-İ Iİ i", "i\u0307ş I"])
        assert rows(found) == [[0, 1], [], [2, 3], [0, 4]]
    assert capitalised_spellings(["iş", "ışı", "Ankara", "üç"]) == {"İş": 0, "Işı": 1, "Üç": 3}
    cased = KnownWords(["iş", "ışı", "Ankara"])
    assert rows(cased(["İş Işı IŞI", "iş Is"])) == [[0, 1], [0]]


def test_capitals_in_marks_say_nothing():
    found = capitalised(["a", "<UNK>", "[CLS]", "New", "ß", "İ", "UNK", "UNKs"])
    assert found == ["New", "İ", "UNKs"]


def test_the_tokenizer_has_no_added_tokens_and_loads_from_its_file(tmp_path):
    given = ["dog", "don't", "well-known", "n't", "é", *(f"w{i}-{i * 7}" for i in range(500))]
    tokenizer = build_word_tokenizer(given)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert json.loads(tokenizer.to_str())["added_tokens"] == []
    loaded = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "Don't pet well-known dogs, w3-21 w3-2 é."
    assert loaded.encode(text).ids == tokenizer.encode(text).ids
    assert loaded.get_vocab() == {w: i for i, w in enumerate(["[PAD]", "[UNK]", *given])}
