"""Tokenizers that others made: nothing random, and a bound on what a character may become."""

import json
import re

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Regex, Tokenizer, models
from tokenizers import normalizers as n
from tokenizers import pre_tokenizers as p

import st_static
from st_static.distill.static_word_embedding import StaticWordEmbedding
from st_static.distill.teacher import Teacher
from st_static.ensemble.ensemble import Ensemble
from st_static.evaluate.models import load_model
from st_static.model.export import export_model
from st_static.model.model_folder import read_static_model, read_tokenizer
from st_static.model.static_model import StaticModel
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.foreign import check_tokenizer_file

TEXT = "Reading the lighthouse keeper's letters, rows from a file in several places"


def with_dropout(tokenizer, dropout=0.5):
    description = json.loads(tokenizer.to_str())
    description["model"]["dropout"] = dropout
    return Tokenizer.from_str(json.dumps(description))


def is_random(encode) -> bool:
    return len({np.asarray(encode(TEXT)).tobytes() for _ in range(20)}) > 1


@pytest.fixture
def random_tokenizer(tokenizers_by_family):
    tokenizer = with_dropout(tokenizers_by_family["byte_level"])
    assert is_random(lambda text: tokenizer.encode(text).ids)
    return tokenizer


@pytest.fixture
def table(random_tokenizer):
    shape = random_tokenizer.get_vocab_size(), 8
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.fixture
def folder(random_tokenizer, table, tmp_path):
    """A model whose tokenizer.json has dropout."""
    export_model(tmp_path / "model", table, random_tokenizer, {})
    file = tmp_path / "model/tokenizer.json"
    assert json.loads(file.read_text("utf-8"))["model"]["dropout"] == 0.5
    return tmp_path / "model"


LOADERS = {
    "FastEncoder": lambda folder: st_static.FastEncoder.from_pretrained(folder).encode,
    "StaticWordEmbedding": lambda folder: (
        SentenceTransformer(modules=[StaticWordEmbedding.load(str(folder))], device="cpu").encode
    ),
    "a pair of texts": lambda folder: (
        lambda text: SentenceTransformer(
            modules=[StaticWordEmbedding.load(str(folder))], device="cpu"
        ).encode([(text, text)])
    ),
    "sentence-transformers": lambda folder: lambda text: load_model(str(folder)).encode([text]),
    "Model2Vec": lambda folder: lambda text: load_model(f"model2vec:{folder}").encode([text]),
    "an ensemble": lambda folder: (
        lambda text: Ensemble(
            [st_static.FastEncoder.from_pretrained(folder), load_model(str(folder))]
        ).encode([text])
    ),
}


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_dropout_is_switched_off_on_loading(folder, load):
    if load is LOADERS["Model2Vec"]:
        pytest.importorskip("model2vec")
    assert not is_random(load(folder))


def test_what_is_written_again_has_no_dropout(folder, table, tmp_path):
    export_model(tmp_path / "again", table, read_static_model(folder).tokenizer, {})
    content = json.loads((tmp_path / "again/tokenizer.json").read_text("utf-8"))
    assert content["model"]["dropout"] is None


def test_an_index_is_opened_with_the_model_that_made_it(folder, tmp_path):
    encoder = st_static.FastEncoder.from_pretrained(folder)
    st_static.SearchIndex.build(encoder, [TEXT] * 3).save(tmp_path / "index")
    again = st_static.FastEncoder.from_pretrained(folder)
    opened = st_static.SearchIndex.open(tmp_path / "index", again)
    assert opened.search(TEXT)[0].position == 0


def test_tokenizers_in_memory(random_tokenizer, table):
    module = StaticWordEmbedding(with_dropout(random_tokenizer), table)
    assert not is_random(SentenceTransformer(modules=[module], device="cpu").encode)
    model = StaticModel(with_dropout(random_tokenizer), table, normalize=False)
    assert not is_random(st_static.FastEncoder(model).encode)


def test_a_teacher(make_model, random_tokenizer):
    model = make_model("byte_level")
    model.tokenizer._tokenizer = with_dropout(random_tokenizer)
    teacher = Teacher(model)
    assert not is_random(lambda text: teacher.tokenize([text]).input_ids)
    assert not is_random(model.encode)


