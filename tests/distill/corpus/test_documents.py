"""Reading a corpus: every format, in a fixed order, with clear errors."""

import gzip
import json
import logging
import lzma
import random
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from st_static.distill.config import CorpusConfig
from st_static.distill.corpus import documents
from st_static.distill.corpus.documents import Corpus, find_files
from st_static.distill.engines import Processes

DOCUMENTS = ["The first document.", "Ein zweites, größeres.", "第三"]


def read(files, **options):
    patterns = [str(file) for file in files] if isinstance(files, list) else str(files)
    return [text.rstrip("\n") for text in Corpus(CorpusConfig(files=patterns, **options))]


def txt(documents):
    return "".join(text + "\n" for text in documents).encode()


def jsonl(documents):
    return txt([json.dumps({"id": i, "text": text}) for i, text in enumerate(documents)])


def parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", txt(DOCUMENTS)),
        ("a.b.txt", txt(DOCUMENTS)),
        ("a.txt.gz", gzip.compress(txt(DOCUMENTS), mtime=0)),
        ("a.txt.xz", lzma.compress(txt(DOCUMENTS))),
        ("a.jsonl", jsonl(DOCUMENTS)),
        ("a.txt.zst", pa.compress(txt(DOCUMENTS), "zstd", asbytes=True)),
        ("a.jsonl.gz", gzip.compress(jsonl(DOCUMENTS), mtime=0)),
        ("a.jsonl.xz", lzma.compress(jsonl(DOCUMENTS))),
    ],
)
def test_reads_a_document_a_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path / name) == DOCUMENTS


def test_a_folder_stands_for_the_files_of_known_formats_in_it(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "a.txt").write_bytes(txt(DOCUMENTS[:1]))
    (tmp_path / "deep" / "er" / "b.jsonl.xz").write_bytes(lzma.compress(jsonl(DOCUMENTS[1:])))
    for other in ("notes.md", "c.parquet.gz", ".hidden.txt", ".cache/d.txt"):
        (tmp_path / other).write_text("no text of the corpus")
    assert read(tmp_path) == DOCUMENTS
    assert read([tmp_path / "deep", tmp_path / "a.txt"]) == DOCUMENTS


@pytest.mark.parametrize("content", ["one\ntwo", "\ufeffone\ntwo\n"])
def test_neither_a_last_line_end_nor_a_byte_order_mark_is_text(tmp_path, content):
    (tmp_path / "a.txt").write_text(content, "utf-8")
    assert read(tmp_path / "a.txt") == ["one", "two"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),  # as of a category of pandas
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_reads_parquet_of_every_type_of_text(tmp_path, kind):
    texts = pa.array([*DOCUMENTS, None, DOCUMENTS[0]], kind)
    file = parquet(tmp_path / "a.parquet", {"id": range(5), "text": texts, "view": texts})
    assert read(file) == [*DOCUMENTS, DOCUMENTS[0]]
    assert read(parquet(tmp_path / "b.parquet", {"text": pa.nulls(3)})) == []
    (tmp_path / "c.jsonl").write_bytes(b'\n{"text": "one"}\n  \n{"text": null}\n')
    assert read(tmp_path / "c.jsonl") == ["one"]


def test_files_are_sorted_and_read_once(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    patterns = [f"{tmp_path}/[bc].txt", f"{tmp_path}/*.txt", f"{tmp_path}/a.txt"]
    assert [file.name for file in find_files(patterns)] == ["a.txt", "b.txt", "c.txt"]
    assert read(patterns) == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("deep/deeper/a.txt", "**/*.txt"),
        ("a.txt", "*.txt"),  # it matches a folder, too
        ("download[1].txt", "download[1].txt"),
    ],
)
def test_patterns_find_files(tmp_path: Path, name: str, pattern: str) -> None:
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("found")
    assert read(f"{tmp_path}/{pattern}") == ["found"]


