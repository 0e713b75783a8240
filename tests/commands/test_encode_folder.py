"""`st-static encode` of a folder of Parquet files, here and on a Ray cluster of two nodes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folder_runs import WORDS, run, two_nodes, write_model

from st_static import FastEncoder
from st_static.arguments import has_secrets
from st_static.cluster.parquet_folder import FolderEncoder, FolderPair
from st_static.files import own_path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "ours")


@pytest.fixture
def lake(tmp_path):
    """Five files in two folders, one without a row, and one that is none of them."""
    generator = np.random.default_rng(0)
    for number in range(5):
        n_rows = 0 if number == 3 else 40 + number
        texts = [" ".join(generator.choice([*WORDS, "unheard"], 4)) for _ in range(n_rows)]
        file = tmp_path / "lake" / f"year={number % 2}" / f"part-{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"id": range(n_rows), "text": pa.array(texts, pa.string())})
        pq.write_table(table, file)
    (tmp_path / "lake" / "README.md").write_text("not a table")
    return tmp_path / "lake"


def written(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(Path(folder).rglob("*.parquet"))
    }


def test_each_file_becomes_one_with_the_same_columns_and_vectors(model, lake, tmp_path, capsys):
    assert run(model, lake, tmp_path / "out") == 0
    encoder = FastEncoder.from_pretrained(model)
    sources = sorted(lake.rglob("*.parquet"))
    assert len(written(tmp_path / "out")) == len(sources) == 5
    for source in sources:
        before = pq.ParquetFile(source).read()
        after = pq.ParquetFile(tmp_path / "out" / source.relative_to(lake)).read()
        assert after.drop_columns("embedding").to_pylist() == before.to_pylist()
        assert after.schema.names == ["id", "text", "embedding"]
        assert after.schema.field("embedding").type == pa.list_(pa.float32(), 8)
        if len(before):
            vectors = np.stack(after["embedding"].to_numpy())
            np.testing.assert_array_equal(vectors, encoder.encode(before["text"]))
    assert "5 files written\n167 sentences" in capsys.readouterr().err


def test_a_second_run_writes_what_is_missing_or_has_changed(model, lake, tmp_path, capsys):
    run(model, lake, tmp_path / "out")
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*.parquet")}
    gone, old, broken, *others = sorted(times)
    gone.unlink()
    broken.write_bytes(b"PAR1")
    # Another file in its place, which is older than what was written.
    changed = lake / old.relative_to(tmp_path / "out")
    pq.write_table(pa.table({"id": [1], "text": ["a ship"]}), changed)
    os.utime(changed, ns=(0, 0))
    capsys.readouterr()
    assert run(model, lake, tmp_path / "out") == 0
    assert "3 files written, 2 there already" in capsys.readouterr().err
    assert gone.is_file()
    assert pq.read_table(old)["text"].to_pylist() == ["a ship"]
    assert pq.read_schema(broken).names == ["id", "text", "embedding"]
    assert all(file.stat().st_mtime_ns == times[file] for file in others)


def test_a_place_that_cannot_be_written_is_refused(model, lake, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    for output, says in (
        (tmp_path / "notes.txt", "notes.txt is a file"),
        (lake.parent / "no" / ".." / lake.name, "no, from which `..` leads back"),
    ):
        assert run(model, lake, output) == 1
        assert says in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not (lake.parent / "no").exists()


def test_vectors_whose_input_is_gone_are_named(model, lake, tmp_path, capsys):
    run(model, lake, tmp_path / "out")
    (lake / "year=1" / "part-1.parquet").unlink()
    capsys.readouterr()
    assert run(model, lake, tmp_path / "out") == 0
    said = "holds 1 more, whose input is gone, such as year=1/part-1.parquet"
    assert said in capsys.readouterr().err
    assert run(model, lake / "year=0" / "*.parquet", tmp_path / "some") == 0
    assert "gone" not in capsys.readouterr().err


def test_a_run_that_wrote_nothing_can_be_run_otherwise(model, lake, tmp_path, capsys):
    assert run(model, lake, tmp_path / "out", "--column", "nope") == 1
    assert "no column 'nope'" in capsys.readouterr().err
    (tmp_path / "out" / "_seen_by_nodes_1").touch()  # as one leaves it that is killed at its check
    assert run(model, lake, tmp_path / "out") == 0


@pytest.mark.parametrize("record", ["[]", "{", "[" * 100_000, "\ufeff{}"])
def test_a_broken_record_in_the_target_is_named(model, lake, tmp_path, capsys, record):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_st_static.json").write_text(record, "utf-8")
    assert run(model, lake, tmp_path / "out") == 1
    assert "out/_st_static.json is" in capsys.readouterr().err


def test_another_model_or_option_does_not_mix_with_what_is_there(model, lake, tmp_path, capsys):
    run(model, lake, tmp_path / "out")
    before = written(tmp_path / "out")
    other = write_model(tmp_path / "other", seed=1)
    assert run(other, lake, tmp_path / "out") == 1
    assert "was written with another model: choose another folder" in capsys.readouterr().err
    assert run(model, lake / "year=0", tmp_path / "out") == 1
    assert "with another input:" in capsys.readouterr().err
    assert run(model, lake, tmp_path / "out", "--dtype", "float16") == 1
    assert "with another dtype:" in capsys.readouterr().err
    assert written(tmp_path / "out") == before


def test_two_runs_at_once_do_not_mix(model, lake, tmp_path):
    """Before the first has written a file, the second could take the folder for its own."""
    output = tmp_path / "out"
    program = [sys.executable, "-m", "st_static.cli", "encode", model, "--input", str(lake)]
    runs = {
        dtype: subprocess.Popen(
            [*program, "--output", str(output), "--dtype", dtype], stderr=subprocess.PIPE, text=True
        )
        for dtype in ("float32", "float16")
    }
    said = {dtype: run.communicate()[1] for dtype, run in runs.items()}
    [won] = [dtype for dtype, run in runs.items() if run.returncode == 0]
    [error] = [said[dtype] for dtype in runs if dtype != won]
    refusals = f"Another process is writing {output}", "was written with another dtype"
    assert any(refusal in error for refusal in refusals)
    assert error.count("\n") == 1
    schemas = [pq.read_schema(file) for file in output.rglob("*.parquet")]
    kinds = {schema.field("embedding").type.value_type for schema in schemas}
    assert kinds == {pa.float32() if won == "float32" else pa.float16()}
    assert len(written(output)) == 5
    assert {file.name for file in output.iterdir()} == {"_st_static.json", "year=0", "year=1"}


def test_a_folder_that_another_process_writes_is_refused(model, lake, tmp_path, capsys):
    pairs = FolderPair.find(str(lake), str(tmp_path / "out"))
    with pairs.claimed(FolderEncoder(model)):
        assert run(model, lake, tmp_path / "out", "--dtype", "float16") == 1
    assert f"Another process is writing {tmp_path / 'out'}. Wait until" in capsys.readouterr().err


def test_a_run_that_was_killed_while_it_marked_the_folder_is_no_hindrance(model, lake, tmp_path):
    (tmp_path / "out").mkdir()
    ours = own_path(tmp_path / "out" / "_st_static.json")
    ours.with_name(ours.name.replace(f"-{os.getpid()}-", f"-{2**22 + 1}-")).touch()
    (tmp_path / "out" / ".st_static.lock").touch()
    assert run(model, lake, tmp_path / "out") == 0
    assert len(written(tmp_path / "out")) == 5
    assert not list((tmp_path / "out").glob(".*"))


def test_a_folder_of_the_user_is_left_alone(model, lake, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert run(model, lake, tmp_path / "out") == 1
    assert "holds something else already" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]
    assert run(model, lake, lake / "out") == 1
    assert "are inside of each other" in capsys.readouterr().err


def test_rows_that_cannot_be_read_are_counted_or_end_the_run(model, lake, tmp_path, capsys):
    broken = lake / "year=0" / "part-0.parquet"
    views = pa.array(["a ship", None], pa.string_view())  # of which Arrow's filter takes none
    pq.write_table(pa.table({"id": [1, 2], "text": views, "note": views}), broken)
    assert run(model, lake, tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert f"{broken}, row 2: expected a text, but it is missing" in error
    assert run(model, lake, tmp_path / "null", "--on_error", "null") == 0
    assert "1 row could not be read, written without a vector; the first" in capsys.readouterr().err
    table = pq.ParquetFile(tmp_path / "null" / "year=0" / "part-0.parquet").read()
    assert table["embedding"].null_count == 1
    assert run(model, lake, tmp_path / "skip", "--on_error", "skip") == 0
    assert len(pq.ParquetFile(tmp_path / "skip" / "year=0" / "part-0.parquet").read()) == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.string_view()])
def test_texts_without_a_known_word_are_null_or_left_out(model, tmp_path, capsys, kind):
    lake = tmp_path / "words"
    lake.mkdir()
    texts = ["unheard", "a ship", "", "keeper"]
    pq.write_table(pa.table({"text": pa.array(texts, kind)}), lake / "a.parquet")
    assert run(model, lake, tmp_path / "null", "--unknown", "null") == 0
    said = capsys.readouterr().err
    assert "4 sentences" in said
    assert "2 texts without a known word, written without a vector" in said
    table = pq.read_table(tmp_path / "null" / "a.parquet")
    assert table["embedding"].is_null().to_pylist() == [True, False, True, False]
    assert run(model, lake, tmp_path / "skip", "--unknown", "skip") == 0
    assert "2 texts without a known word, left out" in capsys.readouterr().err
    assert pq.read_table(tmp_path / "skip" / "a.parquet")["text"].to_pylist() == texts[1::2]
    assert run(model, lake, tmp_path / "skip", "--unknown", "skip") == 0
    assert "0 files written, 1 there already" in capsys.readouterr().err


def test_wildcards_choose_files(model, lake, tmp_path):
    assert run(model, lake / "year=1" / "*-3.parquet", tmp_path / "out") == 0
    assert list(written(tmp_path / "out")) == ["part-3.parquet"]
    pq.write_table(pa.table({"text": ["a"]}), lake / "top.parquet")
    assert run(model, lake / "**" / "*[1p].parquet", tmp_path / "any") == 0
    assert list(written(tmp_path / "any")) == ["top.parquet", "year=1/part-1.parquet"]
    assert run(model, f"file://{lake}/*/part-3.parquet", f"file://{tmp_path}/address") == 0
    assert list(written(tmp_path / "address")) == ["year=1/part-3.parquet"]
    assert run(model, lake / "*" / "part-[01].parquet", tmp_path / "two") == 0
    assert list(written(tmp_path / "two")) == ["year=0/part-0.parquet", "year=1/part-1.parquet"]


@pytest.mark.parametrize("engine", ["here", "ray"])
def test_a_killed_run_goes_on(model, lake, tmp_path, engine, request):
    options = request.getfixturevalue("on_cluster") if engine == "ray" else []
    texts = pa.array(["a ship sails " * 20] * 20_000)
    for number in range(20):
        pq.write_table(pa.table({"text": texts}), lake / f"large-{number}.parquet")
    assert run(model, lake, tmp_path / "whole") == 0
    output = tmp_path / "out"
    arguments = ["encode", model, "--input", str(lake), "--output", str(output), *options]
    process = subprocess.Popen([sys.executable, "-m", "st_static.cli", *arguments])
    while process.poll() is None and len(list(output.glob("large-*.parquet"))) < 3:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    times = {file: file.stat().st_mtime_ns for file in output.rglob("*.parquet")}
    assert 3 <= len(times) < 25
    left = output / ".large-19.parquet.elsewhere-1-1.tmp"  # by another machine, long ago
    left.touch()
    os.utime(left, (0, 0))
    assert run(model, lake, output, *options) == 0
    assert written(output) == written(tmp_path / "whole")
    assert not list(output.rglob("*.tmp"))
    assert all(file.stat().st_mtime_ns == then for file, then in times.items())


def test_errors_name_a_pair_by_its_source(lake, tmp_path):
    pairs = FolderPair.find(str(lake), str(tmp_path / "out")).left()
    assert str(lake / "year=0" / "part-0.parquet") in map(str, pairs)


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as address:
        yield address


@pytest.fixture
def on_cluster(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    return ["--engine", "ray"]


def test_a_cluster_writes_the_same_files(model, lake, tmp_path, on_cluster, capsys):
    assert run(model, lake, tmp_path / "here") == 0
    assert run(model, lake, tmp_path / "cluster", *on_cluster) == 0
    assert written(tmp_path / "cluster") == written(tmp_path / "here")
    assert not list((tmp_path / "cluster").glob("_seen*"))
    capsys.readouterr()
    assert run(model, lake, tmp_path / "cluster", *on_cluster) == 0
    assert "0 files written, 5 there already" in capsys.readouterr().err


def test_a_fault_in_a_file_is_told_as_here(model, lake, tmp_path, on_cluster, capsys):
    pq.write_table(pa.table({"text": [None, "a"]}), lake / "bad.parquet")
    assert run(model, lake, tmp_path / "out", *on_cluster) == 1
    error = capsys.readouterr().err
    assert "bad.parquet, row 1: expected a text, but it is missing" in error
    assert error.count("\n") == 1


def test_an_address_that_does_not_answer_is_told_at_once(
    model, lake, tmp_path, capsys, monkeypatch
):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:1")
    assert run(model, lake, tmp_path / "out", "--engine", "ray") == 1
    error = capsys.readouterr().err
    assert "No Ray answers at ray://127.0.0.1:1" in error


SECRET = "wJalrXUtnFEMI"


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize(
    "address",
    [
        f"s3://AKIA:{SECRET}@bucket/lake",
        f"s3://AKIA:12/{SECRET}@bucket/lake",
        f"s3://{SECRET}@bucket/lake?region=eu-west-1",
        f"S3://bucket/lake?region=eu-west-1&access_key=AKIA&secret_key={SECRET}",
        f"s3://bucket/lake?secret%5Fkey={SECRET}",
        f"abfs://lake:{SECRET}@account.dfs.core.windows.net/here",
        f"abfs://lake@account.dfs.core.windows.net/here?sig={SECRET}",
    ],
)
def test_rays_dashboard_gets_no_secret(model, lake, tmp_path, capsys, side, address):
    """It shows the command line."""
    sides = (address, tmp_path / "out") if side == "input" else (lake, address)
    assert run(model, *sides, "--engine", "ray") == 1
    error = capsys.readouterr().err
    assert f"--{side} has credentials in its address" in error
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in error
    assert SECRET not in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "address",
    [
        "data/lake",
        "s3://bucket/user@example.org/a:b?region=eu-west-1&endpoint_override=localhost:9000",
        "gs://anonymous@bucket/lake",
        "abfs://lake@account.dfs.core.windows.net/here",
        "hdfs://namenode:8020/user@example.org",
    ],
)
def test_addresses_without_secrets_are_fine(address):
    assert not has_secrets(address)
