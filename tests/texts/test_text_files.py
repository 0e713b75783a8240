"""Files of text are read to their end and as UTF-8, or refused."""

import gzip
import io
import json
import lzma
import random
import sys
from pathlib import Path

import pytest
import xxhash

from st_static.cli import main
from st_static.distill.config import CorpusConfig, PairsConfig
from st_static.distill.corpus.documents import Corpus
from st_static.distill.pairs import given_pairs
from st_static.evaluate.own_data import Columns
from st_static.lab.sphere import Sphere
from st_static.texts.text_files import TextReader, decompressed, read_lines

MODEL = "st-static/english-384"


def zstd(content: bytes) -> bytes:
    """A frame with a checksum, as `zstd` writes it and Arrow does not."""
    block = (len(content) << 3 | 1).to_bytes(3, "little") + content  # stored, the last
    checksum = xxhash.xxh64_digest(content)[:-5:-1]  # its last four bytes, backwards
    return bytes.fromhex("28b52ffd24") + bytes([len(content)]) + block + checksum


COMPRESS = {"gz": lambda data: gzip.compress(data, mtime=0), "xz": lzma.compress, "zst": zstd}
BEHIND = {  # what may stand between and behind streams
    "gz": bytes(7),
    "xz": bytes(8),
    "zst": bytes.fromhex("502a4d18") + (3).to_bytes(4, "little") + b"any",  # a frame to skip
}


def read(data: bytes, compression: str) -> list[str]:
    reader = TextReader(decompressed(io.BytesIO(data), compression, "a"), "txt", name="a")
    return [text for rows in reader for text in rows.texts.to_pylist()]


@pytest.mark.parametrize("compression", COMPRESS)
def test_all_streams_of_a_compressed_file_are_read(compression):
    compress, behind = COMPRESS[compression], BEHIND[compression]
    one, other = compress(b"one\nmore\n"), compress(b"other\n")
    for data in (one + other, one + behind + other, one + other + behind, one + behind * 2 + other):
        assert read(data, compression) == ["one", "more", "other"]
    many = [random.Random(i).randbytes(100).hex() for i in range(500)]
    assert read(behind.join(compress(f"{line}\n".encode()) for line in many), compression) == many


@pytest.mark.parametrize("compression", COMPRESS)
def test_what_is_behind_the_streams_is_an_error(compression):
    data = COMPRESS[compression](b"one\n")
    for junk in (b"x", b"junk" * 20, b"\n", bytes(4) + b"junk", b"junk" * 100_000):
        for whole in (data, data * 2, data + BEHIND[compression]):
            with pytest.raises(ValueError, match=r"^a cannot be read \(.*it is damaged"):
                read(whole + junk, compression)
    if compression == "xz":
        with pytest.raises(ValueError, match="3 zeros behind a stream, no multiple of 4"):
            read(data + bytes(3), compression)


@pytest.mark.parametrize("compression", COMPRESS)
def test_no_flipped_bit_changes_what_is_read(compression):
    data = COMPRESS[compression](b"one\nmore\n") + COMPRESS[compression](b"other\n")
    refused = 0
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        try:
            found = read(bytes(flipped), compression)
        except ValueError:
            refused += 1
        else:  # such as the time in the header of gzip
            assert found == ["one", "more", "other"], place
    assert refused > 4 * len(data)


@pytest.mark.parametrize("compression", COMPRESS)
def test_a_compressed_file_that_is_cut_off_is_refused(compression):
    first = COMPRESS[compression](b"one\n")
    data = first + COMPRESS[compression](b"other\n")
    for length in set(range(len(data))) - {len(first)}:
        with pytest.raises(ValueError, match="^a is empty" if not length else "^a cannot be read"):
            read(data[:length], compression)


# -- JSON lines ------------------------------------------------------------------------

OBJECT = {"text": "a", "anchor": "a", "positive": "b"}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[1]", r"b'\[1\]'"),
        ("{broken", r"b'{broken' \(Expecting property name .*: column 2 \(char 1\)\)"),
        ('{"text": "\xff"}', r"b'.*xff\"}' \('utf-8' codec can't decode byte 0xff .*\)"),
        ('{"text": ' + "[" * 100_000, r"b'{\"text\": \[{51}' \(.*\)"),
        ('{"n": ' + "9" * 5_000 + "}", r"b'{\"n\": 9{54}' \(.*4300 digits.*\)"),
    ],
    ids=["list", "broken", "latin-1", "deep", "long"],
)
def test_a_line_that_is_no_object_is_named_by_all_who_read_json_lines(tmp_path, line, says):
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(OBJECT)}\n \n{line}\n", "latin-1")
    for use in (
        Columns,
        lambda file: given_pairs(PairsConfig(files=str(file)), 1),
        lambda file: list(TextReader(file.open("rb"), "jsonl", name=str(file))),
    ):
        with pytest.raises(ValueError, match=f"line 3: expected a JSON object, but got {says}. "):
            use(file)


