"""The teacher's vocabulary in the student's spelling, and vectors without context."""

import itertools

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel

from st_static.distill.corpus.vocabulary import teacher_pieces
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_pass import isolated_vectors
from st_static.model.tokenizer import (
    Normalization,
    build_piece_tokenizer,
    build_tokenizer,
    is_punctuation,
    split_words,
)

FAMILIES = ("wordpiece", "unigram", "byte_level")


@pytest.fixture(scope="module")
def pieces(tokenizers_by_family):
    return {name: teacher_pieces(tokenizer) for name, tokenizer in tokenizers_by_family.items()}


def test_word_beginnings_and_continuations_of_minilm(pieces, minilm_tokenizer):
    for spelling in ("the", "##ing", "ing", "##ization", "token", "a", "##a"):
        assert pieces["wordpiece"][spelling] == minilm_tokenizer.token_to_id(spelling)


def test_special_unused_and_punctuation_tokens_of_minilm_are_left_out(pieces):
    found = set(pieces["wordpiece"])
    assert not found & {"[CLS]", "[PAD]", "[unused0]", "unused0", ".", "##.", "##!", "[", "…", "##"}
    # 30,522 tokens, of which 999 are unused or special and most others are words.
    assert len(found) > 29_000


def word_piece() -> Tokenizer:
    tokens = ["[UNK]", "[CLS]", "the", "##ing", "ing", "##e", "!", "##!", "a-b", "Big", "caf\u00e9"]
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[UNK]", "[CLS]"])
    return tokenizer


def unigram() -> Tokenizer:
    tokens = ["<unk>", "<s>", "▁the", "ing", "▁ing", "▁", "▁!", "the", "▁a▁b", "▁Big", "café", "▁4"]
    tokenizer = Tokenizer(models.Unigram([(token, -1.0) for token in tokens], unk_id=0))
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