def test_draws_of_unigram():
    pieces = [("", -9.0), *((letter, -3.0) for letter in "abc"), ("ab", -5.9), ("bc", -6.1)]
    try:
        tokenizer = Tokenizer(models.Unigram(pieces, 0, alpha=0.1))
    except TypeError:
        pytest.skip("this release of tokenizers draws no paths")
    encode = FastTokenizer(tokenizer)
    assert not is_random(lambda _: encode.ids_of("abcab" * 9))


# -- what a text may become ------------------------------------------------------------


def written(tmp_path, normalizer=None, pre_tokenizer=None, **changes):
    """A tokenizer.json; the changes are JSON, and added as they are."""
    tokenizer = Tokenizer(models.WordLevel({"": 0, "a": 1}, unk_token=""))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(json.loads(tokenizer.to_str()) | changes), "utf-8")
    return file


def times(*steps):
    return n.Sequence(list(steps))


def character_map(*texts):
    """SentencePiece's form: the length of a trie, here an empty one, the trie, and the texts."""
    trie = bytes(1024)
    return n.Precompiled(len(trie).to_bytes(4, "little") + trie + "\0".join([*texts, ""]).encode())


def emptied(text, pattern=None):
    """Steps that make nothing of an inserted text that stands alone, but multiply it in others."""
    empty = n.Replace(Regex(pattern), "") if pattern else n.Strip()
    many = n.Replace(text, text * 199)
    return [times(n.Replace("x", text * 199), empty, many, empty, n.Replace(text, text * 99))]


EACH_ALONE = p.Split(Regex(""), "isolated")
TOO_MUCH = {
    "one text for another": [times(*[n.Replace("a", "a" * 100)] * 5)],
    "one long text": [n.Replace("a", "b" * 201)],
    "doubling": [times(*[n.Replace("a", "aa")] * 30)],
    "in turns": [times(*[n.Replace("a", "bb"), n.Replace("b", "aa")] * 15)],
    "two for several": [times(*[n.Replace("aa", "aa" * 20)] * 2)],
    "between all characters": [times(*[n.Replace("", "-")] * 9)],
    "a pattern": [times(*[n.Replace(Regex("[a-c]"), "abc")] * 9)],
    "a pattern that looks ahead": [times(*[n.Replace(Regex("a(?=.*END)"), "aaa")] * 9)],
    "a pattern that keeps": [times(*[n.Replace(Regex(r"END.*\Ka"), "aaa")] * 9)],
    "compositions": [times(*[n.Replace("a", "\ufdfa"), n.NFKD(), n.Replace("ل", "a")] * 5)],
    "nested sequences": [times(times(*[n.Replace("a", "a" * 20)] * 2), n.Replace("a", "aaa"))],
    "put before": [times(*[n.Prepend("a" * 20), n.Replace("a", "a" * 20)])],
    "bytes": [times(*[n.ByteLevel()] * 9)],
    "bytes of splits": [None, p.Sequence([p.ByteLevel()] * 9)],
    "marks": [None, p.Sequence([EACH_ALONE, p.Metaspace("▁"), EACH_ALONE, p.Metaspace("x")] * 9)],
    "character maps": [times(*[character_map("a" * 18)] * 3)],
    "a long text in a character map": [character_map("a", "b" * 4_000)],
    "too many steps": [times(*[n.NFC()] * 501)],
    "emptied between anchors": emptied("a", r"^a+$"),
    "emptied between ends of the text": emptied("a", r"\Aa+\z"),
    "emptied between borders of a word": emptied("a", r"\ba+\b"),
    "emptied before others": emptied("a", r"a{199}(?!a)"),
    "emptied where nothing stands before": emptied("a", r"ba|a{199}"),
    "stripped": emptied(" "),
    "changed between anchors": [
        times(n.Replace("x", "b"), *[n.Replace(Regex("^b+$"), "c"), n.Replace("b", "b" * 20)] * 2)
    ],
    "a pattern that may be empty": [times(*[n.Replace(Regex("a{3}?"), "-")] * 9)],
    "composed of two": [
        times(*[n.Replace("x", "\u0308"), n.NFC(), n.Replace("ä", "ax" * 9)] * 3),
    ],
}


