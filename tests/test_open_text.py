"""The text of the packaged models: sources are named whole, and the lines are sentences."""

import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import threading
import tomllib
import zlib
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
_TERMS = {
    "M:1": {"label": "anaemia", "description": "Little iron in blood [WP].", "deprecated": 0},
    "M:2": {"label": "2-oxo", "description": "A 2-oxo monocarboxylic acid.", "deprecated": False},
    "M:3": {"label": "old", "description": "A term of old.", "deprecated": True},
}
TERMS = pa.compress(json.dumps(_TERMS).encode(), "zstd", asbytes=True)
VERSES = (zlib.compress(b"In the <w>beginning</w><note>a</note>.") + bytes(1024)) * 2
MARKDOWN = b"""---
title: left out
---
# Read *me*

See [the `docs`](https://a.org) {: .x }
first<br>now. {% Img src="left/out" %}

```
code
```

<p>HTML</p>

- one \\[item\\]

| a | b |
|---|---|
"""
TRANSCRIPT = b"""**Ada Ada:** Well, \\[laughter\\] hello **you**.

Still she.
"""
RST = b"""PEP: 1

A title
=======
Use :pep:`8` with ``this`` [1]_, *not*
`that <https://a.org>`_.

- An item.
- Another::

    code.

.. note:: Left out.
"""
MEDICAL = b"""<Document><QAPairs><QAPair><Question qid="1">What is it?</Question>
<Answer>It is &lt; this:    - one    - two
three</Answer></QAPair><QAPair><Question>And?</Question><Answer/></QAPair></QAPairs></Document>"""
TRIVIA = b"""#Q Which one
does not?
^ Sloth
A Mouse

#Q What?
^ That
"""
KYOTO = """<art><tit><j>寺</j><e type="trans">Old</e><e type="check">Temple &amp; gate</e></tit>
<sen id="1"><j>寺である。</j><e type="trans">It is.</e></sen></art>""".encode()
TOKENS = """i can 't , he said ( so ) . <::::>	left out
誰 が 一番 。
""".encode()
DIALOGUE = [{"turns": [{"utterance": "Hello there."}, {"utterance": "Hi."}]}]
CHAT = json.dumps({"utterances": [{"text": "やあ"}, {"name": "B", "text": "どうも"}]}).encode()
PARAGRAPHS = {"data": [{"qas": [{"question": "Q?"}], "context": "今日。「明日。」明後日。"}]}
OBO = rb"""[Term]
name: scrub typhus
def: "A \"typhus\" that results_in fever." [url:https\://a.org]

[Term]
name: old
def: "A term of old." []
is_obsolete: true
"""


