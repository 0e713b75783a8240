"""Processes of one machine: results in any order, a process for each GPU."""

import contextlib
import os
import pickle
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file, save_file
from small_build import model_bytes, small_config, write_corpus

from st_static.distill import engines, extraction
from st_static.distill.config import BuildConfig
from st_static.distill.engines import Processes, map_shards
from st_static.distill.pipeline import build
from st_static.distill.sources import check_places
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ray of this machine that takes it to have two GPUs, and is started once at most."""
    ray = pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')
    init, started = ray.init, []

    def init_once(*arguments, **options):
        started.append(arguments)
        assert len(started) == 1
        return init(*arguments, **options, num_cpus=2, num_gpus=2)

    monkeypatch.setattr(ray, "init", init_once)


def device_of(item: int) -> tuple[int, str, int]:
    """What a process sees, which takes its time so that both get items."""
    time.sleep(0.2)
    return item, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


def test_one_worker_works_in_this_process_and_takes_an_item_when_it_is_needed():
    assert Processes(1).n_workers == 1
    taken = []

    def items():
        for item in range(5):
            taken.append(item)
            yield item

    results = Processes(1).map(lambda item: (item, os.getpid()), items())
    assert next(results) == (0, os.getpid())
    assert taken == [0]
    assert [item for item, _ in results] == [1, 2, 3, 4]


def test_two_workers_give_each_result_once():
    assert Processes(2).n_workers == 2
    # By value: for a function of this module each process would import torch.
    results = dict(Processes(2).map(lambda item: (item, os.getpid()), range(20)))
    assert set(results) == set(range(20))
    assert os.getpid() not in results.values()


def test_a_single_item_is_done_in_this_process():
    assert list(Processes(2).map(lambda item: (item, os.getpid()), iter([3]))) == [(3, os.getpid())]
    assert list(Processes(2).map(abs, [])) == []


def test_an_error_of_a_stream_of_items_ends_the_work():
    def items():
        yield from range(7)
        raise ValueError("the stream broke")

    with pytest.raises(ValueError, match="the stream broke"):
        list(Processes(2).map(abs, items()))


def test_the_bar_tells_the_sentences_of_all_workers_in_a_second(monkeypatch):
    seconds = iter([10.0, 11.0, 12.0, 14.0])
    monkeypatch.setattr(engines.time, "perf_counter", lambda: next(seconds))
    shown = []

    class Bar:
        def __init__(self, *arguments):
            shown.append(arguments)

        def __enter__(self):
            return self

        def __exit__(self, *error): ...

        def update(self):
            shown.append("shard")

        def set_postfix_str(self, text, refresh):
            shown.append(text)

    monkeypatch.setattr(engines, "bar", Bar)

    class Fixed:
        n_workers = 1

        def map(self, function, items):
            return map(function, items)

    counts = map_shards(int, ["1000", "2000", "3000"], Fixed(), "x", int)
    assert list(counts) == [1000, 2000, 3000]
    assert shown == [
        *[("x", 3, "shard"), "1,000 sentences/s", "shard", "1,500 sentences/s", "shard"],
        *["1,500 sentences/s", "shard"],
    ]


def test_each_gpu_has_a_process(two_gpus: None):
    from ray import cloudpickle

    from st_static.cluster.ray_cluster import ray_cluster

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with ray_cluster("local") as cluster:
        results = list(Processes(devices=lambda: cluster).map_on_devices(device_of, range(20)))
    assert sorted(item for item, _, _ in results) == list(range(20))
    assert {(gpu, process) for _, gpu, process in results} == {
        ("0", next(process for _, gpu, process in results if gpu == "0")),
        ("1", next(process for _, gpu, process in results if gpu == "1")),
    }


def test_one_device_is_used_by_this_process():
    assert set(Processes().map_on_devices(lambda _: os.getpid(), [1, 2])) == {os.getpid()}


def test_a_build_on_two_devices_has_the_bytes_of_one(
    monkeypatch, two_gpus, tmp_path: Path, small_teacher
):
    corpus = write_corpus(tmp_path / "corpus.txt", n_sentences=3000)
    monkeypatch.setattr(extraction, "LEAST_TOKENS", 500)

    def built(name: str) -> dict[str, bytes]:
        config = small_config(small_teacher, corpus, tmp_path / name)
        build(config)
        return model_bytes(Path(config.output))

    one = built("one")
    monkeypatch.setattr(engines, "_has_several_gpus", lambda device: True)
    assert built("two") == one


@pytest.mark.parametrize(
    ("device", "kinds", "expected"),
    [
        (None, ["H200", "H200", "H200"], True),
        ("cuda", ["H200", "H200"], True),
        ("cuda", ["H200"], False),
        ("cuda:1", ["H200", "H200"], False),
        ("cpu", ["H200", "H200"], False),
        (None, ["H200", "T4", "H200"], False),
    ],
)
def test_several_gpus_of_one_kind_are_used(monkeypatch, caplog, device, kinds, expected):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(kinds))
    monkeypatch.setattr("torch.cuda.get_device_name", kinds.__getitem__)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    assert engines._has_several_gpus(device) is expected
    odd = "runs on one GPU of 3, as those of several kinds (H200, T4) round differently"
    assert (odd in caplog.text) == ("T4" in kinds)


def test_without_ray_one_gpu_is_used_and_the_extra_named(monkeypatch, caplog):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: "H200")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not engines._has_several_gpus(None)
    assert [record.getMessage() for record in caplog.records] == [
        "The teacher runs on one GPU of 4, as Ray is not installed. To use all: pip install "
        '"st-static[cluster]".'
    ]


@pytest.mark.parametrize(
    ("device", "n_gpus", "expected"), [(None, 0, "cpu"), (None, 2, "cuda"), ("cpu", 2, "cpu")]
)
def test_the_teacher_runs_on_gpus_of_a_cluster_that_has_some(monkeypatch, device, n_gpus, expected):
    with cluster_engine(monkeypatch, device, n_gpus) as engine:
        assert engine.teacher_on == expected


def test_gpus_that_a_cluster_does_not_have(monkeypatch):
    with (
        pytest.raises(ValueError, match="no node of the Ray cluster has a GPU: set it to cpu"),
        cluster_engine(monkeypatch, "cuda", 0),
    ):
        pass


def cluster_engine(monkeypatch, device, n_gpus):
    """The engine of a recipe on a cluster with that many GPUs."""
    pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')
    from st_static.cluster.ray_cluster import RayCluster

    @contextlib.contextmanager
    def ray_cluster(processors: int, on_gpus: bool):
        cluster = RayCluster("", processors, on_gpus)
        monkeypatch.setattr("ray.cluster_resources", lambda: {"GPU": n_gpus})
        monkeypatch.setattr("ray.nodes", lambda: [{"Alive": True, "Resources": {"CPU": 1}}])
        yield cluster

    monkeypatch.setattr("st_static.cluster.ray_cluster.ray_cluster", ray_cluster)
    config = BuildConfig(engine="ray", teacher=TeacherConfig(device=device))
    return engines.build_engine(config)


@pytest.fixture(scope="module")
def teacher_config(small_teacher) -> TeacherConfig:
    return TeacherConfig(model=str(small_teacher), expect={})


def test_a_teacher_is_loaded_again_elsewhere(teacher_config: TeacherConfig):
    teacher = Teacher.load(teacher_config)
    again = pickle.loads(pickle.dumps(teacher))
    assert again is not teacher
    assert (again.fingerprint(), again.dtype) == (teacher.fingerprint(), teacher.dtype)
    assert len(pickle.dumps(teacher)) < 2_000  # its recipe, and no weights
    assert pickle.loads(pickle.dumps(teacher)) is again  # once in a process


def test_other_weights_elsewhere_are_refused(teacher_config: TeacherConfig, tmp_path: Path):
    folder = tmp_path / "teacher"
    shutil.copytree(teacher_config.model, folder)
    sent = pickle.dumps(Teacher.load(replace(teacher_config, model=str(folder))))
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if "word_embeddings" in name)
    save_file({**weights, name: weights[name] + 1}, folder / "model.safetensors")
    with pytest.raises(ValueError, match="has other weights here than where the build was started"):
        pickle.loads(sent)


def test_a_teacher_that_was_not_loaded_is_not_sent(make_model):
    with pytest.raises(TypeError, match=r"Only a teacher that Teacher\.load gave"):
        pickle.dumps(Teacher(make_model()))


def test_for_gpus_elsewhere_a_teacher_has_their_format(teacher_config: TeacherConfig):
    teacher = Teacher.load(replace(teacher_config, device="cuda"), workers_on="cuda")
    assert teacher.model.device.type == "cpu"
    assert teacher.dtype == torch.bfloat16
    assert pickle.loads(pickle.dumps(teacher)).dtype == torch.bfloat16


def test_a_work_directory_that_is_no_folder_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    for work_dir, message in (
        ("s3://key:secret@bucket/work", "work_dir is s3://bucket/work, but stages need a folder"),
        (str(tmp_path / "file"), "file cannot be written: .*file is a file"),
    ):
        with pytest.raises(ValueError, match=message):
            check_places(BuildConfig(output=str(tmp_path / "model"), work_dir=work_dir))


def test_one_gpu_of_a_cluster_is_refused_before_it_is_asked():
    config = BuildConfig(engine="ray", teacher=TeacherConfig(device="cuda:1"))
    with (
        pytest.raises(ValueError, match="is cuda:1, but on a cluster it is cpu or cuda"),
        engines.build_engine(config),
    ):
        pass
