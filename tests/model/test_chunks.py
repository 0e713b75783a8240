"""Fast token ids: equal to the tokenizer's own on any text, whatever the memo holds."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from st_static.model.chunks import ChunkTokenizer, Ragged, is_chunkwise, offsets_of, split_chunks
from st_static.model.tokenizer import build_tokenizer

# Words, punctuation, scripts, and every kind of space and control character that may mislead.
FRAGMENTS = [
    *["the", "Keeper", "keeping", "a", "I", "unbelievably", "x" * 120, "don't", "3.5%", "e-mail"],
    *["café", "cafe\u0301", "n\u0303", "\u0301", "Ångström", "ß", "İ", "ΣΑΣ", "ﬁne", "Ⅷ"],
    *["東京", "タワー", "喜", "Привет", "안녕", "😀", "👩‍👩‍👧", "🇯🇵", "\ufe0f", "\u200d", "\u200b"],
    *["[UNK]", "[PAD]", "[CLS]", "[MASK]", "##ing", "<s>", "</s>", "<unk>", "▁the"],
    *["\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0"],
    *["\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\ufeff", "\x00", "\ufffd"],
    *[" ", "  ", "   ", ".", "...", "!?", "—", "«", "(", "$", "_"],
]
mixed_text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12).map("".join)
spaced_text = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map(" ".join)
texts = st.lists(mixed_text | spaced_text, max_size=5)


def reference(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def rows(ragged: Ragged) -> list[list[int]]:
    return [
        ragged.values[start:stop].tolist()
        for start, stop in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True)
    ]


@pytest.fixture(scope="module")
def student_encoder(student):
    """One encoder for all examples, so that its memo is full of the earlier ones."""
    return ChunkTokenizer(student)


@pytest.fixture(scope="module")
def encoders_by_family(tokenizers_by_family):
    return {name: ChunkTokenizer(tokenizer) for name, tokenizer in tokenizers_by_family.items()}


@given(texts=texts)
def test_student_ids_equal_the_tokenizers(student_encoder, texts):
    assert rows(student_encoder(texts)) == reference(student_encoder.tokenizer, texts)


@pytest.mark.parametrize("family", ["wordpiece", "unigram", "byte_level"])
@given(texts=texts)
def test_teacher_ids_equal_the_tokenizers(encoders_by_family, family, texts):
    encoder = encoders_by_family[family]
    assert rows(encoder(texts)) == reference(encoder.tokenizer, texts)


@given(batches=st.lists(texts, min_size=2, max_size=4))
def test_a_tiny_memo_gives_the_same_ids(batches):
    tokenizer = build_tokenizer(["the", "don"], [*"tkeapr.'東", *(f"##{c}" for c in "kepring")])
    encoder = ChunkTokenizer(tokenizer, max_chunks=3)
    for batch in batches:
        assert rows(encoder(batch)) == reference(tokenizer, batch)


def test_the_memo_is_emptied_when_it_is_full(student):
    encoder = ChunkTokenizer(student, max_chunks=2)
    encoder(["the ships counted"])
    assert set(encoder._row_of_chunk) == {"the", "ships", "counted"}
    encoder(["walking the"])
    assert set(encoder._row_of_chunk) == {"walking", "the"}


def test_a_repeated_chunk_goes_through_the_tokenizer_once(student):
    class Counting:
        seen: list[str] = []  # noqa: RUF012

        def to_str(self):
            return student.to_str()

        def encode_batch(self, texts, **options):
            self.seen.extend(chunk for text in texts for chunk in text.split())
            return student.encode_batch(texts, **options)

    encoder = ChunkTokenizer(Counting())
    encoder(["the ship the keeper", "the ship"])
    encoder(["keeper the dog"])
    assert sorted(Counting.seen) == ["dog", "keeper", "ship", "the"]


def test_the_memo_grows_beyond_its_first_size(student):
    words = [f"{i} the{i}" for i in range(3000)]
    assert rows(ChunkTokenizer(student)(words)) == reference(student, words)


@pytest.mark.parametrize("family", ["wordpiece", "byte_level"])
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
    assert encoder(["", "", ""]).offsets.tolist() == [0, 0, 0, 0]
    assert encoder(["", "", ""]).values.dtype == np.int32


def test_families_that_look_across_spaces_go_the_other_way(encoders_by_family):
    chunkwise = {name: encoder.chunkwise for name, encoder in encoders_by_family.items()}
    assert chunkwise == {"wordpiece": True, "unigram": False, "byte_level": False}


def word_level(**parts: object) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    for name, value in parts.items():
        setattr(tokenizer, name, value)
    return tokenizer


def test_tokenizers_that_work_on_each_side_of_a_space_alone_are_chunkwise():
    assert is_chunkwise(build_tokenizer(["a"]))
    assert is_chunkwise(word_level())
    assert is_chunkwise(word_level(normalizer=normalizers.Lowercase()))


@pytest.mark.parametrize(
    "parts",
    [
        {"pre_tokenizer": None},
        {"pre_tokenizer": pre_tokenizers.ByteLevel()},
        {"pre_tokenizer": pre_tokenizers.Metaspace()},
        {"pre_tokenizer": pre_tokenizers.Split("a b", "isolated")},
        {"normalizer": normalizers.Strip()},
        {"normalizer": normalizers.Replace("a b", "c")},
        {"normalizer": normalizers.Sequence([normalizers.Lowercase()])},
    ],
)
def test_tokenizers_that_may_look_across_spaces_are_not_chunkwise(parts):
    tokenizer = word_level()
    for name, value in parts.items():
        setattr(tokenizer, name, value)
    assert not is_chunkwise(tokenizer)


def test_truncation_padding_and_spacious_added_tokens_are_not_chunkwise():
    truncating, padding = build_tokenizer(["a"]), build_tokenizer(["a"])
    truncating.enable_truncation(8)
    padding.enable_padding()
    assert not is_chunkwise(truncating)
    assert not is_chunkwise(padding)
    for change in ({"content": "new york"}, {"lstrip": True}, {"rstrip": True}):
        description = json.loads(build_tokenizer(["a"]).to_str())
        token = {"id": 2, "content": "a", "single_word": False, "lstrip": False, "rstrip": False}
        description["added_tokens"] = [{**token, "normalized": False, "special": True, **change}]
        assert not is_chunkwise(Tokenizer.from_str(json.dumps(description)))


def test_chunks_are_cut_at_spaces_only_and_stored_once():
    chunks = split_chunks(["a b\ta", "", "b\xa0b a  a"])
    assert chunks.distinct == ["a", "b\ta", "", "b\xa0b"]
    assert chunks.codes.tolist() == [0, 1, 2, 3, 0, 2, 0]
    assert chunks.offsets.tolist() == [0, 2, 3, 7]


@given(st.lists(st.text(alphabet="ab \t\n", max_size=9), max_size=6))
def test_chunks_join_to_the_texts(texts):
    chunks = split_chunks(texts)
    words = [chunks.distinct[code] for code in chunks.codes]
    bounds = zip(chunks.offsets[:-1], chunks.offsets[1:], strict=True)
    assert [" ".join(words[start:stop]) for start, stop in bounds] == texts
    assert len(set(chunks.distinct)) == len(chunks.distinct)


# -- ragged rows -----------------------------------------------------------------------

ragged_rows = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6)


def ragged(rows_: list[list[int]]) -> Ragged:
    values = np.array([value for row in rows_ for value in row], dtype=np.int32)
    return Ragged(values, offsets_of(np.array([len(row) for row in rows_], dtype=np.int64)))


@given(ragged_rows)
def test_lengths_and_rows_of_values(rows_):
    table = ragged(rows_)
    assert table.lengths.tolist() == [len(row) for row in rows_]
    assert table.row_of_value.tolist() == [i for i, row in enumerate(rows_) for _ in row]


@given(ragged_rows)
def test_filter_keeps_rows(rows_):
    table = ragged(rows_)
    expected = [[value for value in row if value % 2] for row in rows_]
    assert rows(table.filter(table.values % 2 == 1)) == expected


@given(ragged_rows.flatmap(lambda r: st.tuples(st.just(r), st.permutations(range(len(r))))))
def test_take_copies_rows_in_the_given_order(example):
    rows_, order = example
    taken = ragged(rows_).take(np.array([*order, *order], dtype=np.int64))
    assert rows(taken) == [rows_[i] for i in [*order, *order]]
