"""A folder is read with what is text in it, and the rest is named."""

import errno
import logging
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from st_static import read_folder

ON_POSIX = pytest.mark.skipif(os.name != "posix", reason="names are Unicode, links need a right")


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read(folder: Path) -> list[tuple[str, int, str]]:
    rows = read_folder(folder).to_pylist()
    return [(row["file"], row["line"], row["text"]) for row in rows]


def test_documents_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    files = {
        "b.txt": b"B",
        "a/two words.MD": b"# C\n\nD",
        "a/b/e.html": b"<p>E</p>",
        "z.rst": b"FF\n==\n\n\nG",
        "a.txt": b"\xef\xbb\xbfBOM\r\nand\rends\r\n\r\nNext",
        "empty.md": b"",
        "blank.txt": b" \n\n",
        ".git/x.md": b"hidden",
        "a/.hidden.txt": b"hidden",
        "table.csv": b"text\nno document",
        "folder.md/inside.txt": b"H",
    }
    table = read_folder(str(write(tmp_path, files)))
    assert table.schema.equals(
        pa.schema({"text": pa.large_string(), "file": pa.large_string(), "line": pa.int64()})
    )
    assert read(tmp_path) == [
        ("a.txt", 1, "BOM\nand\nends\n\nNext"),
        ("a/b/e.html", 1, "E"),
        ("a/two words.MD", 1, "C\n\nD"),
        ("b.txt", 1, "B"),
        ("folder.md/inside.txt", 1, "H"),
        ("z.rst", 1, "FF\n\nG"),
    ]


def test_what_is_skipped_is_named_once_for_each_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = {
        "good.txt": b"Good",
        "a.txt": b"PNG\0",
        "b.txt": "Gr\xf6\xdfe".encode("latin-1"),
        "c.md": "Text".encode("utf-16"),
        "huge.txt": b"a" * 10_000_001,
        "large.html": b"<!--" + b" " * 9_999_996,
    }
    with caplog.at_level(logging.WARNING):
        assert read(write(tmp_path, files)) == [("good.txt", 1, "Good")]
    assert sorted(caplog.messages) == [
        "Skipped files of more than 10 MB: 1, such as huge.txt.",
        "Skipped files that are not text in UTF-8: 3, such as a.txt.",
    ]


@ON_POSIX
def test_links_are_followed_within_the_folder_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {"secret/s.txt": b"Secret", "docs2/t.txt": b"T"})
    folder = write(tmp_path / "docs", {"a.txt": b"A", ".store/b": b"B", "sub/c.txt": b"C"})
    for link, target in {
        "again.txt": "a.txt",
        "b.txt": ".store/b",
        "out.txt": "../secret/s.txt",
        "out": "../secret",
        "beside.txt": "../docs2/t.txt",
        "gone.txt": "nowhere.txt",
        "itself.txt": "itself.txt",
        "sub/up": "..",
        "sub/here": ".",
        "out.csv": "../secret/s.txt",
    }.items():
        (folder / link).symlink_to(target)
    (tmp_path / "link").symlink_to("docs")
    for name in ("docs", "link"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = read(tmp_path / name)
        assert found == [("a.txt", 1, "A"), ("b.txt", 1, "B"), ("sub/c.txt", 1, "C")]
        assert sorted(caplog.messages) == [
            "Skipped files that cannot be read: 2, such as gone.txt.",
            "Skipped links out of the folder: 3, such as out.",
        ]


@ON_POSIX
def test_a_pipe_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mkfifo(write(tmp_path, {"a.txt": b"A"}) / "pipe.txt")
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path) == [("a.txt", 1, "A")]
    assert caplog.messages == ["Skipped pipes and devices: 1, such as pipe.txt."]


def test_what_may_not_be_read_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files and folders of others are; root may read all."""
    write(tmp_path, {"a.txt": b"A", "b.txt": b"B", "closed/c.txt": b"C"})
    read_bytes, scandir = Path.read_bytes, os.scandir

    def refuse(path: os.PathLike) -> None:
        if Path(path).name in ("b.txt", "closed"):
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))

    monkeypatch.setattr(Path, "read_bytes", lambda path: refuse(path) or read_bytes(path))
    monkeypatch.setattr(os, "scandir", lambda path: refuse(path) or scandir(path))
    with caplog.at_level(logging.WARNING):
        assert read(tmp_path) == [("a.txt", 1, "A")]
    assert sorted(caplog.messages) == [
        "Skipped files that cannot be read: 1, such as b.txt.",
        "Skipped folders that cannot be read: 1, such as closed.",
    ]


@ON_POSIX
@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems refuse such names")
def test_names_may_have_any_bytes(tmp_path: Path) -> None:
    for name in (b"\xff.txt", b"a\nb.md"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_bytes(b"Text")
    assert read(tmp_path) == [("a\nb.md", 1, "Text"), ("\ufffd.txt", 1, "Text")]


@pytest.mark.parametrize("name", ["nothing", "file.txt", "bare"])
def test_a_folder_without_text_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"file.txt": b"A", "bare/.x.txt": b"A", "bare/a.csv": b"A", "bare/b.md": b""})
    with pytest.raises(ValueError, match=r"no document to read in|there is none at") as refused:
        read_folder(tmp_path / name)
    assert str(tmp_path / name) in str(refused.value)
    assert str(refused.value).count(". ") == 0  # one sentence
