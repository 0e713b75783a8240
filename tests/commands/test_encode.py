"""`st-static encode`, run as users run it."""

import csv
import gzip
import io
import lzma
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tqdm
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from terminals import run_at_a_terminal

from st_static import FastEncoder
from st_static.cli import main
from st_static.commands.encode import _summary, followed
from st_static.encode.encode_files import Written
from st_static.model.export import export_model
from st_static.model.tokenizer import build_tokenizer
from st_static.texts.text_files import TextReader

LINES = ["A ship", "", "keeper, a keeper"]
DATA = "\n".join(LINES).encode()


@pytest.fixture(scope="module")
def static_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encode") / "model"
    tokenizer = build_tokenizer(["a", "ship", "keeper"])
    table = np.array([[0, 0], [0, 0], [1, 2], [3, 1], [-1, 2]], dtype=np.float32)
    export_model(folder, table, tokenizer, {})
    return folder


def encode(static_folder, *options, data=DATA, shell=""):
    command = (
        f"{sys.executable} -m st_static.cli encode {static_folder} {' '.join(options)} {shell}"
    )
    return subprocess.run(command, shell=True, input=data, capture_output=True, timeout=120)


def encode_here(static_folder, options):
    """The exit status of the command in this process."""
    return main(["encode", str(static_folder), *options.split()])


def test_encode_from_stdin_to_a_file_and_to_a_pipe(static_folder, tmp_path):
    expected = SentenceTransformer(str(static_folder), device="cpu").encode(LINES)
    result = encode(static_folder, shell=f"> {tmp_path / 'out.npy'}")
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-6)
    assert b"3 sentences, " in result.stderr
    piped = encode(static_folder, shell="| cat").stdout
    np.testing.assert_array_equal(np.load(io.BytesIO(piped)), np.load(tmp_path / "out.npy"))


def test_encode_from_parquet_to_parquet(static_folder, tmp_path, capsys):
    pq.write_table(pa.table({"body": LINES}), tmp_path / "in.parquet")
    paths = f"--input {tmp_path / 'in.parquet'} --output {tmp_path / 'out.parquet'}"
    formats = "--input_format parquet --column body --output_format parquet --dtype float16"
    assert encode_here(static_folder, f"{paths} {formats}") == 0
    assert capsys.readouterr().out == ""
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["text"].to_pylist() == LINES
    assert np.linalg.norm(table["embedding"][0].as_py()) == pytest.approx(1, abs=1e-3)


def test_encode_with_a_table_in_int8(static_folder):
    vectors = [
        np.load(io.BytesIO(encode(static_folder, f"--dtype {dtype}").stdout))
        for dtype in ("int8", "float32")
    ]
    assert vectors[0].dtype == np.float32
    np.testing.assert_allclose(*vectors, atol=0.01)
    assert (vectors[0] != vectors[1]).any()


def test_encode_says_what_is_wrong_in_a_line(static_folder, tmp_path, capsys):
    bad = encode(static_folder, "--input_format jsonl", data=b'{"text": null}\n')
    assert bad.returncode == 1
    assert b"Error: Line 1: expected a text, but it is missing" in bad.stderr
    options = f"--input {tmp_path / 'none.txt'} --output {tmp_path / 'o'}"
    assert encode_here(static_folder, options) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_failed_encode_leaves_no_array_that_loads(static_folder, tmp_path):
    out = tmp_path / "out.npy"
    assert encode(static_folder, data=b"a\n\xff\n", shell=f"> {out}").returncode == 1
    with pytest.raises(ValueError, match=r"pickle|magic|allow"):
        np.load(out)


def test_encode_appends_a_whole_array(static_folder, tmp_path):
    out = tmp_path / "out.npy"
    for _ in range(2):
        assert encode(static_folder, shell=f">> {out}").returncode == 0
    with out.open("rb") as file:
        np.testing.assert_array_equal(np.load(file), np.load(file))