def byte_level() -> Tokenizer:
    # GPT-2's letters for bytes: Ġ is a space, Ã© the two bytes of é, Ã the first of them alone.
    tokens = ["<unk>", "<s>", "Ġthe", "ing", "Ġing", "Ġ", "Ġ!", "the", "Ã", "ĠBig", "cafÃ©", "Ċ"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_level_in_a_sequence() -> Tokenizer:
    """As Llama 3 and others have it: a regular expression first, then bytes."""
    tokenizer = byte_level()
    parts = [pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    return tokenizer


def metaspace_bpe() -> Tokenizer:
    tokens = ["<unk>", "<s>", "▁the", "ing", "<0x0A>", "▁big"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    tokenizer.add_special_tokens(["<unk>", "<s>"])
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    return tokenizer


BYTE_LEVEL_PIECES = {"the": 2, "##ing": 3, "ing": 4, "##the": 7, "big": 9, "##cafe": 10}


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (word_piece(), {"the": 2, "##ing": 3, "ing": 4, "##e": 5, "big": 9, "cafe": 10}),
        (unigram(), {"the": 2, "##ing": 3, "ing": 4, "##the": 7, "big": 9, "##cafe": 10, "4": 11}),
        (byte_level(), BYTE_LEVEL_PIECES),
        (byte_level_in_a_sequence(), BYTE_LEVEL_PIECES),
        (metaspace_bpe(), {"the": 2, "##ing": 3, "big": 5}),
    ],
    ids=["wordpiece", "unigram", "byte_level", "byte_level_sequence", "metaspace_bpe"],
)
def test_spellings_by_hand(tokenizer, expected):
    assert teacher_pieces(tokenizer) == expected


def test_of_several_tokens_with_one_spelling_the_smallest_is_taken():
    tokens = ["[UNK]", "The", "the", "THE", "##S", "##s"]
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[UNK]"])
    assert teacher_pieces(tokenizer) == {"the": 1, "##s": 4}


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_are_spelled_as_the_student_normalises_text(pieces, family):
    splitter = build_tokenizer([])
    assert len(pieces[family]) > 100
    for piece in pieces[family]:
        spelling = piece.removeprefix("##")
        assert split_words(splitter, spelling) == [spelling]
        assert not is_punctuation(spelling)


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_name_tokens_that_decode_to_them(pieces, tokenizers_by_family, family):
    tokenizer = tokenizers_by_family[family]
    splitter = build_tokenizer([])
    for piece, index in list(pieces[family].items())[::7]:
        token = tokenizer.id_to_token(index)
        begins = not piece.startswith("##")
        if family == "wordpiece":
            assert token.startswith("##") is not begins
            text = token.removeprefix("##")
        elif family == "unigram":
            assert token.startswith("▁") is begins
            text = token.removeprefix("▁")
        else:
            text = tokenizer.decode([index])
            assert text.startswith(" ") is begins
        assert split_words(splitter, text) == [piece.removeprefix("##")]


def direct(folder, before: list[int], ids: list[int], after: list[int]) -> np.ndarray:
    """The mean over the last-layer vectors of the ids between the special tokens."""
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        tokens = model(torch.tensor([[*before, *ids, *after]])).last_hidden_state[0]
    return tokens[len(before) : len(before) + len(ids)].mean(dim=0).numpy()


def test_vectors_of_minilms_pieces(make_model, transformer_folders, minilm_tokenizer):
    teacher = Teacher(make_model(), prompt="query: ")
    spelled = {
        **{"the": ["the"], "##ing": ["##ing"], "ing": ["ing"], "東": ["東"]},
        "tokenization": ["token", "##ization"],
        "##lighthouse": ["lighthouse"],  # MiniLM has no such continuation: the word's vector
    }
    assert minilm_tokenizer.token_to_id("##lighthouse") is None
    found = isolated_vectors(teacher, [*spelled, "ᛟ", "##ᛟ", "the"])
    before = [minilm_tokenizer.token_to_id(token) for token in ("[CLS]", "query", ":")]
    for vector, tokens in zip(found, spelled.values(), strict=False):
        ids = [minilm_tokenizer.token_to_id(token) for token in tokens]
        expected = direct(transformer_folders["wordpiece"], before, ids, [102])
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    # MiniLM does not know the rune.
    assert not found[6:8].any()
    np.testing.assert_allclose(found[8], found[0], atol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("family", ["unigram", "byte_level"])
def test_vectors_of_the_other_families_pieces(teachers, transformer_folders, pieces, family):
    teacher = teachers[family]
    some = [next(p for p in pieces[family] if p.startswith("##")), "the", "unbelievably"]
    ids = [[pieces[family][some[0]]], [pieces[family]["the"]]]
    assert "unbelievably" not in pieces[family]
    ids.append(teacher.tokenizer.encode("unbelievably", add_special_tokens=False).ids)
    assert len(ids[-1]) > 1
    before, after = teacher.surroundings()
    for vector, row in zip(isolated_vectors(teacher, some), ids, strict=True):
        expected = direct(transformer_folders[family], before, row, after)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def accented_teacher(make_model) -> Teacher:
    """A teacher with the pieces: café, cafe and the two kana that English normalisation joins."""
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁cafe", "▁café", "▁て", "▁で", "ca", "fé"]
    model = make_model("unigram")
    backend = model[0].tokenizer.backend_tokenizer
    scores = [(token, -9.0 if len(token) == 5 else -1.0) for token in tokens]
    scores += [(f"ᚠ{number}", -9.0) for number in range(backend.get_vocab_size() - len(tokens))]
    backend.model = models.Unigram(scores, unk_id=3)
    return Teacher(model)


def test_pieces_are_looked_up_as_the_student_spells_them(make_model, transformer_folders):
    teacher = accented_teacher(make_model)
    one_piece = {"café": 6, "て": 7, "で": 8}
    # So that it tells a look-up: the tokenizer itself spells it with several.
    assert len(teacher.tokenizer.encode("café", add_special_tokens=False).ids) > 1
    found = isolated_vectors(teacher, list(one_piece), Normalization())
    before, after = teacher.surroundings()
    for vector, index in zip(found, one_piece.values(), strict=True):
        expected = direct(transformer_folders["unigram"], before, [index], after)
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    english = isolated_vectors(teacher, ["cafe", "て"])
    for vector, index in zip(english, (5, 7), strict=True):
        expected = direct(transformer_folders["unigram"], before, [index], after)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


NORMALIZATIONS = [Normalization(*on) for on in itertools.product((True, False), repeat=3)]


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_a_tokenizer_tells_its_normalization(normalization):
    assert Normalization.of(build_tokenizer([], normalization=normalization)) == normalization
    assert Normalization.of(build_piece_tokenizer([("a", -1.0)], normalization)) == normalization


def test_characters_that_the_teacher_does_not_know_get_zeros(teachers):
    # A Unigram tokenizer gives the space before them a token of its own.
    vectors = isolated_vectors(teachers["unigram"], ["the", "ᛟ", "##ᛟ"])
    assert vectors.any(axis=1).tolist() == [True, False, False]


def test_a_partly_known_word_gets_a_vector(teachers):
    tokenizer = teachers["unigram"].tokenizer
    ids = tokenizer.encode("theᚠ", add_special_tokens=False).ids
    assert tokenizer.token_to_id("<unk>") in ids
    assert isolated_vectors(teachers["unigram"], ["theᚠ"]).any()


def test_a_word_longer_than_the_teacher_reads_is_cut(make_model):
    model = make_model("byte_level")
    model.max_seq_length = 6
    teacher = Teacher(model)
    ids = teacher.tokenizer.encode("unbelievablytokenization", add_special_tokens=False).ids
    assert len(ids) > 4
    cut = teacher.tokenizer.decode(ids[:4])
    found = isolated_vectors(teacher, ["unbelievablytokenization", cut])
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


def test_no_tokens_give_no_vectors(teachers):
    assert isolated_vectors(teachers["byte_level"], []).shape == (0, 32)


def test_a_teacher_without_special_tokens(make_model):
    model = make_model("byte_level")
    model[0].tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    teacher = Teacher(model)
    assert teacher.surroundings() == ([], [])
    assert isolated_vectors(teacher, ["the"]).any()
