"""How many processors a process may use, also inside a container."""

import os
from pathlib import Path

import joblib
import pytest

from st_static import threads as processors
from st_static.threads import n_processors


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the system's cgroups, on a machine of eight processors."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(processors, "_CPU_MAX", tmp_path / "cpu.max")
    monkeypatch.setattr(processors, "_CFS", tmp_path)
    return tmp_path


def test_it_is_what_joblib_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOKY_MAX_CPU_COUNT", raising=False)
    assert n_processors() == joblib.cpu_count()


def test_without_a_limit_all_are_used(container: Path) -> None:
    assert n_processors() == 8


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("max 100000", 8),
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("nonsense", 8),
    ],
)
def test_a_limit_of_version_2(container: Path, limit: str, expected: int) -> None:
    (container / "cpu.max").write_text(f"{limit}\n")
    assert n_processors() == expected


@pytest.mark.parametrize(("quota", "expected"), [(-1, 8), (250_000, 3), (100_000, 1)])
def test_a_limit_of_version_1(container: Path, quota: int, expected: int) -> None:
    (container / "cpu.cfs_quota_us").write_text(f"{quota}\n")
    (container / "cpu.cfs_period_us").write_text("100000\n")
    assert n_processors() == expected