def test_formats_follow_the_names_and_the_input_is_not_overwritten(static_folder, tmp_path, capsys):
    texts = tmp_path / "in.jsonl"
    texts.write_text("".join(f'{{"text": "{line}"}}\n' for line in LINES))
    out = tmp_path / "out.parquet"
    assert encode_here(static_folder, f"--input {texts} --output {out}") == 0
    assert pq.read_table(out)["text"].to_pylist() == LINES
    same = f"--input {texts} --output {texts} --output_format npy"
    assert encode_here(static_folder, same) == 1
    assert "is the input" in capsys.readouterr().err
    assert texts.read_text().startswith("{")
    missing = tmp_path / "none/there/out.npy"
    assert encode_here(static_folder, f"--input {texts} --output {missing}") == 0
    assert len(np.load(missing)) == len(LINES)
    assert encode_here(static_folder, f"--input {texts} --output {texts}/out.npy") == 1
    assert "out.npy cannot be written: " in capsys.readouterr().err


def test_what_a_user_wrote_is_not_overwritten(static_folder, tmp_path, capsys):
    texts = tmp_path / "t.npy"
    texts.write_text("\n".join(LINES))
    astray = tmp_path / "no" / ".." / "t.npy"
    model = tmp_path / "model"
    shutil.copytree(static_folder, model)
    for output, says in (
        (astray, f"there is no folder {tmp_path}/no, from which"),
        (model / "model.safetensors", "is there, and holds no vectors"),
    ):
        options = f"--input {texts} --input_format txt --output {output} --output_format npy"
        assert encode_here(model, options) == 1
        assert says in capsys.readouterr().err
    assert texts.read_text() == "\n".join(LINES)
    assert not (tmp_path / "no").exists()
    assert load_file(model / "model.safetensors")
    options = f"--input {texts} --input_format txt --output {tmp_path}/v --output_format npy"
    for _ in range(2):  # what holds vectors is replaced
        assert encode_here(model, options) == 0


def test_a_column_of_plain_text_is_refused(static_folder):
    found = encode(static_folder, "--column text")
    assert found.returncode == 1
    assert b"--column names a column of a table, and the input is txt" in found.stderr


@pytest.mark.parametrize(
    ("shell", "says"),
    [("<&-", b"Standard input is closed"), (">&-", b"Standard output is closed"), ("2>&-", b"")],
)
def test_closed_streams_are_told(static_folder, tmp_path, shell, says):
    out = tmp_path / "out.npy"
    options = "" if shell == ">&-" else f"--output {out}"
    found = encode(static_folder, options, shell=shell)
    assert (found.returncode, says in found.stderr) == (0 if shell == "2>&-" else 1, True)
    assert b"Traceback" not in found.stderr
    assert out.exists() == (shell == "2>&-")


def write_table(path, *rows):
    """A CSV or TSV file with the columns id and text, compressed as its name says."""
    out = io.StringIO(newline="")
    delimiter = "\t" if ".tsv" in path.name else ","
    csv.writer(out, delimiter=delimiter).writerows([("id", "text"), *rows])
    compress = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}.get(path.suffix, bytes)
    path.write_bytes(compress(out.getvalue().encode()))


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.TSV.xz", "a.csv.zst"])
def test_encode_reads_a_column_and_keeps_the_others(static_folder, tmp_path, name, capsys):
    rows = [(f"0{i}", text) for i, text in enumerate(LINES)]
    source, out = tmp_path / name.lower(), tmp_path / "out.parquet"
    write_table(source, *rows)
    source = source.rename(tmp_path / name)
    options = ["--input", str(source), "--output", str(out), "--keep"]
    assert main(["encode", str(static_folder), *options]) == 0
    table = pq.read_table(out)
    assert table.select(["id", "text"]).to_pylist() == [{"id": i, "text": t} for i, t in rows]
    expected = FastEncoder.from_pretrained(static_folder).encode(LINES)
    np.testing.assert_allclose(np.stack(table["embedding"].to_numpy()), expected, atol=1e-6)
    [error] = capsys.readouterr().err.splitlines()  # and no bar: this is no terminal
    assert error.startswith("3 sentences, ")
    assert error.endswith(" a second; 1 text without a known word: its vector is zeros")