def tar_of(files: Mapping[str, bytes], root: str, mode: str = "w:gz") -> bytes:
    """An archive of files in a folder."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def write_deb(path: Path, files: Mapping[str, bytes]) -> None:
    """Write a package of Debian."""
    parts = {b"debian-binary": b"2.0", b"data.tar.xz": tar_of(files, ".", "w:xz")}
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, content in parts.items():
            file.write(name.ljust(48) + str(len(content)).encode().ljust(10) + b"`\n")
            file.write(content + b"\n" * (len(content) % 2))


DOG = "a member of the genus Canis"
FEVER = 'A "typhus" that results in fever.'


@pytest.mark.parametrize(
    ("extract", "data", "lines"),
    [
        ("wordnet", WORDNET, [DOG, f"dog, domestic dog: {DOG}", "the dog barked all night"]),
        ("pages", PAGE, ["Click File New\n  & wait.", "Read on."]),
        ("things", THINGS, ["A thing to eat from.", "plate: A thing to eat from.", ""]),
        ("ontology", TERMS, ["Little iron in blood.", "anaemia: Little iron in blood."]),
        ("bible", VERSES, ["In the beginning."] * 2),
        ("markdown", MARKDOWN, ["Read me", "See the docs first now.", "one [item]", "a", "b"]),
        ("transcript", TRANSCRIPT, ["Well,  hello you.", "Still she."]),
        ("restructured", RST, ["Use 8 with this, not\nthat.", "An item."]),
        ("questions", MEDICAL, ["What is it?", "It is < this:", "one", "two", "three", "And?", ""]),
        ("trivia", TRIVIA, ["Which one\ndoes not?\n", "What?\n"]),
        ("kyoto_english", KYOTO, ["Temple & gate", "It is."]),
        ("kyoto_japanese", KYOTO, ["寺", "寺である。"]),
        ("tokens", TOKENS, ["i can't, he said (so). <::::>", "誰が一番。"]),
        ("columns", b'id\tutterance\tlabel\n1\tsay "hi\tO\n', ['say "hi']),
        ("columns", b'Id,Answer.sentence1,Answer.sentence2\n1,"Yes, no.",\n', ["Yes, no.", ""]),
        ("values", json.dumps(DIALOGUE).encode(), ["Hello there.", "Hi."]),
        ("values", json.dumps(PARAGRAPHS).encode(), ["Q?", "今日。", "「明日。」明後日。", ""]),
        ("utterances", CHAT, ["やあ", "どうも"]),
        ("utterances", CHAT + b"\n" + CHAT, ["やあ", "どうも"] * 2),
        ("definitions", OBO, [FEVER, f"scrub typhus: {FEVER}"]),
    ],
)
def test_what_is_extracted(extract, data, lines):
    assert list(open_text.EXTRACTORS[extract](data)) == lines


def test_a_dictionary_loses_its_heads_and_labels():
    *_, last = open_text.dictionary(JARGON)
    assert last == "Patch wires added to circuit boards. Compare purple wire."


def test_every_source_is_named_whole():
    for source in SOURCES["packages"].values():
        assert len(source["sha256"]) == 64
        version = (source.get("debian") or source["pypi"]).rpartition("=")[2]
        assert version in source["source"]
    for source in SOURCES["repositories"].values():
        assert re.fullmatch("[0-9a-f]{40}", source["commit"])
        assert re.fullmatch(r"[\w-]+/[\w.-]+", source["repository"])
    tables = {of: "\n".join(open_text.as_table(SOURCES, of)) for of in ("en", "ja")}
    for source in [*SOURCES["packages"].values(), *SOURCES["repositories"].values()]:
        assert source["extract"] in open_text.EXTRACTORS
        assert source["licence"]
        assert source.get("attribution") or source["licence"] == "public domain"
        assert len(set(source["text_sha256"])) > 1
        assert len(source["text_sha256"]) == 64
        language = source.get("language", "en")
        assert [of for of in tables if source["text_sha256"][:12] in tables[of]] == [language]


def test_a_line_of_a_test_set_is_known_in_other_clothes():
    of = open_text.hash_of
    assert of("Can't you (see)?") == of("can 't you see")
    assert of("カタカナ１。") == of("ｶﾀｶﾅ 1")
    assert of("猫が寝る。") != of("犬が寝る。")


FILES = {
    "README.md": "The manual of this guide is left out.",
    "text/a.md": "# Guide\n\nThis is the *first* guide.\n\nThis is the first guide!",
    "text/b.md": "This is left out of the text.\r\n\r\nThis is the second guide.",
    "text/old/c.md": "This is the old guide.",
}
GUIDE = {
    "repository": "owner/guide",
    "extract": "markdown",
    "members": ["text/*.md"],
    "without": ["text/old/*"],
    "text_sha256": "0" * 64,
}


def guide_of(files: Mapping[str, str]) -> bytes:
    return tar_of({name: text.encode() for name, text in files.items()}, "guide-0123")


@pytest.fixture
def archives():
    """Archives by their paths, and a server's address under which they are, with its requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.asked.append(self.path)
            if self.path not in server.files:
                self.send_error(404)
                return
            data = server.files[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(data) + server.cut))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.asked, server.cut = {}, [], 0
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def run(tmp_path, monkeypatch, archives):
    """Run the script on these sources, with a line left out; return the lines of each text."""

    def script(tables: dict[str, dict], *arguments: object) -> dict[str, list[str]]:
        toml = tmp_path / "sources.toml"
        lines = [f'archives = "{archives.url}/{{repository}}/archive/{{commit}}.tar.gz"']
        for table, of in tables.items():
            lines += [f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in of.items())]
        toml.write_text("\n".join(lines), encoding="utf-8")
        left_out = tmp_path / "left_out.txt"
        left_out.write_text(open_text.hash_of("This is left out of the text!"))
        monkeypatch.setattr(open_text, "SOURCES", toml)
        monkeypatch.setattr(open_text, "LEFT_OUT", left_out)
        output = tmp_path / "out"
        monkeypatch.setattr(sys, "argv", ["open_text.py", str(output), *map(str, arguments)])
        open_text.main()
        return {
            str(path.relative_to(output)): lzma.decompress(path.read_bytes()).decode().splitlines()
            for path in output.rglob("*.txt.xz")
        }

    (tmp_path / "out/packages").mkdir(parents=True)
    return script


