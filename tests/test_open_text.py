"""The text of the shipped model: its sources are named whole, and its lines are sentences."""

import io
import json
import lzma
import sys
import tarfile
import tomllib
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from scripts import load_script

open_text = load_script(Path(__file__).parents[1] / "recipes/open_text.py")
SOURCES = tomllib.loads(open_text.SOURCES.read_text(encoding="utf-8"))

WORDNET = (
    b"  1 a notice\n"
    b"02084071 05 n 02 dog 0 domestic_dog 0 001 @ 02083346 n 0000 | "
    b'a member of the genus Canis; "the dog barked all night"  \n'
)
JARGON = b"""blue wire
 n.

    [IBM] Patch wires added to circuit boards. Compare {purple
    wire}.
"""
PAGE = b"""<page><info><desc>Left out.</desc></info><p>Click <gui>File</gui><gui>New</gui>
  &amp; wait.</p><p>A heading</p><div class="para">Read <b>on</b>.</div></page>"""
THINGS = b"""[{"name": {"str": "plate"}, "description": "A thing to eat from."},
  {"name": "x", "description": "You have %s left."}, {"type": "none"}]"""
TERMS = {
    "M:1": {
        "label": "anaemia",
        "description": "Little iron in blood [WP].",
        "deprecated": 0,
    },
    "M:2": {"label": "2-oxo", "description": "A 2-oxo monocarboxylic acid.", "deprecated": False},
    "M:3": {"label": "old", "description": "A term of old.", "deprecated": True},
}


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


def deb(path: Path, files: dict[str, bytes]) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    parts = {b"debian-binary": b"2.0", b"data.tar.xz": data.getvalue()}
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, content in parts.items():
            file.write(name.ljust(48) + str(len(content)).encode().ljust(10) + b"`\n")
            file.write(content + b"\n" * (len(content) % 2))


@pytest.mark.parametrize(
    ("extract", "data", "lines"),
    [
        (
            "wordnet",
            WORDNET,
            [
                "a member of the genus Canis",
                "dog, domestic dog: a member of the genus Canis",
                "the dog barked all night",
            ],
        ),
        ("pages", PAGE, ["Click File New\n  & wait.", "Read on."]),
        ("things", THINGS, ["A thing to eat from.", "plate: A thing to eat from.", ""]),
        (
            "ontology",
            zstd(json.dumps(TERMS).encode()),
            ["Little iron in blood.", "anaemia: Little iron in blood."],
        ),
        (
            "bible",
            (zlib.compress(b"In the <w>beginning</w><note>a</note>.") + bytes(1024)) * 2,
            ["In the beginning."] * 2,
        ),
    ],
)
def test_what_is_extracted(extract, data, lines):
    assert list(open_text.EXTRACTORS[extract](data)) == lines


def test_a_dictionary_loses_its_heads_and_labels():
    *_, last = open_text.dictionary(JARGON)
    assert last == "Patch wires added to circuit boards. Compare purple wire."


def test_every_source_is_named_whole():
    for source in SOURCES["packages"].values():
        assert source["extract"] in open_text.EXTRACTORS
        assert len(source["sha256"]) == 64
        version = (source.get("debian") or source["pypi"]).rpartition("=")[2]
        assert version in source["source"]
    for source in [*SOURCES["packages"].values(), *SOURCES["repositories"].values()]:
        assert source["licence"]
        assert source.get("attribution") or source["licence"] == "public domain"
        assert len(source["text_sha256"]) == 64


def test_it_writes_each_line_once_and_says_what_is_missing(tmp_path, monkeypatch, capsys):
    packages = tmp_path / "packages"
    packages.mkdir()
    again = b"00000001 05 n 01 a 0 000 | left out of the text\n" + WORDNET + WORDNET
    deb(packages / "a.deb", {"other": b"", "data.noun": again})
    (tmp_path / "books.txt.xz").write_bytes(lzma.compress(b"a line\n"))
    source = SOURCES["packages"]["wordnet"] | {"file": "a.deb", "members": ["data.*"]}
    digest = open_text.hashlib.sha256((packages / "a.deb").read_bytes()).hexdigest()
    toml = tmp_path / "sources.toml"
    toml.write_text(
        "".join(
            f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in of.items())
            for table, of in {
                "packages.wordnet": source | {"sha256": digest},
                "repositories.books": SOURCES["repositories"]["classic_books"],
                "repositories.health": SOURCES["repositories"]["medquad"],
            }.items()
        )
    )
    left_out = tmp_path / "left_out.txt"
    left_out.write_text(open_text.hash_of("Left out of the text!"))
    monkeypatch.setattr(open_text, "SOURCES", toml)
    monkeypatch.setattr(open_text, "LEFT_OUT", left_out)
    monkeypatch.setattr(sys, "argv", ["open_text.py", str(tmp_path)])
    open_text.main()
    assert lzma.decompress((tmp_path / "wordnet.txt.xz").read_bytes()).decode().splitlines() == [
        "a: left out of the text",
        "a member of the genus Canis",
        "dog, domestic dog: a member of the genus Canis",
        "the dog barked all night",
    ]
    printed = capsys.readouterr().out.splitlines()
    assert printed[1] == "books: 1 lines, 7 bytes, not the text that the model had"
    assert printed[2].startswith("health: missing. Its text is of abachaa/MedQuAD at 577bd37b")
    toml.write_text(toml.read_text().replace(digest, "0" * 64))
    with pytest.raises(SystemExit, match="its sha256 differs"):
        open_text.main()