@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
def test_at_a_terminal_a_bar_gives_way_to_the_summary(static_folder, tmp_path):
    source, out = tmp_path / "in.txt", tmp_path / "out.npy"
    source.write_text("A ship\n" * 200_000)
    command = [sys.executable, "-m", "st_static.cli", "encode", str(static_folder)]
    status, shown = run_at_a_terminal([*command, "--input", str(source), "--output", str(out)])
    assert status == 0
    *bars, end, summary = re.split(r"[\r\n]+", shown.rstrip())
    assert "  0%|" in shown
    assert all("%|" in bar for bar in bars if bar.strip())
    assert not end.strip()  # the bar is wiped out
    assert re.fullmatch(r"200,000 sentences, [\d,]+ a second", summary)


def test_a_bars_rate_goes_by_the_summarys_clock(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(time, "perf_counter", lambda: 50.0)
    monkeypatch.setattr(tqdm.tqdm, "set_postfix_str", lambda bar, text, **_: written.append(text))
    (tmp_path / "in.txt").write_bytes(DATA)
    with (tmp_path / "in.txt").open("rb") as source:
        reader = TextReader(source, "txt")
        assert [len(rows.texts) for rows in followed(reader, source, start=48.0)] == [3]
    assert written == ["3 sentences, 2 a second"]
    assert _summary(Written(3, 0), 2.0, reader, "zero") == written[0]


def test_one_sentence_has_no_rate(static_folder):
    result = encode(static_folder, data=b"A ship\n", shell="> /dev/null")
    assert result.stderr.decode() == "1 sentence\n"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b""),
        ("a.jsonl", b"\n"),
        ("a.csv", b""),
        ("a.csv", b"id,text\n"),
        ("a.tsv.gz", gzip.compress(b"", mtime=0)),
    ],
)
def test_an_input_without_a_text_is_said_to_be(static_folder, tmp_path, capsys, name, data):
    source, out = tmp_path / name, tmp_path / "o.npy"
    source.write_bytes(data)
    assert main(["encode", str(static_folder), "--input", str(source), "--output", str(out)]) == 0
    assert capsys.readouterr().err == f"0 sentences: {source} holds no text\n"
    assert np.load(out).shape == (0, 2)


def test_a_cell_that_may_be_several_rows_is_warned_of(static_folder, tmp_path, capsys):
    source, out = tmp_path / "q.csv", tmp_path / "o.npy"
    source.write_text('id,text\n1,"A ship said.\n2,a ship\n3,keeper"\n4,a\n5,ship\n')
    command = ["encode", str(static_folder), "--input", str(source), "--output", str(out)]
    assert main(command) == 0
    said, warning = capsys.readouterr().err.splitlines()
    assert said.startswith("3 sentences")
    assert warning == (
        f"Warning: 1 row of several lines may be several rows each; the first: {source}, line 2 to "
        "4. If quotes are text in this file, say --quoting none; else --quoting double."
    )
    for quoting, n in (("double", 3), ("none", 5)):
        assert main([*command, "--quoting", quoting]) == 0
        assert re.fullmatch(rf"{n} sentences, .* a second\n", capsys.readouterr().err)
        assert len(np.load(out)) == n
    assert main([*command[:3], str(source.rename(tmp_path / "q.tsv")), *command[4:]]) == 1
    assert "There is no column 'text'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("unknown", "says", "n"),
    [
        ("zero", "3 sentences, .* a second; 1 text without a known word: its vector is zeros", 3),
        ("null", "3 sentences, .* a second; 1 text without a known word, written without a vec", 3),
        ("skip", "2 sentences, .* a second; 1 text without a known word, left out", 2),
    ],
)
def test_texts_without_a_known_word_are_counted(static_folder, tmp_path, capsys, unknown, says, n):
    out = tmp_path / "o.parquet"
    (tmp_path / "in.txt").write_bytes(DATA)
    command = ["encode", str(static_folder), "--input", str(tmp_path / "in.txt"), "--output"]
    assert main([*command, str(out), "--unknown", unknown]) == 0
    assert re.match(says, capsys.readouterr().err)
    table = pq.read_table(out)
    assert len(table) == n
    assert table["embedding"].null_count == (unknown == "null")


