"""nanotoken: trusted where it gives the tokenizer's ids, and nowhere else."""

import logging
import multiprocessing
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ragged_rows import rows
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from st_static.tokens import fast_tokenizer, wordpiece
from st_static.tokens.fast_tokenizer import FastTokenizer
from st_static.tokens.ragged import Ragged
from st_static.tokens.wordpiece import NativeWordPiece, native_wordpiece

nanotoken = pytest.importorskip("nanotoken")


def ids_of(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.fixture(scope="module")
def native(student):
    return native_wordpiece(student)


def test_students_and_teachers_of_words_are_run_by_it(native, tokenizers_by_family):
    assert native is not None
    assert native_wordpiece(tokenizers_by_family["wordpiece"]) is not None


@pytest.mark.parametrize("family", ["unigram", "byte_level"])
def test_other_tokenizers_are_not(tokenizers_by_family, family):
    assert native_wordpiece(tokenizers_by_family[family]) is None


def test_a_tokenizer_with_a_part_that_it_lacks_is_run_by_itself(caplog):
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "the": 1}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Prepend("the")
    tokenizer.pre_tokenizer = pre_tokenizers.Digits()
    assert native_wordpiece(tokenizer) is None
    assert caplog.text == ""
    assert rows(FastTokenizer(tokenizer)(["", "the"])) == ids_of(tokenizer, ["", "the"])


@given(text=st.text())
def test_a_text_alone_has_the_ids_that_it_has_among_others(native, student, text):
    [expected] = ids_of(student, [text])
    assert native.encode(text).tolist() == expected
    assert rows(native.encode_many([text, "the ship", text]))[::2] == [expected] * 2


@pytest.mark.parametrize("odd", ["Straße ﬁn", "\u3099", "ship"])
def test_one_other_id_is_told_and_it_is_not_used(student, monkeypatch, caplog, odd):
    encode_many = NativeWordPiece.encode_many

    def one_id_differs(self: NativeWordPiece, texts: list[str]) -> Ragged:
        ids = encode_many(self, texts)
        for text, start, end in zip(texts, ids.offsets, ids.offsets[1:], strict=False):
            if odd in text and end > start:
                ids.values[start] += 1
                break
        return ids

    monkeypatch.setattr(NativeWordPiece, "encode_many", one_id_differs)
    with caplog.at_level(logging.WARNING):
        encoder = FastTokenizer(student)
        texts = ["The ship", f"a {odd}", ""]
        assert rows(encoder(texts)) == ids_of(student, texts)
        encoder(texts)
    [record] = caplog.records
    assert "nanotoken gives other ids than the tokenizer for" in record.getMessage()
    assert odd in record.getMessage()


@pytest.mark.parametrize("cut", ["shorter", "longer"])
def test_rows_of_other_lengths_are_seen(student, monkeypatch, cut):
    encode_many = NativeWordPiece.encode_many

    def other_length(self: NativeWordPiece, texts: list[str]) -> Ragged:
        ids = encode_many(self, texts)
        ids.offsets[-2] += 1 if cut == "longer" else -1
        return ids

    monkeypatch.setattr(NativeWordPiece, "encode_many", other_length)
    assert native_wordpiece(student) is None


def test_without_it_the_tokenizer_gives_the_ids(student, monkeypatch):
    monkeypatch.setitem(sys.modules, "nanotoken", None)
    encoder = FastTokenizer(student)
    texts = ["The keeper's ship", "café 東京", ""]
    assert rows(encoder(texts)) == ids_of(student, texts)
    assert encoder.ids_of(texts[1]) == ids_of(student, texts)[1]


ONE_BY_ONE = """
import sys
from tokenizers import Tokenizer
from st_static.tokens.fast_tokenizer import FastTokenizer
encoder = FastTokenizer(Tokenizer.from_file(sys.argv[1]))
text = "The keeper's ship "
expected = encoder.tokenizer.encode(text, add_special_tokens=False).ids
for n in range(1, 30_000):
    assert list(encoder.ids_of(text)) == expected
    if n == 100:
        assert "nanotoken" not in sys.modules
print("nanotoken" in sys.modules)
"""


def test_single_texts_load_it_when_they_have_become_many(student, tmp_path):
    student.save(str(tmp_path / "tokenizer.json"))
    command = [sys.executable, "-c", ONE_BY_ONE, str(tmp_path / "tokenizer.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_its_cache_is_bounded_unless_the_user_says_how(student, monkeypatch):
    before = nanotoken.get_cache_entries()
    try:
        monkeypatch.setenv("NANOTOKEN_CACHE_ENTRIES", "1234")
        nanotoken.set_cache_entries(1234)
        native_wordpiece(student)
        assert nanotoken.get_cache_entries() == 1234
        monkeypatch.delenv("NANOTOKEN_CACHE_ENTRIES")
        native_wordpiece(student)
        assert nanotoken.get_cache_entries() == wordpiece._CACHE_ENTRIES
    finally:
        nanotoken.set_cache_entries(before)


def _in_child(native, texts, pipe):
    pipe.send((native._backend is None, rows(native.encode_many(texts)), native.encode(texts[0])))


@pytest.mark.parametrize("beside", [True, False])
def test_a_fork_beside_other_threads_loads_it_anew(student, beside):
    """They may have held its locks, which nobody in the child would release."""
    native = native_wordpiece(student)
    texts = ["The keeper's ship", "café 東京"]
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    done = threading.Event()
    others = [threading.Thread(target=done.wait)] if beside else []
    for thread in others:
        thread.start()
    try:
        before = threading.active_count()
        child = context.Process(target=_in_child, args=(native, texts, there))
        child.start()
        assert here.poll(60)
        is_new, ids, alone = here.recv()
        child.join()
    finally:
        done.set()
        for thread in others:
            thread.join()
    assert is_new == (before > 1)
    assert ids == ids_of(student, texts)
    assert alone.tolist() == ids[0]


def _encode_in_child(tokenizer, texts, pipe):
    encoder = FastTokenizer(tokenizer)
    pipe.send(rows(encoder(texts)))


def test_a_fork_while_another_thread_loads_it(student, monkeypatch):
    """The child has none of the parent's threads, and so nobody who would end the loading: the fork
    waits for it."""
    loading = threading.Event()
    load = NativeWordPiece._load

    def slowly(self: NativeWordPiece) -> object:
        loading.set()
        time.sleep(0.3)
        return load(self)

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    with monkeypatch.context() as patch:
        patch.setattr(NativeWordPiece, "_load", slowly)
        thread = threading.Thread(target=FastTokenizer(student).prepare)
        thread.start()
        loading.wait()
        patch.undo()
        child = context.Process(target=_encode_in_child, args=(student, ["The ship"], there))
        child.start()
        try:
            assert here.poll(60)
            assert here.recv() == ids_of(student, ["The ship"])
        finally:
            thread.join()
            child.kill()
            child.join()


def test_threads_load_it_once(student, monkeypatch):
    loads = []
    monkeypatch.setattr(
        fast_tokenizer, "native_wordpiece", lambda tokenizer: loads.append(1) or time.sleep(0.1)
    )
    encoder = FastTokenizer(student)
    threads = [threading.Thread(target=encoder.prepare) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]
