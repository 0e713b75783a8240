"""Processes of one machine: results in any order, a process for each GPU."""

import os
import pickle
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from joblib.externals.loky import process_executor
from safetensors.numpy import load_file, save_file
from small_build import model_bytes, save_tiny_teacher, small_config, write_corpus

from st_static.distill import build_engine, teacher_shards
from st_static.distill.config import BuildConfig, TeacherConfig
from st_static.distill.engines import Processes
from st_static.distill.pipeline import build
from st_static.distill.sources import check_places
from st_static.distill.teacher import Teacher
from st_static.encode.places import Place, seen_by_others


def gpu_of(item: int) -> tuple[int, str, int]:
    """What a process sees, which takes its time so that both get items."""
    time.sleep(0.05)
    return item, os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


class Seeing:
    """A function that loads when it is unpickled, as a teacher does."""

    def __init__(self, gpu: str = "") -> None:
        self.gpu = gpu

    def __reduce__(self) -> tuple:
        return _seeing, ()

    def __call__(self, item: int) -> str:
        time.sleep(0.05)
        return self.gpu


def _seeing() -> Seeing:
    return Seeing(os.environ["CUDA_VISIBLE_DEVICES"])


def die(item: int) -> None:
    os._exit(1)


@dataclass
class DiesOnce:
    """A function that ends its process at two items, once each."""

    folder: Path

    def __call__(self, item: int) -> tuple[int, str]:
        time.sleep(0.02)
        killed = self.folder / str(item)
        if item in (3, 20) and not killed.exists():
            killed.touch()
            os._exit(1)
        return item, os.environ["CUDA_VISIBLE_DEVICES"]


@dataclass
class Grows:
    """A function whose memory grows by so much that joblib ends its process."""

    folder: Path

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__dict__ = state
        (self.folder / str(os.getpid())).touch()
        process_executor._MEMORY_LEAK_CHECK_DELAY = 0
        process_executor._MAX_MEMORY_LEAK_SIZE = 20_000_000
        self.kept: list[bytearray] = []

    def __call__(self, item: int) -> int:
        self.kept.append(bytearray(os.urandom(10_000_000)))
        return item


UNGUARDED = """
from st_static.distill.engines import Processes
print("begun")
print(sorted(Processes(gpus=["0", "1"]).map_on_devices(abs, [-1, -2, -3])))
"""


def fail(item: int) -> None:
    raise OSError(f"No space left for {item}")


@pytest.mark.parametrize("workers", [1, 2])
def test_items_of_a_stream_are_all_done(workers: int):
    assert sorted(Processes(workers).map(abs, iter(range(-20, 0)))) == list(range(1, 21))
    assert Processes(workers).n_workers == workers


def test_each_gpu_has_a_process():
    results = list(Processes(gpus=["2", "GPU-5"]).map_on_devices(gpu_of, range(100)))
    assert sorted(item for item, _, _ in results) == list(range(100))
    assert len({process for _, _, process in results}) == 2
    assert {gpu for _, gpu, _ in results} == {"2", "GPU-5"}


def test_a_process_sees_its_gpu_when_it_loads_the_teacher():
    assert set(Processes(gpus=["2", "5"]).map_on_devices(Seeing(), range(100))) == {"2", "5"}


@pytest.mark.parametrize("gpus", [[], ["0"]])
def test_one_device_is_used_by_this_process(gpus: list[str]):
    assert set(Processes(gpus=gpus).map_on_devices(lambda _: os.getpid(), [1, 2])) == {os.getpid()}


def test_what_kills_its_process_each_time_is_named_with_its_reason():
    with pytest.raises(ValueError, match=r"^7 failed 3 times: A worker process .*run the command"):
        list(Processes(gpus=["0", "1"]).map_on_devices(die, [7]))


def test_the_item_of_a_dead_process_is_done_by_another(tmp_path: Path):
    results = list(Processes(gpus=["0", "1"]).map_on_devices(DiesOnce(tmp_path), range(40)))
    assert sorted(item for item, _ in results) == list(range(40))
    assert {gpu for _, gpu in results} == {"0", "1"}  # the new process has the dead one's
    assert len(list(tmp_path.iterdir())) == 2


def test_a_process_that_joblib_has_replaced_has_the_function_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    results = list(Processes(gpus=["0", "1"]).map_on_devices(Grows(tmp_path), range(14)))
    assert sorted(results) == list(range(14))
    assert len(list(tmp_path.iterdir())) > 2
    assert not caplog.messages


