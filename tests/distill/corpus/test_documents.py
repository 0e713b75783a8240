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


def jsonl(documents, key="text"):
    return txt([json.dumps({"id": i, key: text}) for i, text in enumerate(documents)])


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


def test_a_folder_without_any_such_file_is_refused(tmp_path):
    (tmp_path / "notes.md").write_text("no text of the corpus")
    says = r"corpus.files: the folder .* holds no file of the format \.txt or"
    with pytest.raises(ValueError, match=says):
        read(tmp_path)


@pytest.mark.parametrize("content", ["one\ntwo", "\ufeffone\ntwo\n"])
def test_neither_a_last_line_end_nor_a_byte_order_mark_is_text(
    tmp_path: Path, content: str
) -> None:
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


def test_reads_parquet_without_any_text(tmp_path):
    assert read(parquet(tmp_path / "a.parquet", {"text": pa.nulls(3)})) == []


def test_reads_the_named_column_or_key(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(jsonl(DOCUMENTS, key="body"))
    parquet(tmp_path / "b.parquet", {"body": DOCUMENTS, "text": ["no"] * 3})
    assert read(tmp_path / "a.jsonl", text_column="body") == DOCUMENTS
    assert read(tmp_path / "b.parquet", text_column="body") == DOCUMENTS


def test_passes_over_empty_lines_and_null(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\n{"text": "one"}\n  \n{"text": null}\n')
    parquet(tmp_path / "b.parquet", {"text": ["two", None, "three"]})
    assert read([tmp_path / "a.jsonl", tmp_path / "b.parquet"]) == ["one", "two", "three"]


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
    (tmp_path / "text.txt").write_text("1\n2\n3\n")
    with caplog.at_level(logging.INFO, logger="st_static.distill.corpus.documents"):
        read(f"{tmp_path}/*.txt", max_documents=3)
        assert caplog.messages == []
        read(f"{tmp_path}/*.txt", max_documents=2)
    assert caplog.messages == ["corpus.max_documents: stopped after 2 documents, of more"]


def test_stops_after_max_documents_across_files(tmp_path):
    (tmp_path / "a.txt").write_bytes(txt(["1", "2"]))
    (tmp_path / "b.txt").write_bytes(txt(["3", "4"]))
    assert read(f"{tmp_path}/*.txt", max_documents=3) == ["1", "2", "3"]
    assert read(f"{tmp_path}/*.txt", max_documents=9) == ["1", "2", "3", "4"]


def test_can_be_read_again_from_the_start(tmp_path):
    (tmp_path / "a.txt").write_bytes(txt(DOCUMENTS))
    corpus = Corpus(CorpusConfig(files=str(tmp_path / "a.txt")))
    assert next(iter(corpus)) == next(iter(corpus))
    assert list(corpus) == list(corpus)


def test_bytes_that_are_not_utf8_are_replaced_and_their_files_counted(tmp_path, caplog):
    (tmp_path / "good.txt").write_bytes("Käse\n".encode())
    (tmp_path / "latin.txt").write_bytes("Käse\nBrot\nÄpfel\n".encode("latin-1"))
    corpus = Corpus(CorpusConfig(files=f"{tmp_path}/*.txt"))
    assert list(corpus) == ["Käse", "K\ufffdse", "Brot", "\ufffdpfel"]
    assert corpus.undecodable == {str(tmp_path / "latin.txt")}
    assert caplog.text.count("not UTF-8") == 1
    assert "latin.txt" in caplog.text


def test_files_of_equal_name_are_counted_each(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "latin.txt").write_bytes("Käse\n".encode("latin-1"))
    corpus = Corpus(CorpusConfig(files=f"{tmp_path}/*/latin.txt"))
    list(corpus)
    assert len(corpus.undecodable) == 2


def test_no_source_at_all():
    with pytest.raises(ValueError, match=r"corpus\.files, corpus\.docstrings or corpus\.dataset"):
        Corpus(CorpusConfig())


def test_missing_file_is_named_before_anything_is_read(tmp_path):
    (tmp_path / "there.txt").write_text("text")
    missing = str(tmp_path / "missing*.txt")
    with pytest.raises(ValueError, match=r"no file matches .*own with --corpus\.files\.") as error:
        Corpus(CorpusConfig(files=[str(tmp_path / "there.txt"), missing]))
    assert missing in str(error.value)


@pytest.mark.parametrize("name", ["a.csv", "a.pdf.gz", "a", "a.gz", "a.json", "a.parquet.gz"])
def test_unknown_format_is_named_before_anything_is_read(tmp_path, name):
    (tmp_path / name).write_text("text")
    with pytest.raises(ValueError, match=r"is not \.txt or \.jsonl or \.parquet") as error:
        Corpus(CorpusConfig(files=f"{tmp_path}/*"))
    assert name in str(error.value)


def test_a_package_that_is_not_installed_is_named_before_anything_is_read():
    with pytest.raises(ValueError, match="no_such_package"):
        Corpus(CorpusConfig(docstrings=["json", "no_such_package"]))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            '{"body": "b", "id": 1}',
            r"line 2: expected a JSON object with 'text', but got the keys \['body', 'id'\]",
        ),
        ('{"text": 5}', r"line 2: expected 'text' to be a string, but got 5\."),
        ('{"text": ["a"]}', r"line 2: expected 'text' to be a string, but got \['a'\]\."),
    ],
)
def test_a_line_without_a_text_at_the_key_is_named(tmp_path, line, found):
    (tmp_path / "a.jsonl").write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(ValueError, match=rf"a\.jsonl, {found}.*text_column"):
        read(tmp_path / "a.jsonl")