# -- other encodings -------------------------------------------------------------------

WIDE = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
TEXTS = [
    "A ship sails",
    "Корабль идёт по морю",
    "سفينة في البحر",
    "जहाज़ समुद्र में है",
    "ਜਹਾਜ਼ ਸਮੁੰਦਰ ਵਿੱਚ ਹੈ",
    "കപ്പൽ കടലിലാണ്",
    "one, 船 two 海",
    "word",
]
REFUSED = "is not UTF-8 text: it begins as UTF-16 or UTF-32 does. Convert it."


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("format", ["txt", "jsonl", "csv", "tsv"])
def test_text_of_wide_characters_is_refused(format, text, encoding):
    whole = {
        "txt": f"{text}\n{text}\n",
        "jsonl": json.dumps({"text": text}, ensure_ascii=False) + "\n",
        "csv": f'text\n"{text}"\n',
        "tsv": f"id\ttext\r\n1\t{text}\r\n",
    }[format]
    for on_error in ("fail", "skip"):
        with pytest.raises(ValueError, match=f"^a {REFUSED}"):
            TextReader(io.BytesIO(whole.encode(encoding)), format, on_error=on_error, name="a")


@pytest.mark.parametrize(
    ("name", "content", "use"),
    [
        ("a.txt", "A ship\nsails\n", lambda file: list(read_lines(file))),
        ("a.txt", "A ship\nsails\n", lambda file: list(Corpus(CorpusConfig(files=str(file))))),
        ("a.jsonl", '{"text": "a"}\n', lambda file: list(Corpus(CorpusConfig(files=str(file))))),
        (
            "a.jsonl",
            '{"anchor": "a", "positive": "b"}\n',
            lambda file: given_pairs(PairsConfig(files=str(file)), 1),
        ),
        ("a.jsonl", '{"text": "a"}\n', Columns),
        ("a.csv", "text,label\na,b\n", Columns),
        ("a.txt", "a\tb\nc\td\n", Sphere.read),
    ],
)
def test_every_file_of_text_is_checked(tmp_path, name, content, use):
    file = tmp_path / name
    for encoding in WIDE:
        file.write_bytes(content.encode(encoding))
        with pytest.raises(ValueError, match=f"{name} {REFUSED}"):
            use(file)
    file.write_bytes(content.encode("utf-8-sig"))
    use(file)


def test_every_command_checks_its_texts(tmp_path, capsys, monkeypatch):
    wide = tmp_path / "a.txt"
    wide.write_bytes("A ship\nsails\n".encode("utf-16-le"))
    plain = tmp_path / "b.txt"
    plain.write_text("A ship\n")
    for command in (
        ["encode", MODEL, "--input", str(wide), "--output", str(tmp_path / "a.npy")],
        ["encode", MODEL, "--output", str(tmp_path / "a.npy")],
        ["search", MODEL, "--input", str(wide), "query"],
        ["search", MODEL, "--input", str(plain)],
        ["demo", MODEL, "--texts", str(wide), "--output", str(tmp_path / "demo")],
        ["evaluate", f"tfidf:{wide}", MODEL, "--pairs", str(pairs_file(tmp_path))],
    ):
        with wide.open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert main(command) == 1, command
        assert REFUSED in capsys.readouterr().err
    assert not (tmp_path / "a.npy").exists()


def pairs_file(folder: Path) -> Path:
    file = folder / "pairs.csv"
    file.write_text("text1,text2,score\na ship,a boat,1\na ship,the rain,0\n")
    return file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "\ufeffa ship\n",
        "one with a \0 in it\n",
        "\0\n" + "and more, of words\n" * 3,
        "".join(f"{i}\tends with\0\n" for i in range(500)),
        "船\n海\n" * 1_000,
        "a\r\nb\r\n\r\n",
    ],
)
def test_text_in_utf8_is_read_even_with_nul(text):
    expected = text.removeprefix("\ufeff").replace("\r\n", "\n").splitlines()
    assert read_all(text.encode()) == expected


def read_all(data: bytes) -> list[str]:
    reader = TextReader(io.BytesIO(data), "txt")
    return [text for rows in reader for text in rows.texts.to_pylist()]