def test_encode_reads_compressed_lines_and_objects(static_folder, tmp_path):
    (tmp_path / "a.txt.zst").write_bytes(zstd(DATA))
    (tmp_path / "a.jsonl.xz").write_bytes(lzma.compress(b'{"text": "A ship"}\n\n{"text": "ship"}'))
    for name, n in (("a.txt.zst", 3), ("a.jsonl.xz", 2)):
        paths = ["--input", str(tmp_path / name), "--output", str(tmp_path / "o.npy")]
        assert main(["encode", str(static_folder), *paths]) == 0
        assert len(np.load(tmp_path / "o.npy")) == n


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--input {0}/in.doc --output {0}/o.npy", "in.doc: expected a name that ends with .txt, "),
        ("--input {0}/in.doc --output {0}/o.npy", "Say what it holds with --input_format"),
        ("--input {0}/none --output {0}/o.npy", "There is no file {0}/none."),
        ("--input {0}/in.csv --output {0}/o.npy --unknown null", "There is no null in npy"),
        ("--input {0}/in.txt --output {0}/o.npy --quoting none", "CSV and TSV, and the input is t"),
        ("--input {0} --output {0}/o --quoting none", "Parquet files have no quotes: leave out --"),
        ("--input {0}/a.parquet.gz --output {0}/o.npy", "Parquet is compressed inside"),
        ("--input {0}/in.csv --output {0}/o.csv", "o.csv: expected a name that ends with .npy or"),
        ("--input {0}/in.csv --output {0}/o", "o: expected a name that ends with .npy or .parquet"),
        (
            "--input {0}/in.csv --output {0}/o.npy --output_format parquet",
            "o.npy would hold parquet: let its name end with .parquet",
        ),
        ("--input {0}/in.csv --output {0}", "is a folder: name a file in it"),
        ("--input {0} --input_format csv --output {0}/o", "leave out --input_format"),
        ("--input= --output {0}/o.npy", "a file or folder as --input"),
        ("--input {0}/none/ --output {0}/o", "There is no folder {0}/none/."),
        ("--input {0}/none --output {0}/o --engine ray", "There is no folder {0}/none, which"),
        ("--input {0}/in.csv --output s3://k:s@b/o.npy", "--output is s3://b/o.npy, but"),
        ("--input {0}/n?.parquet --output {0}/o", "but {0}/n?.parquet has none"),
        ("--input {0}", "Many files need a folder to write to: --output DIR"),
        ("--input {0} --output {0}/o", "files that end with .parquet, but {0} has none: name a "),
        ("--input {0} --output o.npy", "{0} has none: name a folder that has some, or one file."),
        ("--input {0}/*.csv --output {0}/o", "end with .parquet, but {0}/*.csv has none"),
        ("--input {0}/in.csv --output {0}/o.npy --engine ray", "--engine is for many files"),
        ("--input xyz://k:s/e@c@a/b --output {0}/o", "xyz://a/b cannot be opened"),
        ("--input {0}/none.csv --output {0}/o.npy", "There is no file {0}/none.csv."),
        ("--input {0}/in.csv --output {0}/o.npy --keep", "--keep needs a table"),
        ("--input {0}/in.csv --output {0}/o.npy --column body", "no column 'body' in"),
    ],
)
def test_encode_refuses_at_once_what_it_does_not_know(tmp_path, capsys, options, says):
    write_table(tmp_path / "in.csv", ("1", "A ship"))
    for name in ("in.doc", "in.txt", "a.parquet.gz"):
        (tmp_path / name).touch()
    before = sorted(tmp_path.iterdir())
    # There is no such model, either: it is not even looked for.
    status = main(["encode", str(tmp_path / "no_model"), *options.format(tmp_path).split()])
    assert status == 1
    error = capsys.readouterr().err
    assert says.format(tmp_path) in error
    assert error.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_encode_goes_on_after_rows_that_cannot_be_read(static_folder, tmp_path, capsys):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"text": "A ship"}\n{broken\n\n{"text": null}\n{"text": "zzz"}\n')
    command = ["encode", str(static_folder), "--input", str(source), "--output"]
    out = tmp_path / "out.parquet"
    assert main([*command, str(out)]) == 1
    assert f"Error: {source}, line 2: expected a JSON object" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, str(out), "--on_error", "null"]) == 0
    error = capsys.readouterr().err
    assert "4 sentences" in error
    assert "; 1 text without a known word" in error
    assert (
        f"2 rows could not be read, written without a vector; the first: {source}, line 2" in error
    )
    assert pq.read_table(out)["embedding"].is_null().to_pylist() == [False, True, True, False]
    assert main([*command, str(out), "--on_error", "skip", "--null", "empty"]) == 0
    assert "1 row could not be read, left out; the first:" in capsys.readouterr().err
    assert pq.read_table(out)["text"].to_pylist() == ["A ship", "", "zzz"]
    assert main([*command, str(out), "--on_error", "skip", "--unknown", "error"]) == 1
    assert "The text in line 5 has no word that the model knows: 'zzz'" in capsys.readouterr().err


