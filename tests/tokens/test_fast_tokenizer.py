"""Fast token ids: equal to the tokenizer's own on any text, by each of the three ways."""

import concurrent.futures
import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ragged_rows import rows
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from st_static.model.tokenizer import Normalization, build_piece_tokenizer, build_tokenizer
from st_static.tokens.fast_tokenizer import FastTokenizer

# Words, punctuation, scripts, and every kind of space and control character that may mislead.
FRAGMENTS = [
    *["the", "Keeper", "keeping", "a", "I", "unbelievably", "x" * 120, "don't", "3.5%", "e-mail"],
    *["café", "cafe\u0301", "n\u0303", "\u0301", "Ångström", "ß", "İ", "ΣΑΣ", "ﬁne", "Ⅷ"],
    *["東京", "タワー", "喜", "Привет", "안녕", "😀", "👩‍👩‍👧", "🇯🇵", "\ufe0f", "\u200d", "\u200b"],
    *["[UNK]", "[PAD]", "[CLS]", "[MASK]", "##ing", "<s>", "</s>", "<unk>", "<mask>", "▁the", "▁"],
    *["\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0"],
    *["\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\x00", "\ufffd"],
    *[" ", "  ", "   ", ".", "...", "!?", "—", "«", "(", "$", "_", "'s", "12"],
]
mixed_text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12).map("".join)
spaced_text = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map(" ".join)
texts = st.lists(mixed_text | spaced_text, max_size=5)

p, n = pre_tokenizers, normalizers
SENTENCES = [
    "The keeper's boat was kept in Ångström harbour, 12 miles away; don't ask.",
    "Keeping a café is unbelievably hard — the 東京 タワー, e-mail me the 3.5% (fine)!",
    "Привет, the ship kept the light; a the them then\tthere\n and  the   rest",
]
# Each family in its common configurations.
NFD = n.Sequence([n.NFD(), n.Lowercase(), n.StripAccents()])
WITH_SPACES = p.Sequence([p.WhitespaceSplit(), p.Metaspace(prepend_scheme="always")])
PATTERN = p.Split(Regex(r"^the|e-mail(?!\S)|(?<=\s)a|\w+|\S$|\S"), "removed", invert=True)
MARKS = p.Sequence([p.Punctuation("merged_with_previous"), p.WhitespaceSplit(), p.Digits()])
CONFIGURATIONS = {
    "wordpiece": ("WordPiece", n.BertNormalizer(), p.BertPreTokenizer()),
    "wordpiece_cased": ("WordPiece", n.BertNormalizer(lowercase=False), p.BertPreTokenizer()),
    "wordpiece_nfd": ("WordPiece", NFD, p.Whitespace()),
    "bpe_bytes": ("BPE", None, p.ByteLevel(add_prefix_space=False)),
    "bpe_bytes_prefix": ("BPE", n.NFC(), p.ByteLevel(add_prefix_space=True)),
    "bpe_bytes_digits": ("BPE", n.NFKC(), p.Sequence([p.Digits(True), p.ByteLevel()])),
    "bpe_bytes_split": ("BPE", None, p.Sequence([p.WhitespaceSplit(), p.ByteLevel(True)])),
    "bpe_words": ("BPE", n.Lowercase(), p.Sequence([p.Whitespace(), p.Digits(True)])),
    "unigram_always": ("Unigram", n.NFKC(), p.Metaspace(prepend_scheme="always")),
    "unigram_first": ("Unigram", n.NFKD(), p.Metaspace(prepend_scheme="first")),
    "unigram_never": ("Unigram", None, p.Metaspace(prepend_scheme="never")),
    "unigram_split": ("Unigram", n.Sequence([n.Strip(), n.NFKC()]), WITH_SPACES),
    "words": ("WordLevel", n.Sequence([n.Nmt(), n.Lowercase()]), p.WhitespaceSplit()),
    "words_pattern": ("WordLevel", n.BertNormalizer(), p.Sequence([p.WhitespaceSplit(), PATTERN])),
    "words_punctuation": ("WordLevel", n.Replace("``", '"'), MARKS),
}


def train(kind: str, normalizer: object, pre_tokenizer: object) -> Tokenizer:
    unknown = {} if kind in ("Unigram",) else {"unk_token": "[UNK]"}
    tokenizer = Tokenizer(getattr(models, kind)(**unknown))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    options = {"unk_token": "[UNK]"} if kind == "Unigram" else {}
    trainer = getattr(trainers, f"{kind.replace('BPE', 'Bpe')}Trainer")(
        vocab_size=400, special_tokens=["[UNK]", "[CLS]", "</s>"], show_progress=False, **options
    )
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    # As XLM-RoBERTa's: it swallows the spaces before it.
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    return tokenizer