@pytest.mark.parametrize("parts", TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_tokenizer_that_multiplies_text_is_refused(tmp_path, parts):
    file = written(tmp_path, *parts)
    says = f"The normalizer and pre_tokenizer in {file} make too much of a text: expected at most"
    with pytest.raises(ValueError, match=re.escape(says)):
        check_tokenizer_file(file)


def test_the_older_spelling_of_steps_is_understood(tmp_path):
    steps = [{"pattern": {"String": "a"}, "content": "a" * 100}] * 5
    file = written(tmp_path)
    content = json.loads(file.read_text("utf-8")) | {"normalizer": {"normalizers": steps}}
    file.write_text(json.dumps(content), "utf-8")
    Tokenizer.from_file(str(file))  # the library does
    with pytest.raises(ValueError, match="make too much of a text"):
        check_tokenizer_file(file)


# As transformers makes those of well-known models, and what one might add.
SENTENCEPIECE = character_map(" ", "a" * 18)
HONEST = {
    "BERT": [n.BertNormalizer(), p.BertPreTokenizer()],
    "GPT-2": [None, p.ByteLevel()],
    "RoBERTa": [None, p.ByteLevel(add_prefix_space=True)],
    "ModernBERT": [n.NFC(), p.Sequence([p.Digits(), p.ByteLevel()])],
    "XLM-R": [
        times(SENTENCEPIECE, n.Replace(Regex(" {2,}"), " ")),
        p.Sequence([p.WhitespaceSplit(), p.Metaspace()]),
    ],
    "ALBERT": [
        times(
            *(n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents()),
            *(n.Lowercase(), SENTENCEPIECE, n.Replace(Regex(" {2,}"), " ")),
        ),
        p.Metaspace(),
    ],
    "Llama": [times(n.Prepend("▁"), n.Replace(" ", "▁"))],
    "Seamless": [
        times(SENTENCEPIECE, n.Replace(Regex(" {2,}"), "▁"), n.Replace(Regex("^▁+$"), "")),
        p.Metaspace(),
    ],
    "CLIP": [times(n.NFC(), n.Replace(Regex(r"\s+"), " "), n.Lowercase()), p.ByteLevel()],
    "placeholders": [
        times(
            *(n.Replace(Regex(r"https?://\S+"), " <|address|> "), n.Replace("&", " and ")),
            *(n.Replace(Regex(r"@\w+"), " <|user|> "), n.Replace(Regex(r"\d+"), " 0 ")),
            n.BertNormalizer(),
        ),
        p.BertPreTokenizer(),
    ],
    "300 letters": [times(*(n.Replace(chr(0x4E00 + i), "yi ") for i in range(300)))],
    "a decimal comma": [times(*[n.Replace(Regex(r"(?<=\d),(?=\d)"), ".")] * 9)],
    "DeBERTa": [times(n.Strip(), SENTENCEPIECE, n.Replace(Regex(" {2,}"), " ")), p.Metaspace()],
    "T5": [times(SENTENCEPIECE, n.Replace(Regex(" {2,}"), "▁")), p.Metaspace()],
    "VITS": [
        times(
            *(n.Lowercase(), n.Replace(Regex("[^a-z]"), ""), n.Strip()),
            n.Replace(Regex("(?=.)|(?<!^)$"), "0"),
        )
    ],
    "ligatures": [
        times(n.Replace("\ufdfa", "صلى الله عليه وسلم"), n.Replace("ﬁ", "fi"), SENTENCEPIECE),
        p.Metaspace(),
    ],
    "contractions": [
        times(*(n.Replace(f"{verb}n't", f"{verb} not") for verb in ("do", "is", "ca", "was") * 5))
    ],
}


@pytest.mark.parametrize("parts", HONEST.values(), ids=HONEST)
def test_others_are_taken(tmp_path, parts):
    check_tokenizer_file(written(tmp_path, *parts))


def test_a_file_is_checked_before_its_added_tokens_are_normalised(tmp_path):
    """The library normalises them when it loads the file: this text would take a petabyte."""
    token = dict.fromkeys(["single_word", "lstrip", "rstrip", "special"], False)
    token |= {"id": 1, "content": "a", "normalized": True}
    file = written(tmp_path, times(*[n.Replace("a", "a" * 1_000)] * 5), added_tokens=[token])
    with pytest.raises(ValueError, match="make too much of a text"):
        read_tokenizer(file)