@pytest.mark.parametrize("on_error", ["fail", "null", "skip"])
def test_a_quote_that_is_never_closed_ends_the_run(static_folder, tmp_path, capsys, on_error):
    source, out = tmp_path / "quote.csv", tmp_path / "out.npy"
    source.write_text('id,text\n1,A ship\n2,"A ship\n' + "3,keeper\n" * 5000)
    options = ["--input", str(source), "--output", str(out), "--on_error", on_error]
    assert main(["encode", str(static_folder), *options]) == 1
    assert f"Error: {source}, line 3: a quote is opened and never closed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="not on this system")
@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_a_full_disk_is_one_line(static_folder, format):
    data = b"A ship\n" * 2000
    result = encode(static_folder, f"--output_format {format}", data=data, shell="> /dev/full")
    assert result.returncode == 1
    errors = [line for line in result.stderr.decode().splitlines() if line and "[" not in line[:40]]
    assert errors == [
        "Error: No space left on the disk of the output (or of temporary files): make room, or "
        "write to another disk."
    ]


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_a_reader_that_stops_is_no_error(static_folder, format):
    data = b"A ship, keeper\n" * 200_000
    options = f"--output_format {format}"
    result = encode(static_folder, options, data=data, shell="| head -c 10 > /dev/null")
    for ugly in (b"Error", b"Traceback", b"Exception", b"Broken"):
        assert ugly not in result.stderr


def test_without_a_model_the_one_in_the_package_is_taken(tmp_path, capsys):
    texts, out = tmp_path / "texts.txt", tmp_path / "out.npy"
    texts.write_text("Read rows from a file.\n")
    assert main(["encode", "--input", str(texts), "--output", str(out)]) == 0
    assert "No model is named: taking st-static/english-384." in capsys.readouterr().err
    expected = FastEncoder.from_pretrained("st-static/english-384").encode(
        ["Read rows from a file."]
    )
    np.testing.assert_array_equal(np.load(out), expected)
    assert main(["encode", str(texts)]) == 1
    assert f"say --input {texts}." in capsys.readouterr().err