def reference(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.fixture(scope="module")
def student_encoder(student):
    """One encoder for all examples, so that nanotoken's cache is full of earlier ones."""
    return FastTokenizer(student)


@pytest.fixture(scope="module")
def encoders_by_family(tokenizers_by_family):
    return {name: FastTokenizer(tokenizer) for name, tokenizer in tokenizers_by_family.items()}


@pytest.fixture(scope="module")
def encoders():
    return {name: FastTokenizer(train(*parts)) for name, parts in CONFIGURATIONS.items()}


@settings(max_examples=200)
@given(texts=texts | st.lists(st.text(), max_size=4))
def test_student_ids_equal_the_tokenizers(student_encoder, texts):
    assert rows(student_encoder(texts)) == reference(student_encoder.tokenizer, texts)


@pytest.mark.parametrize("nfkc", [True, False])
@given(texts=st.lists(st.text("aIİiış\u0307\u0327 '", max_size=20), max_size=4))
def test_ids_equal_the_tokenizers_where_i_loses_its_dot(nfkc, texts):
    normalization = Normalization(nfkc=nfkc, dotless_i=True)
    letters = "aiış\u0307\u0327"
    words = build_tokenizer(["ışı", "iş"], [*letters, *(f"##{c}" for c in letters)], normalization)
    pieces = build_piece_tokenizer([(c, -1.0) for c in ["▁iş", "ı", *letters]], normalization)
    for tokenizer in (words, pieces):
        encode = FastTokenizer(tokenizer)
        assert rows(encode(texts)) == reference(tokenizer, texts)


@pytest.mark.parametrize("family", ["wordpiece", "unigram", "byte_level"])
@given(texts=texts)
def test_teacher_ids_equal_the_tokenizers(encoders_by_family, family, texts):
    encoder = encoders_by_family[family]
    assert rows(encoder(texts)) == reference(encoder.tokenizer, texts)


@pytest.mark.parametrize("name", CONFIGURATIONS)
@given(texts=texts)
def test_ids_of_each_configuration_equal_the_tokenizers(encoders, name, texts):
    encoder = encoders[name]
    assert rows(encoder(texts)) == reference(encoder.tokenizer, texts)


long_text = st.lists(
    mixed_text
    | spaced_text
    | st.sampled_from(["东京、大阪", "a,b;c", "k" * 203, "éя" * 110, "大éa" * 80]),
    max_size=6,
).map(" ".join)


@pytest.mark.parametrize("name", ["student", "wordpiece", "unigram", "byte_level", *CONFIGURATIONS])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(long_text, max_size=4))
def test_long_texts_keep_ids(
    tiny_parts, student_encoder, encoders_by_family, encoders, name, texts
):
    encoder = {"student": student_encoder, **encoders, **encoders_by_family}[name]
    expected = reference(encoder.tokenizer, texts)
    assert rows(encoder(texts)) == rows(encoder(pa.array(texts, pa.string()))) == expected


def test_truncated_long_texts(tiny_parts, encoders):
    tokenizer = Tokenizer.from_str(encoders["wordpiece"].tokenizer.to_str())
    tokenizer.enable_truncation(9)
    texts = ["the keeper kept the ship, " * 5, "", "a keeper"]
    assert rows(FastTokenizer(tokenizer)(texts)) == reference(tokenizer, texts)


def test_long_texts_are_cut_into_pieces(student, tiny_parts, monkeypatch):
    encoder = FastTokenizer(student)
    longest, encode = [], encoder._encode
    monkeypatch.setattr(
        encoder, "_encode", lambda part: longest.append(part.nbytes) or encode(part)
    )
    for text in ("the keeper " * 30, "x " * 5000, "я так " * 90):
        longest.clear()
        assert rows(encoder(pa.array([text]))) == reference(student, [text])
        assert len(list(encoder.in_parts(pa.array([text], pa.large_string())))) > 9
        assert max(longest) < 250, text


def test_a_long_word_is_not_cut_inside_a_piece_with_punctuation(tiny_parts):
    pieces = [("[UNK]", 0.0), ("▁", -1.0), ("東、京", -1.0), *((c, -5.0) for c in "東、京")]
    tokenizer = Tokenizer(models.Unigram(pieces, 0))
    tokenizer.normalizer, tokenizer.pre_tokenizer = n.NFKC(), WITH_SPACES
    text = "東、京" * 400
    assert rows(FastTokenizer(tokenizer)(pa.array([text]))) == reference(tokenizer, [text])


