"""`kill -9` at random moments of a build, and a re-run: the model must be the same to the byte.

On a Ray cluster, of an actor, of the driver, and of a node.
"""

import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from small_build import build_in_small_shards, model_bytes, small_config, write_corpus

# A kill in each of these stages, after at most so many changes that can be seen in its folder.
KILLS = {
    "sentences": 12,
    "vocabulary": 6,
    "selection": 6,
    "extraction": 8,
    "pca": 2,
    "distillation": 20,
}
PATIENCE = 300  # seconds that a build may take on a slow machine before the test gives up


@pytest.fixture
def start():
    """Start a build in a process of its own.

    It is the fork of a process that has done the heavy imports and computed nothing.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["st_static.distill.pipeline"])
    processes: list[BaseProcess] = []

    def start(config, **options):
        process = context.Process(target=build_in_small_shards, args=(config,), kwargs=options)
        process.start()
        processes.append(process)
        return process

    yield start
    for process in processes:
        kill(process)


def kill(process):
    """Kill a build and its workers."""
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
    process.join(PATIENCE)


def finish(process):
    process.join(PATIENCE)
    assert process.exitcode == 0


def files_of(stage, work_dir):
    """The files of a running stage, and when each was changed."""
    found = set()
    with suppress(FileNotFoundError):  # while they are looked at, files come and go
        for path in work_dir.glob(f"{stage}-*.partial/**/*"):
            found.add((path, path.stat().st_mtime_ns))
    return frozenset(found)


def wait_for(stage, n_changes, process, work_dir):
    """Wait until a stage has begun and its files have changed so many times, or it is complete."""
    deadline = time.monotonic() + PATIENCE
    states: set[frozenset] = set()
    while process.is_alive() and len(states) <= n_changes:
        assert time.monotonic() < deadline
        folders = list(work_dir.glob(f"{stage}-*"))
        if any(folder.suffix != ".partial" for folder in folders):
            return
        if folders:
            states.add(files_of(stage, work_dir))
        time.sleep(0.001 if states else 0.01)


@pytest.fixture(scope="module")
def sources(small_teacher, tmp_path_factory):
    """A teacher, and a corpus."""
    folder = tmp_path_factory.mktemp("sources")
    return small_teacher, write_corpus(folder / "corpus.txt", n_sentences=3000)


def test_a_build_that_was_killed_in_every_stage_gives_the_same_bytes(start, sources, tmp_path):
    def config(name):
        config = small_config(*sources, tmp_path / name, workers=2)
        training = replace(config.distillation, max_steps=60, eval_steps=4)
        return replace(config, distillation=training)

    whole, killed = config("whole"), config("killed")
    finish(start(whole))

    rng = random.Random(0)
    for stage, most in KILLS.items():
        process = start(killed)
        wait_for(stage, rng.randint(1, most), process, Path(killed.work_dir))
        kill(process)
        assert process.exitcode == -signal.SIGKILL
        assert not Path(killed.output).exists()
    finish(start(killed))
    assert model_bytes(Path(killed.output)) == model_bytes(Path(whole.output))


def actors(raylets):
    """The processes that keep a teacher, on the nodes with these raylets."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in raylets and b"_Keeper" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes as Linux lists them")
def test_deaths_on_a_cluster_leave_the_same_bytes(start, sources, tmp_path):
    pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')
    from ray_nodes import two_nodes_for_clients

    whole = small_config(*sources, tmp_path / "whole", workers=1)
    killed = small_config(*sources, tmp_path / "killed", workers=1)
    work_dir = Path(killed.work_dir)
    with two_nodes_for_clients() as (nodes, for_clients):
        processes = [node.all_processes["raylet"][0].process for node in nodes.list_all_nodes()]
        raylets = {process.pid for process in processes}
        killed = replace(killed, engine="ray")
        finish(start(whole))

        process = start(killed, ray_address=nodes.address)
        wait_for("extraction", 3, process, work_dir)
        os.kill(actors(raylets)[0], signal.SIGKILL)
        wait_for("extraction", 6, process, work_dir)
        kill(process)
        deadline = time.monotonic() + PATIENCE
        while actors(raylets):  # until Ray ends them, they go on writing
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not Path(killed.output).exists()
        kept = {path: time_ for path, time_ in files_of("extraction", work_dir) if is_shard(path)}
        assert len(kept) > 1

        process = start(killed, ray_address=for_clients)
        written = files_of("extraction", work_dir)
        wait_for("extraction", 3, process, work_dir)
        nodes.remove_node(*nodes.worker_nodes, allow_graceful=False)
        while process.is_alive() and list(work_dir.glob("extraction-*.partial")):
            written |= files_of("extraction", work_dir)
            time.sleep(0.001)
        shards = [(path, time_) for path, time_ in written if is_shard(path)]
        assert set(kept.items()) <= set(shards)
        assert len(dict(shards)) == len(shards)  # none was written again
        finish(process)
    assert model_bytes(Path(killed.output)) == model_bytes(Path(whole.output))


def is_shard(path):
    return path.name.startswith("shard-")
