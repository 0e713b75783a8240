"""Repetitions are dropped alike by any workers, in any order, and after a stop at any moment."""

import gzip
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_files import Stopped, stop_after
from telling import Telling

from st_static.distill.config import CorpusConfig, SentencesConfig
from st_static.distill.corpus import sentences
from st_static.distill.corpus.documents import Corpus
from st_static.distill.corpus.sentences import are_repeated, sentence_shards, write_sentences
from st_static.distill.engines import Processes
from st_static.files import read_arrow

CONFIG = SentencesConfig(min_words=1)


class AnyOrder:
    """An engine with any number of workers, that runs items in this process in random order."""

    def __init__(self, n_workers: int, seed: int = 0) -> None:
        self.n_workers = n_workers
        self._random = random.Random(seed)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        shuffled = list(items)
        self._random.shuffle(shuffled)
        return map(function, shuffled)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Many blocks, and many ranges of keys."""
    monkeypatch.setattr(sentences, "BLOCK_CHARACTERS", 60)
    monkeypatch.setattr(sentences, "KEYS_PER_RANGE", 5)


def corpus_of(folder: Path, files: list[list[str]], **options: Any) -> Corpus:
    """A corpus of files with a document a line."""
    folder.mkdir(exist_ok=True)
    for number, lines in enumerate(files):
        text = "".join(f"{line}\n" for line in lines).encode()
        name = folder / f"{number:03d}.txt"
        name.write_bytes(text)
        if number % 3 == 2:
            name.with_suffix(".txt.gz").write_bytes(gzip.compress(text))
            name.unlink()
    return Corpus(CorpusConfig(files=str(folder), **options))


def write(corpus, folder, engine):
    folder.mkdir(exist_ok=True)
    return write_sentences(corpus, folder, CONFIG, engine)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def kept(folder: Path) -> list[str]:
    return [
        text for path in sentence_shards(folder) for text in read_arrow(path)["text"].to_pylist()
    ]


def first_of_each(lines: Iterable[str]) -> list[str]:
    """The lines whose lower-cased text has not come before."""
    seen: set[str] = set()
    found = []
    for line in (" ".join(line.split()) for line in lines):
        if line and line.lower() not in seen:
            found.append(line)
        seen.add(line.lower())
    return found


lines = st.lists(st.sampled_from(["One is here", "one IS here", "two", "Three is it", "four", ""]))
many_files = st.lists(lines | st.lists(st.text("ab ", max_size=9)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(many_files, st.integers(1, 9), st.integers(0, 99), st.integers(5, 200))
def test_the_first_of_equal_sentences_is_kept_by_any_workers(files, n_workers, seed, size):
    expected = first_of_each(line for lines in files for line in lines)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sentences, "BLOCK_CHARACTERS", size)
        folder = Path(name)
        corpus = corpus_of(folder / "corpus", files)
        made = []
        for stage, engine in (("one", Processes(1)), ("any", AnyOrder(n_workers, seed))):
            if expected:
                made.append(write(corpus, folder / stage, engine))
                assert kept(folder / stage) == expected
            else:
                with pytest.raises(ValueError, match="no sentence"):
                    write(corpus, folder / stage, engine)
        assert contents(folder / "one") == contents(folder / "any")
        assert made[1:] == made[:1]


def documents(n_files: int) -> list[list[str]]:
    """Files with lines of their own, and others that all of them have."""
    return [
        [f"This is line {i} of file {n}." for i in range(3 * n)]
        + ["All have this.", "ALL have THIS."]
        for n in range(n_files)
    ]


def test_processes_give_the_bytes_of_one(tmp_path):
    corpus = corpus_of(tmp_path / "corpus", documents(8))
    for workers in (1, 2):
        write(corpus, tmp_path / str(workers), Processes(workers))
    assert len(sentence_shards(tmp_path / "1")) > 10
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert kept(tmp_path / "1") == first_of_each(corpus)


def test_shards_are_numbered_without_gaps_and_no_block_is_left(tmp_path):
    corpus = corpus_of(tmp_path / "corpus", documents(6))
    figures = write(corpus, tmp_path / "out", AnyOrder(3))
    shards = sentence_shards(tmp_path / "out")
    names = [f"sentences-{number:05d}.arrow" for number in range(len(shards))]
    assert sorted(contents(tmp_path / "out")) == ["blocks.json", *names]
    assert figures["read"] == sum(map(len, documents(6)))
    assert figures["repeated"] == 2 * 6 - 1
    assert figures["bytes"] == sum(map(len, corpus))


def test_the_driver_reads_no_file_itself(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path / "corpus", documents(3))
    expected = first_of_each(corpus)
    monkeypatch.setattr(Corpus, "__iter__", lambda _: pytest.fail("read by the driver"))
    write(corpus, tmp_path / "out", Processes(1))
    assert kept(tmp_path / "out") == expected


def test_files_up_to_max_documents_are_cut_as_one_text(tmp_path):
    corpus = corpus_of(tmp_path / "corpus", documents(6), max_documents=20)
    for name, engine in (("one", Processes(1)), ("any", AnyOrder(3))):
        assert write(corpus, tmp_path / name, engine)["read"] == 20
    assert contents(tmp_path / "one") == contents(tmp_path / "any")


def test_of_much_text_blocks_are_larger(tmp_path, monkeypatch):
    monkeypatch.setattr(sentences, "_MOST_BLOCKS", 4)
    corpus = corpus_of(tmp_path / "corpus", [documents(40)[-1]])
    write(corpus, tmp_path / "out", Processes(1))
    assert len(sentence_shards(tmp_path / "out")) == 4


@given(st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1)))
def test_what_is_repeated_is_what_a_set_has_seen(keys):
    seen: set[int] = set()
    expected = [key in seen or seen.add(key) is not None for key in keys]
    assert are_repeated(np.array(keys, np.uint64)).tolist() == expected


@pytest.mark.parametrize("options", [{}, {"max_documents": 1000}], ids=["workers", "driver"])
def test_a_run_that_stops_after_any_file_goes_on_to_the_same_bytes(tmp_path, monkeypatch, options):
    corpus = corpus_of(tmp_path / "corpus", documents(4), **options)
    with stop_after(monkeypatch, None) as every:
        figures = write(corpus, tmp_path / "whole", AnyOrder(3))
    assert len(every) > 25
    for n_files in range(1, len(every) + 1):
        folder = tmp_path / f"{n_files}"
        with stop_after(monkeypatch, n_files) as first, pytest.raises(Stopped):
            write(corpus, folder, AnyOrder(3))
        # The shares that the rest is divided in differ, too.
        with stop_after(monkeypatch, None) as rest:
            assert write(corpus, folder, AnyOrder(2, seed=1)) == figures
        assert contents(folder) == contents(tmp_path / "whole")
        assert sorted([*first, *rest]) == sorted(every)


def test_a_run_that_is_stopped_again_and_again_ends(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path / "corpus", documents(4))
    with stop_after(monkeypatch, None) as every:
        write(corpus, tmp_path / "whole", Processes(1))
    for _ in every:
        with stop_after(monkeypatch, 1), pytest.raises(Stopped):
            write(corpus, tmp_path / "stopped", Processes(1))
    write(corpus, tmp_path / "stopped", Processes(1))
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_run_may_stop_while_blocks_are_removed(tmp_path, monkeypatch):
    corpus = corpus_of(tmp_path / "corpus", documents(4))
    figures = write(corpus, tmp_path / "whole", Processes(1))

    def stop(folder: Path, ignore_errors: bool) -> None:
        for path in sorted(folder.iterdir())[::2]:
            path.unlink()
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        with pytest.raises(Stopped):
            write(corpus, tmp_path / "stopped", Processes(1))
    with stop_after(monkeypatch, None) as written:
        assert write(corpus, tmp_path / "stopped", Processes(1)) == figures
    assert written == []
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def test_a_task_that_is_run_again_changes_nothing(tmp_path):
    """As on a cluster, where a worker may be lost after its work is done."""

    class Twice(AnyOrder):
        def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            for item in items:
                function(item)
                yield function(item)

    corpus = corpus_of(tmp_path / "corpus", documents(5))
    for name, engine in (("one", Processes(1)), ("twice", Twice(3))):
        write(corpus, tmp_path / name, engine)
    assert contents(tmp_path / "one") == contents(tmp_path / "twice")


@pytest.mark.parametrize("options", [{}, {"max_documents": 1000}], ids=["workers", "driver"])
@pytest.mark.parametrize("name", ["part-00001.json", "block-00001-00000.arrow"])
def test_what_the_driver_does_not_see_is_named_and_no_sentence_is_lost(tmp_path, name, options):
    """As on a network's file system, which may show a worker's file late."""

    class Hiding(AnyOrder):
        def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
            yield from super().map(function, items)
            (tmp_path / "out" / "blocks" / name).unlink()

    corpus = corpus_of(tmp_path / "corpus", documents(4), **options)
    figures = write(corpus, tmp_path / "whole", AnyOrder(3))
    with pytest.raises(FileNotFoundError, match=name):
        write(corpus, tmp_path / "out", Hiding(3))
    assert write(corpus, tmp_path / "out", AnyOrder(3)) == figures
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_workers_get_says_what_it_is(tmp_path):
    """An error of an engine names it."""
    corpus, engine = corpus_of(tmp_path / "corpus", documents(4)), Telling()
    write(corpus, tmp_path / "out", engine)
    part, *files = engine.said
    assert part.startswith(str(tmp_path / "corpus"))
    names = ["blocks/repeated-00000.arrow", "sentences-00000.arrow"]
    assert files == [str(tmp_path / "out" / name) for name in names]


@pytest.mark.parametrize("options", [{}, {"max_documents": 1000}], ids=["workers", "driver"])
@pytest.mark.parametrize("workers", [1, 2])
def test_files_that_are_not_utf8_are_warned_of_once(tmp_path, caplog, workers, options):
    corpus_of(tmp_path / "corpus", documents(7))
    latin = [str(tmp_path / "corpus" / name) for name in ("001.txt", "006.txt")]
    for path in latin:
        Path(path).write_bytes("Der Käse ist alle.\n".encode("latin-1") * 9)
    named = CorpusConfig(files=str(tmp_path / "corpus"), **options)
    corpus = Corpus(named)
    write(corpus, tmp_path / "out", Processes(workers))
    assert [message.partition(" is not UTF-8")[0] for message in caplog.messages] == latin
    assert corpus.undecodable == set(latin)
    # A run that goes on does not read them again, and tells of them all the same.
    resumed = Corpus(named)
    write(resumed, tmp_path / "out", Processes(workers))
    assert resumed.undecodable == set(latin)


@pytest.mark.parametrize("options", [{}, {"max_documents": 1000}], ids=["workers", "driver"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt.gz", b"rubbish", r"x\.txt\.gz cannot be read .*: it is damaged, or not"),
        ("x.jsonl", b'{"body": "b"}', r"no key 'text' in .*x\.jsonl\..* body: rename the one"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, message, workers, options):
    corpus_of(tmp_path / "corpus", documents(7))
    (tmp_path / "corpus" / name).write_bytes(content)
    corpus = Corpus(CorpusConfig(files=str(tmp_path / "corpus"), **options))
    with pytest.raises(ValueError, match=message):
        write(corpus, tmp_path / "out", Processes(workers))
    # What was read before it is mended is kept.
    (tmp_path / "corpus" / name).unlink()
    mended = Corpus(CorpusConfig(files=str(tmp_path / "corpus"), **options))
    write(mended, tmp_path / "out", Processes(workers))
    assert kept(tmp_path / "out") == first_of_each(mended)