@pytest.mark.parametrize("name", ["wordpiece", "bpe_bytes", "unigram_first"])
@settings(max_examples=30)
@given(texts=texts)
def test_truncated_texts(encoders, name, texts):
    tokenizer = Tokenizer.from_str(encoders[name].tokenizer.to_str())
    tokenizer.enable_truncation(3)
    assert rows(FastTokenizer(tokenizer)(texts)) == reference(tokenizer, texts)


@pytest.fixture(scope="module")
def pieces():
    """A tokenizer of pieces, whose texts are cut inside of words."""
    scores = {"▁the": -2.0, "keeper": -3.0, "ship": -3.5, "東京": -4.0, "▁": -5.0}
    letters = dict.fromkeys("abcdefghijklmnopqrstuvwxyz0123456789東京タワー", -6.0)
    return build_piece_tokenizer(list({**letters, **scores}.items()), Normalization())


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_eight_threads_get_the_right_ids(student, pieces, kind):
    tokenizer = {"words": student, "pieces": pieces}[kind]
    texts = [f"The keeper {i % 997} of ship{i}, counted {i * 7 % 1013}!" for i in range(10_000)]
    expected = reference(tokenizer, texts)
    encoder = FastTokenizer(tokenizer)
    starts = [start for _ in range(3) for start in range(0, 10_000, 100)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda start: rows(encoder(texts[start : start + 100])), starts)
        for start, ids in zip(starts, found, strict=True):
            assert ids == expected[start : start + 100]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_work(student_encoder, copied):
    assert rows(copied(student_encoder)(["The ship!"])) == rows(student_encoder(["The ship!"]))


@pytest.mark.parametrize("family", ["wordpiece", "byte_level", "unigram"])
def test_arrow_arrays_and_slices_of_them_do_as_well(encoders_by_family, family, sentences):
    encoder = encoders_by_family[family]
    expected = reference(encoder.tokenizer, sentences)
    for array in (pa.array(sentences), pa.array(sentences, pa.large_string())):
        assert rows(encoder(array)) == expected
        assert rows(encoder(array[3:9])) == expected[3:9]


@pytest.mark.parametrize("family", ["wordpiece", "unigram", "byte_level"])
def test_no_text_and_empty_texts(encoders_by_family, family):
    encoder = encoders_by_family[family]
    assert encoder([]).offsets.tolist() == [0]
    assert rows(encoder(["", "", ""])) == reference(encoder.tokenizer, ["", "", ""])
    assert encoder(["", "", ""]).values.dtype == np.int32


def test_a_tokenizer_that_looks_across_spaces_is_run_on_whole_texts():
    tokenizer = Tokenizer(
        models.BPE({"a": 0, " ": 1, "a ": 2, "a a": 3}, [("a", " "), ("a ", "a")])
    )
    encoder = FastTokenizer(tokenizer)
    assert encoder._boundaries.border is None
    assert rows(encoder(["a a", "a"])) == [[3], [0]]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["a", None], "position 1, but the text is missing"),
        ([b"a"], "position 0, but got bytes"),
        (["a", 3], "position 1, but got int: 3"),
    ],
)
def test_what_is_no_text_is_named(student_encoder, texts, says):
    with pytest.raises(TypeError, match=says):
        student_encoder(texts)
    with pytest.raises(ValueError, match="text at position 1 is not valid Unicode"):
        student_encoder(["a", "\ud800"])


def with_tokens(pre_tokenizer, *tokens, normalizer=None):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.add_tokens(list(tokens))
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "texts"),
    [
        # Chunks of different texts must not make an added token together.
        (with_tokens(p.WhitespaceSplit(), AddedToken("a b", normalized=False)), ["c a", "b"]),
        # The tokenizer looks for it before it lower-cases.
        (
            with_tokens(
                p.BertPreTokenizer(),
                AddedToken("query", normalized=False),
                normalizer=n.BertNormalizer(),
            ),
            ["a QUERY.", "a query."],
        ),
        # This makes a space of the line end, and looks for it everywhere.
        (
            with_tokens(
                p.BertPreTokenizer(),
                AddedToken("\n", normalized=True),
                normalizer=n.BertNormalizer(),
            ),
            ["a b", "a\nb"],
        ),
        (with_tokens(p.WhitespaceSplit(), normalizer=n.Replace("", "x")), ["a b", "b"]),
    ],
)
def test_added_tokens_and_replacements_that_once_misled(tokenizer, texts):
    encoder = FastTokenizer(tokenizer)
    assert rows(encoder(texts)) == reference(tokenizer, texts)
    for text in reversed(texts):
        assert rows(encoder([text])) == reference(tokenizer, [text])
