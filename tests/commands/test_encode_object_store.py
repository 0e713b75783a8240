"""`st-static encode` from and to an object store: S3 as moto serves it on this machine."""

import subprocess
from contextlib import contextmanager
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folder_runs import run, two_nodes, write_model
from installs import python_of

from st_static.cluster import places
from st_static.cluster.places import Place, check_access, seen_by_others

pytestmark = pytest.mark.slow

NAMES = ["year=0/part-0.parquet", "year=1/part-1.parquet"]
TABLES = [
    pa.table({"id": range(40), "text": ["a ship sails", "the keeper"] * 20}),
    pa.table({"id": [7, 8], "text": ["unheard", "keeper of a ship"]}),
]


class Store:
    """A server of buckets on this machine, with one of them."""

    def __init__(self, port):
        self._endpoint = quote(f"http://127.0.0.1:{port}", safe="")

    def address(self, path, *options):
        """The address of a file or folder."""
        known = (f"endpoint_override={self._endpoint}", "scheme=http", "region=us-east-1")
        return f"s3://bucket/{path}?{'&'.join([*known, *options])}"

    def written(self, folder):
        """All that is in a folder, by its paths within."""
        place = Place.parse(self.address(folder))
        files = {}
        for info in place.files():
            with place.at(info.path).read() as stream:
                files[place.inside(info.path)] = stream.read()
        return files

    def write(self, path, table):
        """Write a Parquet file."""
        with Place.parse(self.address(path)).written() as stream:
            pq.write_table(table, stream)


# On a port that is free, until its input ends, as it does with the process that started it.
SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def served():
    """The port of a server of S3 without a bucket."""
    command = [str(python_of("object-store")), "-c", SERVER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        try:
            yield int(server.stdout.readline())
        finally:
            server.stdin.close()


@pytest.fixture(scope="module")
def store():
    """A store with two Parquet files in folders, and its credentials in the environment."""
    with served() as port, pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "key")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")  # it would be looked for outside
        store = Store(port)
        bucket = Place.parse(store.address("", "allow_bucket_creation=true"))
        bucket.filesystem.create_dir("bucket")
        for name, table in zip(NAMES, TABLES, strict=True):
            store.write(f"lake/{name}", table)
        yield store


@pytest.fixture(scope="module")
def cluster(store):
    """Two nodes, which have the store's credentials in their environment."""
    with two_nodes() as address:
        yield address


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "ours")


def tables(files):
    return {
        name: pq.ParquetFile(pa.BufferReader(content)).read()
        for name, content in files.items()
        if name.endswith(".parquet")
    }


def test_columns_and_vectors_are_those_of_local_files(store, model, tmp_path):
    assert run(model, store.address("lake"), store.address("out")) == 0
    for name, table in zip(NAMES, TABLES, strict=True):
        (tmp_path / "lake" / name).parent.mkdir(parents=True)
        pq.write_table(table, tmp_path / "lake" / name)
    assert run(model, tmp_path / "lake", tmp_path / "out") == 0
    here = {name: (tmp_path / "out" / name).read_bytes() for name in NAMES}
    files = store.written("out")
    assert sorted(files) == ["_st_static.json", *NAMES]
    assert tables(files) == tables(here)
    assert tables(files)[NAMES[1]].column_names == ["id", "text", "embedding"]
    # One side may be here.
    assert run(model, store.address("lake"), tmp_path / "down") == 0
    assert (tmp_path / "down" / NAMES[0]).read_bytes() == files[NAMES[0]]


def test_a_second_run_writes_what_has_changed(store, model, capsys):
    for name, table in zip(NAMES, TABLES, strict=True):
        store.write(f"changing/{name}", table)
    source, target = store.address("changing"), store.address("again")
    assert run(model, source, target) == 0
    before = store.written("again")
    capsys.readouterr()
    assert run(model, source, target) == 0
    assert "0 files written, 2 there already" in capsys.readouterr().err
    assert store.written("again") == before
    store.write(f"changing/{NAMES[1]}", pa.table({"id": [1], "text": ["a ship"]}))
    assert run(model, source, target) == 0
    assert "1 file written, 1 there already" in capsys.readouterr().err
    after = store.written("again")
    assert after[NAMES[0]] == before[NAMES[0]]
    assert tables(after)[NAMES[1]]["text"].to_pylist() == ["a ship"]


def test_wildcards_choose_files(store, model):
    assert run(model, store.address("lake/**/part-[1-9].parquet"), store.address("some")) == 0
    assert sorted(store.written("some")) == ["_st_static.json", NAMES[1]]


def test_a_cluster_writes_the_same_bytes(store, model, cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    assert run(model, store.address("lake"), store.address("here")) == 0
    assert run(model, store.address("lake"), store.address("ray"), "--engine", "ray") == 0
    assert store.written("ray") == store.written("here")


def test_access_is_checked(store):
    with seen_by_others(Place.parse(store.address("checked"))) as seen:
        check_access(seen)
        assert len(store.written("checked")) == 1
    with pytest.raises(ValueError, match=r"^cannot read bucket/checked \((?!.*_seen_by)"):
        check_access(seen)
    assert store.written("checked") == {}


def test_what_a_killed_run_left_is_removed(store, monkeypatch):
    folder = Place.parse(store.address("left"))
    with folder.below("_seen_by_nodes_1").written() as stream:
        stream.write(b"_seen_by_nodes_1")
    with seen_by_others(folder):
        assert len(store.written("left")) == 2  # it may be of a run at its check
    monkeypatch.setattr(places, "_CHECK_SECONDS", -60)
    with seen_by_others(folder) as seen:
        assert list(store.written("left")) == [folder.inside(seen.path)]