def test_stopping_before_the_end_is_logged(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("3\n4\n")
    with caplog.at_level(logging.INFO, logger="st_static.distill.corpus.documents"):
        assert read(f"{tmp_path}/*.txt", max_documents=4) == ["1", "2", "3", "4"]
        assert caplog.messages == []
        assert read(f"{tmp_path}/*.txt", max_documents=3) == ["1", "2", "3"]
    assert caplog.messages == ["corpus.max_documents: stopped after 3 documents, of more"]


def test_bytes_that_are_not_utf8_are_replaced_and_their_files_counted(tmp_path, caplog):
    (tmp_path / "other").mkdir()
    (tmp_path / "good.txt").write_bytes("Käse\n".encode())
    latin = [tmp_path / name for name in ("latin.txt", "other/latin.txt")]
    for file in latin:
        file.write_bytes("Käse\nBrot\nÄpfel\n".encode("latin-1"))
    corpus = Corpus(CorpusConfig(files=str(tmp_path)))
    assert list(corpus) == ["Käse", *["K\ufffdse", "Brot", "\ufffdpfel"] * 2]
    assert corpus.undecodable == set(map(str, latin))
    assert caplog.text.count("not UTF-8") == 2
    assert "latin.txt" in caplog.text
    assert list(corpus) == list(corpus)  # from the start, again


RANDOM = txt([random.Random(i).randbytes(50).hex() for i in range(50)])
FOUND = r"a\.jsonl, line 2: expected "
TABLES = {
    "other.parquet": {"body": ["b"], "id": [1]},
    "numbers.parquet": {"text": pa.array([1, 2])},
    "category.parquet": {"text": pa.array([1, 2]).dictionary_encode()},
}


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        # Named before anything is read.
        ("a.md", b"text", r"the folder .* holds no file of the format \.txt or"),
        *(
            (f"*a{ending}", b"text", rf"a{ending} is not \.txt or \.jsonl or \.parquet")
            for ending in ("", ".csv", ".pdf.gz", ".gz", ".json", ".parquet.gz")
        ),
        # What is not in a file.
        (
            "a.jsonl",
            b'{"body": "b", "id": 1}',
            FOUND + r".*keys \['body', 'id'\]\. Fix it",
        ),
        ("a.jsonl", b'{"text": 5}', FOUND + r"'text' to be a string, but got 5\."),
        ("a.jsonl", b'{"text": ["a"]}', FOUND + r"'text' to be a string, but got \['a'\]\."),
        ("other.parquet", b"", r"'text' in .*other\.parquet.*body, id: rename the one that holds"),
        ("numbers.parquet", b"", r"numbers\.parquet, column .text.: Expected a column"),
        (
            "category.parquet",
            b"",
            r"category\.parquet, column .text.: Expected a column",
        ),
        # Files that are damaged: of another kind, or cut.
        ("a.txt.gz", b"rubbish", "a.txt.gz"),
        ("a.txt.gz", gzip.compress(RANDOM)[:-20], "a.txt.gz"),
        ("a.jsonl.gz", b"rubbish", "a.jsonl.gz"),
        ("a.txt.xz", b"rubbish", "a.txt.xz"),
        ("a.txt.xz", lzma.compress(RANDOM)[:-20], "a.txt.xz"),
        ("a.txt.zst", b"rubbish", "a.txt.zst"),
        ("a.txt.zst", pa.compress(RANDOM, "zstd", asbytes=True)[:-20], "a.txt.zst"),
        ("a.parquet", b"rubbish", "a.parquet"),
    ],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, says):
    file = tmp_path / name.removeprefix("*")
    if name in TABLES:
        parquet(file, TABLES[name])
    else:
        file.write_bytes(b'{"text": "fine"}\n' * (name == "a.jsonl") + content)
    with pytest.raises(ValueError, match=says):
        read(f"{tmp_path}/*" if name.startswith("*") else tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"corpus\.files, corpus\.docstrings or corpus\.dataset"),
        (
            {"files": "missing*.txt"},
            r"no file matches .*missing\*.*own with --corpus\.files\.",
        ),
        ({"docstrings": ["json", "no_such_package"]}, "no_such_package"),
        ({"dataset": "org/web", "dataset_config": []}, "several different ones"),
        ({"dataset": "org/web", "dataset_config": ["en", "en"]}, "several different ones"),
    ],
)
def test_sources_that_are_not_there_are_named_before_anything_is_read(options, says):
    with pytest.raises(ValueError, match=says):
        Corpus(CorpusConfig(**options))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz"])
@pytest.mark.parametrize("filler", [b"\x00", b"\xff"], ids=["zeros", "ones"])
def test_a_file_that_is_damaged_inside_is_named(tmp_path, name, filler):
    compress = gzip.compress if name.endswith("gz") else lzma.compress
    whole = compress(RANDOM)
    for place in range(20, 2000, 200):
        (tmp_path / name).write_bytes(whole[:place] + 50 * filler + whole[place + 50 :])
        with pytest.raises(ValueError, match=name):
            read(tmp_path / name)