def test_parquet_without_the_text_column_says_which_it_has(tmp_path):
    file = parquet(tmp_path / "a.parquet", {"body": ["b"], "id": [1]})
    with pytest.raises(ValueError, match=r"'text' in .*a\.parquet.*body, id.*text_column"):
        read(file)


@pytest.mark.parametrize("numbers", [pa.array([1, 2]), pa.array([1, 2]).dictionary_encode()])
def test_parquet_column_that_is_no_text_is_named(tmp_path: Path, numbers: pa.Array) -> None:
    file = parquet(tmp_path / "a.parquet", {"text": numbers})
    with pytest.raises(
        ValueError,
        match=r"a\.parquet, column .text.: Expected a column of strings",
    ):
        read(file)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a.txt.xz", "a.txt.zst", "a.parquet"])
@pytest.mark.parametrize(
    "damage", [lambda whole: b"rubbish", lambda whole: whole[:-20]], ids=["other", "cut"]
)
def test_a_damaged_file_is_named(tmp_path, name, damage):
    if name.endswith("parquet"):
        whole = parquet(tmp_path / name, {"text": DOCUMENTS}).read_bytes()
    else:
        compress = gzip.compress if name.endswith("gz") else lzma.compress
        whole = compress(jsonl([random.Random(i).randbytes(50).hex() for i in range(50)]))
    (tmp_path / name).write_bytes(damage(whole))
    with pytest.raises(ValueError, match=name):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.zst"])
@pytest.mark.parametrize("filler", [b"\x00", b"\xff"], ids=["zeros", "ones"])
@pytest.mark.parametrize("place", range(20, 2000, 200))
def test_a_file_that_is_damaged_inside_is_named(tmp_path, name, filler, place):
    compress = gzip.compress if name.endswith("gz") else lzma.compress
    whole = compress(txt([random.Random(i).randbytes(50).hex() for i in range(50)]))
    (tmp_path / name).write_bytes(whole[:place] + 50 * filler + whole[place + 50 :])
    with pytest.raises(ValueError, match=name):
        read(tmp_path / name)


def identity(**options):
    return Corpus(CorpusConfig(**options)).identity(Processes(1))


def test_identity_follows_contents_and_not_places(tmp_path):
    (tmp_path / "a.txt").write_text("same")
    (tmp_path / "b.txt").write_text("same")
    before = identity(files=str(tmp_path / "a.txt"))
    assert identity(files=str(tmp_path / "b.txt")) == before
    (tmp_path / "a.txt").write_text("changed")
    assert identity(files=str(tmp_path / "a.txt")) != before


def test_identity_follows_what_is_read_of_the_files(tmp_path):
    (tmp_path / "a.txt").write_text("same")
    file = str(tmp_path / "a.txt")
    assert identity(files=file) != identity(files=file, text_column="body")
    assert identity(files=file) != identity(files=file, max_documents=1)


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


def test_docstrings_are_documents():
    documents = list(Corpus(CorpusConfig(docstrings=["json"])))
    assert any("JSON" in document for document in documents)


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


def test_a_dataset_is_streamed(hub):
    config = CorpusConfig(dataset="org/web", dataset_config="sample", max_documents=2)
    assert list(Corpus(config)) == DOCUMENTS[:2]
    [(args, kwargs)] = hub[1]
    assert args == ("org/web", "sample")
    assert kwargs == {"split": "train", "revision": None, "streaming": True}


def test_configurations_are_read_in_turn(monkeypatch):
    rows = {"en": ["one", "two", "three"], "ja": ["一"], "de": ["eins", "zwei"]}

    def load_dataset(dataset, name, **_):
        return ({"text": text} for text in rows[name])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr(documents, "require_dataset", lambda *_, **__: None)
    config = CorpusConfig(dataset="org/web", dataset_config=["en", "ja", "de"])
    assert list(Corpus(config)) == ["one", "一", "eins", "two", "zwei", "three"]
    assert list(Corpus(replace(config, max_documents=4))) == ["one", "一", "eins", "two"]


@pytest.mark.parametrize("names", [[], ["en", "en"]])
def test_configurations_differ(names):
    with pytest.raises(ValueError, match="several different ones"):
        CorpusConfig(dataset="org/web", dataset_config=names)


def test_a_datasets_missing_column_is_named(hub):
    config = CorpusConfig(dataset="org/web", text_column="body")
    with pytest.raises(ValueError, match=r"'body' of org/web, .*\['text', 'id'\]"):
        list(Corpus(config))


def test_a_datasets_empty_texts_are_passed_over(hub):
    hub[0][1]["text"] = None
    assert list(Corpus(CorpusConfig(dataset="org/web"))) == [DOCUMENTS[0], DOCUMENTS[2]]


def test_a_datasets_column_that_is_no_text_is_named(hub):
    hub[0].extend([{"text": None}, {"text": 5}])
    with pytest.raises(ValueError, match="column 'text' of org/web, but it holds int"):
        list(Corpus(CorpusConfig(dataset="org/web")))


def test_files_take_the_place_of_a_dataset(tmp_path, hub):
    (tmp_path / "a.txt").write_text("local")
    assert read(tmp_path / "a.txt", dataset="org/web") == ["local"]
    assert not hub[1]


def test_identity_of_a_dataset_holds_its_revision():
    pinned = identity(dataset="org/web", revision="abc")
    assert pinned != identity(dataset="org/web")
    assert pinned["dataset"] == ["org/web", None, "abc"]
