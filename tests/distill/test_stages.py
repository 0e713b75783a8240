"""Stages run once, go on after a fault, and never half-exist; so do the files inside them."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from st_static.distill import stages
from st_static.distill.stages import digest, locked, require_disk, run_stage, stage_record
from st_static.files import atomic, read_json, write_json

KEY = {"size": 3, "previous": None}


class Count:
    """A stage that writes a file a call, until it has three."""

    def __init__(self, fails_after: int = 3) -> None:
        self.calls = 0
        self.fails_after = fails_after

    def __call__(self, folder: Path) -> dict[str, int]:
        self.calls += 1
        for number in range(3):
            if number == self.fails_after:
                raise RuntimeError("the power went out")
            path = folder / f"{number}.json"
            if not path.exists():
                write_json(path, self.calls)
        return {"files": 3}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_stage_leaves_its_files_its_key_and_its_figures(tmp_path):
    folder = run_stage(tmp_path / "deep/work", "count", KEY, Count())
    assert folder == tmp_path / f"deep/work/count-{digest(KEY)}"
    assert names(tmp_path / "deep/work") == {folder.name}
    assert names(folder) == {"0.json", "1.json", "2.json", "stage.json"}
    assert read_json(folder / "stage.json")["key"] == KEY
    assert stage_record(folder)["figures"] == {"files": 3}
    assert stage_record(folder)["seconds"] >= 0


def test_a_complete_stage_is_not_run_again(tmp_path):
    compute = Count()
    first = run_stage(tmp_path, "count", KEY, compute)
    assert run_stage(tmp_path, "count", dict(reversed(KEY.items())), compute) == first
    assert compute.calls == 1


def test_a_failed_stage_leaves_a_partial_folder_that_the_next_run_goes_on_from(tmp_path):
    folder = tmp_path / f"count-{digest(KEY)}"
    with pytest.raises(RuntimeError, match="power"):
        run_stage(tmp_path, "count", KEY, Count(fails_after=2))
    assert names(tmp_path) == {folder.name + ".partial"}
    assert names(tmp_path / (folder.name + ".partial")) == {"0.json", "1.json", "time.json"}

    compute = Count()
    compute.calls = 1
    assert run_stage(tmp_path, "count", KEY, compute) == folder
    assert names(tmp_path) == {folder.name}
    assert [read_json(folder / f"{number}.json") for number in range(3)] == [1, 1, 2]


def test_the_time_of_all_runs_is_added_up(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now)

    def run(seconds: float, fails: bool) -> None:
        def compute(folder: Path) -> dict[str, int]:
            nonlocal now
            now += seconds
            if fails:
                raise KeyboardInterrupt
            return {}

        run_stage(tmp_path, "count", KEY, compute)

    for seconds in (20, 300):
        with pytest.raises(KeyboardInterrupt):
            run(seconds, fails=True)
    run(4, fails=False)
    assert stage_record(tmp_path / f"count-{digest(KEY)}")["seconds"] == 324


def test_of_a_killed_run_the_time_to_its_last_file_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(stages.time, "perf_counter", lambda: 0.0)
    partial = tmp_path / f"count-{digest(KEY)}.partial"
    partial.mkdir()
    write_json(partial / "time.json", {"seconds": 20, "started": 1_000_000.0})
    write_json(partial / "0.json", 0)
    for path in (partial, *partial.iterdir()):
        os.utime(path, (1_000_000, 1_000_000))
    os.utime(partial / "0.json", (1_000_300, 1_000_300))
    folder = run_stage(tmp_path, "count", KEY, Count())
    assert stage_record(folder)["seconds"] == 320


def test_a_stage_ends_in_a_line_to_read(tmp_path, caplog):
    figures = {"words": 8000, "tokens": 29820, "distinct_words": 17495}
    with caplog.at_level("INFO"):
        run_stage(tmp_path, "vocabulary", KEY, lambda folder: figures)
    assert re.fullmatch(r"vocabulary: 8,000 words, 29,820 tokens in \d\.\d s", caplog.messages[-1])


def test_half_written_files_of_a_killed_run_are_removed(tmp_path):
    """They may be large, and no later run would ever use them."""
    partial = tmp_path / f"count-{digest(KEY)}.partial"
    partial.mkdir()
    with atomic(partial / "0.json") as half:
        half.touch()
        another_process = half.name.replace(str(os.getpid()), "1")
    (partial / another_process).write_text("half")
    folder = run_stage(tmp_path, "count", KEY, Count())
    assert names(folder) == {"0.json", "1.json", "2.json", "stage.json"}


def test_what_a_killed_runs_workers_remove_meanwhile_is_no_error(tmp_path, monkeypatch):
    """They rename a temporary file, or remove a block and the folder, for a moment yet."""
    partial = tmp_path / f"count-{digest(KEY)}.partial"
    (partial / "blocks").mkdir(parents=True)
    write_json(partial / "time.json", {"seconds": 20, "started": 1_000_000.0})
    walk = os.walk

    def walk_too_late(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for parent, folders, files in walk(folder):
            yield parent, [*folders, "gone"], [*files, "gone.json", ".gone.json.here-1-1.tmp"]

    monkeypatch.setattr(stages.os, "walk", walk_too_late)
    (partial / "blocks/0").write_bytes(bytes(90))
    monkeypatch.setattr(stages.shutil, "disk_usage", lambda folder: type("usage", (), {"free": 10}))
    require_disk(partial, 100, "The corpus")
    with pytest.raises(ValueError, match="The corpus needs about"):
        require_disk(partial, 101, "The corpus")
    folder = run_stage(tmp_path, "count", KEY, Count())
    assert names(folder) == {"0.json", "1.json", "2.json", "blocks", "stage.json"}
    assert stage_record(folder)["seconds"] > 20


def test_a_temporary_file_that_is_renamed_before_it_is_removed_is_no_error(tmp_path, monkeypatch):
    partial = tmp_path / f"count-{digest(KEY)}.partial"
    partial.mkdir()
    (partial / ".0.json.there-1-1.tmp").write_text("5")
    unlink = Path.unlink

    def unlink_too_late(path: Path, missing_ok: bool = False) -> None:
        if path.name == ".0.json.there-1-1.tmp":
            path.replace(partial / "0.json")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_too_late)
    folder = run_stage(tmp_path, "count", KEY, Count())
    assert read_json(folder / "0.json") == 5
    assert names(folder) == {"0.json", "1.json", "2.json", "stage.json"}


def test_the_digest_is_short_and_follows_every_value():
    assert digest({"a": 1, "b": [2, None]}) == digest({"b": [2, None], "a": 1})
    keys = [{}, {"a": 1}, {"a": "1"}, {"a": None}, {"a": [1]}, {"b": 1}, {"a": 1.5}, {"a": True}]
    digests = {digest(key) for key in keys}
    assert len(digests) == len(keys)
    assert all(len(text) == 12 and int(text, 16) >= 0 for text in digests)


def test_too_little_disk_is_an_error(tmp_path, monkeypatch):
    usage = type("usage", (), {"free": 2_000_000_000})
    monkeypatch.setattr(stages.shutil, "disk_usage", lambda folder: usage)
    require_disk(tmp_path, 2_000_000_000, "The corpus")
    with pytest.raises(ValueError, match=r"The corpus needs about 3\.0 GB .* 2\.0 GB are free"):
        require_disk(tmp_path, 3_000_000_000, "The corpus")
    usage.free = 4096
    with pytest.raises(ValueError, match=r"needs about 60\.0 MB .* only 4\.1 kB are free"):
        require_disk(tmp_path, 60_000_000, "The corpus")


def test_one_build_at_a_time_works_in_a_folder(tmp_path):
    with locked(tmp_path / "work"):
        work = str(tmp_path / "work")
        code = f"from st_static.distill.stages import *; locked(Path({work!r})).__enter__()"
        other = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "ValueError: Another build is at work in" in other.stderr
        with locked(tmp_path / "elsewhere"):
            pass
    with locked(tmp_path / "work"):
        pass


def test_a_work_directory_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    expected = "file/work cannot be written (Not a directory): set another work_dir"
    with pytest.raises(ValueError, match=re.escape(expected)), locked(tmp_path / "file" / "work"):
        pass