def identity(**options):
    return Corpus(CorpusConfig(**options)).identity(Processes(1))


def test_identity_follows_contents_and_not_places(tmp_path):
    (tmp_path / "a.txt").write_text("same")
    (tmp_path / "b.txt").write_text("same")
    file = str(tmp_path / "a.txt")
    before = identity(files=file)
    assert identity(files=str(tmp_path / "b.txt")) == before
    assert identity(files=file, max_documents=1) != before
    (tmp_path / "a.txt").write_text("changed")
    assert identity(files=file) != before
    assert identity(dataset="org/web")["dataset"] == ["org/web", None, None]
    assert identity(dataset="org/web", revision="abc")["dataset"] == ["org/web", None, "abc"]


def test_identity_of_much_text_is_found_by_workers_in_any_order(tmp_path, monkeypatch):
    for number in range(9):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")

    class Backwards(Processes):
        def map(self, function, items):
            return super().map(function, list(items)[::-1])

    corpus = Corpus(CorpusConfig(files=str(tmp_path)))
    expected = corpus.identity(Processes(1))
    monkeypatch.setattr(documents, "_LITTLE_TEXT", 10)
    assert corpus.identity(Backwards(1)) == corpus.identity(Processes(2)) == expected
    assert len({digest for _, digest in expected["files"]}) == 9


def test_identity_tells_formats_apart(tmp_path):
    """JSON lines read as plain text are other documents than the same lines read as JSON."""
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_bytes(jsonl(DOCUMENTS))
    assert read(tmp_path / "a.txt") != read(tmp_path / "a.jsonl")
    assert identity(files=str(tmp_path / "a.txt")) != identity(files=str(tmp_path / "a.jsonl"))


def test_identity_of_docstrings_holds_versions():
    packages = ["stdlib", "numpy", "scipy.stats", "xml.etree"]
    versions = identity(docstrings=packages)["docstrings"]
    assert set(versions) == set(packages)
    assert "unknown" not in versions.values()


@pytest.fixture
def hub(monkeypatch):
    """Rows that a Hub dataset gives, and the calls that asked for it."""
    rows: list[dict] = [{"text": text, "id": i} for i, text in enumerate(DOCUMENTS)]
    calls: list[tuple] = []

    def load_dataset(*args, **kwargs):
        calls.append((args, kwargs))
        return iter(rows)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(documents, "require_dataset", lambda *_, **__: None)
    return rows, calls


def test_a_dataset_is_streamed(hub, tmp_path):
    calls = hub[1]
    config = CorpusConfig(dataset="org/web", dataset_config="sample", max_documents=2)
    assert list(Corpus(config)) == DOCUMENTS[:2]
    [(args, kwargs)] = calls
    assert args == ("org/web", "sample")
    assert kwargs == {"split": "train", "revision": None, "streaming": True}
    # Files take its place.
    (tmp_path / "a.txt").write_text("local")
    assert read(tmp_path / "a.txt", dataset="org/web") == ["local"]
    assert len(calls) == 1


def test_what_a_dataset_does_not_hold_is_named(hub):
    rows, _ = hub
    rows.insert(0, {"body": "one"})
    with pytest.raises(
        ValueError, match=r"'text' of org/web, but its columns are \['body'\]\. Write"
    ):
        list(Corpus(CorpusConfig(dataset="org/web")))
    del rows[0]
    rows[1]["text"] = None  # which is passed over
    assert list(Corpus(CorpusConfig(dataset="org/web"))) == [DOCUMENTS[0], DOCUMENTS[2]]
    rows.append({"text": 5})
    with pytest.raises(ValueError, match="column 'text' of org/web, but it holds int"):
        list(Corpus(CorpusConfig(dataset="org/web")))


def test_configurations_are_read_in_turn(monkeypatch):
    rows = {"en": ["one", "two", "three"], "ja": ["一"], "de": ["eins", "zwei"]}

    def load_dataset(dataset, name, **_):
        return ({"text": text} for text in rows[name])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(documents, "require_dataset", lambda *_, **__: None)
    config = CorpusConfig(dataset="org/web", dataset_config=["en", "ja", "de"])
    assert list(Corpus(config)) == ["one", "一", "eins", "two", "zwei", "three"]
    assert list(Corpus(replace(config, max_documents=4))) == ["one", "一", "eins", "two"]
