"""`st-static encode`, run as users run it."""

import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer

from st_static.model.export import export_model
from st_static.model.tokenizer import build_tokenizer

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


def test_encode_from_stdin_to_a_file_and_to_a_pipe(static_folder, tmp_path):
    expected = SentenceTransformer(str(static_folder), device="cpu").encode(LINES)
    result = encode(static_folder, shell=f"> {tmp_path / 'out.npy'}")
    assert result.returncode == 0, result.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-6)
    assert b"3 sentences, " in result.stderr
    piped = encode(static_folder, shell="| cat").stdout
    np.testing.assert_array_equal(np.load(io.BytesIO(piped)), np.load(tmp_path / "out.npy"))


def test_encode_from_parquet_to_parquet(static_folder, tmp_path):
    pq.write_table(pa.table({"body": LINES}), tmp_path / "in.parquet")
    paths = [f"--input {tmp_path / 'in.parquet'}", f"--output {tmp_path / 'out.parquet'}"]
    formats = ["--input_format parquet --column body --output_format parquet --dtype float16"]
    result = encode(static_folder, *paths, *formats)
    assert result.returncode == 0, result.stderr
    assert result.stdout == b""
    table = pq.read_table(tmp_path / "out.parquet")
    assert table["text"].to_pylist() == LINES
    assert np.linalg.norm(table["embedding"][0].as_py()) == pytest.approx(1, abs=1e-3)


def test_encode_says_what_is_wrong_in_a_line(static_folder, tmp_path):
    bad = encode(static_folder, "--input_format jsonl", data=b'{"text": null}\n')
    assert bad.returncode == 1
    assert b"Error: Line 1: expected a text, but it is missing" in bad.stderr
    missing = encode(static_folder, f"--input {tmp_path / 'none.txt'} --output {tmp_path / 'o'}")
    assert missing.returncode == 1
    assert b"Traceback" not in missing.stderr
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


def test_formats_follow_the_names_and_the_input_is_not_overwritten(static_folder, tmp_path):
    texts = tmp_path / "in.jsonl"
    texts.write_text("".join(f'{{"text": "{line}"}}\n' for line in LINES))
    out = tmp_path / "out.parquet"
    assert encode(static_folder, f"--input {texts} --output {out}").returncode == 0
    assert pq.read_table(out)["text"].to_pylist() == LINES
    same = encode(static_folder, f"--input {texts} --output {texts} --output_format npy")
    assert b"is the input" in same.stderr
    assert texts.read_text().startswith("{")
    missing = encode(static_folder, f"--input {texts} --output {tmp_path}/none/out.npy")
    assert b"There is no folder" in missing.stderr