def test_it_writes_each_line_once_and_compares_the_text(run, tmp_path, archives, capsys):
    packages = tmp_path / "out/packages"
    again = b"00000001 05 n 01 a 0 000 | this is left out of the text\n" + WORDNET + WORDNET
    write_deb(packages / "a.deb", {"other": b"", "data.noun": again})
    digest = open_text.hashlib.sha256((packages / "a.deb").read_bytes()).hexdigest()
    source = {"file": "a.deb", "sha256": digest, "extract": "wordnet", "members": ["data.*"]}
    text = "This is the first guide.\nThis is the second guide.\n"
    known = GUIDE | {"text_sha256": open_text.hashlib.sha256(text.encode()).hexdigest()}
    archives.files["/owner/guide/archive/0123.tar.gz"] = guide_of(FILES)
    tables = {
        "packages.wordnet": source | {"text_sha256": "0" * 64},
        "repositories.guide": known | {"commit": "0123"},
    }
    (tmp_path / "out/old.txt.xz").write_bytes(lzma.compress(b"a line\n"))
    texts = run(tables)
    assert texts == {
        "old.txt.xz": ["a line"],
        "guide.txt.xz": text.splitlines(),
        "wordnet.txt.xz": [
            "a: this is left out of the text",
            "a member of the genus Canis",
            "dog, domestic dog: a member of the genus Canis",
            "the dog barked all night",
        ],
    }
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("wordnet: 4 lines, 132 bytes, sha256 not as pinned: ")
    assert printed[1] == "guide: 2 lines, 51 bytes, sha256 as pinned"
    assert printed[2].endswith("old.txt.xz is of no source, but recipes read it, too: remove it")
    assert printed[3] == "Not the text of the packaged models: wordnet"
    assert run(tables) == texts
    assert len(archives.asked) == 1  # the archive is kept
    tables["packages.wordnet"]["sha256"] = "0" * 64
    with pytest.raises(SystemExit, match="its sha256 differs"):
        run(tables)


def test_an_archive_that_does_not_arrive_whole_is_no_file(run, tmp_path, archives):
    tables = {"packages": {}, "repositories.guide": GUIDE | {"commit": "0123"}}
    says = r"(?s)0123\.tar\.gz was not downloaded .*404.*--repositories"
    with pytest.raises(SystemExit, match=says):
        run(tables)
    archives.files["/owner/guide/archive/0123.tar.gz"] = guide_of(FILES)
    archives.cut = 10
    with pytest.raises(SystemExit, match="was not downloaded"):
        run(tables)
    assert not list(tmp_path.glob("out/packages/*.tar.gz"))
    archives.cut = 0
    assert list(run(tables)) == ["guide.txt.xz"]
    [archive] = tmp_path.glob("out/packages/*.tar.gz")
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(SystemExit, match=r"guide-0123\.tar\.gz is no whole archive: remove it"):
        run(tables)


@pytest.mark.parametrize("bare", [False, True])
def test_a_clone_gives_the_text_of_the_commit(run, tmp_path, archives, bare):
    def git(*arguments: str) -> str:
        name = ["-c", "user.name=A", "-c", "user.email=a@a.org", "-c", "commit.gpgsign=false"]
        command = ["git", *name, *arguments]
        return subprocess.run(command, cwd=work, check=True, capture_output=True, text=True).stdout

    work = tmp_path / ("work" if bare else "clones/guide")
    for file, content in FILES.items():
        (work / file).parent.mkdir(parents=True, exist_ok=True)
        (work / file).write_bytes(content.encode())
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    (work / "text/a.md").write_text("This is a later guide.")
    git("commit", "--quiet", "-a", "-m", "second")
    if bare:
        git("clone", "--quiet", "--bare", ".", str(tmp_path / "clones/guide"))
    texts = run(
        {"packages": {}, "repositories.guide": GUIDE | {"commit": commit}},
        *("--repositories", tmp_path / "clones"),
    )
    assert texts == {"guide.txt.xz": ["This is the first guide.", "This is the second guide."]}
    assert not archives.asked
    tables = {"packages": {}, "repositories.guide": GUIDE | {"commit": "0" * 40}}
    with pytest.raises(SystemExit, match=r"clones/guide does not give commit 0{40} .*git fetch"):
        run(tables, "--repositories", tmp_path / "clones")
    with pytest.raises(SystemExit, match="404"):  # a clone that is not there is downloaded
        run(tables, "--repositories", tmp_path / "work" if bare else work)


def test_the_clones_must_be_in_a_folder(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run({"packages": {}, "repositories": {}}, "--repositories", tmp_path / "none")
    assert "none is not a folder with clones" in capsys.readouterr().err


def test_a_share_is_of_whole_files_and_japanese_lies_apart(run, archives):
    guides = {f"text/{n}.md": f"This is the guide of number {n}." for n in range(200)}
    archives.files["/owner/guide/archive/0123.tar.gz"] = guide_of(guides)
    japanese = {"text/a.md": "これは日本語の文です。\n\nThis is no Japanese at all."}
    archives.files["/owner/guide/archive/4567.tar.gz"] = guide_of(japanese)
    tables = {
        "packages": {},
        "repositories.guide": GUIDE | {"commit": "0123", "share": 0.25},
        "repositories.ja_guide": GUIDE | {"commit": "4567", "language": "ja"},
    }
    texts = run(tables)
    assert 30 < len(texts["guide.txt.xz"]) < 70
    assert texts["ja/ja_guide.txt.xz"] == ["これは日本語の文です。"]
    assert len(texts) == 2