def test_an_error_is_tried_again_and_then_named():
    with pytest.raises(ValueError, match=r"^5 failed 3 times: No space left for 5\. All other"):
        list(Processes(gpus=["0", "1"]).map_on_devices(fail, [5]))


def test_the_program_of_the_user_is_not_run_again(tmp_path: Path):
    (tmp_path / "program.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["begun", "[1, 2, 3]"]


def test_a_build_on_two_devices_has_the_bytes_of_one(monkeypatch, tmp_path: Path):
    corpus = write_corpus(tmp_path / "corpus.txt", n_sentences=3000)
    teacher = save_tiny_teacher(tmp_path / "teacher")
    monkeypatch.setattr(teacher_shards, "_LEAST_TOKENS", 500)

    def built(name: str) -> dict[str, bytes]:
        config = small_config(teacher, corpus, tmp_path / name)
        build(config)
        return model_bytes(Path(config.output))

    one = built("one")
    monkeypatch.setattr(build_engine, "_gpus", lambda teacher: ["0", "1"])
    assert built("two") == one


@pytest.mark.parametrize(
    ("visible", "device", "expected"),
    [
        (None, None, ["0", "1", "2"]),
        (None, "cuda", ["0", "1", "2"]),
        ("4,GPU-7,5", "cuda", ["4", "GPU-7", "5"]),
        ("4,2,5,", "cuda", ["4", "2", "5"]),
        (None, "cuda:1", []),
        (None, "cpu", []),
    ],
)
def test_gpus_are_those_that_are_visible(monkeypatch, visible, device, expected):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: "H200")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert build_engine._gpus(TeacherConfig(device=device)) == expected


def test_gpus_of_another_kind_than_the_first_are_left_alone(monkeypatch, caplog):
    kinds = ["H200", "T4", "H200"]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    monkeypatch.setattr("torch.cuda.get_device_name", kinds.__getitem__)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert build_engine._gpus(TeacherConfig()) == ["0", "2"]
    assert "The teacher runs on each H200, and not on T4." in caplog.text


@pytest.mark.parametrize(
    ("device", "n_gpus", "expected"),
    [(None, 0, "cpu"), (None, 2, "cuda"), ("cuda", 2, "cuda"), ("cpu", 0, "cpu")],
)
def test_the_teacher_runs_on_gpus_of_a_cluster_if_there_are_some(device, n_gpus, expected):
    assert build_engine._device_on_cluster(TeacherConfig(device=device), n_gpus) == expected


def test_gpus_that_a_cluster_does_not_have():
    with pytest.raises(ValueError, match="no node of the Ray cluster has a GPU: leave it out"):
        build_engine._device_on_cluster(TeacherConfig(device="cuda"), 0)


def test_an_address_with_a_secret_is_not_taken():
    with pytest.raises(ValueError, match="address has a user or password") as raised:
        BuildConfig(engine="ray", address="ray://me:secret@host:10001")
    assert "secret" not in str(raised.value)


def test_an_address_needs_the_engine_that_it_is_of():
    with pytest.raises(ValueError, match="address is that of a Ray cluster: set engine to ray"):
        BuildConfig(address="auto")


# -- a teacher in other processes ------------------------------------------------------


@pytest.fixture(scope="module")
def teacher_config(tmp_path_factory) -> TeacherConfig:
    model = save_tiny_teacher(tmp_path_factory.mktemp("teacher"))
    return TeacherConfig(model=str(model), check=False)


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


def test_what_a_node_does_not_see_is_named(teacher_config: TeacherConfig, tmp_path: Path):
    teacher, text, lost = Teacher.load(teacher_config), tmp_path / "text", tmp_path / "lost"
    text.touch()
    with seen_by_others(Place.parse(str(tmp_path))) as seen:
        facts = build_engine._facts(seen, [text], teacher, "cpu")
        with pytest.raises(ValueError, match=f"it does not see {lost}"):
            build_engine._facts(seen, [lost], teacher, "cpu")
        elsewhere = Place.parse(str(lost / Path(seen.path).name))
        with pytest.raises(ValueError, match=f"cannot read {lost}"):
            build_engine._facts(elsewhere, [text], teacher, "cpu")
    assert facts["the teacher"] == teacher.fingerprint()
    assert facts["the text"] == "0 bytes long"


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
        build_engine.build_engine(config),
    ):
        pass
